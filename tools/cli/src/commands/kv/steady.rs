//! Whether hash slots stay where they are while all objects of a table are read, shard by shard: an object
//! whose slot goes from a shard that was not read yet to one that was is on no page.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use farcall_kv::placement::SlotMap;
use farcall_kv::{Client, Failure as KvFailure};

use super::refused::Failed;
use super::way::Connection;
use crate::failure::Failure;

/// How long shards may need to hear of a move that has ended.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);

/// The time between two questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What was said of slots before the first page.
pub struct Steady<'a> {
    connection: &'a Connection,
    client: &'a Client<'a>,
    /// The oldest map of all shards; `None` where one shard has everything.
    before: Option<SlotMap>,
}

impl<'a> Steady<'a> {
    /// Asks all shards, until they say the same.
    pub fn begin(connection: &'a Connection, client: &'a Client<'a>) -> Result<Self, Failure> {
        let mut steady = Self { connection, client, before: None };
        let deadline = Instant::now() + SETTLE_WITHIN;
        loop {
            let maps = steady.ask()?;
            let is_same = maps.windows(2).all(|two| two[0].version() == two[1].version());
            if is_same || Instant::now() >= deadline {
                steady.before = maps.into_iter().min_by_key(SlotMap::version);
                return Ok(steady);
            }
            thread::sleep(ASK_AGAIN_AFTER);
        }
    }

    /// After the last page: whether slots may have moved since.
    pub fn has_moved(&self) -> Result<bool, Failure> {
        let Some(before) = &self.before else { return Ok(false) };
        Ok(self.ask()?.iter().any(|map| map.moved_since(before)))
    }

    fn ask(&self) -> Result<Vec<SlotMap>, Failure> {
        let shards = match self.client.shards() {
            1 => 0,
            shards => shards,
        };
        let mut maps = Vec::new();
        for shard in 0..shards {
            match self.client.slot_map(shard).wait() {
                Ok(map) => maps.push(map),
                // It is away, and others have taken over what it had.
                Err(KvFailure::WrongShard) => {}
                Err(failure) => return Err(failure.explained(self.connection.about(""))),
            }
        }
        Ok(maps)
    }
}
