//! What every source of names that can be written to does, run over each.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use farcall_base::Address;

use super::Names;
use super::etcd::Etcd;
use super::etcd::testing;
use crate::bootstrap::{Directory, LocalRanks, NameWatch, Rendezvous, Server};
use crate::places::free_address;

/// Far longer than anything here takes; reached only when something is broken.
const PLENTY: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(60);

/// Two processes and what they share.
struct Pair {
    _keeps: Option<Box<dyn Any>>,
    one: Arc<dyn Names>,
    two: Option<Arc<dyn Names>>,
}

fn in_one_process() -> Pair {
    let ranks = LocalRanks::new(2);
    let (one, two) = (Arc::new(ranks.directory(0, 100)), Arc::new(ranks.directory(1, 101)));
    Pair { _keeps: None, one, two: Some(two) }
}

fn at_a_registry() -> Pair {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let join =
        |incarnation| Directory::open(&registry.address().into(), incarnation, PLENTY).expect("it is there");
    let (one, two) = (Arc::new(join(100)), Arc::new(join(101)));
    Pair { _keeps: Some(Box::new(registry)), one, two: Some(two) }
}

fn at_a_rendezvous() -> Pair {
    let registry = Rendezvous::bind("127.0.0.1:0", 1).expect("a free port");
    let place = registry.address().into();
    let one = Directory::join(&place, 0, 1, 100, PLENTY).expect("the rank is free");
    let two = Directory::open(&place, 101, PLENTY).expect("it takes members without ranks");
    Pair { _keeps: Some(Box::new(registry)), one: Arc::new(one), two: Some(Arc::new(two)) }
}

/// Nothing where there is no etcd.
fn in_etcd() -> Option<Pair> {
    let server = testing::Server::start("conformance")?;
    let at = |incarnation| Arc::new(Etcd::at(&server.place(), incarnation));
    let (one, two) = (at(100), at(101));
    Some(Pair { _keeps: Some(Box::new(server)), one, two: Some(two) })
}

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

/// The addresses of a name, when there are as many.
fn addresses(watch: &NameWatch, count: usize) -> Vec<Address> {
    let listing = watch.listing();
    loop {
        let (seen, servers) = (listing.version(), listing.servers());
        if listing.is_complete() && servers.len() == count {
            let mut addresses: Vec<Address> =
                servers.into_iter().map(|server: Server| server.address).collect();
            addresses.sort();
            return addresses;
        }
        listing.wait_for_change(seen, PLENTY);
        assert!(listing.version() != seen, "{count} servers never came, but {:?}", listing.servers());
    }
}

fn conforms(mut pair: Pair) {
    let two = pair.two.take().expect("it is there at first");
    let watch = pair.one.watch("orders").expect("any name can be watched");
    assert_eq!(addresses(&watch, 0), []);
    pair.one.register("orders", "ring+shm#0", address("a"), LEASE).expect("room");
    two.register("orders", "ring+shm#0", address("b"), LEASE).expect("room");
    two.register("orders", "ring+shm#1", address("c"), LEASE).expect("room");
    two.register("audit", "ring+shm#0", address("d"), LEASE).expect("room");
    assert_eq!(addresses(&watch, 3), [address("a"), address("b"), address("c")]);
    let second = two.watch("orders").expect("any number can watch");
    assert_eq!(addresses(&second, 3).len(), 3);

    two.withdraw("orders", "ring+shm#1");
    two.withdraw("orders", "ring+shm#7");
    assert_eq!(addresses(&watch, 2), [address("a"), address("b")]);
    pair.one.withdraw("orders", "ring+shm#0");
    assert_eq!(addresses(&watch, 1), [address("b")]);
    for names in [&pair.one, &two] {
        for (name, key) in [("", "ring+shm#0"), ("orders", ""), (&"n".repeat(65)[..], "ring+shm#0")] {
            assert!(names.register(name, key, address("a"), LEASE).is_err());
        }
    }

    let set = |names: &Arc<dyn Names>, expected, value: &[u8]| {
        names.compare_and_set("leader", expected, value, PLENTY).expect("it answers")
    };
    let first = set(&pair.one, 0, b"one");
    assert!(first.was_set && first.revision > 0 && first.value == b"one");
    let late = set(&two, 0, b"two");
    assert!(!late.was_set && late.revision == first.revision && late.value == b"one");
    let next = set(&two, late.revision, b"two");
    assert!(next.was_set && next.revision > first.revision);
    assert!(!set(&pair.one, first.revision, b"one").was_set, "the register has moved on");

    drop((second, two));
    assert_eq!(addresses(&watch, 0), [], "a process that is gone listens no more");
}

#[test]
fn names_in_one_process() {
    conforms(in_one_process());
}

#[test]
fn names_at_a_registry() {
    conforms(at_a_registry());
}

#[test]
fn names_in_etcd() {
    in_etcd().into_iter().for_each(conforms);
}

#[test]
fn names_at_a_rendezvous_of_ranks() {
    conforms(at_a_rendezvous());
}

#[test]
fn a_registry_that_starts_again_is_complete_soon() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let place = registry.address();
    let join = |incarnation| Directory::open(&place.into(), incarnation, PLENTY).expect("it is there");
    let (server, client) = (join(100), join(101));
    Names::register(&server, "orders", "ring+shm#0", address("a"), LEASE).expect("room");
    let watch = Names::watch(&client, "orders").expect("any name can be watched");
    assert_eq!(addresses(&watch, 1), [address("a")]);
    drop(registry);
    assert_eq!(watch.listing().servers().len(), 1, "what was known stays known");
    let _registry = Rendezvous::bind_open(place).expect("the port is free again");
    let newcomer = join(102);
    let watch = Names::watch(&newcomer, "orders").expect("any name can be watched");
    assert_eq!(addresses(&watch, 1), [address("a")], "told again by the server itself");
}

#[test]
fn a_process_may_look_for_a_registry_before_it_is_there() {
    let place: SocketAddr = free_address().parse().expect("an address");
    let early = Directory::open_later(&place.into(), 100).expect("a thread");
    let watch = Names::watch(&early, "orders").expect("any name can be watched");
    Names::register(&early, "orders", "ring+shm#0", address("a"), LEASE).expect("room");
    assert!(watch.listing().trouble().is_some() && !watch.listing().is_complete());
    let _registry = Rendezvous::bind_open(place).expect("the port is still free");
    assert_eq!(addresses(&watch, 1), [address("a")]);
}
