//! Hostile messages to a registry and to its members, as a pure function of some bytes.
//!
//! The messages come over a few connections, of which one is an honest member's. Whatever the others do,
//! answers go only to members that wait for them, what is stored stays within what the messages paid for and
//! within the bounds, and the honest member is served.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use farcall_base::Address;

use super::super::fields::Malformed;
use super::super::limits::{BYTES_MAX, FRAME_BYTES_MAX, STORED_OVERHEAD_BYTES, WATCH_BYTES};
use super::super::messages::{Answer, Ask, Join, Place};
use super::super::secret::Secret;
use super::registry::{Fault, Leaving, LinkId, Outgoing, Registry};

/// The room of a connection for news.
const ROOM_BYTES: usize = 100;

const SIZE: u32 = 4;
const HONEST: LinkId = 100;
const HONEST_RANK: u32 = 3;

/// What the registry may store for one message, beside its bytes.
const STORED_PER_MESSAGE_MAX: usize = STORED_OVERHEAD_BYTES + WATCH_BYTES;

/// How much later each message comes: leases and held ranks end meanwhile.
const STEP: Duration = Duration::from_millis(50);

/// Reads `bytes` as messages, each after a byte that names its connection and a byte for its length.
#[doc(hidden)]
pub fn fuzz_rendezvous(bytes: &[u8]) {
    let mut cluster = Cluster::new();
    let mut rest = bytes;
    while let Some((&[link, length], tail)) = rest.split_first_chunk::<2>() {
        let (message, tail) = tail.split_at(tail.len().min(usize::from(length)));
        rest = tail;
        decoded_messages_encode_as_they_came(message);
        let link = LinkId::from(link % 4);
        cluster.now += STEP;
        cluster.paid += message.len() + STORED_PER_MESSAGE_MAX;
        match Ask::decode(message) {
            Ok(ask) => cluster.take(link, ask),
            Err(Malformed(_)) => cluster.end(link, Leaving::Broken),
        }
        cluster.tell_news();
        cluster.check_what_is_stored();
    }
    cluster.serve_the_honest();
}

/// There is one encoding of each message, and a decoder takes no other.
fn decoded_messages_encode_as_they_came(message: &[u8]) {
    match Ask::decode(message) {
        Err(Malformed(_)) | Ok(Ask::OtherVersion) => {}
        Ok(ask) => assert_eq!(&ask.to_frame()[4..], message),
    }
    if let Ok(answer) = Answer::decode(message) {
        assert_eq!(&answer.to_frame()[4..], message);
    }
}

