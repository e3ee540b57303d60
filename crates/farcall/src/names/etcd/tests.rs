//! What is special about etcd; `names::conformance` has the rest.

use farcall_base::Address;

use super::testing::Server;
use super::*;
use crate::places::free_address;

const PLENTY: Duration = Duration::from_secs(120);

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

/// Waits until a name has these servers, and its source is well.
fn wait_for(watch: &NameWatch, expected: &[Address]) {
    let (listing, begun) = (watch.listing(), Instant::now());
    loop {
        let seen = listing.version();
        let mut found: Vec<Address> = listing.servers().into_iter().map(|server| server.address).collect();
        found.sort();
        if found == expected && listing.is_complete() && listing.trouble().is_none() {
            return;
        }
        assert!(begun.elapsed() < PLENTY, "{found:?}, and not {expected:?}; {:?}", listing.trouble());
        listing.wait_for_change(seen, PLENTY);
    }
}

#[test]
fn places_are_read() {
    let place = |members: &[&str], prefix: &str| {
        let members = members.iter().map(|at| HostPort::parse(at).expect("a place")).collect();
        Some(EtcdPlace { members, prefix: prefix.to_owned() })
    };
    assert_eq!(EtcdPlace::parse("etcd://a:2379"), place(&["a:2379"], "farcall"));
    assert_eq!(EtcdPlace::parse("etcd://a:1,[::1]:2/eu/one/"), place(&["a:1", "[::1]:2"], "eu/one"));
    for text in ["a:1", "etcd://", "etcd://a", "etcd://a:1,", "http://a:1"] {
        assert_eq!(EtcdPlace::parse(text), None, "{text}");
    }
}

#[test]
fn bytes_are_written_as_the_gateway_wants_them() {
    for (bytes, text) in
        [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (&[255; 3], "////")]
    {
        assert_eq!(base64(bytes), text);
        assert_eq!(bytes_of(&text.into()), bytes);
    }
}

#[test]
fn names_with_slashes_are_no_beginnings_of_others() {
    let etcd = Etcd::at(&EtcdPlace::parse("etcd://a:1/p").expect("a place"), 7);
    assert_eq!(etcd.key_of("eu/a%b", "tcp#0"), "p/names/eu%2Fa%25b/0000000000000007/tcp#0");
}

#[test]
fn what_was_registered_outlives_a_restart_and_comes_back_after_a_loss() {
    let Some(mut server) = Server::start("restart") else { return };
    let (one, two) = (Etcd::at(&server.place(), 1), Etcd::at(&server.place(), 2));
    let lease = Duration::from_secs(2);
    one.register("orders", "ring+shm#0", address("a"), lease).expect("room");
    let watch = two.watch("orders").expect("any name can be watched");
    wait_for(&watch, &[address("a")]);

    server.kill();
    one.register("orders", "ring+shm#1", address("b"), lease).expect("it does not wait");
    while watch.listing().trouble().is_none() {
        watch.listing().wait_for_change(watch.listing().version(), Duration::from_millis(100));
    }
    assert_eq!(watch.listing().servers().len(), 1, "what was known stays known");
    server.start_again();
    wait_for(&watch, &[address("a"), address("b")]);

    server.kill();
    server.forget();
    server.start_again();
    wait_for(&watch, &[address("a"), address("b")]);
}

#[test]
fn a_process_that_is_killed_is_gone_within_its_lease() {
    let Some(server) = Server::start("lease") else { return };
    let (one, two) = (Etcd::at(&server.place(), 1), Etcd::at(&server.place(), 2));
    one.register("orders", "ring+shm#0", address("a"), Duration::from_secs(1)).expect("room");
    two.register("orders", "ring+shm#0", address("b"), Duration::from_secs(1)).expect("room");
    let watch = two.watch("orders").expect("any name can be watched");
    wait_for(&watch, &[address("a"), address("b")]);
    one.registrar.abandon();
    wait_for(&watch, &[address("b")]);
}

#[test]
fn a_member_that_is_gone_is_passed_over() {
    let Some(server) = Server::start("members") else { return };
    let at = free_address();
    let mut place = server.place();
    place.members.insert(0, HostPort::parse(&at).expect("a place"));
    let etcd = Etcd::at(&place, 1);
    let set = |expected, value| etcd.compare_and_set("leader", expected, value, PLENTY).expect("one answers");
    let first = set(0, &b"one"[..]);
    assert!(first.was_set && !set(0, b"two").was_set && set(first.revision, b"two").was_set);
    let nobody = Etcd::at(&EtcdPlace::parse(&format!("etcd://{at}")).expect("a place"), 1);
    let within = Duration::from_millis(300);
    assert_eq!(nobody.compare_and_set("leader", 0, b"", within), Err(CompareError::Unreachable { within }));
}

