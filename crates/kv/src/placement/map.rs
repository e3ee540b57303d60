//! The map of a store: which shard has which hash slots.
//!
//! It is text, for people who look at it, and ends with a checksum, for processes that do.

use core::fmt::{self, Write};
use core::str::FromStr;

use super::spread::{self, Spread, Taken};
use crate::wire::{HASH_SLOTS, SHARDS_MAX, shard_of_slot};

/// What the first line says.
const TITLE: &str = "farcall-kv-slots 1";

/// So many moves that have ended are remembered, for those who asked for them.
const ENDED_MAX: usize = 16;

/// The longest reason for which a move ended, in bytes.
const REASON_BYTES_MAX: usize = 200;

/// Neighbouring hash slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl SlotRange {
    /// All of them.
    pub const ALL: Self = Self { first: 0, last: HASH_SLOTS - 1 };

    /// Whether a slot is in it.
    #[inline]
    pub fn has(self, slot: u32) -> bool {
        (self.first..=self.last).contains(&slot)
    }

    fn is_valid(self) -> bool {
        self.first <= self.last && self.last < HASH_SLOTS
    }
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for SlotRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let range = match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|slot| (slot, slot)),
        };
        let range = range.map(|(first, last)| Self { first, last }).filter(|range| range.is_valid());
        range.ok_or_else(|| {
            format!("`{text}` is no range of hash slots, such as 0-4095, up to {}", HASH_SLOTS - 1)
        })
    }
}

/// A range on its way from one shard to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// Its number: the version of the map that has it first.
    pub number: u64,
    /// The slots.
    pub range: SlotRange,
    /// The source.
    pub from: u32,
    /// The destination.
    pub to: u32,
}

/// How a move ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// Why it was given up; empty if it was done.
    pub reason: String,
}

/// Why a move cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveRefused {
    /// See there.
    #[error("shard {shard} is none of the store's {shards}")]
    NoShard {
        /// The shard.
        shard: u32,
        /// How many there are.
        shards: u32,
    },
    /// Nothing is to be done.
    #[error("source and destination are both shard {shard}")]
    SameShard {
        /// The shard.
        shard: u32,
    },
    /// Give the slots that the source has, as `farcall kv status` shows them.
    #[error("hash slot {slot} is shard {owner}'s")]
    NotOfSource {
        /// The first slot that is not the source's.
        slot: u32,
        /// Whose it is.
        owner: u32,
    },
    /// Ask again when that move has ended.
    #[error("shard {shard} takes part in another move, of slots {range}")]
    Busy {
        /// The shard.
        shard: u32,
        /// What moves.
        range: SlotRange,
    },
    /// Nothing is to be done.
    #[error("shard {shard} has no hash slots")]
    NoSlots {
        /// The shard.
        shard: u32,
    },
}

/// Which shard has which hash slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    pub(super) version: u64,
    pub(super) shards: u32,
    /// The shard of each slot.
    pub(super) owners: Box<[u16]>,
    moves: Vec<SlotMove>,
    pub(super) spreads: Vec<Spread>,
    pub(super) taken: Vec<Taken>,
    ended: Vec<Ended>,
}

