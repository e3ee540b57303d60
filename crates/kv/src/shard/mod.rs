//! A shard: a store that answers calls.
//!
//! The thread that polls the endpoint owns the store, so there is no lock: requests come in through
//! [`Endpoint::poll_requests`](farcall::Endpoint::poll_requests), which lends them to [`Shard::handle`]. An
//! object that lies in one piece is answered from where it lies; the transport makes the only copy.

mod answer;
mod counters;
mod creating;
mod durable;
mod many;
mod once;
mod parts;
mod placement;
mod results;
#[cfg(test)]
mod tests;

use farcall::{Reply, Request, Service};
use farcall_driver::CounterFile;

pub use answer::Answer;
pub use counters::ShardCounters;
pub(crate) use durable::NotExtended;
pub(crate) use many::{After, Many, is_for_many};
use parts::Uploads;
use placement::Placement;
#[cfg(test)]
pub(crate) use results::Known;
pub(crate) use results::{Recorded, Results};

use crate::durable::{Durable, Level};
use crate::store::{CreateTableError, Object, Store, WriteError};
use crate::wire::{
    ADD_CLIENT, CREATE_TABLE, CREATE_TABLE_AT, Code, DELETE, DROP_TABLE, DeleteRequest, GET, GET_PART,
    GetRequest, HAND_OVER, IMPORT, INCREMENT, IncrementRequest, IncrementResponse, MULTI_GET, MULTI_PUT,
    Malformed, ONCE, PAGE_BYTES_MAX, PUT, PUT_PART, PutRequest, REPLICATION, SCAN, SCRUB, SLOT_MAP,
    STATISTICS, ShardStatistics, TURN_OBJECTS_MAX, TURN_WRITE_BYTES_MAX, WriteResponse,
};
use crate::{Name, TableId};

/// How much of a request for many objects is done at a time. Of a list that is longer the first are done, of
/// a scan a shorter page, and the client goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Objects of a list.
    objects: usize,
    /// Bytes that are read, if it is more than one object, and written.
    read_bytes: usize,
    write_bytes: usize,
    /// Entries that are looked at for a page. A table may have few objects among many of others.
    looks: usize,
    /// How many of the objects and looks are done before others may have a turn.
    step: usize,
}

impl Turn {
    /// As much as ever: some tens of microseconds.
    pub const LONG: Self = Self {
        objects: TURN_OBJECTS_MAX,
        read_bytes: PAGE_BYTES_MAX,
        write_bytes: TURN_WRITE_BYTES_MAX,
        looks: 256,
        step: usize::MAX,
    };
    /// As much as a few requests for one object, in steps of which each takes about as long as one or two.
    pub const SHORT: Self = Self { objects: 8, read_bytes: 8 << 10, write_bytes: 8 << 10, looks: 8, step: 2 };
}

/// One of the stores that objects are spread over.
#[derive(Debug)]
pub struct Shard {
    store: Store,
    shard: u32,
    shards: u32,
    /// The log of its durable tables, if it has one.
    durable: Option<Box<Durable>>,
    /// What a map says of it; without one the number of shards does.
    placement: Option<Box<Placement>>,
    /// Results of writes that happen once.
    results: Results,
    /// Long values that come part by part.
    uploads: Uploads,
    counters: ShardCounters,
    turn: Turn,
    /// Where answers of several objects are put together.
    many: Many,
}

impl Shard {
    /// Shard `shard` of `shards`, with the objects of `store`.
    ///
    /// # Panics
    /// When `shard` is not less than `shards`.
    pub fn new(store: Store, shard: u32, shards: u32) -> Self {
        assert!(shard < shards, "shards are counted from 0");
        let counters = ShardCounters::new(CounterFile::process(), &format!("kv#{shard}"));
        let (turn, many) = (Turn::LONG, Many::default());
        let (results, uploads) = (Results::default(), Uploads::default());
        let (durable, placement) = (None, None);
        Self { store, shard, shards, durable, placement, results, uploads, counters, turn, many }
    }

    /// Does so much of each request for many objects from now on.
    #[inline]
    pub fn take_turns(&mut self, turn: Turn) {
        self.turn = turn;
    }

    /// Its objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its objects, to be changed by the thread that owns them.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Creates a table, unless there is one of that name. All shards must do the same.
    pub fn create_table(&mut self, name: &str) -> Result<TableId, CreateTableError> {
        self.store.create_table(name)
    }

    /// Removes some objects of dropped tables, and long values whose parts come no more; says whether there
    /// may be more.
    #[inline]
    pub fn sweep(&mut self) -> bool {
        self.uploads.drop_idle();
        self.store.sweep()
    }