struct Cluster {
    registry: Registry,
    members: BTreeSet<LinkId>,
    /// What every member asked and has no answer to.
    waits: BTreeSet<(LinkId, u64)>,
    /// What every member watches.
    watches: BTreeSet<(LinkId, u64)>,
    now: Instant,
    /// The most bytes that the messages so far can have made the registry store.
    paid: usize,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            registry: Registry::new(SIZE, 0).expect("memory"),
            members: BTreeSet::from([HONEST]),
            waits: BTreeSet::new(),
            watches: BTreeSet::new(),
            now: Instant::now(),
            paid: 0,
        };
        let join = Join {
            place: Place::Rank { rank: HONEST_RANK, size: SIZE, hosts_fingerprint: 0 },
            incarnation: u64::MAX,
            secret: Secret::new(*b"only one knows  "),
            machine: 0,
            process: 1,
            host: "honest".to_owned(),
        };
        cluster.registry.join(HONEST, join, cluster.now).expect("the rank is free");
        cluster
    }

    fn take(&mut self, link: LinkId, ask: Ask) {
        let is_member = self.members.contains(&link);
        let (now, registry, without_room) = (self.now, &mut self.registry, ask.without_room());
        registry.heard(link, now);
        let done = match ask {
            Ask::Join(join) if !is_member => return self.join(link, join),
            Ask::Publish { key, address } => registry.publish(link, key, address),
            Ask::Resolve { request, rank, key } => {
                self.waits.insert((link, request));
                registry.resolve(link, request, rank, key)
            }
            Ask::Barrier { request, name } => {
                self.waits.insert((link, request));
                registry.barrier(link, request, name)
            }
            Ask::Missing { request, name } => registry.missing(link, request, &name),
            Ask::Watch { request, name } => {
                self.watches.insert((link, request));
                registry.watch(link, request, name).map(|()| Outgoing::new())
            }
            Ask::CompareAndSet { request, key, expected, value } => {
                self.waits.insert((link, request));
                registry.compare_and_set(link, request, key, expected, value)
            }
            Ask::Cancel { request } => {
                self.waits.remove(&(link, request));
                self.watches.remove(&(link, request));
                registry.cancel(link, request).map(|()| Outgoing::new())
            }
            Ask::Register { name, key, address } => {
                registry.register(link, name, key, address).map(|()| Outgoing::new())
            }
            Ask::Withdraw { name, key } => registry.withdraw(link, name, key).map(|()| Outgoing::new()),
            Ask::Renew { lease } => registry.renew(link, lease, now).map(|()| Outgoing::new()),
            Ask::Leave if is_member => return self.end(link, Leaving::Orderly),
            Ask::Join(_) | Ask::OtherVersion | Ask::Leave => {
                Err(Fault::Malformed(Malformed("a message out of turn")))
            }
        };
        match done {
            Ok(outgoing) => {
                assert!(is_member, "only members are heard");
                self.check(&outgoing);
            }
            Err(Fault::Full) => self.has_no_room(link, without_room),
            Err(Fault::Malformed(_)) => self.end(link, Leaving::Broken),
        }
        for link in self.registry.overdue(now) {
            assert_ne!(link, HONEST, "it promised nothing");
            self.end(link, Leaving::Broken);
        }
    }

    /// A member is told that there is no room for what it wants, and stays one.
    fn has_no_room(&mut self, link: LinkId, answer: Option<Answer>) {
        assert!(self.members.contains(&link), "only members are heard");
        let answer = answer.expect("only what is stored finds no room");
        if let Some(request) = answer.request() {
            let place = (link, request);
            assert!(self.waits.remove(&place) | self.watches.remove(&place), "an answer to no request");
        }
    }

    fn join(&mut self, link: LinkId, join: Join) {
        let former_holder = self.registry.holder_of(&join);
        match self.registry.join(link, join.clone(), self.now) {
            Ok(former) => {
                assert_eq!(former, former_holder);
                if let Some(former) = former {
                    assert_ne!(former, HONEST, "no process takes the place of another one");
                    self.forget(former);
                }
                self.members.insert(link);
                assert_eq!(self.registry.holder_of(&join), Some(link));
            }
            Err(_) => self.end(link, Leaving::Broken),
        }
    }

    fn check(&mut self, outgoing: &Outgoing) {
        for (link, answer) in outgoing {
            assert!(self.members.contains(link), "an answer to a connection that is gone");
            let request = answer.request().expect("only answers to requests go out");
            let is_watch = matches!(
                answer,
                Answer::Listed { .. }
                    | Answer::Gone { .. }
                    | Answer::Current { .. }
                    | Answer::Restarted { .. }
            );
            let is_waited_for = if is_watch {
                self.watches.contains(&(*link, request))
            } else {
                self.waits.remove(&(*link, request))
            };
            assert!(is_waited_for, "an answer to no request");
        }
    }

    fn check_what_is_stored(&self) {
        assert!(self.registry.bytes() <= BYTES_MAX.min(self.paid), "more is stored than was sent");
    }

    fn end(&mut self, link: LinkId, leaving: Leaving) {
        self.registry.leave(link, self.now, leaving);
        self.forget(link);
    }

    /// Tells one watch what has changed; one connection never has room.
    fn tell_news(&mut self) {
        const DEAF: LinkId = 3;
        let room = |link: LinkId| if link == DEAF { 0 } else { ROOM_BYTES };
        if let Some((link, news)) = self.registry.next_news(room) {
            let bytes: usize = news.iter().map(|answer| answer.to_frame().len()).sum();
            let is_short = bytes <= ROOM_BYTES + FRAME_BYTES_MAX + 64;
            assert!(is_short && (link != DEAF || news.is_empty()), "more than there is room for");
            self.check(&news.into_iter().map(|answer| (link, answer)).collect());
        }
    }

    fn forget(&mut self, link: LinkId) {
        self.members.remove(&link);
        self.waits.retain(|wait| wait.0 != link);
        self.watches.retain(|watch| watch.0 != link);
    }

    fn serve_the_honest(&mut self) {
        assert_eq!(self.registry.holder(HONEST_RANK), Some(HONEST));
        let address = Address::new(*b"here").expect("it is short");
        let published = self.registry.publish(HONEST, "key".to_owned(), address.clone());
        let outgoing = published.expect("it publishes one key");
        self.check(&outgoing);
        let answered = self.registry.resolve(HONEST, 1, HONEST_RANK, "key".to_owned());
        let answer = Answer::Resolved { request: 1, incarnation: u64::MAX, address };
        assert_eq!(answered, Ok(vec![(HONEST, answer)]));
    }
}
