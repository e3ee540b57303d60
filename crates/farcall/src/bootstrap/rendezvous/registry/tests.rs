//! The registry, message by message.

use std::sync::Arc;

use farcall_base::NO_RANK;

use super::super::super::limits::{GONE_KEPT_PER_WATCH, LISTED_MAX};
use super::super::super::messages::Listed;
use super::super::super::secret::Secret;
use super::*;

/// What the process with an incarnation knows.
fn secret(incarnation: u64) -> Secret {
    Secret::new([incarnation as u8; 16])
}

fn join(rank: u32, incarnation: u64) -> Join {
    Join { place: Place::Rank { rank, size: 2, hosts_fingerprint: 0 }, ..open(incarnation) }
}

/// Of a process without a rank.
fn open(incarnation: u64) -> Join {
    Join {
        place: Place::Open,
        incarnation,
        secret: secret(incarnation),
        machine: 1,
        process: 4711,
        host: "node".to_owned(),
    }
}

fn address(text: &str) -> Address {
    Address::new(text.as_bytes()).expect("short")
}

/// The registry, and the time.
struct World {
    registry: Registry,
    now: Instant,
}

impl World {
    fn new(size: u32) -> Self {
        Self { registry: Registry::new(size, 0).expect("memory"), now: Instant::now() }
    }

    /// Ranks 0 and 1, over the connections 10 and 11, as incarnations 100 and 101.
    fn pair() -> Self {
        let mut world = Self::new(2);
        assert_eq!(world.join(10, join(0, 100)), Ok(None));
        assert_eq!(world.join(11, join(1, 101)), Ok(None));
        world
    }

    fn join(&mut self, link: LinkId, join: Join) -> Result<Option<LinkId>, Refusal> {
        self.registry.join(link, join, self.now)
    }

    fn leave(&mut self, link: LinkId, leaving: Leaving) {
        self.registry.leave(link, self.now, leaving);
    }

    fn publish(&mut self, link: LinkId, text: &str) -> Outgoing {
        self.registry.publish(link, "key".to_owned(), address(text)).expect("a member publishes")
    }

    fn resolve(&mut self, link: LinkId, request: u64, rank: u32) -> Outgoing {
        self.registry.resolve(link, request, rank, "key".to_owned()).expect("a member resolves")
    }

    fn barrier(&mut self, link: LinkId, request: u64) -> Outgoing {
        self.registry.barrier(link, request, "start".to_owned()).expect("a member waits")
    }

    fn register(&mut self, link: LinkId, key: &str) {
        let (name, key) = ("orders".to_owned(), key.to_owned());
        self.registry.register(link, name, key, address("here")).expect("a member registers");
    }

    fn withdraw(&mut self, link: LinkId, key: &str) {
        self.registry.withdraw(link, "orders".to_owned(), key.to_owned()).expect("a member withdraws");
    }

    fn watch(&mut self, link: LinkId, request: u64) {
        self.registry.watch(link, request, "orders".to_owned()).expect("a member watches");
    }

    /// All news that there is room for, page by page.
    fn news(&mut self, room: impl Fn(LinkId) -> usize) -> Outgoing {
        let mut outgoing = Outgoing::new();
        while let Some((link, page)) = self.registry.next_news(&room) {
            let bytes: usize = page.iter().map(|answer| answer.to_frame().len()).sum();
            assert!(bytes <= room(link) + 200, "{bytes} bytes are told, there is room for {}", room(link));
            outgoing.extend(page.into_iter().map(|answer| (link, answer)));
        }
        outgoing
    }

    /// As [`World::news`], where every connection has room for one entry at a time.
    fn all_news(&mut self) -> Outgoing {
        self.news(|_| 1)
    }
}

fn taken() -> Refusal {
    Refusal::RankTaken { rank: 1, process: 4711, host: "node".to_owned() }
}

/// The news that a watcher gets when an endpoint listens.
fn news(request: u64, number: u64, incarnation: u64, key: &str) -> Answer {
    let (key, address, host) = (key.to_owned(), address("here"), "node".to_owned());
    Answer::Listed {
        request,
        listed: Arc::new(Listed { number, incarnation, rank: NO_RANK, machine: 1, key, address, host }),
    }
}

