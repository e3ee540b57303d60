//! memcached's protocol in front of a shard: the text commands and the meta commands, over the sockets of a
//! [`Front`](crate::resp::Front).
//!
//! What a memcached client writes is a string of Redis clients, and a value of slots and calls, in the table
//! `default`. Its flags lie behind the value in the object's entry, and its *unique* is the object's version.

mod allowed;
mod call;
mod classic;
mod conversation;
mod fuzz;
mod meta;
mod meta_calls;
mod parse;
mod statistics;

use std::time::Instant;

use farcall_driver::CounterFile;

pub use self::conversation::{Conversation, run};
pub use self::fuzz::fuzz_memcached;
use crate::TableId;
use crate::store::Store;

farcall_driver::declare_counters! {
    /// What memcached clients ask for.
    pub struct MemcachedCounters {
        gets: "keys" => "Keys that memcached clients read",
        hits: "keys" => "Keys that memcached clients read and that had a value",
        writes: "commands" => "Values that memcached clients sent to be stored",
        deletes: "commands" => "Deletions that memcached clients asked for",
        sums: "commands" => "Numbers that memcached clients changed",
        touches: "commands" => "Times of expiry that memcached clients changed",
        flushes: "commands" => "Times that memcached clients deleted everything",
        malformed: "requests" => "Requests of memcached clients that make no sense, or are too long",
    }
}

/// A delayed deletion of everything that was not possible is tried again after so long.
const FLUSH_AGAIN_MS: u64 = 100;

/// What requests of memcached clients need beside the shard.
#[derive(Debug)]
pub struct Memcached {
    pub counters: MemcachedCounters,
    table: TableId,
    /// When everything is to be deleted, if it is.
    flush_at: Option<u64>,
    started: Instant,
}

impl Memcached {
    /// For the objects of a table.
    pub fn new(table: TableId) -> Self {
        let counters = MemcachedCounters::new(CounterFile::process(), "kv-memcached");
        Self { counters, table, flush_at: None, started: Instant::now() }
    }

    /// Deletes everything, if that is due.
    pub fn keep_up(&mut self, store: &mut Store) {
        if self.flush_at.is_some_and(|at| at <= store.clock()) {
            self.flush_at = None;
            // While there are as many tables as there can be, none is emptied.
            if store.clear_table(self.table).is_err() {
                self.flush_at = Some(store.clock() + FLUSH_AGAIN_MS);
            }
        }
    }

    /// When it has something to do by itself.
    pub fn next_deadline(&self) -> Option<u64> {
        self.flush_at
    }
}