impl SlotMap {
    /// The map that follows from the number of shards, in version 0.
    ///
    /// # Panics
    /// When there are none, or too many.
    pub fn of(shards: u32) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shards), "bounds of the caller's making");
        let owners = (0..HASH_SLOTS).map(|slot| shard_of_slot(slot, shards) as u16).collect();
        let (moves, ended) = (Vec::new(), Vec::new());
        Self { version: 0, shards, owners, moves, spreads: Vec::new(), taken: Vec::new(), ended }
    }

    /// Rises with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many shards the store has.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// The shard that has a slot.
    #[inline]
    pub fn owner(&self, slot: u32) -> u32 {
        self.owners[slot as usize].into()
    }

    /// The moves in progress.
    pub fn moves(&self) -> &[SlotMove] {
        &self.moves
    }

    /// How a move ended, if it is one of the last that did.
    pub fn ended(&self, number: u64) -> Option<&Ended> {
        self.ended.iter().find(|ended| ended.number == number)
    }

    /// Whether slots may have changed their owners since an earlier version, even if they are back.
    pub fn moved_since(&self, before: &Self) -> bool {
        let mut done = self.ended.iter().filter(|ended| ended.reason.is_empty());
        // More than are remembered may have ended.
        let is_forgotten = self.version.abs_diff(before.version) > ENDED_MAX as u64;
        is_forgotten || self.owners != before.owners || done.any(|ended| before.ended(ended.number).is_none())
    }

    /// The ranges, each as long as can be, and their shards.
    pub fn ranges(&self) -> Vec<(SlotRange, u32)> {
        let mut ranges: Vec<(SlotRange, u32)> = Vec::new();
        for slot in 0..HASH_SLOTS {
            let owner = self.owner(slot);
            match ranges.last_mut() {
                Some((range, shard)) if *shard == owner => range.last = slot,
                _ => ranges.push((SlotRange { first: slot, last: slot }, owner)),
            }
        }
        ranges
    }

    /// The next version, in which a move is in progress, and its number.
    pub fn begin(&self, range: SlotRange, from: u32, to: u32) -> Result<(Self, u64), MoveRefused> {
        let shards = self.shards;
        if let Some(shard) = [from, to].into_iter().find(|shard| *shard >= shards) {
            return Err(MoveRefused::NoShard { shard, shards });
        }
        if from == to {
            return Err(MoveRefused::SameShard { shard: from });
        }
        if let Some(slot) = (range.first..=range.last).find(|slot| self.owner(*slot) != from) {
            return Err(MoveRefused::NotOfSource { slot, owner: self.owner(slot) });
        }
        [from, to].into_iter().try_for_each(|shard| self.is_free(shard))?;
        let mut next = self.next();
        next.moves.push(SlotMove { number: next.version, range, from, to });
        let number = next.version;
        Ok((next, number))
    }

    /// The next version, in which a move is done; `None` if it is not in progress.
    pub fn done(&self, number: u64) -> Option<Self> {
        let done = self.moves.iter().find(|it| it.number == number)?;
        let mut next = self.next();
        (done.range.first..=done.range.last).for_each(|slot| next.owners[slot as usize] = done.to as u16);
        next.end(number, "");
        Some(next)
    }

    /// The next version, in which a move, or a spread, is given up; `None` if it is not in progress.
    pub fn given_up(&self, number: u64, reason: &str) -> Option<Self> {
        let moves = self.moves.iter().map(|it| it.number);
        moves.chain(self.spreads.iter().map(|it| it.number)).find(|it| *it == number)?;
        let mut next = self.next();
        next.end(number, reason);
        Some(next)
    }

    /// The number of a move or a spread in which a shard takes part, if there is one.
    pub fn number_of(&self, shard: u32) -> Option<u64> {
        let of_move = self.moves.iter().find(|it| it.from == shard || it.to == shard).map(|it| it.number);
        of_move.or_else(|| self.spreads.iter().find(|it| it.has(shard)).map(|it| it.number))
    }

    /// Checks that a shard takes part in nothing.
    pub(super) fn is_free(&self, shard: u32) -> Result<(), MoveRefused> {
        let moving = self.moves.iter().find(|it| it.from == shard || it.to == shard).map(|it| it.range);
        let spread = || self.spreads.iter().find(|it| it.has(shard)).map(|it| self.range_of(it.from));
        moving.or_else(spread).map_or(Ok(()), |range| Err(MoveRefused::Busy { shard, range }))
    }

    /// The first range of a shard that has one.
    fn range_of(&self, shard: u32) -> SlotRange {
        let found = self.ranges().into_iter().find(|(_, owner)| *owner == shard);
        found.map_or(SlotRange::ALL, |(range, _)| range)
    }

    pub(super) fn next(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    pub(super) fn end(&mut self, number: u64, reason: &str) {
        self.moves.retain(|it| it.number != number);
        self.spreads.retain(|it| it.number != number);
        let plain = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut reason: String = plain.collect();
        let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
        reason.truncate(end.unwrap_or(0));
        self.ended.push(Ended { number, reason: reason.trim().to_owned() });
        let more = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.drain(..more);
    }

    /// The text.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::new();
        let mut line = |line: fmt::Arguments<'_>| writeln!(text, "{line}").expect("text takes any length");
        line(format_args!("{TITLE}"));
        line(format_args!("version {}", self.version));
        line(format_args!("shards {}", self.shards));
        for (SlotRange { first, last }, shard) in self.ranges() {
            line(format_args!("range {first} {last} {shard}"));
        }
        for SlotMove { number, range: SlotRange { first, last }, from, to } in &self.moves {
            line(format_args!("move {number} {first} {last} {from} {to}"));
        }
        spread::encode(self, &mut line);
        for Ended { number, reason } in &self.ended {
            line(format_args!("ended {number} {reason}"));
        }
        let crc = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc {crc:08x}").expect("text takes any length");
        text.into_bytes()
    }

    /// Reads the text; `None` if it is damaged, or of another version of the format.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let crc = u32::from_str_radix(last.strip_prefix("crc ")?, 16).ok()?;
        if crc32c::crc32c(&text.as_bytes()[..body.len() + 1]) != crc {
            return None;
        }
        let mut lines = body.lines().peekable();
        if lines.next()? != TITLE {
            return None;
        }
        let version = lines.next()?.strip_prefix("version ")?.parse().ok()?;
        // There must be a next one.
        if version == u64::MAX {
            return None;
        }
        let shards = lines.next()?.strip_prefix("shards ")?.parse().ok()?;
        if !(1..=SHARDS_MAX).contains(&shards) {
            return None;
        }
        let mut map = Self { version, ..Self::of(shards) };
        let mut next_slot = 0;
        while let Some(range) = lines.next_if(|line| line.starts_with("range ")) {
            let [first, last, shard] = numbers(range)?;
            let range = range_of(first, last)?;
            if range.first != next_slot || shard >= u64::from(shards) {
                return None;
            }
            map.owners[range.first as usize..=range.last as usize].fill(shard as u16);
            next_slot = range.last + 1;
        }
        if next_slot != HASH_SLOTS {
            return None;
        }
        while let Some(line) = lines.next_if(|line| line.starts_with("move ")) {
            let [number, first, last, from, to] = numbers(line)?;
            let range = range_of(first, last)?;
            let shard = |shard: u64| u32::try_from(shard).ok();
            let (begun, _) = map.begin(range, shard(from)?, shard(to)?).ok()?;
            let begun = begun.moves.last().copied()?;
            if number > version || number == 0 || map.moves.iter().any(|other| other.number == number) {
                return None;
            }
            map.moves.push(SlotMove { number, ..begun });
        }
        spread::decode(&mut lines, &mut map)?;
        for line in lines {
            let (number, reason) = line.strip_prefix("ended ")?.split_once(' ')?;
            let number = number.parse().ok()?;
            map.ended.push(Ended { number, reason: reason.to_owned() });
        }
        (map.ended.len() <= ENDED_MAX).then_some(map)
    }
}

