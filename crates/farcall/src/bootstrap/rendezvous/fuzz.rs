//! Hostile messages to a rendezvous and to its members, as a pure function of some bytes.
//!
//! The messages come over a few connections, of which one is an honest member's. Whatever the others do,
//! answers go only to members that wait for them, and the honest member is served.

use std::collections::BTreeSet;

use farcall_base::Address;

use super::super::fields::Malformed;
use super::super::messages::{Answer, Ask, Join};
use super::registry::{LinkId, Outgoing, Registry};

const SIZE: u32 = 4;
const HONEST: LinkId = 100;
const HONEST_RANK: u32 = 3;

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
        match Ask::decode(message) {
            Ok(ask) => cluster.take(link, ask),
            Err(Malformed(_)) => cluster.end(link),
        }
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
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            registry: Registry::new(SIZE, 0),
            members: BTreeSet::from([HONEST]),
            waits: BTreeSet::new(),
        };
        let host = "honest".to_owned();
        let join = Join {
            rank: HONEST_RANK,
            size: SIZE,
            incarnation: u64::MAX,
            hosts_fingerprint: 0,
            process: 1,
            host,
        };
        assert_eq!(cluster.registry.join(HONEST, join), Ok(None));
        cluster
    }

    fn take(&mut self, link: LinkId, ask: Ask) {
        let is_member = self.members.contains(&link);
        let done = match ask {
            Ask::Join(join) if !is_member && join.incarnation != u64::MAX => return self.join(link, join),
            Ask::Publish { key, address } => self.registry.publish(link, key, address),
            Ask::Resolve { request, rank, key } => {
                self.waits.insert((link, request));
                self.registry.resolve(link, request, rank, key)
            }
            Ask::Barrier { request, name } => {
                self.waits.insert((link, request));
                self.registry.barrier(link, request, name)
            }
            Ask::Cancel { request } => {
                self.waits.remove(&(link, request));
                self.registry.cancel(link, request).map(|()| Outgoing::new())
            }
            Ask::Join(_) | Ask::OtherVersion => Err(Malformed("a message out of turn")),
        };
        match done {
            Ok(outgoing) => {
                assert!(is_member, "only members are heard");
                self.check(&outgoing);
            }
            Err(Malformed(_)) => self.end(link),
        }
    }

    fn join(&mut self, link: LinkId, join: Join) {
        let former_holder = self.registry.holder(join.rank);
        let rank = join.rank;
        match self.registry.join(link, join) {
            Ok(former) => {
                assert_eq!(former, former_holder);
                if let Some(former) = former {
                    assert_ne!(former, HONEST, "nobody takes the place of another incarnation");
                    self.forget(former);
                }
                self.members.insert(link);
                assert_eq!(self.registry.holder(rank), Some(link));
            }
            Err(_) => self.end(link),
        }
    }

    fn check(&mut self, outgoing: &Outgoing) {
        for (link, answer) in outgoing {
            assert!(self.members.contains(link), "an answer to a connection that is gone");
            let (Answer::Resolved { request, .. } | Answer::Released { request }) = answer else {
                panic!("{answer:?} is no answer to a request")
            };
            assert!(self.waits.remove(&(*link, *request)), "an answer to no request");
        }
    }

    fn end(&mut self, link: LinkId) {
        self.registry.leave(link);
        self.forget(link);
    }

    fn forget(&mut self, link: LinkId) {
        self.members.remove(&link);
        self.waits.retain(|wait| wait.0 != link);
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
