//! Requests to a key-value store: random objects of one length, with keys of thirty bytes, as in clusterperf.

use std::sync::LazyLock;

use farcall::{Loan, LoanError, Outgoing, Peer, Service};
use farcall_kv::durable::Level;
use farcall_kv::store::Condition;
use farcall_kv::wire::{
    Code, GET, GetRequest, MULTI_GET, MultiGetRequest, MultiGetResponse, PUT, PutRequest, WriteResponse,
    found, shard_of,
};
use farcall_kv::{Name, TableId, Value};
use serde::{Deserialize, Serialize};

use super::payload::Receiver;
use farcall_base::Random;

/// The table that is worked on.
pub(crate) const TABLE: &str = "perf";

/// Length of a key, as in clusterperf.
pub(crate) const KEY_BYTES: usize = 30;

/// Longer requests are written into loaned memory.
const LOAN_FROM_BYTES: usize = 8 << 10;

/// What is done with the objects.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreWork {
    /// How objects are accessed.
    pub access: StoreAccess,
    /// How many there are, on all servers together.
    pub objects: u64,
    /// Decides which objects are accessed.
    pub seed: u64,
    /// Whether writes are answered when disks have them, the server's and those of its backups.
    #[serde(default)]
    is_flushed: bool,
    /// How many backups have a write when it is answered.
    #[serde(default)]
    replicas: u8,
}

impl StoreWork {
    /// Access to this many objects in a table of a level.
    pub fn new(access: StoreAccess, objects: u64, seed: u64, level: Level) -> Self {
        Self { access, objects, seed, is_flushed: level.is_flushed(), replicas: level.replicas() }
    }

    /// What a write waits for before it is answered.
    pub fn level(&self) -> Level {
        match (self.replicas, self.is_flushed) {
            (0, false) => Level::Memory,
            (0, true) => Level::Flushed,
            (replicas, flushed) => Level::Replicated { replicas, flushed },
        }
    }
}

/// How objects are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum StoreAccess {
    /// One is read.
    Read,
    /// One is overwritten by another of the same length.
    Write,
    /// This many of one server are read by one call.
    MultiRead(usize),
}

impl StoreAccess {
    /// Whether one call can do it with objects of this many bytes.
    pub fn fits(self, bytes: usize) -> bool {
        match self {
            Self::Read | Self::Write => true,
            Self::MultiRead(objects) => objects <= MultiGetResponse::objects_max(bytes),
        }
    }
}

fn table() -> TableId {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of(TABLE).expect("the name is short"));
    *TABLE_ID
}

/// The key of an object.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    key[KEY_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The name of an object, by its key.
pub(crate) fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("the key is short")
}

/// Operations on random objects.
pub(super) struct StoreRequests {
    work: StoreWork,
    /// What a write must have reached.
    level: Level,
    /// The servers, in the order of the shards.
    peers: Vec<Peer>,
    random: Random,
    contents: Vec<u8>,
    message: Vec<u8>,
    receiver: Receiver,
}

impl StoreRequests {
    /// Operations on objects of `bytes` bytes.
    pub(super) fn new(work: StoreWork, bytes: usize, peers: &[Peer], receiver: Receiver) -> Self {
        let (contents, random, level) = (vec![2; bytes], Random::new(work.seed), work.level());
        Self { work, level, peers: peers.to_vec(), random, contents, message: Vec::new(), receiver }
    }

    fn random_key(&mut self) -> [u8; KEY_BYTES] {
        key(self.random.index(self.work.objects as usize) as u64)
    }

    #[inline]
    pub(super) fn next(
        &mut self,
        loan: impl FnOnce(usize) -> Result<Loan, LoanError>,
    ) -> (Peer, Service, Outgoing<'_>) {
        let key = self.random_key();
        let name = name(&key);
        let shard = shard_of(name, self.peers.len() as u32);
        let peer = self.peers[shard as usize];
        self.message.clear();
        match self.work.access {
            StoreAccess::Read => {
                GetRequest { name }.encode(&mut self.message);
                (peer, GET, Outgoing::Slice(&self.message))
            }
            StoreAccess::Write => (peer, PUT, self.put(name, loan)),
            StoreAccess::MultiRead(objects) => {
                MultiGetRequest::encode_item(name, &mut self.message);
                (1..objects).for_each(|_| self.add_another_of(shard));
                (peer, MULTI_GET, Outgoing::Slice(&self.message))
            }
        }
    }

