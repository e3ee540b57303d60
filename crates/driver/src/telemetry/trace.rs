//! Traces: what happened when, as records of sixteen bytes in a fixed ring.
//!
//! Recording is off until it is switched on, from any thread; then an event costs four stores. The newest
//! records win: the ring never grows and never waits. One thread writes to a ring, any thread may read it at
//! any time. A ring has no memory before it is first switched on, so that endpoints that nobody traces cost
//! nothing.
//!
//! Each layer names its own events, in a range of numbers of its own; the driver's decorators use 0x100 to
//! 0x1ff, calls and tagged messages 0x200 to 0x2ff.

use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use farcall_base::Instant;

/// The most records that a ring can have.
pub const TRACE_RECORDS_MAX: usize = 1 << 28;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it happened.
    pub time: Instant,
    /// Which operation it belongs to: a call, a packet's destination or a lane, as the event says.
    pub operation: u32,
    /// What happened.
    pub event: u16,
    /// A number that the event says more about, such as a length; too large ones are cut to the largest.
    pub detail: u16,
}

/// What an event's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDescription {
    /// The number in the records.
    pub event: u16,
    /// Its name.
    pub name: &'static str,
    /// One line for people: what happened, what the operation and the detail are.
    pub doc: &'static str,
}

/// A handle to a ring of records. Copies write to the same ring and belong on one thread at a time: two that
/// write at once lose records, and nothing else.
#[derive(Clone, Debug)]
pub struct Tracer {
    ring: Arc<Ring>,
}

#[derive(Debug)]
struct Ring {
    on: AtomicBool,
    /// How many records were ever begun: the older ones among the cells may be overwritten already.
    begun: AtomicU64,
    /// How many records were ever completed.
    completed: AtomicU64,
    /// The number of the first record that nobody has cleared.
    first: AtomicU64,
    /// How many cells there are once it has been switched on.
    records: usize,
    cells: OnceLock<Box<[[AtomicU64; 2]]>>,
}

impl Tracer {
    /// A tracer, off, that keeps the newest `records` records, rounded up to a power of two.
    ///
    /// # Panics
    /// When that is more than [`TRACE_RECORDS_MAX`].
    pub fn new(records: usize) -> Self {
        assert!(records <= TRACE_RECORDS_MAX, "a trace has at most {TRACE_RECORDS_MAX} records");
        Self {
            ring: Arc::new(Ring {
                records: records.next_power_of_two(),
                cells: OnceLock::new(),
                on: AtomicBool::new(false),
                begun: AtomicU64::new(0),
                completed: AtomicU64::new(0),
                first: AtomicU64::new(0),
            }),
        }
    }

    /// Starts or stops recording, from any thread. The first start takes the memory for the records.
    pub fn switch(&self, on: bool) {
        if on {
            self.ring.cells.get_or_init(|| (0..self.ring.records).map(|_| Default::default()).collect());
        }
        self.ring.on.store(on, Ordering::Relaxed);
    }

    /// Forgets what was recorded so far, from any thread.
    pub fn clear(&self) {
        self.ring.first.store(self.ring.completed.load(Ordering::Acquire), Ordering::Relaxed);
    }

    /// Whether records are kept now: ask before reading a clock for nothing.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.ring.on.load(Ordering::Relaxed)
    }

    /// Keeps a record, when recording is on.
    #[inline]
    pub fn record(&self, time: Instant, event: u16, operation: u32, detail: usize) {
        if self.is_on() {
            self.keep(time, event, operation, u16::try_from(detail).unwrap_or(u16::MAX));
        }
    }

    /// Keeps a record whose time was taken because recording is on.
    #[inline]
    pub fn keep(&self, time: Instant, event: u16, operation: u32, detail: u16) {
        self.ring.push([time.as_nanos(), pack(operation, event, detail)]);
    }

    /// The records kept, oldest first. Those that are overwritten while this reads are left out.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.ring.copy().into_iter().map(unpack).collect()
    }

    /// Visits the newest `count` of them, the newest first, until `visit` breaks. Those that are overwritten
    /// meanwhile are left out.
    pub fn visit_newest(&self, count: usize, mut visit: impl FnMut(TraceRecord) -> ControlFlow<()>) {
        let Some(cells) = self.ring.cells.get() else { return };
        for number in self.ring.kept(cells.len(), count).rev() {
            let words = load(cells, number);
            // Once one is overwritten, so are those before it.
            if number < self.ring.oldest_whole(cells.len()) || visit(unpack(words)).is_break() {
                return;
            }
        }
    }

    /// How many records were lost because the ring was full.
    pub fn overwritten(&self) -> u64 {
        let first = self.ring.first.load(Ordering::Relaxed);
        self.ring.completed.load(Ordering::Relaxed).saturating_sub(first + self.ring.records as u64)
    }
}

impl Ring {
    #[inline]
    fn push(&self, words: [u64; 2]) {
        let Some(cells) = self.cells.get() else { return };
        let number = self.completed.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // A reader that finds a word of the new record also finds the count that says that the old one is
        // gone.
        fence(Ordering::Release);
        let cell = &cells[number as usize & (cells.len() - 1)];
        cell[0].store(words[0], Ordering::Relaxed);
        cell[1].store(words[1], Ordering::Relaxed);
        self.completed.store(number + 1, Ordering::Release);
    }

