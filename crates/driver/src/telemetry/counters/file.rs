//! The writing side of a counter file: groups come and go, their slots are reused.
//!
//! Readers are other processes that take no lock, so each slot is a small seqlock: its state word is changed
//! before the slot is rewritten and again, with the live bit set, when the slot is complete. Only opening and
//! closing a group takes this process's own lock.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::layout::{
    COUNTERS_PER_GROUP_MAX, FILE_NAME, GROUP_COUNTERS, GROUP_LABEL, GROUP_STATE, GROUPS_MAX, HEADER_CAPACITY,
    HEADER_MAGIC, HEADER_OWNER, HEADER_UNLISTED, HEADER_VERSION, LABEL_BYTES_MAX, Layout, MAGIC,
    NAME_BYTES_MAX, STATE_LIVE, UNIT_BYTES_MAX, VERSION,
};
use super::layout::{DESCRIPTION_BYTES, DOC_BYTES_MAX};
use super::memory::Memory;
use super::{Counter, CounterDescription};

/// The counters of one process, in memory that other processes of the same user can read.
///
/// A process that forks without executing another program shares its parent's file.
#[derive(Clone, Copy, Debug)]
pub struct CounterFile {
    inner: &'static Inner,
}

/// A group of counters that is listed in the file until this is dropped.
#[derive(Debug)]
pub struct CounterGroup {
    inner: &'static Inner,
    home: Home,
    counter_count: usize,
}

/// Where a group counts.
#[derive(Clone, Copy, Debug)]
enum Home {
    Slot(usize),
    /// No slot was free, or there is no file: the counts are real but nobody else sees them.
    Private(&'static [AtomicU64; COUNTERS_PER_GROUP_MAX]),
}

#[derive(Debug)]
struct Inner {
    /// `None` when the system gave no memory file.
    memory: Option<Memory>,
    layout: Layout,
    free: Mutex<Free>,
}

/// What the next group can have. Both lists only hold what some group once used or could use: they are
/// bounded by the capacity and by the largest number of private groups at a time.
#[derive(Debug)]
struct Free {
    slots: Vec<usize>,
    private: Vec<&'static [AtomicU64; COUNTERS_PER_GROUP_MAX]>,
}

impl CounterFile {
    /// This process's file, made at the first call. Without memory for it, counters still count, unseen.
    pub fn process() -> &'static Self {
        static PROCESS: OnceLock<CounterFile> = OnceLock::new();
        PROCESS.get_or_init(|| Self::create(FILE_NAME, GROUPS_MAX))
    }

    /// Makes a file with room for `capacity` groups, which stays for the life of the process.
    pub(super) fn create(name: &str, capacity: usize) -> Self {
        let layout = Layout { capacity };
        let memory = Memory::create(name, layout.file_bytes()).ok();
        if let Some(memory) = &memory {
            write_header(memory, layout);
        }
        let slots = if memory.is_some() { (0..capacity).rev().collect() } else { Vec::new() };
        let free = Mutex::new(Free { slots, private: Vec::new() });
        Self { inner: Box::leak(Box::new(Inner { memory, layout, free })) }
    }

    /// Publishes a group of zeroed counters. [`declare_counters!`](crate::declare_counters) calls this.
    ///
    /// # Panics
    /// When there are more than [`COUNTERS_PER_GROUP_MAX`] descriptions.
    pub fn open_group(&self, label: &str, descriptions: &[CounterDescription]) -> CounterGroup {
        let texts: Vec<_> = descriptions.iter().map(|one| (one.name, one.unit, one.doc)).collect();
        self.open_described(label, &texts)
    }

    /// As [`CounterFile::open_group`], of counters whose name, unit and meaning are found out while the
    /// process runs. What is too long for the file is cut.
    ///
    /// # Panics
    /// When there are more than [`COUNTERS_PER_GROUP_MAX`] descriptions.
    pub fn open_described(&self, label: &str, descriptions: &[(&str, &str, &str)]) -> CounterGroup {
        assert!(descriptions.len() <= COUNTERS_PER_GROUP_MAX, "a group has too many counters");
        let home = self.inner.take_home();
        if let (Home::Slot(slot), Some(memory)) = (home, &self.inner.memory) {
            publish(memory, self.inner.layout, slot, label, descriptions);
        }
        let group = CounterGroup { inner: self.inner, home, counter_count: descriptions.len() };
        group.counters().for_each(|counter| counter.set(0));
        group
    }

