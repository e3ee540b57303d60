//! Records pass through the ring.

use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::pair;
use crate::conformance::until;
use crate::{
    LaneDriver, LaneFault, LaneReceiver, LaneSender, RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, Record,
    RecordKind,
};
use farcall_base::Random;

/// Records of the run between threads.
const THREADED_RECORDS: u64 = 100_000;

/// Writes and publishes a record, and rings for it until it has left.
pub(super) fn write(sender: &mut impl LaneSender, offset: usize, payload: &[u8], next_offset: usize) {
    write_as(RecordKind::Conversation, sender, offset, payload, next_offset);
}

fn write_as(
    kind: RecordKind,
    sender: &mut impl LaneSender,
    offset: usize,
    payload: &[u8],
    next_offset: usize,
) {
    let length = draft(sender, offset, payload);
    sender.publish(kind, offset, length, next_offset);
    until_it_left(sender);
}

/// What a record is part of, by its number: either, in turn.
fn kind_of(number: usize) -> RecordKind {
    if number.is_multiple_of(2) { RecordKind::Conversation } else { RecordKind::Stream }
}

/// The record at `offset`, whatever of it is read.
pub(super) fn peek(receiver: &impl LaneReceiver, offset: usize) -> Result<Option<Record<'_>>, LaneFault> {
    receiver.peek(offset, 0..usize::from(u16::MAX))
}

/// Writes a record, and says how long it is.
fn draft(sender: &mut impl LaneSender, offset: usize, payload: &[u8]) -> usize {
    let length = RECORD_HEADER_BYTES + payload.len();
    let record = sender.record(offset, length);
    assert_eq!(record.len(), payload.len(), "a record is what was asked for without the lane's header");
    record.copy_from_slice(payload);
    length
}

fn until_it_left(sender: &mut impl LaneSender) {
    until("a record leaves", || sender.ring_doorbell().then_some(()));
}

/// Waits for the record at `offset` and copies it.
pub(super) fn read(receiver: &impl LaneReceiver, offset: usize) -> Vec<u8> {
    // A record that is there is never denied.
    until("a record may be there", || receiver.may_have_record(offset).then_some(()));
    until("a record arrives", || {
        let record = peek(receiver, offset).expect("a correct peer")?;
        assert!(receiver.may_have_record(offset), "it was there a moment ago");
        let bytes = record.slice(0, record.len()).expect("the whole record").to_vec();
        // Bit by bit it is the same, whatever of it is read, up to more than there is.
        for part in [0..bytes.len(), bytes.len()..bytes.len(), bytes.len() / 2..usize::from(u16::MAX)] {
            let again = receiver.peek(offset, part).expect("a correct peer").expect("still there");
            assert_eq!(again.slice(0, again.len()), Some(&bytes[..]));
        }
        Some(bytes)
    })
}

/// Where records go: one after the other, from the start again where they would cross the end.
struct Positions {
    ring_bytes: usize,
    offset: usize,
}

impl Positions {
    /// The offset of the next record, of `payload_bytes`, and that of the one of `following_bytes` after it.
    fn next(&mut self, payload_bytes: usize, following_bytes: usize) -> (usize, usize) {
        let offset = self.offset;
        let end = (offset + RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(RECORD_ALIGN);
        let following_end = end + (RECORD_HEADER_BYTES + following_bytes).next_multiple_of(RECORD_ALIGN);
        self.offset = if following_end > self.ring_bytes { 0 } else { end };
        (offset, self.offset)
    }
}

/// Sends payloads of these lengths in lock step, and checks what arrives.
fn pass_in_lock_step<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>, lengths: impl Fn(usize) -> Vec<usize>) {
    let (mut a, b, mut at_a, at_b) = pair(make);
    let ring_bytes = at_a.sender.ring_bytes();
    assert_eq!(b.limits().ring_bytes, ring_bytes, "both ends speak of the same ring");
    let mut positions = Positions { ring_bytes, offset: 0 };
    let lengths = lengths(ring_bytes);
    for (number, pair) in lengths.windows(2).enumerate() {
        let (offset, next) = positions.next(pair[0], pair[1]);
        let payload: Vec<u8> = (0..pair[0]).map(|at| (at * 7 + number) as u8).collect();
        assert!(
            matches!(peek(&at_b.receiver, offset), Ok(None)),
            "record {number} is there before it was sent"
        );
        // For a shorter, longer or just such a record.
        let expected = lengths[number / 3 % lengths.len()] + RECORD_HEADER_BYTES;
        while number % 3 > 0 && a.prepare(&mut at_a.sender, expected) {}
        write_as(kind_of(number), &mut at_a.sender, offset, &payload, next);
        assert!(read(&at_b.receiver, offset) == payload, "record {number} of {} bytes at {offset}", pair[0]);
    }
}

