//! The shard of a server: filled with the objects of a measurement, with a log where writes wait for disks,
//! and backups where they wait for those.

use std::cell::Cell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use farcall::{Endpoint, Peer, Reply, Request};
use farcall_disk::FileDisk;
use farcall_kv::durable::{LOG_BYTES_MIN, Level, Parked, Released};
use farcall_kv::replicated::{Primary, PrimaryPlan, Replicator};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{Code, PUT, PutRequest, WriteResponse, shard_of};
use farcall_kv::{Answer, Shard, Value};
use farcall_replica::Life;

use super::backing::Backing;
use super::store::{KEY_BYTES, TABLE, key, name};
use super::worker::{OVERHEAD_MAX, sentence};
use super::{Exchange, StoreWork};

/// Bytes of objects that are flushed together when a durable store is filled.
const FILLED_TOGETHER_BYTES: usize = 256 << 10;

/// The log may become this many times as long as the memory of the store, as that of `farcall kv serve`.
const LOG_PER_MEMORY: u64 = 4;

/// Longer than a measurement takes: a process that ends, ends it, so that no lease has to tell.
const LEASE: Duration = Duration::from_secs(120);

/// A shard that is served.
pub(super) struct ServedShard<'e> {
    shard: Shard,
    level: Level,
    replicated: Option<Replicated<'e>>,
}

/// What carries the log of a shard to its backups.
struct Replicated<'e> {
    replicator: Replicator<'e>,
    /// Says that this process lives.
    _life: Option<Life>,
}

impl ServedShard<'static> {
    /// The shard of the server of this number, whose log, if it has one, is on no other machine.
    pub(super) fn alone(work: &StoreWork, exchange: &Exchange, number: u32) -> Result<Self, String> {
        let (mut shard, memory) = empty_shard(work, exchange, number)?;
        let level = work.level();
        if level.is_flushed() {
            open_log(&mut shard, log_bytes_max(memory))?;
        }
        shard.create_table_at(TABLE, level).map_err(sentence)?;
        let mut served = Self { shard, level, replicated: None };
        served.fill(objects_of(work, exchange, number), exchange.response_bytes, None)?;
        Ok(served)
    }
}

impl<'e> ServedShard<'e> {
    /// The same with backups, which the endpoint reaches.
    pub(super) fn backed(
        work: &StoreWork,
        exchange: &Exchange,
        number: u32,
        backing: &Backing,
        endpoint: &'e Endpoint,
    ) -> Result<Self, String> {
        backing.wait_for_backups()?;
        let (mut shard, memory) = empty_shard(work, exchange, number)?;
        let (level, name) = (work.level(), format!("server-{number}"));
        let data = level.is_flushed().then(|| backing.folder.join(&name));
        if let Some(folder) = &data {
            std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let plan = PrimaryPlan {
            registry: backing.registry(),
            data,
            at: name.clone(),
            of: (number, exchange.servers as u32),
            lease: LEASE,
            level,
            domain: name,
            log_bytes_max: log_bytes_max(memory),
        };
        let primary = Primary::begin(&plan, &mut shard, endpoint, |_| ()).map_err(sentence)?;
        shard.create_table_at(TABLE, level).map_err(sentence)?;
        let Primary { mirror, keeper, life, times, .. } = primary;
        let registry = keeper.hand_to(&mirror).map_err(sentence)?;
        let replicator = Replicator::new(endpoint, mirror, registry, LEASE, &times);
        let mut served = Self { shard, level, replicated: Some(Replicated { replicator, _life: life }) };
        served.fill(objects_of(work, exchange, number), exchange.response_bytes, Some(endpoint))?;
        Ok(served)
    }

    /// Writes objects of `bytes` bytes, by their numbers.
    fn fill(
        &mut self,
        objects: impl Iterator<Item = u64>,
        bytes: usize,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), String> {
        let contents = vec![1; bytes];
        let value = Value::new(&contents).map_err(sentence)?;
        let (mut message, mut gathered) = (Vec::new(), 0);
        for object in objects {
            message.clear();
            PutRequest { name: name(&key(object)), value, condition: Condition::Always }.encode(&mut message);
            self.put(&message, endpoint)?;
            gathered += message.len();
            if gathered >= FILLED_TOGETHER_BYTES {
                self.flush(endpoint)?;
                gathered = 0;
            }
        }
        self.flush(endpoint)
    }

    /// Writes an object, once the log takes it.
    fn put(&mut self, message: &[u8], endpoint: Option<&Endpoint>) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let refused = Cell::new(None);
            self.shard.answer(PUT, message, Unheard(&refused));
            match refused.get() {
                None => return Ok(()),
                // The log becomes longer, or its first replicas are made.
                Some(Code::Busy | Code::TooFewReplicas) if begun.elapsed() < OVERHEAD_MAX => {
                    self.turn_while_filled(endpoint)?;
                }
                Some(code) => return Err(format!("the store refused one of its first objects: {code:?}")),
            }
        }
    }

    /// Waits until all that was written has its level.
    fn flush(&mut self, endpoint: Option<&Endpoint>) -> Result<(), String> {
        while self.shard.is_flushing() {
            self.turn_while_filled(endpoint)?;
        }
        Ok(())
    }

    /// A turn in which nobody asks for anything.
    fn turn_while_filled(&mut self, endpoint: Option<&Endpoint>) -> Result<(), String> {
        let mut refused = None;
        let polled = endpoint.map_or(0, |endpoint| endpoint.poll(|_, _| {}));
        let happened = self.turn_by(|_, answer| refused = refused.or(answer.err()));
        if polled == 0 && !happened {
            thread::yield_now();
        }
        match refused {
            None => Ok(()),
            Some(code) => Err(format!("the store lost some of its first objects: {code:?}")),
        }
    }

    /// Answers a request, now or in a later turn.
    #[inline]
    pub(super) fn handle(&mut self, request: Request<'_>, reply: Reply<'_>) {
        self.shard.handle(request, reply);
    }

    /// A turn beside the polls of the endpoint: gives the answers that waited for disks or backups. Says
    /// whether there was something to do.
    #[inline]
    pub(super) fn turn(&mut self, endpoint: &Endpoint) -> bool {
        self.shard.has_log()
            && self.turn_by(|to, answer| {
                let Parked::Call(call) = to else { return };
                match answer {
                    Ok(bytes) => endpoint.reply(call, bytes),
                    Err(code) => endpoint.refuse(call, code as u8),
                }
            })
    }

    fn turn_by(&mut self, mut give: impl FnMut(Parked, Result<&[u8], Code>)) -> bool {
        let mut happened = self.shard.turn_log();
        while let Some(Released { to, answer }) = self.shard.release() {
            happened = true;
            give(to, answer.answer());
        }
        if let Some(replicated) = &mut self.replicated {
            happened |= replicated.replicator.turn() > 0;
        }
        happened
    }

    /// Whether a disk is at work, whose thread needs the core of this one.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.level.is_flushed() && self.shard.is_flushing()
    }

    /// The session to a backup has ended.
    pub(super) fn lost(&mut self, backup: Peer) {
        if let Some(replicated) = &mut self.replicated {
            replicated.replicator.lost(backup);
        }
    }
}