    /// The memory file, for readers in this process.
    #[cfg(test)]
    pub(super) fn memory(&self) -> Option<&'static Memory> {
        self.inner.memory.as_ref()
    }
}

impl CounterGroup {
    /// Handles to the group's counters, in the order of their descriptions.
    pub fn counters(&self) -> impl Iterator<Item = Counter> + use<> {
        let (inner, home) = (self.inner, self.home);
        (0..self.counter_count).map(move |index| Counter::new(inner.cell(home, index)))
    }
}

impl Drop for CounterGroup {
    fn drop(&mut self) {
        if let (Home::Slot(slot), Some(memory)) = (self.home, &self.inner.memory) {
            withdraw(memory, self.inner.layout, slot);
        }
        self.inner.give_home_back(self.home);
    }
}

impl Inner {
    fn take_home(&self) -> Home {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = free.slots.pop() {
            return Home::Slot(slot);
        }
        if let Some(memory) = &self.memory {
            memory.word(HEADER_UNLISTED).fetch_add(1, Ordering::Relaxed);
        }
        let private = free.private.pop();
        Home::Private(private.unwrap_or_else(|| Box::leak(Box::new([const { AtomicU64::new(0) }; _]))))
    }

    fn give_home_back(&self, home: Home) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        match home {
            Home::Slot(slot) => free.slots.push(slot),
            Home::Private(cells) => {
                free.private.push(cells);
                if let Some(memory) = &self.memory {
                    memory.word(HEADER_UNLISTED).fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn cell(&self, home: Home, index: usize) -> &'static AtomicU64 {
        match (home, &self.memory) {
            (Home::Slot(slot), Some(memory)) => memory.word(self.layout.values(slot) + index * 8),
            (Home::Slot(_), None) => unreachable!("slots are handed out only where there is a file"),
            (Home::Private(cells), _) => &cells[index],
        }
    }
}

/// The magic goes last: a reader that finds it finds a complete header.
fn write_header(memory: &Memory, layout: Layout) {
    let version_and_capacity = u64::from(VERSION) | (layout.capacity as u64) << 32;
    const { assert!(HEADER_CAPACITY == HEADER_VERSION + 4) };
    memory.word(HEADER_VERSION).store(version_and_capacity, Ordering::Relaxed);
    memory.word(HEADER_OWNER).store(u64::from(std::process::id()), Ordering::Relaxed);
    memory.word(HEADER_MAGIC).store(MAGIC, Ordering::Release);
}

/// Fills a slot that is not live and makes it live.
fn publish(memory: &Memory, layout: Layout, slot: usize, label: &str, descriptions: &[(&str, &str, &str)]) {
    let group = layout.group(slot);
    let state = memory.word(group + GROUP_STATE);
    let before = state.load(Ordering::Relaxed);
    debug_assert_eq!(before & STATE_LIVE, 0, "the slot is in use");
    // Orders the slot's withdrawal before its rewriting, for readers that still look at the former group.
    fence(Ordering::Release);
    write_text(memory, group + GROUP_LABEL, LABEL_BYTES_MAX, label);
    memory.word(group + GROUP_COUNTERS).store(descriptions.len() as u64, Ordering::Relaxed);
    for (index, (name, unit, doc)) in descriptions.iter().enumerate() {
        memory.word(layout.values(slot) + index * 8).store(0, Ordering::Relaxed);
        let place = layout.descriptions(slot) + index * DESCRIPTION_BYTES;
        write_text(memory, place, NAME_BYTES_MAX, name);
        write_text(memory, place + NAME_BYTES_MAX, UNIT_BYTES_MAX, unit);
        write_text(memory, place + NAME_BYTES_MAX + UNIT_BYTES_MAX, DOC_BYTES_MAX, doc);
    }
    state.store((before + 2) | STATE_LIVE, Ordering::Release);
}

/// Takes a slot out of the readers' view.
fn withdraw(memory: &Memory, layout: Layout, slot: usize) {
    let state = memory.word(layout.group(slot) + GROUP_STATE);
    state.store(state.load(Ordering::Relaxed) & !STATE_LIVE, Ordering::Release);
}

/// Writes `text`, cut to `length` bytes at a character, and zeros after it.
fn write_text(memory: &Memory, offset: usize, length: usize, text: &str) {
    let end = (0..=length.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = &text.as_bytes()[..end];
    let padded = text.iter().copied().chain(core::iter::repeat(0));
    for (cell, byte) in memory.bytes(offset, length).iter().zip(padded) {
        cell.store(byte, Ordering::Relaxed);
    }
}
