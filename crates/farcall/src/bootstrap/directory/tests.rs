//! Directories and rendezvous of one process, over loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::super::limits::BYTES_PER_MEMBER_MAX;
use super::super::{KEYS_PER_RANK_MAX, Refusal, Rendezvous};
use super::*;
use crate::places::free_address;

/// Far longer than anything here takes; reached only when something is broken.
const PLENTY: Duration = Duration::from_secs(60);
/// For waits that are to end by time.
const LITTLE: Duration = Duration::from_millis(50);
const KEY: &str = "ring+shm#0";

fn serve(size: u32) -> Rendezvous {
    Rendezvous::bind("127.0.0.1:0", size).expect("a free port")
}

fn join(rendezvous: SocketAddr, rank: u32, size: u32, incarnation: u64) -> Result<Directory, JoinError> {
    Directory::join(&rendezvous.into(), rank, size, incarnation, PLENTY)
}

fn member(rendezvous: &Rendezvous, rank: u32, incarnation: u64) -> Directory {
    join(rendezvous.address(), rank, 2, incarnation).expect("the rendezvous is there")
}

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

fn shared_directory_is_send_and_sync(_: &(impl Send + Sync)) {}

#[test]
fn members_find_each_other() {
    let rendezvous = serve(2);
    let (zero, one) = (member(&rendezvous, 0, 100), member(&rendezvous, 1, 101));
    shared_directory_is_send_and_sync(&zero);
    one.publish(KEY, address("one")).expect("room");
    assert_eq!(zero.resolve(1, KEY, PLENTY), Ok((address("one"), 101)));
    one.publish(KEY, address("moved")).expect("room");
    one.publish("last", address("last")).expect("room");
    zero.resolve(1, "last", PLENTY).expect("told after the move");
    assert_eq!(zero.resolve(1, KEY, PLENTY), Ok((address("moved"), 101)));
    assert_eq!(one.resolve(1, KEY, PLENTY), Ok((address("moved"), 101)));
    assert_eq!((zero.rank(), zero.size(), zero.incarnation()), (0, 2, 100));
    assert_eq!(zero.local_ip(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
}

#[test]
fn a_resolve_waits_for_the_process_and_its_address() {
    let rendezvous = serve(2);
    let zero = member(&rendezvous, 0, 100);
    std::thread::scope(|scope| {
        let resolved = scope.spawn(|| zero.resolve(1, KEY, PLENTY));
        let one = member(&rendezvous, 1, 101);
        one.publish(KEY, address("one")).expect("room");
        assert_eq!(resolved.join().expect("no panic"), Ok((address("one"), 101)));
    });
}

#[test]
fn a_resolve_that_takes_too_long_names_rank_and_key() {
    let rendezvous = serve(2);
    let zero = member(&rendezvous, 0, 100);
    let error = zero.resolve(1, KEY, LITTLE).expect_err("nobody publishes").to_string();
    assert_eq!(
        error,
        "rank 1 did not publish `ring+shm#0` within 50ms; check that it runs and uses the same transport"
    );
    assert_eq!(zero.resolve(2, KEY, LITTLE), Err(ResolveError::NoSuchRank { rank: 2, size: 2 }));
    assert_eq!(zero.resolve(1, "", LITTLE), Err(ResolveError::KeyLength { bytes: 0 }));
    assert_eq!(zero.publish(&"k".repeat(65), address("a")), Err(PublishError::KeyLength { bytes: 65 }));
}

#[test]
fn what_a_registry_has_no_room_for_is_told_again_and_costs_nothing_else() {
    let rendezvous = serve(2);
    let (zero, one) = (member(&rendezvous, 0, 100), member(&rendezvous, 1, 101));
    let long = Address::new(vec![1; 3000]).expect("short enough");
    let names = BYTES_PER_MEMBER_MAX / 3000;
    for number in 0..names {
        zero.register(&number.to_string(), KEY, long.clone(), PLENTY).expect("it is told");
    }
    zero.publish(KEY, long.clone()).expect("it is told");
    let last = one.watch(&(names - 1).to_string()).expect("room");
    let first = one.watch("0").expect("room");
    wait_until(&first, |listing| listing.is_complete() && listing.servers().len() == 1);
    wait_until(&last, |listing| listing.is_complete());
    assert_eq!(last.listing().servers(), [], "there was no room");
    assert!(matches!(
        zero.resolve(1, KEY, LITTLE),
        Err(ResolveError::TimedOut { .. } | ResolveError::RegistryFull)
    ));
    // It is still the member that it was: what it registered first was never withdrawn.
    assert_eq!(first.listing().servers().len(), 1);
    for number in 1..20 {
        zero.withdraw(&number.to_string(), KEY);
    }
    wait_until(&last, |listing| listing.servers().len() == 1);
    assert_eq!(one.resolve(0, KEY, PLENTY), Ok((long, 100)));
}

fn wait_until(watch: &NameWatch, is_so: impl Fn(&Listing) -> bool) {
    let begun = Instant::now();
    loop {
        let listing = watch.listing();
        let seen = listing.version();
        if is_so(listing) {
            return;
        }
        assert!(begun.elapsed() < PLENTY, "{:?}", listing.trouble());
        listing.wait_for_change(seen, LITTLE);
    }
}

#[test]
fn a_process_publishes_a_bounded_number_of_addresses() {
    let rendezvous = serve(2);
    for directory in [member(&rendezvous, 0, 100), Directory::alone(1)] {
        for number in 0..KEYS_PER_RANK_MAX {
            directory.publish(&number.to_string(), address("a")).expect("room");
        }
        assert_eq!(directory.publish("one more", address("a")), Err(PublishError::TooManyKeys));
    }
}

#[test]
fn a_rank_belongs_to_one_living_process() {
    let rendezvous = serve(2);
    let (zero, one) = (member(&rendezvous, 0, 100), member(&rendezvous, 1, 101));
    one.publish(KEY, address("old")).expect("room");
    zero.resolve(1, KEY, PLENTY).expect("published");
    let error = join(rendezvous.address(), 1, 2, 102).expect_err("the rank is held").to_string();
    let expected = format!("rank 1 is already taken by process {} on ", std::process::id());
    assert!(error.starts_with(&expected), "{error}");

    drop(one);
    let one = member(&rendezvous, 1, 102);
    assert!(
        matches!(zero.resolve(1, KEY, LITTLE), Err(ResolveError::TimedOut { .. })),
        "the old one is gone"
    );
    one.publish(KEY, address("new")).expect("room");
    assert_eq!(zero.resolve(1, KEY, PLENTY), Ok((address("new"), 102)));
}

#[test]
fn another_size_or_host_list_is_refused() {
    let rendezvous = serve(2);
    let error = join(rendezvous.address(), 0, 3, 1).expect_err("another size");
    assert_eq!(error, JoinError::Refused(Refusal::Size { asked: 3, size: 2 }));
    let error = Directory::join_with_hosts(&rendezvous.address().into(), 0, 2, 1, 77, PLENTY);
    assert_eq!(error.expect_err("another list"), JoinError::Refused(Refusal::Hosts));
    for (rank, size, incarnation) in [(2, 2, 1), (0, 0, 1), (0, RANKS_MAX + 1, 1), (0, 2, 0)] {
        let error = join(rendezvous.address(), rank, size, incarnation).expect_err("no such process");
        assert_eq!(error, JoinError::Identity { rank, size, incarnation });
    }
    for size in [0, RANKS_MAX + 1] {
        let error = Rendezvous::bind("127.0.0.1:0", size).expect_err("no such cluster").to_string();
        assert_eq!(error, format!("a cluster has 1 to 16384 ranks, not {size}"));
    }
    let error = Rendezvous::bind(rendezvous.address(), 2).expect_err("the port is taken").to_string();
    assert!(
        error.starts_with(&format!("cannot serve the rendezvous at {}", rendezvous.address())),
        "{error}"
    );
}

#[test]
fn an_absent_rendezvous_is_reported_when_the_time_is_over() {
    let address: SocketAddr = free_address().parse().expect("an address");
    let error = Directory::join(&address.into(), 0, 1, 1, LITTLE).expect_err("nobody listens").to_string();
    assert!(
        error.starts_with(&format!("the rendezvous at {address} cannot be reached within 50ms")),
        "{error}"
    );
}

#[test]
fn a_rendezvous_that_starts_late_is_found() {
    let listener = TcpListener::bind(free_address()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| join(address, 0, 1, 1));
        // The first attempt meets a listener that hangs up.
        drop(listener.accept().expect("an attempt"));
        drop(listener);
        let _rendezvous = Rendezvous::bind(address, 1).expect("the port is free again");
        joined.join().expect("no panic").expect("found at last");
    });
}