#[test]
fn a_resolver_is_answered_now_or_when_the_address_is_published() {
    let mut world = World::pair();
    assert_eq!(world.resolve(10, 1, 1), []);
    let answer = |request| Answer::Resolved { request, incarnation: 101, address: address("a") };
    assert_eq!(world.publish(11, "a"), [(10, answer(1))]);
    assert_eq!(world.publish(11, "a"), [], "answered once");
    assert_eq!(world.resolve(10, 2, 1), [(10, answer(2))]);
}

#[test]
fn a_held_rank_is_refused_and_a_left_one_is_not() {
    let mut world = World::pair();
    assert_eq!(world.join(12, join(1, 102)), Err(taken()));
    world.publish(11, "old");
    world.leave(11, Leaving::Orderly);
    assert_eq!(world.resolve(10, 1, 1), [], "what the dead published is withdrawn");
    assert_eq!(world.join(12, join(1, 102)), Ok(None));
    let answer = Answer::Resolved { request: 1, incarnation: 102, address: address("new") };
    assert_eq!(world.publish(12, "new"), [(10, answer)]);
}

#[test]
fn a_broken_connection_keeps_its_rank_for_a_while() {
    let mut world = World::pair();
    world.leave(11, Leaving::Broken);
    assert_eq!(world.join(12, join(1, 102)), Err(Refusal::RankHeld { rank: 1 }));
    assert_eq!(world.join(13, join(1, 101)), Ok(None), "its owner comes back");
    world.leave(13, Leaving::Broken);
    world.now += RANK_HELD;
    assert_eq!(world.join(14, join(1, 102)), Ok(None), "the time is over");
}

#[test]
fn a_member_may_come_back_over_another_connection() {
    let mut world = World::pair();
    assert_eq!(world.join(12, join(1, 101)), Ok(Some(11)));
    assert_eq!(world.registry.holder(1), Some(12));
    world.leave(11, Leaving::Broken);
    assert_eq!(world.registry.holder(1), Some(12), "the end of the former connection means nothing");
}

#[test]
fn an_incarnation_is_no_proof() {
    let mut world = World::pair();
    let forged = Join { secret: secret(7), ..join(1, 101) };
    assert_eq!(world.join(12, forged.clone()), Err(taken()), "the living owner stays");
    world.leave(11, Leaving::Broken);
    assert_eq!(world.join(12, forged), Err(Refusal::RankHeld { rank: 1 }), "and its place");
    assert_eq!(world.join(20, open(200)), Ok(None));
    let forged = Join { secret: secret(7), ..open(200) };
    assert_eq!(world.join(21, forged), Err(Refusal::Impostor));
    assert_eq!(world.join(22, open(200)), Ok(Some(20)));
}

#[test]
fn another_size_or_host_list_is_refused() {
    let mut world = World { registry: Registry::new(2, 5).expect("memory"), now: Instant::now() };
    let listed =
        |size, hosts_fingerprint| Join { place: Place::Rank { rank: 0, size, hosts_fingerprint }, ..open(1) };
    assert_eq!(world.join(1, listed(3, 5)), Err(Refusal::Size { asked: 3, size: 2 }));
    assert_eq!(world.join(1, listed(2, 6)), Err(Refusal::Hosts));
    assert_eq!(world.join(1, listed(2, 5)), Ok(None));
    assert_eq!(World::new(0).join(1, join(0, 1)), Err(Refusal::NoWorld));
}

#[test]
fn a_barrier_opens_when_all_have_arrived_and_closes_again() {
    let mut world = World::pair();
    for round in 0..3 {
        assert_eq!(world.barrier(10, round), []);
        let released = |link| (link, Answer::Released { request: round });
        assert_eq!(world.barrier(11, round), [released(10), released(11)]);
    }
}

