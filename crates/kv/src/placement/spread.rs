//! The slots of a shard whose primary is gone, on their way to several others: a part of the map.
//!
//! A *spread* is entered in two steps. First without a plan, by whoever has claimed the record of the shard:
//! from then on a process that claims it later finds the spread, and gives it up before it answers anybody.
//! Then, once the record is seen to be claimed as before, with what each of the others is to take. Each says
//! in the map when its log has its part; with the last of them all slots change their owners, at one moment.

use core::fmt;
use core::iter::Peekable;
use core::str::Lines;
use std::collections::BTreeSet;

use super::map::{MoveRefused, SlotMap, SlotRange, numbers, range_of};
use super::{SlotMove, SlotSet};
use crate::wire::HASH_SLOTS;

/// Where the log ends that is taken over. Replicas may have more, which was never acknowledged: all who take
/// a part end at the same place, so that none of them knows of a write that another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The number of the log, which all its groups have.
    pub log: u64,
    /// The last segment.
    pub segment: u64,
    /// Its frame.
    pub frame: u32,
    /// Bytes of its groups, and their CRC32C.
    pub bytes: u32,
    /// See there.
    pub crc: u32,
}

/// Slots that one shard takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadPart {
    /// The slots.
    pub range: SlotRange,
    /// The shard.
    pub to: u32,
}

/// Who takes what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadPlan {
    /// Where the log ends.
    pub end: LogEnd,
    /// All slots of the shard; some of one destination may be several ranges.
    pub parts: Vec<SpreadPart>,
    /// The destinations whose logs have their parts.
    pub ready: BTreeSet<u32>,
}

/// The slots of a shard on their way to several others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Its number: the version of the map that has it first.
    pub number: u64,
    /// The shard whose primary is gone.
    pub from: u32,
    /// The epoch in which its record was claimed for this.
    pub epoch: u64,
    /// None while that is found out.
    pub plan: Option<SpreadPlan>,
}

/// A log that others have: of the last spread of a shard that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The shard.
    pub shard: u32,
    /// The number of the spread.
    pub number: u64,
    /// Its epoch: replicas that were made before it are of that log.
    pub epoch: u64,
}

impl Spread {
    /// Whether a shard takes part.
    pub fn has(&self, shard: u32) -> bool {
        self.from == shard || self.destinations().contains(&shard)
    }

    /// Who takes parts.
    pub fn destinations(&self) -> BTreeSet<u32> {
        self.parts().iter().map(|part| part.to).collect()
    }

    /// What each takes.
    pub fn parts(&self) -> &[SpreadPart] {
        self.plan.as_ref().map_or(&[], |plan| &plan.parts)
    }

    /// Whether the log of a shard has its part.
    pub fn is_ready(&self, shard: u32) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.ready.contains(&shard))
    }

    /// The ranges that a shard takes.
    pub fn ranges_to(&self, shard: u32) -> Vec<SlotRange> {
        self.parts().iter().filter(|part| part.to == shard).map(|part| part.range).collect()
    }
}

impl SlotMap {
    /// The spreads in progress.
    pub fn spreads(&self) -> &[Spread] {
        &self.spreads
    }