#[test]
fn something_else_at_the_address_is_not_mistaken_for_a_rendezvous() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| Directory::join(&address.into(), 0, 1, 1, Duration::ZERO));
        let (mut stream, _) = listener.accept().expect("an attempt");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("somebody reads");
        let error = joined.join().expect("no panic").expect_err("no rendezvous").to_string();
        assert!(error.contains("what listens there is no rendezvous"), "{error}");
    });
}

#[test]
fn garbage_loses_only_its_own_connection() {
    let rendezvous = serve(2);
    let (zero, one) = (member(&rendezvous, 0, 100), member(&rendezvous, 1, 101));
    let stranger = join_as(Place::Rank { rank: 0, size: 2, hosts_fingerprint: 0 }, 9);
    let too_long = [&u32::MAX.to_le_bytes()[..], &[0xaa; 100]].concat();
    let out_of_turn = super::super::messages::Ask::Cancel { request: 1 }.to_frame();
    let other_version = {
        let mut frame = super::super::messages::Ask::Join(stranger).to_frame();
        frame[13] = 0xff;
        frame
    };
    let attempts = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 4], too_long, out_of_turn, other_version];
    for bytes in attempts {
        let mut stream = TcpStream::connect(rendezvous.address()).expect("somebody listens");
        stream.write_all(&bytes).expect("the first bytes are taken");
        // Ends when the rendezvous hangs up, whether it says why or resets the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    one.publish(KEY, address("one")).expect("room");
    assert_eq!(zero.resolve(1, KEY, PLENTY), Ok((address("one"), 101)));
}