/// One process with a name, one that watches it, at an etcd of three members.
struct Three {
    server: Server,
    one: Etcd,
    two: Etcd,
    watch: NameWatch,
}

impl Three {
    fn start(name: &str, lease: Duration) -> Option<Self> {
        let server = Server::start_members(name, 3)?;
        let (one, two) = (Etcd::at(&server.place(), 1), Etcd::at(&server.place(), 2));
        one.register("orders", "ring+shm#0", address("a"), lease).expect("room");
        let watch = two.watch("orders").expect("any name can be watched");
        wait_for(&watch, &[address("a")]);
        Some(Self { server, one, two, watch })
    }

    /// What is registered and withdrawn now comes through, and the name of before is there all the time.
    fn go_on(&self, lease: Duration) {
        self.one.register("orders", "ring+shm#1", address("b"), lease).expect("room");
        self.wait_keeping_a(&[address("a"), address("b")]);
        self.one.withdraw("orders", "ring+shm#1");
        self.wait_keeping_a(&[address("a")]);
    }

    fn wait_keeping_a(&self, expected: &[Address]) {
        let begun = Instant::now();
        self.keeps_a_while(|found| {
            assert!(begun.elapsed() < PLENTY, "{found:?}, and not {expected:?}");
            found != expected
        });
    }

    fn keeps_a_for(&self, time: Duration) {
        let begun = Instant::now();
        self.keeps_a_while(|_| begun.elapsed() < time);
    }

    fn keeps_a_while(&self, condition: impl Fn(&[Address]) -> bool) {
        let listing = self.watch.listing();
        loop {
            let seen = listing.version();
            let mut found: Vec<_> = listing.servers().into_iter().map(|server| server.address).collect();
            found.sort();
            assert_eq!(found.first(), Some(&address("a")), "a name that is kept alive went away");
            if !condition(&found) {
                return;
            }
            listing.wait_for_change(seen, Duration::from_secs(1));
        }
    }
}

#[test]
fn names_go_on_when_the_leader_is_killed_and_when_a_follower_is_paused() {
    let lease = Duration::from_secs(4);
    let Some(mut three) = Three::start("leader", lease) else { return };
    let leader = three.server.leader();
    three.server.kill_member(leader);
    three.go_on(lease);
    let next = three.server.leader();
    assert_ne!(next, leader);
    three.server.start_again();
    three.go_on(lease);

    // Whoever asks it waits for an answer, and keeps its lease nevertheless.
    let leader = three.server.leader();
    for follower in (0..3).filter(|&number| number != leader) {
        three.server.pause_member(follower, true);
        three.go_on(lease);
        let set = three.one.compare_and_set(&format!("elected{follower}"), 0, b"one", PLENTY);
        assert!(set.expect("two of three answer").was_set);
        three.keeps_a_for(lease * 3 / 2);
        three.go_on(lease);
        three.server.pause_member(follower, false);
    }
}

#[test]
fn without_a_majority_names_stay_known_and_nothing_is_set_and_with_it_all_goes_on() {
    let lease = Duration::from_secs(2);
    let Some(mut three) = Three::start("majority", lease) else { return };
    let first = three.one.compare_and_set("elected", 0, b"one", PLENTY).expect("a majority is there");
    let leader = three.server.leader();
    let alone = (leader + 1) % 3;
    (0..3).filter(|&number| number != alone).for_each(|number| three.server.kill_member(number));

    let within = Duration::from_millis(500);
    let refused = three.two.compare_and_set("elected", first.revision, b"two", within);
    assert_eq!(refused, Err(CompareError::Unreachable { within }));
    let listing = three.watch.listing();
    while listing.trouble().is_none() {
        listing.wait_for_change(listing.version(), Duration::from_secs(1));
    }
    let trouble = listing.trouble().expect("it was there");
    for member in &three.server.place().members {
        assert!(trouble.contains(&format!("etcd at {member} does not answer")), "{trouble}");
    }
    assert_eq!(listing.servers().len(), 1, "what was known stays known");

    three.server.start_again();
    wait_for(&three.watch, &[address("a")]);
    three.one.register("orders", "ring+shm#1", address("b"), lease).expect("room");
    wait_for(&three.watch, &[address("a"), address("b")]);
    // A lease whose process ends now ends too, although it was granted before.
    three.two.register("orders", "ring+shm#0", address("c"), lease).expect("room");
    wait_for(&three.watch, &[address("a"), address("b"), address("c")]);
    three.one.registrar.abandon();
    wait_for(&three.watch, &[address("c")]);
    let now = three.two.compare_and_set("elected", 0, b"", PLENTY).expect("a majority is there");
    assert!(!now.was_set && (now.value == b"one" || now.value == b"two"), "{now:?}");
}
