//! Which hash slots a shard has, and what it does while ranges of them move.

use std::sync::Arc;

use super::{Answer, NotMine, Recorded, Shard};
use crate::durable::{Durable, Level, When};
use crate::placement::{
    Exporter, ImportHeader, ImportItem, ImportItems, SlotMap, SlotRange, SlotSet, TakenClient,
};
use crate::store::{CollectionError, PageLimits, ScanFrom, ScanNext, WriteError};
use crate::wire::{Code, HASH_SLOTS, Malformed, hash_slot, shard_of_slot};
use crate::{Name, TableId};

/// Entries that are looked at in a turn for objects that are another shard's now.
const DROP_LOOKS: usize = 256;

/// What is recorded of a message is at most this much longer, where it has short elements of collections.
const RECORDS_PER_MESSAGE: usize = 4;

/// What the record of a client, or of a result without its answer, takes at most.
const RESULT_BYTES: usize = 32;

/// Where the shard is that drops what is not its own.
#[derive(Debug)]
struct Dropping {
    /// Tables that are left, the one that is walked last.
    tables: Vec<TableId>,
    from: u64,
}

/// Slots on their way to this shard: by a move, or a part of a spread.
#[derive(Debug)]
struct Incoming {
    /// The number of the move, or of the spread.
    number: u64,
    slots: SlotSet,
}

/// A shard's part of a map.
#[derive(Debug)]
pub(super) struct Placement {
    map: Arc<SlotMap>,
    /// Nobody reads or writes these: they are about to be another shard's.
    frozen: Option<SlotRange>,
    /// What is on its way here.
    incoming: Option<Incoming>,
    /// The number of the last import of it that was taken over.
    taken_page: u64,
    /// Everything of it is here: no table may be emptied until it has ended.
    is_sealed: bool,
    dropping: Option<Dropping>,
}

impl Shard {
    /// Has the slots that a map says, unless it knows a later one.
    pub fn adopt(&mut self, map: &Arc<SlotMap>) {
        let before = self.placement.as_deref();
        if before.is_some_and(|before| before.map.version() >= map.version()) {
            return;
        }
        let incoming = map.incoming(self.shard).map(|(number, slots)| Incoming { number, slots });
        let own = self.shard;
        let number = incoming.as_ref().map(|it| it.number);
        let has_lost = |slot: u32| {
            let had = before.map_or(own, |before| before.map.owner(slot));
            had == own && map.owner(slot) != own
        };
        // What a move left that was given up, and what this process or the one before it has lost.
        let had_incoming = before.and_then(|before| before.incoming.as_ref());
        let was_sealed = before.is_some_and(|before| before.is_sealed);
        let taken_page = before.map_or(0, |before| before.taken_page);
        let is_elsewhere = |it: &Incoming| (0..HASH_SLOTS).any(|at| it.slots.has(at) && map.owner(at) != own);
        let is_left = had_incoming.is_some_and(|it| number != Some(it.number) && is_elsewhere(it));
        let is_same = had_incoming.map(|it| it.number) == number;
        let drops = is_left || map.version() > 0 && (0..HASH_SLOTS).any(has_lost);
        let mut others = SlotSet::default();
        (0..HASH_SLOTS).filter(|slot| map.owner(*slot) != own).for_each(|slot| others.insert(slot));
        self.store.hide_slots(if map.version() > 0 { others } else { SlotSet::default() });
        let is_going = |range: &SlotRange| map.moves().iter().any(|it| it.from == own && it.range == *range);
        let (frozen, dropping) = match self.placement.take() {
            Some(placement) => (placement.frozen.filter(is_going), placement.dropping),
            None => (None, None),
        };
        let dropping = if drops { Some(self.all_tables()) } else { dropping };
        let map = Arc::clone(map);
        if !is_same {
            self.store.watch_slots(incoming.as_ref().map(|_| (SlotRange::ALL, false)));
        }
        let is_sealed = is_same && was_sealed;
        let taken_page = if is_same { taken_page } else { 0 };
        let placement = Placement { map, frozen, incoming, taken_page, is_sealed, dropping };
        self.placement = Some(Box::new(placement));
    }

    fn all_tables(&self) -> Dropping {
        Dropping { tables: self.table_ids().collect(), from: 0 }
    }

    fn table_ids(&self) -> impl Iterator<Item = TableId> {
        self.store.table_names().filter_map(|name| TableId::of(name).ok())
    }

    /// The map, as far as the shard knows it.
    pub fn map(&self) -> Arc<SlotMap> {
        self.placement.as_ref().map_or_else(|| Arc::new(SlotMap::of(self.shards)), |it| Arc::clone(&it.map))
    }

    /// Changes with the map.
    #[inline]
    pub(crate) fn map_version(&self) -> u64 {
        self.placement.as_ref().map_or(0, |placement| placement.map.version())
    }

    /// The shard that has a slot.
    #[inline]
    pub(crate) fn owner(&self, slot: u32) -> u32 {
        match &self.placement {
            None => shard_of_slot(slot, self.shards),
            Some(placement) => placement.map.owner(slot),
        }
    }