    /// Brings the counters that are levels up to date.
    pub fn update_counters(&self) {
        let statistics = self.store.statistics();
        self.counters.objects.set(statistics.objects);
        self.counters.used_bytes.set(statistics.used_bytes as u64);
    }

    /// Answers a call. One for another service is answered as a shard answers what it does not understand.
    #[inline]
    pub fn handle(&mut self, request: Request<'_>, reply: Reply<'_>) {
        self.answer(request.service(), request.payload(), reply);
    }

    /// Answers a request, wherever it came from.
    #[inline]
    pub fn answer<A: Answer>(&mut self, service: Service, message: &[u8], reply: A) {
        match service {
            GET | PUT | DELETE | INCREMENT => {
                let wrong_shard = |shard: &Self, why: NotHere, reply: A| shard.refuse(reply, why.into());
                self.answer_object(service, message, reply, wrong_shard);
            }
            _ => self.answer_rare(service, message, reply),
        }
    }

    /// Answers a request about one object; one for another service is malformed. When another shard has the
    /// object, it does nothing but call `elsewhere` with that shard's number.
    ///
    /// Always inlined, like what takes the message apart: handed over in memory, requests would be written by
    /// shorter stores than they are read by, and reading them would have to wait until those are done.
    #[inline(always)]
    pub fn answer_object<A: Answer>(
        &mut self,
        service: Service,
        message: &[u8],
        reply: A,
        elsewhere: impl FnOnce(&Self, NotHere, A),
    ) {
        let not_mine = match service {
            GET => match self.mine(GetRequest::decode(message), |get| get.name) {
                Ok(get) => return self.get(get, reply),
                Err(not_mine) => not_mine,
            },
            PUT => match self.mine(PutRequest::decode(message), |put| put.name) {
                Ok(put) => return self.put(&put, reply),
                Err(not_mine) => not_mine,
            },
            DELETE => match self.mine(DeleteRequest::decode(message), |delete| delete.name) {
                Ok(delete) => return self.delete(&delete, reply),
                Err(not_mine) => not_mine,
            },
            INCREMENT => match self.mine(IncrementRequest::decode(message), |increment| increment.name) {
                Ok(increment) => return self.increment(&increment, reply),
                Err(not_mine) => not_mine,
            },
            _ => NotMine::Malformed,
        };
        match not_mine {
            NotMine::Malformed => self.refuse(reply, Code::Malformed),
            NotMine::Of(shard) => elsewhere(self, NotHere::At(shard), reply),
            NotMine::Frozen => elsewhere(self, NotHere::Frozen, reply),
        }
    }

    #[inline(never)]
    fn answer_rare(&mut self, service: Service, message: &[u8], reply: impl Answer) {
        match service {
            MULTI_GET | MULTI_PUT | SCAN => self.answer_many(service, message, reply),
            CREATE_TABLE => self.create_named_table(message, reply),
            CREATE_TABLE_AT => self.create_named_table_at(message, reply),
            DROP_TABLE => self.drop_named_table(message, reply),
            STATISTICS => reply.send(&self.statistics().encode()),
            ONCE => self.answer_once(message, reply),
            ADD_CLIENT => self.add_client(reply),
            REPLICATION => self.tell_replication(reply),
            SCRUB => self.scrub(message, reply),
            HAND_OVER => self.hand_over(reply),
            SLOT_MAP => self.tell_map(reply),
            IMPORT => self.import(message, reply),
            GET_PART => self.get_part(message, reply),
            PUT_PART => self.put_part(message, reply),
            _ => self.refuse(reply, Code::Malformed),
        }
    }

    fn statistics(&self) -> ShardStatistics {
        self.update_counters();
        ShardStatistics {
            shard: self.shard,
            shards: self.shards,
            store: self.store.statistics(),
            tables: self.store.table_names().map(str::to_owned).collect(),
        }
    }

    /// Checks that a request is for this shard.
    #[inline(always)]
    fn mine<T>(&self, request: Result<T, Malformed>, name: impl Fn(&T) -> Name<'_>) -> Result<T, NotMine> {
        let request = request.map_err(|Malformed| NotMine::Malformed)?;
        self.has_key(name(&request).key())?;
        Ok(request)
    }

