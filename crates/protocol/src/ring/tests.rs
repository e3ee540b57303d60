//! The ring against an oracle: a queue that cannot fill up wrongly.

use core::ops::Range;
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::matching::{Notice, Tag};
use farcall_base::Identity;

const RUNWAY: u64 = 256;

const DOC: &str = include_str!("../../../../docs/protocol/ring.md");

/// A ring in which both sides are here: what is between them is a queue of (position, bytes, wrap).
struct Model {
    producer: Producer,
    consumer: Consumer,
    capacity: u64,
    in_flight: VecDeque<(usize, u64, bool)>,
}

impl Model {
    fn new(capacity: u64) -> Self {
        Self {
            producer: Producer::new(capacity, RUNWAY),
            consumer: Consumer::new(capacity),
            capacity,
            in_flight: VecDeque::new(),
        }
    }

    /// Sends a record if there is room, wrapping when told to.
    fn send(&mut self, bytes: u64) -> bool {
        loop {
            match self.producer.reserve(bytes) {
                Reservation::At { offset, bytes: room } => {
                    assert_eq!(self.producer.reserve_at_once(bytes), Some(offset));
                    assert_eq!(self.producer.reserve_at_once(room as u64 + 1), None, "no more than there is");
                    assert!(room as u64 >= bytes && offset as u64 + room as u64 <= self.capacity);
                    self.assert_free(offset as u64, bytes);
                    self.in_flight.push_back((offset, bytes, false));
                    self.producer.advance(bytes);
                    return true;
                }
                Reservation::WrapAt { offset } => {
                    assert_eq!(self.producer.reserve_at_once(bytes), None);
                    self.in_flight.push_back((offset, LINE_BYTES, true));
                    self.producer.advance_to_start();
                }
                Reservation::Full => {
                    assert_eq!(self.producer.reserve_at_once(bytes), None);
                    return false;
                }
            }
        }
    }

    /// Sends a record of a line out of the reserve, if there is one; as little as that is always possible in
    /// a ring that is read.
    fn return_credit_alone(&mut self) {
        match self.producer.reserve_credit_return() {
            Reservation::At { offset, .. } => {
                self.assert_free(offset as u64, LINE_BYTES);
                self.in_flight.push_back((offset, LINE_BYTES, false));
                self.producer.advance(LINE_BYTES);
            }
            answer => assert!(!self.in_flight.is_empty(), "{answer:?}, and everything is read"),
        }
    }

    /// No record in flight may overlap with a new one.
    fn assert_free(&self, offset: u64, bytes: u64) {
        let end = offset + bytes.next_multiple_of(LINE_BYTES);
        for &(start, length, _) in &self.in_flight {
            let (start, stop) = (start as u64, start as u64 + length.next_multiple_of(LINE_BYTES));
            assert!(end <= start || stop <= offset, "{offset}..{end} overlaps {start}..{stop}");
        }
    }

    fn receive(&mut self) -> bool {
        let Some((offset, bytes, wrap)) = self.in_flight.pop_front() else { return false };
        assert_eq!(self.consumer.offset(), offset, "the consumer looks where the producer wrote");
        let advanced = if wrap { self.consumer.advance_to_start() } else { self.consumer.advance(bytes) };
        advanced.expect("an honest producer stays within its credit");
        true
    }

    fn return_credit(&mut self) {
        let lines = self.consumer.take_credit();
        self.producer.credit(lines).expect("an honest consumer returns what it read");
    }

    /// Both sides look; what goes away is not in flight, nor may the reader look there.
    fn look(&mut self) -> Option<Rest> {
        if self.consumer.look() {
            self.return_credit();
        }
        let rest = self.producer.look()?;
        let is_kept = |offset: usize| {
            let Range { start, end } = rest.kept;
            offset < rest.used_bytes
                || if start < end { (start..end).contains(&offset) } else { offset >= start || offset < end }
        };
        for &(offset, bytes, _) in &self.in_flight {
            assert!(is_kept(offset) && is_kept(offset + bytes as usize - 1), "a record in flight went away");
        }
        assert!(is_kept(self.consumer.offset()), "the place went away at which the reader looks");
        Some(rest)
    }
}