    fn put(&mut self, name: Name<'_>, loan: impl FnOnce(usize) -> Result<Loan, LoanError>) -> Outgoing<'_> {
        let value = Value::new(&self.contents).expect("checked when the server was filled");
        let put = PutRequest { name, value, condition: Condition::Always };
        if put.bytes() > LOAN_FROM_BYTES
            && let Ok(mut loan) = loan(put.bytes())
        {
            put.write(&mut loan);
            return Outgoing::Loan(loan);
        }
        put.encode(&mut self.message);
        Outgoing::Slice(&self.message)
    }

    /// Adds a random object of one shard to a multi-get.
    fn add_another_of(&mut self, shard: u32) {
        loop {
            let key = self.random_key();
            let name = name(&key);
            if shard_of(name, self.peers.len() as u32) == shard {
                return MultiGetRequest::encode_item(name, &mut self.message);
            }
        }
    }

    #[inline]
    pub(super) fn accept(&mut self, answer: &[u8]) -> bool {
        let bytes = self.contents.len();
        match self.work.access {
            StoreAccess::Read => {
                matches!(found(answer), Ok(Some((_, value))) if self.receiver.look_at(value, bytes))
            }
            StoreAccess::Write => WriteResponse::decode(answer)
                .is_ok_and(|response| response.code == Code::Done && response.level == self.level),
            StoreAccess::MultiRead(objects) => {
                let mut items = MultiGetResponse::decode(answer).items();
                let all = (0..objects).all(|_| {
                    items
                        .next()
                        .is_some_and(|item| item.is_ok_and(|item| self.receiver.look_at(item.value, bytes)))
                });
                all && items.next().is_none()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::requests::{Requests, Stream};
    use super::super::{Buffers, Exchange, ExchangeWork, Timing};
    use super::*;

    /// The first keys that are asked for.
    fn keys(stream: Stream) -> Vec<[u8; KEY_BYTES]> {
        let work = StoreWork::new(StoreAccess::Read, 1_000_000, 7, Level::Memory);
        let exchange = Exchange {
            transport: "ring+shm".to_owned(),
            settings: Vec::new(),
            workload: ExchangeWork::Store(work),
            request_bytes: 0,
            response_bytes: 100,
            buffers: Buffers::Read,
            timing: Timing::EachCall,
            in_flight: 1,
            clients: 2,
            servers: 1,
            warmup_calls: 100,
            calls: 100,
            lasting: Duration::from_secs(1),
            seed: 1,
        };
        let Requests::Store(mut requests) = Requests::new(&exchange, &[], stream) else {
            unreachable!("the workload is a store's")
        };
        (0..100).map(|_| requests.random_key()).collect()
    }

    #[test]
    fn work_has_the_level_that_it_was_given() {
        for text in ["memory", "flushed", "replicated=2", "replicated=7,flushed"] {
            let level = Level::named(text).expect("a level");
            assert_eq!(StoreWork::new(StoreAccess::Write, 1, 1, level).level(), level);
        }
    }

    #[test]
    fn no_client_measures_the_keys_of_its_warm_up_or_of_another_client() {
        let streams = [1, 2].map(|rank| [Stream::warming_up(rank), Stream::measured(rank)]).concat();
        for (number, &stream) in streams.iter().enumerate() {
            let own = keys(stream);
            assert_eq!(own, keys(stream), "the same seed asks for the same");
            for &other in &streams[..number] {
                let others = keys(other);
                let shared = own.iter().filter(|key| others.contains(key)).count();
                assert!(shared < 5, "{shared} of 100 keys of {stream:?} and {other:?} are the same");
            }
        }
    }
}
