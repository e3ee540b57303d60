//! Requests to a key-value store: random objects of one length, with keys of thirty bytes, as in clusterperf.

use std::cell::Cell;
use std::sync::LazyLock;

use farcall::{Endpoint, Loan, LoanError, Outgoing, Peer, Service};
use farcall_disk::FileDisk;
use farcall_kv::durable::{LOG_BYTES_MIN, Level, Parked, Released};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{
    Code, GET, GetRequest, MULTI_GET, MultiGetRequest, MultiGetResponse, PUT, PutRequest, WriteResponse,
    found, shard_of,
};
use farcall_kv::{Answer, Name, Shard, TableId, Value};
use serde::{Deserialize, Serialize};

use super::Exchange;
use super::payload::Receiver;
use farcall_base::Random;

/// The table that is worked on.
const TABLE: &str = "perf";

/// Length of a key, as in clusterperf.
const KEY_BYTES: usize = 30;

/// Objects that are flushed together when a durable store is filled.
const FILLED_TOGETHER: u64 = 256;

/// The log may become this many times as long as the memory of the store, as that of `farcall kv serve`.
const LOG_PER_MEMORY: u64 = 4;

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
    /// Whether writes are answered when the server's disk has them.
    #[serde(default)]
    pub is_flushed: bool,
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

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    key[KEY_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("the key is short")
}

/// The shard of a server, with all of its objects.
pub(super) fn filled_shard(work: &StoreWork, exchange: &Exchange, number: u32) -> Result<Shard, String> {
    let (shards, bytes) = (exchange.servers as u32, exchange.response_bytes);
    // A quarter of it stays free, and so does what the index takes of short objects.
    let object_bytes = (bytes + KEY_BYTES + 128) * 4 / 3;
    let memory = MEMORY_BYTES_MIN * 2 + object_bytes * (work.objects as usize).div_ceil(exchange.servers);
    let store = Store::new(memory).map_err(|error| error.to_string())?;
    let mut shard = Shard::new(store, number, shards);
    let level = if work.is_flushed { Level::Flushed } else { Level::Memory };
    if work.is_flushed {
        open_log(&mut shard, memory)?;
    }
    shard.create_table_at(TABLE, level).map_err(|error| error.to_string())?;
    let contents = vec![1; bytes];
    let value = Value::new(&contents).map_err(|error| error.to_string())?;
    let (mut message, refused) = (Vec::new(), Cell::new(0));
    for number_of_object in 0..work.objects {
        let key = key(number_of_object);
        if shard_of(name(&key), shards) == number {
            message.clear();
            PutRequest { name: name(&key), value, condition: Condition::Always }.encode(&mut message);
            shard.answer(PUT, &message, Unheard(&refused));
            // A group is flushed in one write.
            if shard.has_log() && number_of_object.is_multiple_of(FILLED_TOGETHER) {
                flush(&mut shard);
            }
        }
    }
    flush(&mut shard);
    match refused.get() {
        0 => Ok(shard),
        refused => Err(format!("the store refused {refused} of its first objects")),
    }
}

/// Gives a shard a log: a file of the folder for temporary files, which is gone with the process.
fn open_log(shard: &mut Shard, memory: usize) -> Result<(), String> {
    let path = std::env::temp_dir().join(format!("farcall-perf-{}.log", std::process::id()));
    let disk = FileDisk::open(&path).map_err(|error| error.to_string())?;
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let bytes_max = LOG_BYTES_MIN.max(LOG_PER_MEMORY * memory as u64);
    shard.open_log(Box::new(disk), bytes_max).map(drop).map_err(|error| error.to_string())
}

/// Waits until all that was written is flushed.
fn flush(shard: &mut Shard) {
    while shard.is_flushing() {
        if !shard.turn_log() {
            std::thread::yield_now();
        }
        while shard.release().is_some() {}
    }
}

/// Gives the answers that waited for the disk; says whether there were some.
pub(super) fn answer_flushed(shard: &mut Shard, endpoint: &Endpoint) -> bool {
    let mut happened = shard.turn_log();
    while let Some(Released { to, answer }) = shard.release() {
        happened = true;
        let Parked::Call(call) = to else { continue };
        match answer.answer() {
            Ok(bytes) => endpoint.reply(call, bytes),
            Err(code) => endpoint.refuse(call, code as u8),
        }
    }
    happened
}

/// Nobody waits for the answer; refusals are counted.
struct Unheard<'a>(&'a Cell<u64>);

impl Answer for Unheard<'_> {
    fn send(self, message: &[u8]) {
        let done = WriteResponse::decode(message).is_ok_and(|response| response.code == Code::Done);
        self.0.set(self.0.get() + u64::from(!done));
    }

    fn send_filled(self, _: usize, _: impl FnOnce(&mut [u8])) {}

    fn refuse(self, _: Code) {
        self.0.set(self.0.get() + 1);
    }

    fn park(self) -> Parked {
        Parked::Numbered(0)
    }
}

/// Operations on random objects.
pub(super) struct StoreRequests {
    work: StoreWork,
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
        let (contents, random) = (vec![2; bytes], Random::new(work.seed));
        Self { work, peers: peers.to_vec(), random, contents, message: Vec::new(), receiver }
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
            StoreAccess::Write => {
                WriteResponse::decode(answer).is_ok_and(|response| response.code == Code::Done)
            }
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
    use super::super::{Buffers, ExchangeWork, Timing};
    use super::*;

    /// The first keys that are asked for.
    fn keys(stream: Stream) -> Vec<[u8; KEY_BYTES]> {
        let work = StoreWork { access: StoreAccess::Read, objects: 1_000_000, seed: 7, is_flushed: false };
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
