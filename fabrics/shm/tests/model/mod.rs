//! The lock-free protocols of shared memory as programs of two threads, for whichever model checker runs
//! them.
//!
//! A program panics when a reader sees anything that was not written for it, and hangs, which the checkers
//! report, when something never arrives. Each can be run with weaker memory orders than the drivers use: then
//! it must fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use farcall_driver::{RECORD_ALIGN, RUNWAY_BYTES};
use farcall_shm::model::{Progress, Runway, SleepWord, Words, announce, must_ring, published, withdraw};

use crate::checker::{AtomicU32, AtomicU64, Cell, Condvar, Mutex, fence, spawn, yield_now};

/// What an interior line of a record holds where a flag would be: never a flag that the reader may believe.
const GARBAGE: u64 = u64::MAX;

/// Which memory orders the words use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Orders {
    /// As the drivers do.
    Right,
    /// Relaxed, whatever is asked for.
    #[cfg_attr(shuttle, allow(dead_code, reason = "random schedules are of one order of memory only"))]
    Weak,
}

impl Orders {
    fn of(self, order: Ordering) -> Ordering {
        if self == Self::Right { order } else { Ordering::Relaxed }
    }
}

/// Lines of shared memory: a word and a payload each.
pub struct Lines {
    words: Vec<AtomicU64>,
    payloads: Vec<Cell>,
    orders: Orders,
}

impl Lines {
    pub fn new(lines: usize, orders: Orders) -> Self {
        let words = (0..lines).map(|_| AtomicU64::new(0)).collect();
        Self { words, payloads: (0..lines).map(|_| Cell::new()).collect(), orders }
    }
}

impl Words for Lines {
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.words[offset / RECORD_ALIGN].load(self.orders.of(order))
    }

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.words[offset / RECORD_ALIGN].store(value, self.orders.of(order));
    }
}

fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        yield_now();
    }
}

/// One producer and one consumer: `records` records of one to `lines_max` lines over a ring of `lines` lines.
pub fn records_pass(lines: usize, records: usize, lines_max: usize, orders: Orders) {
    let ring = Arc::new(Lines::new(lines, orders));
    let released = Arc::new(AtomicU64::new(0));
    let producer = {
        let (ring, released) = (Arc::clone(&ring), Arc::clone(&released));
        spawn(move || produce(&ring, &released, records, lines_max))
    };
    let mut head = 0;
    for record in 0..records {
        let length = lines_of(record, lines_max);
        let start = start_of(head, length, lines);
        let bytes = until(|| published(&*ring, start % lines * RECORD_ALIGN).expect("a flag of ours"));
        assert_eq!(bytes, length * RECORD_ALIGN, "record {record}");
        for line in start..start + length {
            assert_eq!(ring.payloads[line % lines].read(), record as u64, "record {record}");
        }
        head = start + length;
        released.store(head as u64, Ordering::Release);
    }
    producer.join().expect("the producer ends");
}

fn produce(ring: &Lines, released: &AtomicU64, records: usize, lines_max: usize) {
    let lines = ring.words.len();
    let mut runway = Runway::new(lines * RECORD_ALIGN);
    let mut tail = 0;
    for record in 0..records {
        let length = lines_of(record, lines_max);
        let next = start_of(tail + length, lines_of(record + 1, lines_max), lines);
        let room_needed = next + RUNWAY_BYTES / RECORD_ALIGN - lines.min(next + RUNWAY_BYTES / RECORD_ALIGN);
        until(|| (released.load(Ordering::Acquire) as usize >= room_needed).then_some(()));
        for line in tail..tail + length {
            ring.payloads[line % lines].write(record as u64);
            if line > tail {
                ring.words[line % lines].store(GARBAGE, Ordering::Relaxed);
            }
        }
        runway.publish(ring, tail % lines * RECORD_ALIGN, length * RECORD_ALIGN, next % lines * RECORD_ALIGN);
        tail = next;
        if record % 2 == 0 {
            runway.tell(ring, Progress::new(0, RECORD_ALIGN));
        }
        // The next record, ahead of its time where its place is free by now.
        let length = lines_of(record + 1, lines_max);
        let end = next + length + RUNWAY_BYTES / RECORD_ALIGN;
        if released.load(Ordering::Acquire) as usize + lines >= end {
            while runway.lengthen(ring, length * RECORD_ALIGN) {}
        }
    }
}

fn lines_of(record: usize, lines_max: usize) -> usize {
    1 + (record + 1) % lines_max
}

/// Records do not cross the end of the ring: one that would starts at its beginning.
fn start_of(position: usize, length: usize, lines: usize) -> usize {
    if position % lines + length > lines { position.next_multiple_of(lines) } else { position }
}

/// A block is lent by a record, read, returned by a record of the opposite ring, and written again.
pub fn a_block_is_used_again(rounds: usize, orders: Orders) {
    let (there, back) = (Arc::new(Lines::new(8, orders)), Arc::new(Lines::new(8, orders)));
    let block = Arc::new(Cell::new());
    let borrower = {
        let (there, back, block) = (Arc::clone(&there), Arc::clone(&back), Arc::clone(&block));
        spawn(move || {
            let mut runway = Runway::new(8 * RECORD_ALIGN);
            for round in 0..rounds {
                until(|| published(&*there, round % 8 * RECORD_ALIGN).expect("a flag of ours"));
                assert_eq!(block.read(), round as u64 + 1, "what was lent in this round");
                publish_line(&mut runway, &back, round);
            }
        })
    };
    let mut runway = Runway::new(8 * RECORD_ALIGN);
    for round in 0..rounds {
        block.write(round as u64 + 1);
        publish_line(&mut runway, &there, round);
        until(|| published(&*back, round % 8 * RECORD_ALIGN).expect("a flag of ours"));
    }
    borrower.join().expect("the borrower ends");
}

fn publish_line(runway: &mut Runway, ring: &Lines, position: usize) {
    runway.publish(ring, position % 8 * RECORD_ALIGN, RECORD_ALIGN, (position + 1) % 8 * RECORD_ALIGN);
}

/// The word in which a sleeper announces itself, with or without the fences.
struct Announcement {
    word: AtomicU32,
    orders: Orders,
}

impl SleepWord for Announcement {
    fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.word.swap(value, order)
    }

    fn full_fence(&self) {
        if self.orders == Orders::Right {
            fence(Ordering::SeqCst);
        }
    }
}

/// A consumer that sleeps whenever there is nothing, and a producer that rings when it must.
pub fn no_wake_up_is_lost(rounds: usize, orders: Orders) {
    let work = Arc::new(AtomicU64::new(0));
    let announcement = Arc::new(Announcement { word: AtomicU32::new(0), orders });
    let bell = Arc::new((Mutex::new(false), Condvar::new()));
    let producer = {
        let (work, announcement, bell) = (Arc::clone(&work), Arc::clone(&announcement), Arc::clone(&bell));
        spawn(move || {
            for round in 1..=rounds {
                work.store(round as u64, Ordering::Release);
                if must_ring(&*announcement) {
                    *bell.0.lock().expect("no panic") = true;
                    bell.1.notify_one();
                }
            }
        })
    };
    while work.load(Ordering::Acquire) < rounds as u64 {
        let seen = work.load(Ordering::Acquire);
        announce(&*announcement);
        if work.load(Ordering::Acquire) == seen && seen < rounds as u64 {
            let mut rung = bell.0.lock().expect("no panic");
            while !*rung {
                rung = bell.1.wait(rung).expect("no panic");
            }
        }
        withdraw(&*announcement);
        *bell.0.lock().expect("no panic") = false;
    }
    producer.join().expect("the producer ends");
}