    fn copy(&self) -> Vec<[u64; 2]> {
        let Some(cells) = self.cells.get() else { return Vec::new() };
        let kept = self.kept(cells.len(), cells.len());
        let start = kept.start;
        let copied: Vec<_> = kept.map(|number| load(cells, number)).collect();
        copied.into_iter().skip(self.oldest_whole(cells.len()).saturating_sub(start) as usize).collect()
    }

    /// The numbers of the newest `count` records that are complete and were not cleared.
    fn kept(&self, capacity: usize, count: usize) -> Range<u64> {
        let end = self.completed.load(Ordering::Acquire);
        let start = end.saturating_sub(capacity.min(count) as u64);
        start.max(self.first.load(Ordering::Relaxed)).min(end)..end
    }

    /// The number of the first record of which no cell was overwritten before it was loaded.
    fn oldest_whole(&self, capacity: usize) -> u64 {
        fence(Ordering::Acquire);
        self.begun.load(Ordering::Relaxed).saturating_sub(capacity as u64)
    }
}

/// The words of a record, which may be overwritten meanwhile.
#[inline]
fn load(cells: &[[AtomicU64; 2]], number: u64) -> [u64; 2] {
    cells[number as usize & (cells.len() - 1)].each_ref().map(|word| word.load(Ordering::Relaxed))
}

#[inline]
fn pack(operation: u32, event: u16, detail: u16) -> u64 {
    u64::from(operation) | (u64::from(event) << 32) | (u64::from(detail) << 48)
}

fn unpack([time, rest]: [u64; 2]) -> TraceRecord {
    let (operation, event, detail) = (rest as u32, (rest >> 32) as u16, (rest >> 48) as u16);
    TraceRecord { time: Instant::from_nanos(time), operation, event, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tracer: &Tracer, number: u32) {
        tracer.record(Instant::from_nanos(u64::from(number)), number as u16, number, number as usize);
    }

    #[test]
    fn nothing_is_kept_until_it_is_switched_on() {
        let tracer = Tracer::new(4);
        record(&tracer, 1);
        tracer.switch(true);
        record(&tracer, 2);
        tracer.switch(false);
        record(&tracer, 3);
        let kept = TraceRecord { time: Instant::from_nanos(2), operation: 2, event: 2, detail: 2 };
        assert_eq!(tracer.records(), [kept]);
    }

    #[test]
    fn the_newest_records_win_and_the_loss_is_told() {
        let tracer = Tracer::new(4);
        tracer.switch(true);
        (0..10).for_each(|number| record(&tracer, number));
        let operations: Vec<_> = tracer.records().iter().map(|record| record.operation).collect();
        assert_eq!((operations, tracer.overwritten()), (vec![6, 7, 8, 9], 6));
    }

    #[test]
    fn a_visit_goes_back_as_far_as_it_is_asked_to() {
        let tracer = Tracer::new(4);
        let visited = |count, last| {
            let mut visited = Vec::new();
            tracer.visit_newest(count, |record| {
                visited.push(record.operation);
                if record.operation == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            visited
        };
        assert_eq!(visited(9, 0), []);
        tracer.switch(true);
        (0..10).for_each(|number| record(&tracer, number));
        assert_eq!((visited(99, 0), visited(2, 0), visited(0, 0)), (vec![9, 8, 7, 6], vec![9, 8], vec![]));
        assert_eq!(visited(99, 8), [9, 8]);
        tracer.clear();
        record(&tracer, 10);
        assert_eq!(visited(99, 0), [10]);
    }

    #[test]
    fn what_was_cleared_is_neither_kept_nor_lost() {
        let tracer = Tracer::new(4);
        let operations = || tracer.records().iter().map(|record| record.operation).collect::<Vec<_>>();
        tracer.switch(true);
        (0..6).for_each(|number| record(&tracer, number));
        tracer.clear();
        assert_eq!((operations(), tracer.overwritten()), (vec![], 0));
        (6..9).for_each(|number| record(&tracer, number));
        assert_eq!((operations(), tracer.overwritten()), (vec![6, 7, 8], 0));
        (9..12).for_each(|number| record(&tracer, number));
        assert_eq!((operations(), tracer.overwritten()), (vec![8, 9, 10, 11], 2));
    }

    #[test]
    fn a_detail_that_is_too_large_is_cut() {
        let tracer = Tracer::new(1);
        tracer.switch(true);
        tracer.record(Instant::ZERO, 7, u32::MAX, 1 << 20);
        let kept = TraceRecord { time: Instant::ZERO, operation: u32::MAX, event: 7, detail: u16::MAX };
        assert_eq!(tracer.records(), [kept]);
    }

    #[test]
    fn a_reader_never_sees_half_a_record() {
        let tracer = Tracer::new(8);
        tracer.switch(true);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..200_000).for_each(|number| record(&tracer, number)));
            while !writer.is_finished() {
                let records = tracer.records();
                assert!(records.iter().all(|r| r.time.as_nanos() == u64::from(r.operation)), "{records:?}");
                assert!(records.is_sorted_by_key(|record| record.operation), "{records:?}");
                let mut last = u32::MAX;
                tracer.visit_newest(8, |record| {
                    assert_eq!(record.time.as_nanos(), u64::from(record.operation));
                    assert!(core::mem::replace(&mut last, record.operation) > record.operation);
                    ControlFlow::Continue(())
                });
            }
        });
        assert_eq!(tracer.records().len(), 8);
    }
}