/// What is written is invisible until it is published.
pub fn nothing_is_there_before_publication<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, at_b) = pair(make);
    assert!(matches!(peek(&at_b.receiver, 0), Ok(None)));
    at_a.sender.record(0, 128).fill(0xff);
    for _ in 0..1000 {
        assert!(matches!(peek(&at_b.receiver, 0), Ok(None)), "unpublished bytes are visible");
    }
    at_a.sender.publish(RecordKind::Conversation, 0, 128, 128);
    until("the record leaves", || at_a.sender.ring_doorbell().then_some(()));
    assert_eq!(read(&at_b.receiver, 0), [0xff; 128 - RECORD_HEADER_BYTES]);
    assert!(matches!(peek(&at_b.receiver, 128), Ok(None)), "only what was published is visible");
}

/// Every length around the alignment passes, empty records and very long ones too.
pub fn records_of_all_lengths_pass<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    pass_in_lock_step(make, |ring_bytes| {
        let longest = ring_bytes / 2 - RUNWAY_BYTES - RECORD_HEADER_BYTES;
        let long = [longest - 1, longest, longest - 63].into_iter().cycle().take(9);
        (0..200).chain(long).chain([0, 0]).collect()
    });
}

/// A record may be written piece by piece, with long payloads between what else is in it. Enough of them for
/// a driver that finds out which way is faster.
pub fn records_with_payloads_between_words_pass<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (mut a, _b, mut at_a, at_b) = pair(make);
    let ring_bytes = at_a.sender.ring_bytes();
    let longest = (ring_bytes / 2 - RUNWAY_BYTES - RECORD_HEADER_BYTES) / 8 * 8;
    let mut positions = Positions { ring_bytes, offset: 0 };
    let mut random = Random::new(0x9a71);
    let mut draw = || {
        let parts: Vec<usize> = (0..random.below(20)).map(|_| random.below(1100) as usize).collect();
        let words = |parts: &[usize]| parts.iter().map(|bytes| 8 + bytes.next_multiple_of(8)).sum::<usize>();
        let fits = (0..=parts.len()).rev().find(|&fits| words(&parts[..fits]) <= longest);
        let parts = parts[..fits.expect("none fits")].to_vec();
        (words(&parts), parts)
    };
    let mut following = draw();
    for number in 0..600_usize {
        let (bytes, parts) = core::mem::replace(&mut following, draw());
        let (offset, next) = positions.next(bytes, following.0);
        let mut expected = Vec::with_capacity(bytes);
        for (part, &length) in parts.iter().enumerate() {
            let (at, word) = (expected.len(), (part as u64 | (number as u64) << 32).to_le_bytes());
            at_a.sender.record(offset, RECORD_HEADER_BYTES + at + 8)[at..].copy_from_slice(&word);
            let payload: Vec<u8> = (0..length).map(|byte| (byte * 5 + part + number) as u8).collect();
            at_a.sender.write_payload(offset, at + 8, &payload);
            // Whoever has nothing else to do may look ahead while a record is open.
            a.prepare(&mut at_a.sender, RECORD_HEADER_BYTES + bytes);
            expected.extend([&word[..], &payload].concat());
            expected.resize(expected.len().next_multiple_of(8), 0);
        }
        // All of it, which the last payload need not fill.
        let length = RECORD_HEADER_BYTES + bytes;
        at_a.sender.record(offset, length);
        at_a.sender.publish(kind_of(number), offset, length, next);
        until_it_left(&mut at_a.sender);
        let mut record = read(&at_b.receiver, offset);
        // What fills payloads up to whole words is nobody's.
        let mut at = 0;
        for &length in &parts {
            at += 8 + length;
            let end = at.next_multiple_of(8);
            record[at..end].fill(0);
            at = end;
        }
        assert!(record == expected, "record {number} at {offset}, of payloads of {parts:?} bytes");
    }
}

/// Records pass at every offset where one can start, over many turns of the ring.
pub fn records_pass_at_every_offset<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    pass_in_lock_step(make, |ring_bytes| {
        let mut random = Random::new(0x0ff5e7);
        let lines = (ring_bytes / RECORD_ALIGN).min(4096);
        let odd = (0..4 * lines).map(|_| random.below(3 * RECORD_ALIGN as u64) as usize);
        core::iter::repeat_n(1, 2 * lines).chain(odd).collect()
    });
}

