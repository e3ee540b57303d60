//! What is special about etcd; `names::conformance` has the rest.

use farcall_base::Address;

use super::testing::Server;
use super::*;

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
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = closed.local_addr().expect("bound").to_string();
    drop(closed);
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