#[test]
fn who_left_or_gave_up_has_not_arrived() {
    let mut world = World::pair();
    world.barrier(10, 1);
    world.registry.cancel(10, 1).expect("a member cancels");
    assert_eq!(world.barrier(11, 1), []);
    world.leave(11, Leaving::Broken);
    assert_eq!(world.barrier(10, 2), []);
    assert_eq!(world.registry.barriers.len(), 1);
    world.leave(10, Leaving::Broken);
    assert!(world.registry.barriers.is_empty());
}

#[test]
fn a_release_that_was_lost_with_its_connection_is_repeated() {
    let mut world = World::pair();
    world.barrier(10, 1);
    world.barrier(11, 1);
    assert_eq!(world.join(12, join(1, 101)), Ok(Some(11)));
    assert_eq!(world.barrier(12, 1), [(12, Answer::Released { request: 1 })]);
    world.leave(12, Leaving::Orderly);
    assert_eq!(world.join(13, join(1, 102)), Ok(None));
    assert_eq!(world.barrier(13, 1), [], "a new incarnation counts its requests again");
}

#[test]
fn a_cancelled_resolve_is_not_answered() {
    let mut world = World::pair();
    world.resolve(10, 1, 1);
    world.registry.cancel(10, 1).expect("a member cancels");
    assert_eq!(world.publish(11, "a"), []);
    world.registry.cancel(10, 99).expect("what is unknown is over already");
}

#[test]
fn a_watcher_is_told_who_listens_and_every_change() {
    let mut world = World::new(0);
    for incarnation in [1, 2, 3] {
        assert_eq!(world.join(incarnation, open(incarnation)), Ok(None));
    }
    world.register(1, "ring+shm#0");
    assert_eq!(world.all_news(), [], "nobody watches");
    let current = Answer::Current { request: 5 };
    world.watch(3, 5);
    assert_eq!(world.all_news(), [(3, news(5, 1, 1, "ring+shm#0")), (3, current)]);
    world.register(2, "ring+shm#0");
    assert_eq!(world.all_news(), [(3, news(5, 2, 2, "ring+shm#0"))], "another server");
    let gone = |number| (3, Answer::Gone { request: 5, number });
    world.register(1, "ring+shm#0");
    assert_eq!(world.all_news(), [gone(1), (3, news(5, 3, 1, "ring+shm#0"))], "it moved");
    world.leave(2, Leaving::Broken);
    assert_eq!(world.all_news(), [gone(2)], "it died");
    world.withdraw(1, "ring+shm#0");
    assert_eq!(world.all_news(), [gone(3)]);
    world.registry.cancel(3, 5).expect("a member cancels");
    world.register(1, "ring+shm#0");
    assert_eq!(world.all_news(), [], "nobody watches any more");
}

/// Members 1 to `members`, each with 1000 endpoints under the name.
fn crowd(members: u64) -> World {
    let mut world = World::new(0);
    for member in 1..=members {
        world.join(member, open(member)).expect("it is free");
        (0..1000).for_each(|number| world.register(member, &format!("ring+shm#{number}")));
    }
    world
}

#[test]
fn a_member_watches_a_name_once() {
    let mut world = crowd(1);
    world.watch(1, 5);
    let bytes = world.registry.bytes();
    let again = world.registry.watch(1, 6, "orders".to_owned());
    assert_eq!((again.is_err(), world.registry.bytes()), (true, bytes));
    world.registry.cancel(1, 5).expect("a member cancels");
    world.watch(1, 7);
    assert_eq!(world.all_news().len(), 1001);
}

#[test]
fn changes_that_are_undone_before_a_page_cost_a_watcher_nothing() {
    let mut world = World::new(0);
    for member in 1..=2 {
        world.join(member, open(member)).expect("it is free");
    }
    world.register(1, "ring+shm#1");
    world.watch(2, 5);
    assert_eq!(world.all_news().len(), 2);
    for _ in 0..GONE_KEPT_PER_WATCH {
        world.register(1, "ring+shm#0");
        world.withdraw(1, "ring+shm#0");
    }
    assert_eq!(world.all_news(), [], "it came and went");
    world.register(1, "ring+shm#1");
    assert_eq!(world.all_news().len(), 2, "one is gone and one listens");
}