    #[inline]
    fn get(&mut self, get: GetRequest<'_>, reply: impl Answer) {
        self.counters.gets.increment();
        if self.is_durable(get.name.table()) {
            return self.get_durable(get, reply);
        }
        match self.store.get(get.name) {
            Ok(Some(object)) => match object.version_and_value() {
                Some(bytes) => reply.send(bytes),
                None if object.is_collection() => self.refuse(reply, Code::Collection),
                None if object.is_long() => self.refuse(reply, Code::TooLong),
                None => self.send_gathered(&object, reply),
            },
            Ok(None) => reply.send(&[0; 8]),
            Err(error) => self.refuse(reply, error.into()),
        }
    }

    #[cold]
    fn send_gathered(&self, object: &Object<'_>, reply: impl Answer) {
        self.counters.gathered.increment();
        reply.send_filled(8 + object.value_bytes(), |to| {
            to[..8].copy_from_slice(&object.version().to_le_bytes());
            object.copy_value_to(&mut to[8..]);
        });
    }

    #[inline]
    fn put(&mut self, put: &PutRequest<'_>, reply: impl Answer) {
        self.counters.puts.increment();
        if self.is_durable(put.name.table()) {
            return self.put_durable(put, reply);
        }
        let outcome = self.store.put(put.name, put.value, put.condition);
        self.answer_write(outcome, reply);
    }

    #[inline(never)]
    fn delete(&mut self, delete: &DeleteRequest<'_>, reply: impl Answer) {
        self.counters.deletes.increment();
        if self.is_durable(delete.name.table()) {
            return self.delete_durable(delete, reply);
        }
        let outcome = self.store.delete(delete.name, delete.condition);
        self.answer_write(outcome.map(|version| version.unwrap_or(0)), reply);
    }

    #[inline]
    fn answer_write(&self, outcome: Result<u64, WriteError>, reply: impl Answer) {
        match write_response(outcome) {
            WriteResponse {
                code: code @ (Code::UnknownTable | Code::OutOfMemory | Code::SameHash), ..
            } => {
                self.refuse(reply, code);
            }
            response => reply.send(&response.encode()),
        }
    }

    #[inline(never)]
    fn increment(&mut self, increment: &IncrementRequest<'_>, reply: impl Answer) {
        self.counters.increments.increment();
        if self.is_durable(increment.name.table()) {
            return self.increment_durable(increment, reply);
        }
        match self.store.increment(increment.name, increment.amount) {
            Ok((version, sum)) => {
                reply.send(&IncrementResponse { version, sum, level: Level::Memory }.encode());
            }
            Err(error) => self.refuse(reply, error.into()),
        }
    }

    fn drop_named_table(&mut self, message: &[u8], reply: impl Answer) {
        let Ok(name) = core::str::from_utf8(message) else { return self.refuse(reply, Code::Malformed) };
        let Ok(table) = TableId::of(name) else { return self.refuse(reply, Code::Malformed) };
        if self.holds_tables() {
            return self.refuse(reply, Code::SlotsMoving);
        }
        if self.is_durable(table) {
            return self.drop_durable(name, table, reply);
        }
        let was_there = self.store.drop_table(name);
        self.store.sweep();
        reply.send(&[u8::from(was_there)]);
    }

    #[cold]
    pub(crate) fn refuse(&self, reply: impl Answer, code: Code) {
        let counter = if code == Code::Malformed { self.counters.malformed } else { self.counters.refused };
        counter.increment();
        reply.refuse(code);
    }
}

/// Why a request is not for this shard.
enum NotMine {
    Malformed,
    /// Another shard has the object.
    Of(u32),
    /// Another shard is about to have it.
    Frozen,
}

/// Where an object is that a shard does not answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHere {
    /// At this shard.
    At(u32),
    /// Nowhere, for a moment: its hash slot is on its way.
    Frozen,
}

impl From<NotHere> for Code {
    fn from(not_here: NotHere) -> Self {
        match not_here {
            NotHere::At(_) => Self::WrongShard,
            NotHere::Frozen => Self::SlotsMoving,
        }
    }
}

impl From<NotMine> for Code {
    fn from(not_mine: NotMine) -> Self {
        match not_mine {
            NotMine::Malformed => Self::Malformed,
            NotMine::Of(_) => Self::WrongShard,
            NotMine::Frozen => Self::SlotsMoving,
        }
    }
}

fn write_response(outcome: Result<u64, WriteError>) -> WriteResponse {
    match outcome {
        Ok(version) => WriteResponse { code: Code::Done, version, level: Level::Memory },
        Err(WriteError::WrongVersion { version }) => {
            WriteResponse { code: Code::WrongVersion, version, level: Level::Memory }
        }
        Err(error) => refused_write(error.into()),
    }
}

fn refused_write(code: Code) -> WriteResponse {
    WriteResponse { code, version: 0, level: Level::Memory }
}
