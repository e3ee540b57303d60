//! Commands that are more than a look-up: done in steps, between which the daemon may have the shard.

use super::call::{Call, Done, REPLY_BYTES_MAX, Refusal};
use crate::resp::glob;
use crate::resp::reply::{Protocol, Reply};
use crate::store::{Collection, PageLimits, ScanFrom, ScanNext, Store};
use crate::wire::hash_slot;
use crate::{Name, TableId};

/// Entries, or elements, that a step looks at.
const STEP_LOOKS: usize = 512;

/// The rest of a command.
#[derive(Debug)]
pub enum Long {
    /// All keys of a table that match a pattern.
    Keys(Keys),
    /// How many keys of a table are in a hash slot.
    SlotKeys(SlotKeys),
    /// Elements of a collection.
    Elements(Elements),
}

impl Long {
    /// Where the reply begins.
    pub fn start(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.start,
            Self::SlotKeys(keys) => keys.start,
            Self::Elements(elements) => elements.start,
        }
    }

    /// Does a part of the rest; says whether there is more.
    pub fn step(&mut self, store: &Store, reply: &mut Reply) -> Result<bool, Refusal> {
        let has_more = match self {
            Self::Keys(keys) => keys.step(store, reply)?,
            Self::SlotKeys(keys) => keys.step(store, reply)?,
            Self::Elements(elements) => elements.step(store, reply)?,
        };
        if reply.len() - self.start() > REPLY_BYTES_MAX {
            return Err(Refusal::new(format!("ERR the reply is longer than {REPLY_BYTES_MAX} bytes")));
        }
        Ok(has_more)
    }
}

/// Meets every object that is there all the while exactly once.
#[derive(Debug)]
pub struct Keys {
    pattern: Vec<u8>,
    table: TableId,
    from: u64,
    /// Where the reply begins, and how many keys it has.
    start: usize,
    found: usize,
}

impl Keys {
    /// All keys of a table that match a pattern; the reply begins at `start`.
    pub fn new(pattern: &[u8], table: TableId, start: usize) -> Self {
        Self { pattern: pattern.to_vec(), table, from: 0, start, found: 0 }
    }

    fn step(&mut self, store: &Store, reply: &mut Reply) -> Result<bool, Refusal> {
        let limits = PageLimits { bytes: usize::MAX, looks: glob::looks(&self.pattern, STEP_LOOKS) };
        let next = store.scan(self.table, ScanFrom::Hash(self.from), limits, |object| {
            if glob::is_match(&self.pattern, object.key()) {
                reply.bulk(object.key());
                self.found += 1;
            }
        })?;
        if let ScanNext::Hash(hash) = next {
            self.from = hash;
            return Ok(true);
        }
        reply.insert_array(self.start, self.found);
        Ok(false)
    }
}

/// Counts the keys of a hash slot.
#[derive(Debug)]
pub struct SlotKeys {
    table: TableId,
    slot: u32,
    from: u64,
    /// Where the reply begins.
    start: usize,
    found: usize,
}

impl SlotKeys {
    /// Those of a table; the reply begins at `start`.
    pub fn new(table: TableId, slot: u32, start: usize) -> Self {
        Self { table, slot, from: 0, start, found: 0 }
    }

    fn step(&mut self, store: &Store, reply: &mut Reply) -> Result<bool, Refusal> {
        let limits = PageLimits { bytes: usize::MAX, looks: STEP_LOOKS };
        let next = store.scan(self.table, ScanFrom::Hash(self.from), limits, |object| {
            self.found += usize::from(hash_slot(object.key()) == self.slot);
        })?;
        if let ScanNext::Hash(hash) = next {
            self.from = hash;
            return Ok(true);
        }
        reply.count(self.found);
        Ok(false)
    }
}

/// How elements are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Elements of a list, members of a set or of a sorted set, fields of a hash.
    Plain,
    /// Members of a set.
    Members,
    /// Members, the last first.
    Backwards,
    /// Values of a hash.
    Values,
    /// Fields with values.
    Both,
    /// Members with scores.
    Scores,
    /// Members with scores, the last first.
    ScoresBackwards,
}

/// Elements of a collection that is not changed meanwhile: no other client of the front is served. Through
/// another door it may be deleted; then it was not there.
#[derive(Debug)]
pub struct Elements {
    table: TableId,
    key: Vec<u8>,
    version: u64,
    shape: Shape,
    /// Places, or ranks.
    at: usize,
    end: usize,
    start: usize,
}

impl Elements {
    fn step(&mut self, store: &Store, reply: &mut Reply) -> Result<bool, Refusal> {
        let name = Name::new(self.table, &self.key)?;
        let is_it = store.get(name)?.is_some_and(|object| object.version() == self.version);
        let Some(collection) = store.any_collection(name)?.filter(|_| is_it) else {
            reply.truncate(self.start);
            begin(self.shape, 0, reply);
            return Ok(false);
        };
        let count = STEP_LOOKS.min(self.end - self.at);
        show(collection, self.shape, (self.at, count), reply);
        self.at += count;
        Ok(self.at < self.end)
    }
}

/// Replies with elements of the collection that an argument names, from one place up to below another. Ranks
/// are counted from the end where the shape goes backwards.
pub fn reply_elements(call: &mut Call<'_>, key: usize, shape: Shape, (from, end): (usize, usize)) -> Done {
    let name = call.name(key)?;
    let version = call.shard.store().get(name)?.map_or(0, |object| object.version());
    let start = call.reply.len();
    begin(shape, end - from, call.reply);
    if from == end {
        return Ok(());
    }
    let (table, key) = (name.table(), name.key().to_vec());
    let mut long = Long::Elements(Elements { table, key, version, shape, at: from, end, start });
    if long.step(call.shard.store(), call.reply)? {
        call.session.long = Some(Box::new(long));
    }
    Ok(())
}

/// The header of a reply.
fn begin(shape: Shape, elements: usize, reply: &mut Reply) {
    match shape {
        Shape::Both => reply.map(elements),
        Shape::Members => reply.set(elements),
        Shape::Scores | Shape::ScoresBackwards if reply.protocol == Protocol::Resp2 => {
            reply.array(2 * elements);
        }
        _ => reply.array(elements),
    }
}

fn show(collection: &Collection, shape: Shape, (at, count): (usize, usize), reply: &mut Reply) {
    match collection {
        Collection::List(list) => list.from(at).take(count).for_each(|element| reply.bulk(element)),
        Collection::Set(set) => (at..at + count).for_each(|place| reply.bulk(set.at(place))),
        Collection::Hash(hash) => {
            for (field, value) in (at..at + count).map(|place| hash.at(place)) {
                if shape != Shape::Values {
                    reply.bulk(field);
                }
                if shape != Shape::Plain {
                    reply.bulk(value);
                }
            }
        }
        Collection::Sorted(sorted) => {
            let has_scores = matches!(shape, Shape::Scores | Shape::ScoresBackwards);
            let show =
                |(member, score): (&[u8], f64)| show_member(reply, member, has_scores.then_some(score));
            if matches!(shape, Shape::Backwards | Shape::ScoresBackwards) {
                sorted.back_from(sorted.len() - at).take(count).for_each(show);
            } else {
                sorted.from(at).take(count).for_each(show);
            }
        }
    }
}

/// A member, with its score if that is wanted: side by side with RESP2, a pair with RESP3.
pub fn show_member(reply: &mut Reply, member: &[u8], score: Option<f64>) {
    if score.is_some() && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if let Some(score) = score {
        reply.double(score);
    }
}
