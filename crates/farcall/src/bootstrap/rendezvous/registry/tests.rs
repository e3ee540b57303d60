//! The registry, message by message.

use super::*;

fn join(rank: u32, incarnation: u64) -> Join {
    Join { rank, size: 2, incarnation, hosts_fingerprint: 0, process: 4711, host: "node".to_owned() }
}

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

/// Ranks 0 and 1, over the connections 10 and 11, as incarnations 100 and 101.
fn pair() -> Registry {
    let mut registry = Registry::new(2, 0);
    assert_eq!(registry.join(10, join(0, 100)), Ok(None));
    assert_eq!(registry.join(11, join(1, 101)), Ok(None));
    registry
}

fn publish(registry: &mut Registry, link: LinkId, text: &str) -> Outgoing {
    registry.publish(link, "key".to_owned(), address(text)).expect("a member publishes")
}

fn resolve(registry: &mut Registry, link: LinkId, request: u64, rank: u32) -> Outgoing {
    registry.resolve(link, request, rank, "key".to_owned()).expect("a member resolves")
}

fn barrier(registry: &mut Registry, link: LinkId, request: u64) -> Outgoing {
    registry.barrier(link, request, "start".to_owned()).expect("a member waits")
}

#[test]
fn a_resolver_is_answered_now_or_when_the_address_is_published() {
    let mut registry = pair();
    assert_eq!(resolve(&mut registry, 10, 1, 1), []);
    let answer = |request| Answer::Resolved { request, incarnation: 101, address: address("a") };
    assert_eq!(publish(&mut registry, 11, "a"), [(10, answer(1))]);
    assert_eq!(publish(&mut registry, 11, "a"), [], "answered once");
    assert_eq!(resolve(&mut registry, 10, 2, 1), [(10, answer(2))]);
}

#[test]
fn a_held_rank_is_refused_and_a_left_one_is_not() {
    let mut registry = pair();
    let taken = Refusal::RankTaken { rank: 1, process: 4711, host: "node".to_owned() };
    assert_eq!(registry.join(12, join(1, 102)), Err(taken));
    publish(&mut registry, 11, "old");
    registry.leave(11);
    assert_eq!(resolve(&mut registry, 10, 1, 1), [], "what the dead published is withdrawn");
    assert_eq!(registry.join(12, join(1, 102)), Ok(None));
    let answer = Answer::Resolved { request: 1, incarnation: 102, address: address("new") };
    assert_eq!(publish(&mut registry, 12, "new"), [(10, answer)]);
}

#[test]
fn a_member_may_come_back_over_another_connection() {
    let mut registry = pair();
    assert_eq!(registry.join(12, join(1, 101)), Ok(Some(11)));
    assert_eq!(registry.holder(1), Some(12));
    registry.leave(11);
    assert_eq!(registry.holder(1), Some(12), "the end of the former connection means nothing");
}

#[test]
fn another_size_or_host_list_is_refused() {
    let mut registry = Registry::new(2, 5);
    let listed = Join { hosts_fingerprint: 5, ..join(0, 1) };
    assert_eq!(
        registry.join(1, Join { size: 3, ..listed.clone() }),
        Err(Refusal::Size { asked: 3, size: 2 })
    );
    assert_eq!(registry.join(1, Join { hosts_fingerprint: 6, ..listed.clone() }), Err(Refusal::Hosts));
    assert_eq!(registry.join(1, listed), Ok(None));
}

#[test]
fn a_barrier_opens_when_all_have_arrived_and_closes_again() {
    let mut registry = pair();
    for round in 0..3 {
        assert_eq!(barrier(&mut registry, 10, round), []);
        let released = |link| (link, Answer::Released { request: round });
        assert_eq!(barrier(&mut registry, 11, round), [released(10), released(11)]);
    }
}

#[test]
fn who_left_or_gave_up_has_not_arrived() {
    let mut registry = pair();
    barrier(&mut registry, 10, 1);
    registry.cancel(10, 1).expect("a member cancels");
    assert_eq!(barrier(&mut registry, 11, 1), []);
    registry.leave(11);
    assert_eq!(barrier(&mut registry, 10, 2), []);
    assert_eq!(registry.barriers.len(), 1);
    registry.leave(10);
    assert!(registry.barriers.is_empty());
}

#[test]
fn a_release_that_was_lost_with_its_connection_is_repeated() {
    let mut registry = pair();
    barrier(&mut registry, 10, 1);
    barrier(&mut registry, 11, 1);
    assert_eq!(registry.join(12, join(1, 101)), Ok(Some(11)));
    assert_eq!(barrier(&mut registry, 12, 1), [(12, Answer::Released { request: 1 })]);
    registry.leave(12);
    assert_eq!(registry.join(13, join(1, 102)), Ok(None));
    assert_eq!(barrier(&mut registry, 13, 1), [], "a new incarnation counts its requests again");
}

#[test]
fn a_cancelled_resolve_is_not_answered() {
    let mut registry = pair();
    resolve(&mut registry, 10, 1, 1);
    registry.cancel(10, 1).expect("a member cancels");
    assert_eq!(publish(&mut registry, 11, "a"), []);
    registry.cancel(10, 99).expect("what is unknown is over already");
}

#[test]
fn nobody_can_fill_the_rendezvous() {
    let mut registry = pair();
    let keys =
        |registry: &mut Registry, number: usize| registry.publish(10, number.to_string(), address("a"));
    assert!((0..KEYS_PER_RANK_MAX).all(|number| keys(&mut registry, number).is_ok()));
    assert!(keys(&mut registry, 0).is_ok(), "a key may change");
    assert!(keys(&mut registry, KEYS_PER_RANK_MAX).is_err());

    let wait = |registry: &mut Registry, request| registry.resolve(11, request, 0, "absent".to_owned());
    assert!((0..WAITS_MAX as u64).all(|request| wait(&mut registry, request).is_ok()));
    assert!(wait(&mut registry, WAITS_MAX as u64).is_err());

    let arrive =
        |registry: &mut Registry, number: usize| registry.barrier(10, number as u64, number.to_string());
    assert!((0..BARRIER_WAITS_MAX).all(|number| arrive(&mut registry, number).is_ok()));
    assert!(arrive(&mut registry, BARRIER_WAITS_MAX).is_err());
}

#[test]
fn strangers_and_nonsense_are_refused() {
    let mut registry = pair();
    assert!(registry.publish(99, "key".to_owned(), address("a")).is_err());
    assert!(registry.resolve(99, 1, 0, "key".to_owned()).is_err());
    assert!(registry.barrier(99, 1, "start".to_owned()).is_err());
    assert!(registry.cancel(99, 1).is_err());
    assert!(registry.resolve(10, 1, 2, "key".to_owned()).is_err(), "no such rank");
    barrier(&mut registry, 10, 1);
    assert!(registry.barrier(10, 2, "start".to_owned()).is_err(), "arrived twice");
}