proptest! {
    #[test]
    fn records_never_overlap_and_arrive_where_they_are_expected(
        capacity_log2 in 12u32..16,
        steps in proptest::collection::vec((0u8..3, 1u64..1024), 1..2000),
    ) {
        let mut model = Model::new(1 << capacity_log2);
        for (kind, bytes) in steps {
            match kind {
                0 => { model.send(bytes); }
                1 => { model.receive(); }
                _ => model.return_credit(),
            }
        }
    }

    #[test]
    fn in_rings_of_several_laps_records_never_overlap_either(
        capacity_log2 in 19u32..22,
        steps in proptest::collection::vec((0u8..6, 1u64..65536), 1..2000),
    ) {
        let mut model = Model::new(1 << capacity_log2);
        for (kind, bytes) in steps {
            match kind {
                0 => { model.send(bytes); }
                1 => { model.send(LINE_BYTES * (1 + bytes % 8)); }
                2 => { model.return_credit_alone(); }
                3 => { model.receive(); }
                4 if bytes % 2 == 0 => { model.look(); }
                4 => { model.producer.goes_on_for(bytes); }
                _ => model.return_credit(),
            }
        }
    }

    #[test]
    fn a_drained_ring_of_several_laps_takes_the_largest_record_even_while_credits_are_withheld(
        capacity_log2 in 14u32..21,
        steps in proptest::collection::vec(
            (prop_oneof![Just(64u64), Just(65536), 1u64..65536], 0u8..4),
            1..500,
        ),
    ) {
        let mut model = Model::new(1 << capacity_log2);
        for (bytes, looks) in steps {
            if looks == 0 {
                model.look();
            }
            let bytes = bytes.min(record_bytes_max(model.capacity));
            prop_assert!(model.send(bytes), "a ring whose reader keeps up is never full");
            while model.receive() {}
            if model.consumer.credit_is_due() {
                model.return_credit();
            }
        }
    }

    #[test]
    fn a_drained_ring_takes_the_largest_record_even_while_small_credits_are_withheld(
        sizes in proptest::collection::vec(1u64..1025, 1..500),
    ) {
        let mut model = Model::new(4096);
        for bytes in sizes {
            prop_assert!(model.send(bytes), "a ring whose reader keeps up is never full");
            while model.receive() {}
            if model.consumer.credit_is_due() {
                model.return_credit();
            }
        }
    }

    #[test]
    fn lengths_of_messages_survive_the_wire(call: u32, length in prop_oneof![0u32..32_768, 0u32..1 << 29]) {
        let header = EntryHeader { kind: EntryKind::Message, call, selector: 0, length };
        prop_assert_eq!(EntryHeader::from_word(header.to_word()), Ok(header));
        let short = (length as usize <= ENTRY_LENGTH_MAX).then_some((call, length as usize));
        prop_assert_eq!(EntryHeader::tagged_message(header.to_word(), ENTRY_LENGTH_MAX), short);
    }

    #[test]
    fn headers_survive_the_wire(call: u32, selector: u16, length in 0u16..8192, kind in 0u64..8, released: u32, entries: u16) {
        let word = u64::from(call) | u64::from(selector) << 32 | u64::from(length) << 48 | kind << 61;
        match EntryHeader::from_word(word) {
            Ok(header) => prop_assert_eq!(header.to_word(), word),
            Err(_) => prop_assert!(kind == 4 && selector > 1),
        }
        let of_call = EntryHeader::from_word(word).ok().filter(|_| kind < 2);
        prop_assert_eq!(EntryHeader::of_call(word), of_call, "requests and responses, read the short way");
        let tagged = (kind == 5 && selector == 0).then_some((call, usize::from(length)));
        prop_assert_eq!(EntryHeader::tagged_message(word, ENTRY_LENGTH_MAX), tagged, "no other kind is a message, nor one that is too long for this way");
        let longer = usize::from(length).wrapping_sub(1).min(ENTRY_LENGTH_MAX);
        prop_assert!(length == 0 || EntryHeader::tagged_message(word, longer).is_none(), "nor is a longer one");
        for (series, number) in [(HeaderSeries::requests(selector), 0), (HeaderSeries::responses(selector), 1)] {
            let read = (kind == number).then_some((call, usize::from(length)));
            prop_assert_eq!(series.read(word, ENTRY_LENGTH_MAX), read, "no other kind is of a series");
            prop_assert!(length == 0 || series.read(word, longer).is_none(), "nor is a longer one");
        }
        for other in [selector.wrapping_add(1), selector ^ 0x8000] {
            prop_assert_eq!(HeaderSeries::requests(other).read(word, ENTRY_LENGTH_MAX), None, "nor has it another selector");
            prop_assert_eq!(HeaderSeries::responses(other).read(word, ENTRY_LENGTH_MAX), None);
        }
        let header = BatchHeader { released_lines: released, entries, wrap: false };
        prop_assert_eq!(BatchHeader::from_word(header.to_word()), Ok(header));
        prop_assert_eq!(BatchHeader::of_single_entry(header.to_word()), (entries == 1).then_some(released));
        let single = BatchHeader { entries: 1, ..header };
        prop_assert_eq!(BatchHeader::of_single_entry(single.to_word()), Some(released));
    }
}