#[test]
fn a_name_is_told_in_pages_up_to_a_bound_and_the_rest_as_there_is_place() {
    let mut world = crowd(5);
    world.join(9, open(9)).expect("it is free");
    world.watch(9, 5);
    let told = world.news(|_| 1000);
    assert_eq!(told.len(), LISTED_MAX + 1);
    assert_eq!(told.last(), Some(&(9, Answer::Current { request: 5 })));
    world.withdraw(1, "ring+shm#7");
    let next = LISTED_MAX as u64 + 1;
    let (_, key) = (next, format!("ring+shm#{}", (next - 1) % 1000));
    let gone = Answer::Gone { request: 5, number: 8 };
    assert_eq!(world.all_news(), [(9, gone), (9, news(5, next, 5, &key))]);
    world.leave(5, Leaving::Broken);
    let news_again = world.all_news();
    assert_eq!(news_again[0], (9, Answer::Restarted { request: 5 }), "more are gone than are kept");
    assert_eq!(news_again.len(), 1 + 3999 + 1);
}

#[test]
fn who_does_not_read_is_told_what_is_true_when_it_does() {
    let mut world = crowd(1);
    for member in 2..=3 {
        world.join(member, open(member)).expect("it is free");
        world.watch(member, 5);
    }
    world.all_news();
    for number in 0..1000 {
        world.withdraw(1, &format!("ring+shm#{number}"));
        let told = world.news(|link| if link == 2 { 0 } else { 1000 });
        let gone = Answer::Gone { request: 5, number: number + 1 };
        assert_eq!(told, [(3, gone)], "the other one is");
        assert!(world.registry.names.gone_kept() <= 2 * GONE_KEPT_PER_WATCH);
    }
    world.register(1, "ring+shm#0");
    world.news(|link| if link == 2 { 0 } else { 1000 });
    assert_eq!(world.all_news(), [], "it waits until there is room");
    world.registry.has_room(2);
    let entry = news(5, 1001, 1, "ring+shm#0");
    let news_again = [Answer::Restarted { request: 5 }, entry, Answer::Current { request: 5 }];
    assert_eq!(world.all_news(), news_again.map(|answer| (2, answer)));
    (1..=3).for_each(|member| world.leave(member, Leaving::Broken));
    assert_eq!((world.registry.bytes(), world.registry.names.gone_kept()), (0, 0));
    assert!(world.registry.news.is_empty());
}

#[test]
fn a_member_that_is_silent_for_its_lease_is_overdue() {
    let mut world = World::new(0);
    world.join(1, open(1)).expect("it is free");
    world.join(2, open(2)).expect("it is free");
    let lease = Duration::from_secs(5);
    world.registry.renew(1, lease, world.now).expect("a member renews");
    world.now += lease / 2;
    world.registry.heard(1, world.now);
    world.now += lease / 2;
    assert_eq!(world.registry.overdue(world.now), [0_u64; 0], "it was heard of in between");
    world.now += lease / 2;
    assert_eq!(world.registry.overdue(world.now), [1], "and the other one promised nothing");
}

#[test]
fn a_register_is_set_by_the_one_that_knows_it() {
    let mut world = World::new(0);
    world.join(1, open(1)).expect("it is free");
    let mut set = |expected, value: &[u8]| {
        let answers = world.registry.compare_and_set(1, 9, "leader".to_owned(), expected, value.to_vec());
        answers.expect("there is room").remove(0).1
    };
    let compared = |was_set, revision, value: &[u8]| Answer::Compared {
        request: 9,
        was_set,
        revision,
        value: value.to_vec(),
    };
    assert_eq!(set(3, b"a"), compared(false, 0, b""), "it does not exist");
    assert_eq!(set(0, b"a"), compared(true, 1, b"a"));
    assert_eq!(set(0, b"b"), compared(false, 1, b"a"));
    assert_eq!(set(1, b"b"), compared(true, 2, b"b"));
}