    /// The last spread of a shard that was done.
    pub fn taken(&self, shard: u32) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.shard == shard)
    }

    /// The move or spread by which a shard gets slots, and which.
    pub fn incoming(&self, shard: u32) -> Option<(u64, SlotSet)> {
        let of_move = |it: &SlotMove| (it.number, SlotSet::of(it.range));
        let of_spread = |it: &Spread| {
            let ranges = it.ranges_to(shard);
            (!ranges.is_empty()).then(|| (it.number, SlotSet::of_all(&ranges)))
        };
        let moving = self.moves().iter().find(|it| it.to == shard).map(of_move);
        moving.or_else(|| self.spreads.iter().find_map(of_spread))
    }

    /// The next version, in which a spread is in progress, without a plan yet, and its number. What the shard
    /// took part in is given up: its primary is gone.
    pub fn begin_spread(&self, from: u32, epoch: u64) -> Result<(Self, u64), MoveRefused> {
        if from >= self.shards {
            return Err(MoveRefused::NoShard { shard: from, shards: self.shards });
        }
        if !self.has_slots(from) {
            return Err(MoveRefused::NoSlots { shard: from });
        }
        let mut next = self.next();
        while let Some(number) = next.number_of(from) {
            next.end(number, &format!("the primary of shard {from} is gone"));
        }
        let number = next.version;
        next.spreads.push(Spread { number, from, epoch, plan: None });
        Ok((next, number))
    }

    /// Whether a shard has any slots.
    pub fn has_slots(&self, shard: u32) -> bool {
        self.owners.iter().any(|owner| u32::from(*owner) == shard)
    }

    /// The next version, in which a spread has its plan; `None` if it is not in progress, or has one.
    pub fn plan_spread(&self, number: u64, plan: &SpreadPlan) -> Result<Option<Self>, MoveRefused> {
        let Some(at) = self.spreads.iter().position(|it| it.number == number && it.plan.is_none()) else {
            return Ok(None);
        };
        let from = self.spreads[at].from;
        for SpreadPart { to, .. } in &plan.parts {
            if *to >= self.shards {
                return Err(MoveRefused::NoShard { shard: *to, shards: self.shards });
            }
            if *to == from {
                return Err(MoveRefused::SameShard { shard: from });
            }
            self.is_free(*to)?;
        }
        for slot in 0..HASH_SLOTS {
            let takers = plan.parts.iter().filter(|part| part.range.has(slot)).count();
            if takers != usize::from(self.owner(slot) == from) {
                return Err(MoveRefused::NotOfSource { slot, owner: self.owner(slot) });
            }
        }
        let mut next = self.next();
        next.spreads[at].plan = Some(plan.clone());
        Ok(Some(next))
    }

    /// The next version, in which the log of a shard has its part of a spread; with the last part the spread
    /// is done. `None` if it is not in progress, the shard has no part of it, or has said so.
    pub fn part_ready(&self, number: u64, shard: u32) -> Option<Self> {
        let at = self.spreads.iter().position(|it| it.number == number)?;
        let destinations = self.spreads[at].destinations();
        if !destinations.contains(&shard) {
            return None;
        }
        let mut next = self.next();
        let Spread { from, epoch, plan, .. } = &mut next.spreads[at];
        let (plan, from, epoch) = (plan.as_mut()?, *from, *epoch);
        if !plan.ready.insert(shard) {
            return None;
        }
        if plan.ready == destinations {
            for SpreadPart { range, to } in &plan.parts {
                next.owners[range.first as usize..=range.last as usize].fill(*to as u16);
            }
            next.taken.retain(|taken| taken.shard != from);
            next.taken.push(Taken { shard: from, number, epoch });
            next.end(number, "");
        }
        Some(next)
    }
}