/// A record stays where it is until the ring comes round.
pub fn a_record_can_be_looked_at_again<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, at_b) = pair(make);
    write(&mut at_a.sender, 0, b"first", 64);
    write(&mut at_a.sender, 64, b"second", 128);
    for _ in 0..3 {
        assert_eq!(
            (read(&at_b.receiver, 64), read(&at_b.receiver, 0)),
            (b"second".to_vec(), b"first".to_vec())
        );
    }
    let record = peek(&at_b.receiver, 0).expect("a correct peer").expect("still there");
    assert_eq!((record.len(), record.is_empty(), record.word(0)), (5, false, None));
}

/// The two directions of a lane are two rings.
pub fn both_directions_are_apart<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, mut at_b) = pair(make);
    write(&mut at_a.sender, 0, b"there", 64);
    assert!(matches!(peek(&at_a.receiver, 0), Ok(None)), "a record came back to its sender");
    write(&mut at_b.sender, 0, b"and back", 64);
    assert_eq!((read(&at_b.receiver, 0), read(&at_a.receiver, 0)), (b"there".to_vec(), b"and back".to_vec()));
}

/// A batch of records is all there, each at its place.
pub fn batches_arrive_in_order<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, at_b) = pair(make);
    let records = (at_a.sender.ring_bytes() - RUNWAY_BYTES) / RECORD_ALIGN - 1;
    for number in 0..records {
        let record = at_a.sender.record(number * 64, RECORD_HEADER_BYTES + 8);
        record.copy_from_slice(&(number as u64).to_le_bytes());
        at_a.sender.publish(RecordKind::Stream, number * 64, RECORD_HEADER_BYTES + 8, (number + 1) * 64);
    }
    until("the batch leaves", || at_a.sender.ring_doorbell().then_some(()));
    for number in 0..records {
        assert_eq!(read(&at_b.receiver, number * 64), (number as u64).to_le_bytes());
    }
    assert!(matches!(peek(&at_b.receiver, records * 64), Ok(None)), "there is one record too many");
}

/// Two threads that only share the ring and a count of what was read: no record is lost, torn or early.
pub fn records_pass_between_threads<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, at_b) = pair(make);
    let ring_bytes = at_a.sender.ring_bytes();
    let in_flight_max = ((ring_bytes / 4 - RUNWAY_BYTES) / (4 * RECORD_ALIGN)).max(1) as u64;
    let payload_bytes = |number: u64| (number % 25) as usize * 8;
    let read_count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut positions = Positions { ring_bytes, offset: 0 };
            for number in 0..THREADED_RECORDS {
                let room = || (number - read_count.load(Ordering::Acquire) < in_flight_max).then_some(());
                until("the reader makes room", room);
                let (offset, next) = positions.next(payload_bytes(number), payload_bytes(number + 1));
                let payload: Vec<u8> =
                    (0..payload_bytes(number) / 8).flat_map(|_| number.to_le_bytes()).collect();
                write(&mut at_a.sender, offset, &payload, next);
            }
        });
        let receiver = &at_b.receiver;
        let mut positions = Positions { ring_bytes, offset: 0 };
        for number in 0..THREADED_RECORDS {
            let (offset, _) = positions.next(payload_bytes(number), payload_bytes(number + 1));
            let record = until("a record arrives", || peek(receiver, offset).expect("a correct peer"));
            assert_eq!(record.len(), payload_bytes(number), "the length of record {number}");
            let mut words = (0..record.len()).step_by(8).map(|at| record.word(at));
            assert!(words.all(|word| word == Some(number)), "record {number} is torn");
            read_count.store(number + 1, Ordering::Release);
        }
    });
}

/// A record that is not aligned or leaves the ring is a mistake of the caller, who is told when it is written
/// or published. The next that is right is the first that the peer sees.
pub fn records_outside_the_ring_are_refused<L: LaneDriver>(make: impl Fn(usize) -> Vec<L>) {
    let (_a, _b, mut at_a, at_b) = pair(make);
    let ring_bytes = at_a.sender.ring_bytes();
    let outside =
        [(1, 64), (32, 64), (ring_bytes, 64), (ring_bytes - 64, 65), (64, ring_bytes), (0, usize::MAX)];
    for (offset, length) in outside {
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            at_a.sender.record(offset, length).fill(0xff);
            at_a.sender.publish(RecordKind::Conversation, offset, length, 0);
        }));
        assert!(attempt.is_err(), "{length} bytes at {offset} were published");
    }
    write(&mut at_a.sender, 0, b"inside", 64);
    assert_eq!(read(&at_b.receiver, 0), b"inside");
}