pub(super) fn range_of(first: u64, last: u64) -> Option<SlotRange> {
    let range = SlotRange { first: u32::try_from(first).ok()?, last: u32::try_from(last).ok()? };
    range.is_valid().then_some(range)
}

/// The numbers behind the first word of a line.
pub(super) fn numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let mut words = line.split(' ').skip(1).map(|word| word.parse().ok());
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()??;
    }
    words.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: SlotRange = SlotRange { first: 100, last: 199 };

    #[test]
    fn slots_that_were_elsewhere_for_a_while_have_moved() {
        let map = SlotMap::of(4);
        let (begun, number) = map.begin(RANGE, 0, 3).expect("shard 0 has it");
        assert!(!begun.moved_since(&map) && !map.moved_since(&map), "it has only begun");
        let given_up = begun.given_up(number, "a reason").expect("it is in progress");
        assert!(!given_up.moved_since(&map) && !given_up.moved_since(&begun));
        let done = begun.done(number).expect("it is in progress");
        assert!(done.moved_since(&map) && done.moved_since(&begun) && !done.moved_since(&done));
        let (begun, number) = done.begin(RANGE, 3, 0).expect("shard 3 has it");
        assert!(!begun.moved_since(&done));
        let back = begun.done(number).expect("it is in progress");
        assert_eq!(back.ranges(), map.ranges());
        assert!(back.moved_since(&map) && back.moved_since(&done));
        let mut later = back.clone();
        for _ in 0..ENDED_MAX {
            let (begun, number) = later.begin(RANGE, 0, 1).expect("shard 0 has it");
            later = begun.given_up(number, "a reason").expect("it is in progress");
        }
        assert!(later.moved_since(&back), "so much later it cannot be known");
    }

    #[test]
    fn a_move_is_done_or_is_not() {
        let map = SlotMap::of(4);
        let (begun, number) = map.begin(RANGE, 0, 3).expect("shard 0 has them");
        assert_eq!((begun.version(), begun.owner(150)), (1, 0), "nobody answers otherwise than before");
        let done = begun.done(number).expect("it is in progress");
        assert_eq!((done.owner(99), done.owner(100), done.owner(199), done.owner(200)), (0, 3, 3, 0));
        assert_eq!(done.ended(number).map(|ended| &*ended.reason), Some(""));
        assert_eq!(done.done(number), None, "once");
        let given_up = begun.given_up(number, "the\nend").expect("it is in progress");
        assert_eq!((given_up.owner(150), given_up.moves().len()), (0, 0));
        assert_eq!(given_up.ended(number).map(|ended| &*ended.reason), Some("the end"));
        let back = done.begin(RANGE, 3, 1).expect("shard 3 has them now");
        assert_eq!(back.0.done(back.1).map(|map| map.owner(100)), Some(1));
    }

    #[test]
    fn what_cannot_move_is_refused() {
        let map = SlotMap::of(2);
        assert_eq!(map.begin(RANGE, 0, 2).err(), Some(MoveRefused::NoShard { shard: 2, shards: 2 }));
        assert_eq!(map.begin(RANGE, 0, 0).err(), Some(MoveRefused::SameShard { shard: 0 }));
        assert_eq!(map.begin(RANGE, 1, 0).err(), Some(MoveRefused::NotOfSource { slot: 100, owner: 0 }));
        let (begun, _) = map.begin(RANGE, 0, 1).expect("shard 0 has them");
        let other = SlotRange { first: 0, last: 0 };
        assert_eq!(begun.begin(other, 0, 1).err(), Some(MoveRefused::Busy { shard: 0, range: RANGE }));
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it() {
        let (begun, number) = SlotMap::of(3).begin(RANGE, 0, 1).expect("shard 0 has them");
        let mut map = begun.given_up(number, "why not").expect("it is in progress");
        for _ in 0..ENDED_MAX + 2 {
            let (begun, number) = map.begin(RANGE, 0, 2).expect("nothing else moves");
            assert_eq!(SlotMap::decode(&begun.encode()), Some(begun.clone()));
            map = begun.given_up(number, "").expect("it is in progress");
        }
        let text = map.encode();
        assert_eq!(SlotMap::decode(&text), Some(map));
        assert!((0..text.len()).all(|bytes| SlotMap::decode(&text[..bytes]).is_none()));
        let flipped = |at: usize| {
            let mut text = text.clone();
            text[at] ^= 1;
            SlotMap::decode(&text)
        };
        assert!((0..text.len()).all(|at| flipped(at).is_none()));
    }

    #[test]
    fn a_map_without_a_next_version_is_none() {
        let map = SlotMap { version: u64::MAX - 1, ..SlotMap::of(2) };
        assert_eq!(SlotMap::decode(&map.encode()), Some(map.clone()));
        assert_eq!(SlotMap::decode(&map.next().encode()), None);
    }

    #[test]
    fn ranges_are_read_as_people_write_them() {
        assert_eq!("0-16383".parse(), Ok(SlotRange { first: 0, last: 16_383 }));
        assert_eq!("7".parse(), Ok(SlotRange { first: 7, last: 7 }));
        for text in ["", "-", "2-1", "0-16384", "a-b", "1-2-3"] {
            assert!(text.parse::<SlotRange>().is_err(), "{text}");
        }
    }
}