/// The offsets of this many records of `bytes`, of which the peer has read all but `in_flight` when the next
/// is sent.
fn offsets(model: &mut Model, records: usize, bytes: u64, in_flight: usize) -> Vec<usize> {
    let mut offsets = Vec::new();
    for _ in 0..records {
        assert!(model.send(bytes));
        offsets.extend(model.in_flight.back().map(|&(offset, ..)| offset));
        while model.in_flight.len() > in_flight {
            model.receive();
        }
        model.return_credit();
    }
    offsets
}

#[test]
fn a_conversation_stays_in_a_lap_and_a_stream_has_the_whole_ring() {
    let (capacity, bytes) = (4 << 20, 1024);
    let mut model = Model::new(capacity);
    let mut highest =
        |in_flight| *offsets(&mut model, 20_000, bytes, in_flight).iter().max().expect("some") as u64;
    assert_eq!(highest(1), LAP_BYTES - bytes);
    assert!(highest(100) > capacity - 2 * bytes, "a hundred records are more than a quarter of a lap");
    assert!(highest(1) > capacity - 2 * bytes, "the round that was begun");
    assert_eq!(highest(1), LAP_BYTES - bytes);
    // Records of a line fill the ring to the last one.
    let mut highest =
        |in_flight| *offsets(&mut model, 200_000, LINE_BYTES, in_flight).iter().max().expect("some") as u64;
    assert_eq!((highest(2000), highest(1)), (capacity - LINE_BYTES, capacity - LINE_BYTES));
    assert_eq!(highest(1), LAP_BYTES - LINE_BYTES);
}

#[test]
fn a_quiet_writer_stays_in_a_short_lap_and_comes_back_to_it() {
    let capacity = 4 << 20;
    let mut model = Model::new(capacity);
    let mut highest = |looks_every: usize, records: usize, in_flight| {
        let mut highest = 0;
        let mut rests = Vec::new();
        for number in 0..records {
            highest = highest.max(offsets(&mut model, 1, 256, in_flight)[0]);
            if number % looks_every == 0 {
                rests.extend(model.look());
            }
        }
        (highest as u64, rests)
    };
    let short = SHORT_LAP_BYTES - 256;
    assert_eq!(highest(20, 10_000, 0), (short, Vec::new()), "fewer than a lap from look to look");
    assert_eq!(highest(usize::MAX, 10_000, 0).0, LAP_BYTES - 256, "the longest lap, after five");
    assert!(highest(usize::MAX, 40_000, 400).0 > capacity - 512, "a stream");
    let (_, rests) = highest(20, 60, 0);
    assert_eq!(rests.len(), 1, "it came to rest, once: {rests:?}");
    assert_eq!(rests[0].used_bytes as u64, SHORT_LAP_BYTES);
    assert_eq!(highest(20, 10_000, 0), (short, Vec::new()));
}

#[test]
fn a_stream_that_is_looked_at_where_the_ring_ends_is_not_quiet() {
    let (capacity, bytes) = (4 << 20, 1024);
    let mut model = Model::new(capacity);
    offsets(&mut model, 20_000, bytes, 100);
    for _ in 0..3 {
        while offsets(&mut model, 1, bytes, 100)[0] as u64 != capacity - bytes {}
        assert_eq!((model.look(), model.producer.lap_bytes() as u64), (None, LAP_BYTES), "at the end");
        offsets(&mut model, 20, bytes, 100);
        assert_eq!((model.look(), model.producer.lap_bytes() as u64), (None, LAP_BYTES), "behind it");
    }
    // One that ends there is at rest, and counts from there.
    while offsets(&mut model, 1, bytes, 100)[0] as u64 != capacity - bytes {}
    while model.receive() {}
    model.return_credit();
    assert_eq!(model.look(), None, "much was written since the last look");
    assert!(model.look().is_some());
    offsets(&mut model, 10, bytes, 0);
    assert_eq!((model.look(), model.producer.lap_bytes() as u64), (None, SHORT_LAP_BYTES), "it is quiet");
    offsets(&mut model, 40, bytes, 0);
    assert_eq!((model.look(), model.producer.lap_bytes() as u64), (None, 2 * SHORT_LAP_BYTES), "it is not");
}

#[test]
fn a_ring_is_not_at_rest_before_its_reader_says_what_it_read() {
    let mut model = Model::new(4 << 20);
    while model.send(16 << 10) {}
    assert_eq!((model.look(), model.look()), (None, None), "full, and nothing is read");
    while model.receive() {}
    assert_eq!(model.producer.look(), None, "nothing was said");
    assert!(!model.consumer.look(), "much was read since the last look");
    assert!(
        model.consumer.look() && model.look().is_some(),
        "the reader says so although it is owed no record"
    );
    assert!(!model.consumer.look(), "it has said so");
    assert_eq!(model.look(), None, "it is at rest");
}