/// Writes the lines of spreads.
pub(super) fn encode(map: &SlotMap, line: &mut impl FnMut(fmt::Arguments<'_>)) {
    for Spread { number, from, epoch, plan } in &map.spreads {
        line(format_args!("spread {number} {from} {epoch}"));
        let Some(SpreadPlan { end, parts, ready }) = plan else { continue };
        let LogEnd { log, segment, frame, bytes, crc } = end;
        line(format_args!("log {log} {segment} {frame} {bytes} {crc}"));
        for SpreadPart { range: SlotRange { first, last }, to } in parts {
            line(format_args!("part {first} {last} {to}"));
        }
        for shard in ready {
            line(format_args!("ready {shard}"));
        }
    }
    for Taken { shard, number, epoch } in &map.taken {
        line(format_args!("taken {shard} {number} {epoch}"));
    }
}

/// Reads them; `None` if they make no sense.
pub(super) fn decode(lines: &mut Peekable<Lines<'_>>, map: &mut SlotMap) -> Option<()> {
    let small = |number: u64| u32::try_from(number).ok();
    while let Some(line) = lines.next_if(|line| line.starts_with("spread ")) {
        let [number, from, epoch] = numbers(line)?;
        let from = small(from)?;
        let is_known = map.moves().iter().any(|it| it.number == number)
            || map.spreads.iter().any(|it| it.number == number);
        if number == 0 || number > map.version || is_known || !map.has_slots(from) {
            return None;
        }
        map.is_free(from).ok()?;
        map.spreads.push(Spread { number, from, epoch, plan: None });
        let Some(line) = lines.next_if(|line| line.starts_with("log ")) else { continue };
        let [log, segment, frame, bytes, crc] = numbers(line)?;
        let end = LogEnd { log, segment, frame: small(frame)?, bytes: small(bytes)?, crc: small(crc)? };
        let mut plan = SpreadPlan { end, parts: Vec::new(), ready: BTreeSet::new() };
        while let Some(line) = lines.next_if(|line| line.starts_with("part ")) {
            let [first, last, to] = numbers(line)?;
            plan.parts.push(SpreadPart { range: range_of(first, last)?, to: small(to)? });
        }
        let planned = map.plan_spread(number, &plan).ok()??;
        map.spreads = planned.spreads;
        let spread = map.spreads.last_mut()?;
        let destinations = spread.destinations();
        while let Some(line) = lines.next_if(|line| line.starts_with("ready ")) {
            let [shard] = numbers(line)?;
            let ready = &mut spread.plan.as_mut()?.ready;
            if !destinations.contains(&small(shard)?) || !ready.insert(small(shard)?) {
                return None;
            }
        }
    }
    while let Some(line) = lines.next_if(|line| line.starts_with("taken ")) {
        let [shard, number, epoch] = numbers(line)?;
        let taken = Taken { shard: small(shard)?, number, epoch };
        if taken.shard >= map.shards || map.taken(taken.shard).is_some() {
            return None;
        }
        map.taken.push(taken);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: LogEnd = LogEnd { log: u64::MAX, segment: 7, frame: 3, bytes: 8192, crc: u32::MAX };

    /// The slots of shard 3 of four, in halves for shards 0 and 2.
    fn plan() -> SpreadPlan {
        let part = |first, last, to| SpreadPart { range: SlotRange { first, last }, to };
        let parts = vec![part(12_288, 14_000, 2), part(14_001, 16_383, 0)];
        SpreadPlan { end: END, parts, ready: BTreeSet::new() }
    }

    fn planned() -> (SlotMap, u64) {
        let (begun, number) = SlotMap::of(4).begin_spread(3, 9).expect("it has slots");
        (begun.plan_spread(number, &plan()).expect("they are free").expect("it has none"), number)
    }

    #[test]
    fn all_slots_change_their_owners_with_the_last_part() {
        let (map, number) = planned();
        assert_eq!(map.part_ready(number, 1), None, "it has no part");
        let first = map.part_ready(number, 0).expect("it has a part");
        assert_eq!((first.owner(16_383), first.owner(12_288)), (3, 3), "not all parts are there");
        assert_eq!(first.part_ready(number, 0), None, "once");
        let done = first.part_ready(number, 2).expect("it has a part");
        assert_eq!((done.owner(16_383), done.owner(14_000), done.owner(12_287)), (0, 2, 2));
        assert!(done.spreads().is_empty() && !done.has_slots(3) && done.moved_since(&map));
        assert_eq!(done.taken(3), Some(&Taken { shard: 3, number, epoch: 9 }));
        assert_eq!(done.part_ready(number, 2), None, "it is late");
        assert_eq!(done.begin_spread(3, 10).err(), Some(MoveRefused::NoSlots { shard: 3 }));
    }

    #[test]
    fn a_spread_that_is_given_up_changes_nothing_and_does_not_come_back() {
        let (map, number) = planned();
        let first = map.part_ready(number, 0).expect("it has a part");
        let given_up = first.given_up(number, "a test").expect("it is in progress");
        assert_eq!(given_up.ranges(), SlotMap::of(4).ranges());
        assert_eq!((given_up.part_ready(number, 2), given_up.taken(3)), (None, None));
        assert_eq!(given_up.plan_spread(number, &plan()), Ok(None));
        let (again, next) = given_up.begin_spread(3, 10).expect("it has slots");
        assert_ne!(next, number);
        let planned = again.plan_spread(next, &plan()).expect("they are free").expect("it has none");
        assert!(planned.spreads()[0].plan.as_ref().is_some_and(|plan| plan.ready.is_empty()));
    }

    #[test]
    fn a_shard_takes_part_in_one_thing_and_one_that_is_gone_in_nothing_else() {
        let (map, number) = planned();
        let range = SlotRange { first: 0, last: 9 };
        assert!(matches!(map.begin(range, 0, 1), Err(MoveRefused::Busy { shard: 0, .. })));
        let (moving, other) = SlotMap::of(4).begin(range, 0, 1).expect("shard 0 has them");
        let (begun, spread) = moving.begin_spread(3, 9).expect("it has slots");
        assert!(matches!(begun.plan_spread(spread, &plan()), Err(MoveRefused::Busy { shard: 0, .. })));
        let (gone, _) = moving.begin_spread(1, 9).expect("it has slots");
        assert!(gone.moves().is_empty() && gone.ended(other).is_some());
        let (gone, _) = map.begin_spread(2, 9).expect("it has slots");
        assert!(gone.spreads().len() == 1 && gone.ended(number).is_some(), "it was to take a part");
    }

    #[test]
    fn parts_are_all_slots_of_the_shard_and_no_others() {
        let (begun, number) = SlotMap::of(4).begin_spread(3, 9).expect("it has slots");
        let mut short = plan();
        short.parts[0].range.last -= 1;
        assert_eq!(
            begun.plan_spread(number, &short),
            Err(MoveRefused::NotOfSource { slot: 14_000, owner: 3 })
        );
        let mut own = plan();
        own.parts[0].to = 3;
        assert_eq!(begun.plan_spread(number, &own), Err(MoveRefused::SameShard { shard: 3 }));
        let mut more = plan();
        more.parts[0].range.first -= 1;
        assert_eq!(
            begun.plan_spread(number, &more),
            Err(MoveRefused::NotOfSource { slot: 12_287, owner: 2 })
        );
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it() {
        let (begun, _) = SlotMap::of(4).begin_spread(3, 9).expect("it has slots");
        let (map, number) = planned();
        let first = map.part_ready(number, 0).expect("it has a part");
        let done = first.part_ready(number, 2).expect("it has a part");
        for map in [begun, map, first, done] {
            let text = map.encode();
            assert!((0..text.len()).all(|bytes| SlotMap::decode(&text[..bytes]).is_none()));
            assert_eq!(SlotMap::decode(&text), Some(map));
        }
    }
}