    /// Whether a slot is about to be another shard's, or this one's: nobody reads or writes it for a moment.
    #[inline]
    pub(crate) fn is_frozen(&self, slot: u32) -> bool {
        let Some(placement) = &self.placement else { return false };
        let sealed = placement.incoming.as_ref().filter(|_| placement.is_sealed);
        placement.frozen.is_some_and(|range| range.has(slot)) || sealed.is_some_and(|it| it.slots.has(slot))
    }

    /// Checks that a key is this shard's, and may be used now.
    #[inline]
    pub(super) fn has_key(&self, key: &[u8]) -> Result<(), NotMine> {
        // One shard has everything; then nobody needs the slot.
        if self.shards == 1 {
            return Ok(());
        }
        let slot = hash_slot(key);
        match self.owner(slot) {
            _ if self.is_frozen(slot) => Err(NotMine::Frozen),
            own if own == self.shard => Ok(()),
            other => Err(NotMine::Of(other)),
        }
    }

    /// Whether no table may be emptied for a moment: what is on its way would not be.
    #[inline]
    pub(crate) fn holds_tables(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.frozen.is_some() || placement.is_sealed)
    }

    /// A page that would have objects of a frozen range is not given: another shard may have newer ones.
    pub(super) fn may_scan(&self) -> Result<(), Code> {
        match self.placement.as_ref().and_then(|placement| placement.frozen) {
            Some(_) => Err(Code::SlotsMoving),
            None => Ok(()),
        }
    }

    /// Notes from now on what is written of a range, which is to be copied.
    pub(crate) fn begin_export(&mut self, range: SlotRange) -> Exporter {
        self.store.watch_slots(Some((range, true)));
        let durable: Vec<_> =
            self.table_ids().filter(|table| self.level_of(*table) != Level::Memory).collect();
        Exporter::new(range, durable)
    }

    /// The range is not copied any more, and thaws.
    pub(crate) fn end_export(&mut self) {
        self.store.watch_slots(None);
        if let Some(placement) = &mut self.placement {
            placement.frozen = None;
        }
    }

    /// From now on nobody reads or writes a range; gives the group of the log that has all that was done.
    pub(crate) fn freeze(&mut self, range: SlotRange) -> u64 {
        if let Some(placement) = &mut self.placement {
            placement.frozen = Some(range);
        }
        self.group_of_all()
    }

    /// A table in memory alone that has objects of a range.
    pub(crate) fn memory_table_in(&self, range: SlotRange) -> Option<String> {
        let names = self.store.table_names().filter_map(|name| Some((name, TableId::of(name).ok()?)));
        let in_memory = names.filter(|(_, table)| {
            self.level_of(*table) == Level::Memory && self.store.table_objects(*table) > 0
        });
        in_memory
            .map(|(name, _)| name.to_owned())
            .find(|name| TableId::of(name).is_ok_and(|table| self.has_any_in(table, range)))
    }

    fn has_any_in(&self, table: TableId, range: SlotRange) -> bool {
        let (mut from, mut has_any) = (0, false);
        loop {
            let limits = PageLimits { bytes: usize::MAX, looks: DROP_LOOKS };
            let next = self.store.scan_hidden(table, ScanFrom::Hash(from), limits, |object| {
                has_any |= range.has(hash_slot(object.key()));
            });
            match next {
                Ok(ScanNext::Hash(next)) if !has_any => from = next,
                _ => return has_any,
            }
        }
    }

    /// Deletes some objects that are another shard's, and records that; says whether there may be more.
    pub(crate) fn drop_others(&mut self) -> bool {
        let Some(placement) = &mut self.placement else { return false };
        let (Some(dropping), map) = (&mut placement.dropping, Arc::clone(&placement.map)) else {
            return false;
        };
        let Some(&table) = dropping.tables.last() else {
            placement.dropping = None;
            return false;
        };
        let (from, own) = (dropping.from, self.shard);
        let mut keys = Vec::new();
        let limits = PageLimits { bytes: usize::MAX, looks: DROP_LOOKS };
        let next = self.store.scan_hidden(table, ScanFrom::Hash(from), limits, |object| {
            if map.owner(hash_slot(object.key())) != own {
                keys.push(object.key().to_vec());
            }
        });
        for key in keys {
            let Ok(name) = Name::new(table, &key) else { continue };
            let is_admitted = match &mut self.durable {
                Some(durable) => durable.admit(Durable::DELETE_BYTES_MAX, 0).is_ok(),
                None => true,
            };
            if !is_admitted {
                // In a later turn, from the same place.
                return true;
            }
            let _ = self.store.import_gone(name);
            self.record_changes();
        }
        if let Some(dropping) = self.placement.as_mut().and_then(|placement| placement.dropping.as_mut()) {
            match next {
                Ok(ScanNext::Hash(hash)) => dropping.from = hash,
                _ => {
                    dropping.tables.pop();
                    dropping.from = 0;
                }
            }
        }
        true
    }

    /// The number of the last import that was taken over.
    #[cfg(test)]
    pub(crate) fn taken_page(&self) -> u64 {
        self.placement.as_ref().map_or(0, |placement| placement.taken_page)
    }

    pub(super) fn tell_map(&self, reply: impl Answer) {
        reply.send(&self.map().encode());
    }

    /// Takes over what the source of a move has; answers when it is as safe as the tables are.
    pub(super) fn import(&mut self, message: &[u8], reply: impl Answer) {
        // A copy, because a peer may change what lies in its memory.
        let message = message.to_vec();
        let imported = ImportHeader::decode(&message).map_err(|Malformed| Code::Malformed);
        match imported.and_then(|(header, items)| self.take_over(header, items, message.len())) {
            // What was there already may not be flushed yet.
            Ok(()) => {
                let when = self.durable.as_ref().map(|durable| durable.when_all());
                self.answer_when(when.unwrap_or(When::Now), &[], reply);
            }
            Err(code) => self.refuse(reply, code),
        }
    }

    /// Takes a page over of this many bytes: it is stored and recorded as what the shard has itself.
    pub(crate) fn take_over(
        &mut self,
        header: ImportHeader,
        items: ImportItems<'_>,
        bytes: usize,
    ) -> Result<(), Code> {
        let placement = self.placement.as_ref().ok_or(Code::Malformed)?;
        let incoming = placement.incoming.as_ref().filter(|it| it.number == header.number);
        let incoming = incoming.ok_or(Code::WrongShard)?;
        if placement.dropping.is_some() {
            return Err(Code::Busy);
        }
        // The answer to it was lost: elements would be there twice.
        if header.page == placement.taken_page {
            return Ok(());
        }
        if header.page != placement.taken_page + 1 {
            return Err(Code::Malformed);
        }
        if self.store.watched().is_none_or(|watched| watched.is_emptied) {
            // What is here of it is not all that was sent.
            return Err(Code::UnknownTable);
        }
        for item in items {
            let name = item.map_err(|Malformed| Code::Malformed)?.name();
            if !incoming.slots.has(hash_slot(name.key())) {
                return Err(Code::Malformed);
            }
            if self.store.table_names().all(|table| TableId::of(table) != Ok(name.table())) {
                return Err(Code::UnknownTable);
            }
            if self.level_of(name.table()) == Level::Memory {
                return Err(Code::NoLog);
            }
        }
        self.admit(bytes * RECORDS_PER_MESSAGE, bytes * RECORDS_PER_MESSAGE)?;
        self.may_answer()?;
        // Above all versions that the log has flushed: by versions it is known what waits for a flush, and
        // what comes keeps those of the source.
        self.store.count_version(header.last_version.max(self.store.last_version()) + 1);
        if let Some(placement) = self.placement.as_mut() {
            placement.taken_page = header.page;
            placement.is_sealed |= header.is_last;
        }
        for item in items.flatten() {
            self.take_over_one(item)?;
            self.record_changes();
        }
        Ok(())
    }

    /// Takes over what another shard has recorded of a client: what it did once there is done here as well.
    /// Gives the group of the log that has it.
    pub(crate) fn take_client(&mut self, taken: &TakenClient) -> Result<u64, Code> {
        let bytes = taken.results.iter().map(|(_, answer)| RESULT_BYTES + answer.len()).sum::<usize>();
        self.admit(RESULT_BYTES + bytes, RESULT_BYTES + bytes)?;
        self.may_answer()?;
        let TakenClient { client, first, results } = taken;
        let Some(durable) = self.durable.as_mut() else { return Err(Code::NoLog) };
        if !self.results.add_client(*client) {
            return Err(Code::OutOfMemory);
        }
        let when = durable.client_added(*client);
        for (sequence, answer) in results {
            durable.record_result(*client, (*sequence, *first), answer);
            let recorded = Recorded { answer: answer.clone(), when };
            self.results.record(*client, (*sequence, *first), recorded);
        }
        Ok(match when {
            When::Now => 0,
            When::Flushed(group) => group,
        })
    }

    fn take_over_one(&mut self, item: ImportItem<'_>) -> Result<(), Code> {
        match item {
            ImportItem::Gone { name } => self.store.import_gone(name).map(drop).map_err(Code::from),
            ImportItem::Value { name, version, deadline, value } => {
                let found = self.store.get(name).map_err(Code::from)?;
                if found.is_some_and(|object| object.is_collection()) {
                    // It has a version of this store, which nobody has seen.
                    self.store.import_gone(name).map_err(Code::from)?;
                    self.record_changes();
                }
                self.store.import(name, value, (version, deadline)).map_err(Code::from)
            }
            ImportItem::Elements { name, deadline, kind, is_first, elements } => {
                if is_first {
                    self.store.import_gone(name).map_err(Code::from)?;
                    self.record_changes();
                }
                let elements = elements.iter().flatten();
                let imported = self.store.import_elements(name, (kind, deadline), elements);
                imported.map_err(|error| match error {
                    CollectionError::Write(error) => error.into(),
                    CollectionError::TooMany => WriteError::OutOfMemory.into(),
                    _ => Code::Malformed,
                })
            }
        }
    }
}