#[test]
fn credits_can_be_returned_at_the_end_of_a_lap() {
    let mut model = Model::new(4 << 20);
    offsets(&mut model, (SHORT_LAP_BYTES / LINE_BYTES) as usize, LINE_BYTES, 1);
    let at_end = Reservation::At { offset: SHORT_LAP_BYTES as usize, bytes: LINE_BYTES as usize };
    assert_eq!(model.producer.reserve_credit_return(), at_end);
    assert_eq!(model.producer.reserve_credit_return(), at_end, "as often as it is asked for");
    model.return_credit_alone();
    assert_eq!(offsets(&mut model, 2, LINE_BYTES, 1), [0, LINE_BYTES as usize]);
}

#[test]
fn two_full_rings_can_still_return_credits() {
    let mut model = Model::new(4096);
    while model.send(64) {}
    assert_eq!(model.producer.reserve(1), Reservation::Full);
    assert!(matches!(model.producer.reserve_credit_return(), Reservation::At { .. }), "the reserve is there");
    model.producer.advance(LINE_BYTES);
    assert_eq!(model.producer.reserve_credit_return(), Reservation::Full, "the runway is not");
}

#[test]
fn credit_for_what_was_never_sent_is_a_violation() {
    let mut producer = Producer::new(4096, RUNWAY);
    assert!(producer.credit(1).is_err());
    producer.advance(64);
    assert!(producer.credit(1).is_ok());
    assert!(producer.credit(0).is_err(), "credit cannot go back");
}

#[test]
fn sending_beyond_the_credit_is_a_violation() {
    let mut consumer = Consumer::new(4096);
    for _ in 0..4 {
        consumer.advance(1024).expect("within the ring");
    }
    assert!(consumer.advance(64).is_err());
    consumer.take_credit();
    assert!(consumer.advance(64).is_ok());
}

#[test]
fn unknown_flags_are_violations() {
    assert!(BatchHeader::from_word(2 << 48).is_err());
    assert!(BatchHeader::from_word(1 << 48 | 1 << 32).is_err(), "a wrap record has no entries");
}

fn hello() -> Hello {
    Hello {
        identity: Identity { incarnation: 0x0807_0605_0403_0201, rank: 0x0c0b_0a09, endpoint: 0x100f_0e0d },
        message_bytes_max: 8 << 20,
        calls_max: 4096,
        unexpected_lines: 16384,
        reads_notices: true,
    }
}

/// The bytes that the documentation shows are those that the code writes.
#[test]
fn golden_words_and_hello() {
    let batch = BatchHeader { released_lines: 0x0403_0201, entries: 0x0605, wrap: false };
    let wrap = BatchHeader { released_lines: 9, entries: 0, wrap: true };
    let entry =
        EntryHeader { kind: EntryKind::ResponseBlock, call: 0x0403_0201, selector: 0x0605, length: 16 };
    let message = EntryHeader { kind: EntryKind::Message, call: 0x0403_0201, selector: 0, length: 8 };
    let long = EntryHeader { length: 0x2808, ..message };
    let credit = EntryHeader { kind: EntryKind::MessageCredit, call: 0x0403_0201, selector: 0, length: 0 };
    let (selector, call, lines) = Notice::Beyond { tag: Tag(0x0403_0201), lines: 9 }.to_wire();
    let beyond = EntryHeader { kind: EntryKind::MessageCredit, call, selector, length: 8 };
    let written = [
        batch.to_word().to_le_bytes().to_vec(),
        wrap.to_word().to_le_bytes().to_vec(),
        entry.to_word().to_le_bytes().to_vec(),
        message.to_word().to_le_bytes().to_vec(),
        long.to_word().to_le_bytes().to_vec(),
        credit.to_word().to_le_bytes().to_vec(),
        [beyond.to_word(), u64::from(lines)].map(u64::to_le_bytes).concat(),
        hello().encode().to_vec(),
    ];
    let golden = DOC.split("```golden\n").nth(1).expect("the page has golden bytes");
    let shown: Vec<Vec<u8>> = golden.lines().take_while(|line| *line != "```").map(bytes_of).collect();
    assert_eq!(shown, written);
}

/// The bytes after the colon of a line.
fn bytes_of(line: &str) -> Vec<u8> {
    let (_, bytes) = line.split_once(": ").expect("a name and bytes");
    bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
}

#[test]
fn a_hello_is_checked() {
    let bytes = hello().encode();
    assert_eq!(Hello::decode(&bytes), Ok(hello()));
    assert_eq!(Hello::decode(&bytes[..39]), Err(HelloError::Malformed));
    let mut other = bytes;
    (other[4], other[5]) = (VERSION + 1, VERSION + 2);
    assert_eq!(Hello::decode(&other), Err(HelloError::Version { oldest: VERSION + 1, newest: VERSION + 2 }));
    let mut newer = bytes;
    newer[5] = 9;
    assert_eq!(Hello::decode(&newer), Ok(hello()), "a peer that also speaks our version is fine");
}
