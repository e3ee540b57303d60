//! Commands that are more than a look-up: done in steps, between which the daemon may have the shard.

use super::call::{REPLY_BYTES_MAX, Refusal};
use crate::TableId;
use crate::resp::glob;
use crate::resp::reply::Reply;
use crate::store::{PageLimits, ScanFrom, ScanNext, Store};

/// Entries that a step looks at.
const STEP_LOOKS: usize = 512;

/// The rest of a command. Meets every object that is there all the while exactly once.
#[derive(Debug)]
pub struct Long {
    pattern: Vec<u8>,
    table: TableId,
    from: u64,
    /// Where the reply begins, and how many keys it has.
    start: usize,
    found: usize,
}

impl Long {
    /// All keys of a table that match a pattern; the reply begins at `start`.
    pub fn keys(pattern: &[u8], table: TableId, start: usize) -> Self {
        Self { pattern: pattern.to_vec(), table, from: 0, start, found: 0 }
    }

    /// Where the reply begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Does a part of the rest; says whether there is more.
    pub fn step(&mut self, store: &Store, reply: &mut Reply) -> Result<bool, Refusal> {
        let limits = PageLimits { bytes: usize::MAX, looks: STEP_LOOKS };
        let next = store.scan(self.table, ScanFrom::Hash(self.from), limits, |object| {
            if glob::is_match(&self.pattern, object.key()) {
                reply.bulk(object.key());
                self.found += 1;
            }
        })?;
        if reply.len() - self.start > REPLY_BYTES_MAX {
            return Err(Refusal::new(format!("ERR the reply is longer than {REPLY_BYTES_MAX} bytes")));
        }
        if let ScanNext::Hash(hash) = next {
            self.from = hash;
            return Ok(true);
        }
        reply.insert_array(self.start, self.found);
        Ok(false)
    }
}