#[test]
fn members_survive_the_rendezvous_and_find_its_successor() {
    let rendezvous = serve(2);
    let place = rendezvous.address();
    let (zero, one) = (member(&rendezvous, 0, 100), member(&rendezvous, 1, 101));
    one.publish(KEY, address("one")).expect("room");
    zero.resolve(1, KEY, PLENTY).expect("published");
    drop(rendezvous);

    assert_eq!(zero.resolve(1, KEY, PLENTY), Ok((address("one"), 101)), "remembered");
    one.publish("later", address("later")).expect("kept for the successor");
    let error = zero.resolve(1, "unknown", LITTLE).expect_err("nobody can tell");
    assert!(matches!(error, ResolveError::Unreachable { rank: 1, .. }), "{error}");

    let _successor = Rendezvous::bind(place, 2).expect("the port is free again");
    assert_eq!(zero.resolve(1, "later", PLENTY), Ok((address("later"), 101)));
    std::thread::scope(|scope| {
        let arrived = scope.spawn(|| zero.barrier("after", PLENTY));
        assert_eq!(one.barrier("after", PLENTY), Ok(()));
        assert_eq!(arrived.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn a_successor_of_another_size_ends_the_membership() {
    let rendezvous = serve(2);
    let place = rendezvous.address();
    let zero = member(&rendezvous, 0, 100);
    drop(rendezvous);
    let _successor = Rendezvous::bind(place, 3).expect("the port is free again");
    let refusal = Refusal::Size { asked: 2, size: 3 };
    assert_eq!(zero.resolve(1, KEY, PLENTY), Err(ResolveError::Refused(refusal.clone())));
    assert_eq!(zero.publish(KEY, address("a")), Err(PublishError::Refused(refusal.clone())));
    assert_eq!(zero.barrier("b", PLENTY), Err(BarrierError::Refused(refusal)));
}

#[test]
fn a_refusal_after_a_lost_connection_is_reported_and_overcome() {
    let rendezvous = serve(2);
    let place = rendezvous.address();
    let zero = member(&rendezvous, 0, 100);
    zero.publish(KEY, address("zero")).expect("room");
    drop(rendezvous);
    // Another process was faster, and has the rank at the next registry.
    let successor = Rendezvous::bind(place, 2).expect("the port is free again");
    let other = join(place, 0, 2, 999);
    let Ok(other) = other else { return };
    let one = join(place, 1, 2, 101).expect("it is free");
    let refused = zero.resolve(1, KEY, PLENTY);
    assert!(matches!(refused, Err(ResolveError::Refused(Refusal::RankTaken { rank: 0, .. }))), "{refused:?}");
    drop(other);
    assert_eq!(one.resolve(0, KEY, PLENTY), Ok((address("zero"), 100)), "it came back with what it had");
    drop(successor);
}

#[test]
fn a_registry_that_stops_within_a_message_is_lost() {
    let registry = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = registry.local_addr().expect("it is bound");
    registry.set_nonblocking(true).expect("a socket");
    let begun = Instant::now();
    let accept = || loop {
        match registry.accept() {
            Ok((stream, _)) => return Some(stream),
            Err(_) if begun.elapsed() >= PLENTY => return None,
            Err(_) => std::thread::yield_now(),
        }
    };
    std::thread::scope(|scope| {
        let again = scope.spawn(|| {
            let mut first = accept()?;
            // Welcome, and the length of a message that never comes.
            first.write_all(&[2, 0, 0, 0, 129, 0, 100, 0]).expect("the member reads");
            accept().map(|second| (first, second))
        });
        let member = join(place, 0, 1, 100);
        assert!(again.join().expect("no panic").is_some(), "the member waits for the rest for ever");
        drop(member);
    });
}

#[test]
fn a_machine_of_many_names_tells_whether_others_reach_it() {
    let everywhere = Rendezvous::bind("0.0.0.0:0", 1).expect("a free port");
    let from_here = everywhere.address_from_here();
    assert!(from_here.ip().is_loopback());
    let zero = join(from_here, 0, 1, 100).expect("it is there");
    assert_eq!(zero.local_ip(), None, "loopback leads to the registry and others do not come that way");
    let local = serve(1);
    assert_eq!(local.address_from_here(), local.address());
}

#[test]
fn a_barrier_opens_for_all_again_and_again() {
    let rendezvous = serve(3);
    let members: Vec<Directory> =
        (0..3).map(|rank| join(rendezvous.address(), rank, 3, 100).expect("there")).collect();
    let round = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| {
                for turn in 0..20 {
                    member.barrier("turn", PLENTY).expect("all arrive");
                    assert!(round.load(std::sync::atomic::Ordering::SeqCst) >= turn * 3);
                    round.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn a_barrier_that_stays_closed_is_named() {
    let rendezvous = serve(2);
    let zero = member(&rendezvous, 0, 100);
    let error = zero.barrier("start", LITTLE).expect_err("rank 1 is absent").to_string();
    assert_eq!(error, "rank 1 did not reach barrier `start` within 50ms; check that all ranks run");
    assert_eq!(zero.barrier("", LITTLE), Err(BarrierError::NameLength { bytes: 0 }));
    let one = member(&rendezvous, 1, 101);
    let error = one.barrier("start", LITTLE).expect_err("rank 0 has given up").to_string();
    assert_eq!(error, "rank 0 did not reach barrier `start` within 50ms; check that all ranks run");
}

#[test]
fn the_first_of_many_that_are_missing_at_a_barrier_are_named() {
    let rendezvous = serve(20);
    let three = join(rendezvous.address(), 3, 20, 100).expect("the rendezvous is there");
    let error = three.barrier("start", LITTLE).expect_err("it is alone").to_string();
    let first: Vec<_> = (0..17).filter(|rank| *rank != 3).map(|rank| rank.to_string()).collect();
    let named = first.join(", ");
    assert!(error.starts_with(&format!("ranks {named} and 3 others did not reach barrier")), "{error}");
    let missing = |first: &[u32]| MissingRanks { count: first.len() as u32, first: first.to_vec() };
    assert_eq!(missing(&[4, 7, 9]).to_string(), "ranks 4, 7 and 9");
    assert_eq!(MissingRanks::default().to_string(), "some ranks");
}

#[test]
fn alone_means_no_connection_and_the_same_rules() {
    let alone = Directory::alone(7);
    assert!(matches!(alone.resolve(0, KEY, LITTLE), Err(ResolveError::TimedOut { rank: 0, .. })));
    std::thread::scope(|scope| {
        let resolved = scope.spawn(|| alone.resolve(0, KEY, Duration::MAX));
        alone.publish(KEY, address("me")).expect("room");
        assert_eq!(resolved.join().expect("no panic"), Ok((address("me"), 7)));
    });
    assert_eq!(alone.barrier("any", PLENTY), Ok(()));
    assert_eq!(alone.resolve(1, KEY, LITTLE), Err(ResolveError::NoSuchRank { rank: 1, size: 1 }));
    assert_eq!(alone.local_ip(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
}