/// The objects of the shard of this number.
fn objects_of(work: &StoreWork, exchange: &Exchange, number: u32) -> impl Iterator<Item = u64> + use<> {
    let shards = exchange.servers as u32;
    (0..work.objects).filter(move |&object| shard_of(name(&key(object)), shards) == number)
}

/// A shard with room for its objects, and what memory that is.
fn empty_shard(work: &StoreWork, exchange: &Exchange, number: u32) -> Result<(Shard, usize), String> {
    let objects = (work.objects as usize).div_ceil(exchange.servers);
    let memory = memory_for(objects, exchange.response_bytes);
    let store = Store::new(memory).map_err(sentence)?;
    Ok((Shard::new(store, number, exchange.servers as u32), memory))
}

/// Memory of a store with this many objects of `bytes` bytes.
pub(crate) fn memory_for(objects: usize, bytes: usize) -> usize {
    // A quarter of it stays free, and so does what the index takes of short objects.
    let object_bytes = (bytes + KEY_BYTES + 128) * 4 / 3;
    MEMORY_BYTES_MIN * 2 + object_bytes * objects
}

fn log_bytes_max(memory: usize) -> u64 {
    LOG_BYTES_MIN.max(LOG_PER_MEMORY * memory as u64)
}

/// Gives a shard a log: a file of the folder for temporary files, which is gone with the process.
fn open_log(shard: &mut Shard, bytes_max: u64) -> Result<(), String> {
    let path = std::env::temp_dir().join(format!("farcall-perf-{}.log", std::process::id()));
    let disk = FileDisk::open(&path).map_err(sentence)?;
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    shard.open_log(Box::new(disk), bytes_max).map(drop).map_err(sentence)
}

/// Makes a log in the file at `path`, in which this many objects of `bytes` bytes are, as a shard of a
/// measurement has them.
pub(crate) fn fill_log(path: &Path, objects: u64, bytes: usize, bytes_max: u64) -> Result<(), String> {
    let (mut shard, level) = (shard_with_log(path, objects, bytes, bytes_max)?, Level::Flushed);
    shard.create_table_at(TABLE, level).map_err(sentence)?;
    ServedShard { shard, level, replicated: None }.fill(0..objects, bytes, None)
}

/// A shard with what the log in a file has, of at most so many objects.
pub(crate) fn shard_with_log(
    path: &Path,
    objects: u64,
    bytes: usize,
    bytes_max: u64,
) -> Result<Shard, String> {
    let store = Store::new(memory_for(objects as usize, bytes)).map_err(sentence)?;
    let mut shard = Shard::new(store, 0, 1);
    let disk = FileDisk::open(path).map_err(sentence)?;
    shard.open_log(Box::new(disk), bytes_max).map_err(sentence)?;
    Ok(shard)
}

/// Nobody waits for the answer; a refusal is noted.
struct Unheard<'a>(&'a Cell<Option<Code>>);

impl Answer for Unheard<'_> {
    fn send(self, message: &[u8]) {
        let code = WriteResponse::decode(message).map_or(Code::Malformed, |response| response.code);
        self.0.set((code != Code::Done).then_some(code));
    }

    fn send_filled(self, _: usize, _: impl FnOnce(&mut [u8])) {}

    fn refuse(self, code: Code) {
        self.0.set(Some(code));
    }

    fn park(self) -> Parked {
        Parked::Numbered(0)
    }
}