#[test]
fn nobody_can_fill_the_registry() {
    let mut world = World::pair();
    let registry = &mut world.registry;
    let keys =
        |registry: &mut Registry, number: usize| registry.publish(10, number.to_string(), address("a"));
    assert!((0..KEYS_PER_RANK_MAX).all(|number| keys(registry, number).is_ok()));
    assert!(keys(registry, 0).is_ok(), "a key may change");
    assert!(keys(registry, KEYS_PER_RANK_MAX).is_err());

    let wait = |registry: &mut Registry, request| registry.resolve(11, request, 0, "absent".to_owned());
    assert!((0..WAITS_MAX as u64).all(|request| wait(registry, request).is_ok()));
    assert!(wait(registry, WAITS_MAX as u64).is_err());

    let arrive =
        |registry: &mut Registry, number: usize| registry.barrier(10, number as u64, number.to_string());
    assert!((0..BARRIER_WAITS_MAX).all(|number| arrive(registry, number).is_ok()));
    assert!(arrive(registry, BARRIER_WAITS_MAX).is_err());
}

#[test]
fn what_a_member_stores_is_bounded_in_bytes_and_given_back() {
    let mut world = World::pair();
    let long = Address::new(vec![1; 3000]).expect("short enough");
    let publish =
        |world: &mut World, number: usize| world.registry.publish(10, number.to_string(), long.clone());
    let published = (0..).find(|&number| publish(&mut world, number) == Err(Fault::Full));
    let published = published.expect("there is a bound");
    assert!((300..BYTES_PER_MEMBER_MAX / 3000).contains(&published), "{published} addresses");
    assert!(world.registry.bytes() <= BYTES_PER_MEMBER_MAX);
    let register = |world: &mut World, link| {
        world.registry.register(link, "orders".to_owned(), "ring+shm#0".to_owned(), long.clone())
    };
    assert_eq!(register(&mut world, 10), Err(Fault::Full), "names count as well");
    register(&mut world, 11).expect("the other one has room");
    world.watch(11, 1);
    world.resolve(11, 2, 0);
    world.leave(10, Leaving::Broken);
    world.leave(11, Leaving::Broken);
    assert_eq!(world.registry.bytes(), 0);
}

#[test]
fn all_members_together_are_bounded() {
    let mut world = World::new(0);
    let long = Address::new(vec![1; 3000]).expect("short enough");
    let mut refused = 0;
    for member in 1..200 {
        world.join(member, open(member)).expect("it is free");
        for number in 0..300 {
            let key = format!("ring+shm#{number}");
            let registered = world.registry.register(member, "orders".to_owned(), key, long.clone());
            refused += usize::from(registered == Err(Fault::Full));
        }
    }
    assert!(refused > 0 && world.registry.bytes() <= BYTES_MAX, "{refused} were refused");
}

#[test]
fn strangers_and_nonsense_are_refused() {
    let mut world = World::pair();
    let registry = &mut world.registry;
    assert!(registry.publish(99, "key".to_owned(), address("a")).is_err());
    assert!(registry.resolve(99, 1, 0, "key".to_owned()).is_err());
    assert!(registry.barrier(99, 1, "start".to_owned()).is_err());
    assert!(registry.cancel(99, 1).is_err());
    assert!(registry.register(99, "orders".to_owned(), "key".to_owned(), address("a")).is_err());
    assert!(registry.watch(99, 1, "orders".to_owned()).is_err());
    assert!(registry.renew(99, Duration::from_secs(1), world.now).is_err());
    assert!(registry.resolve(10, 1, 2, "key".to_owned()).is_err(), "no such rank");
    world.barrier(10, 1);
    assert!(world.registry.barrier(10, 2, "start".to_owned()).is_err(), "arrived twice");
    world.join(12, open(7)).expect("it is free");
    assert!(world.registry.publish(12, "key".to_owned(), address("a")).is_err(), "no rank to publish for");
    assert!(world.registry.barrier(12, 1, "start".to_owned()).is_err(), "no rank to wait with");
}
