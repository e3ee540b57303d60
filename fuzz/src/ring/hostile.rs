//! The hostile peer: writes what the input says, and reads what the victim writes to it.
//!
//! Most of what it writes is nearly right, because nearly right gets further. As long as it has not lied
//! about how much it has read, and has written no more than it has credit for, everything that its victim
//! wrote can be read, and must be well formed.

use farcall_driver::{BlockDescriptor, RECORD_HEADER_BYTES};
use farcall_protocol::ring::{BatchHeader, Consumer, EntryHeader, EntryKind, LINE_BYTES, WORD_BYTES, padded};

use super::RING_BYTES;
use crate::input::Input;
use crate::lanes::{HOSTILE_BLOCK_BYTES, SharedRing};

/// The most entries of a record that is written on purpose.
const ENTRIES_MAX: u8 = 40;

pub struct Hostile {
    /// What the victim reads.
    inward: SharedRing,
    /// What the victim writes.
    outward: SharedRing,
    /// Where the next record for the victim goes.
    tail: u64,
    consumer: Consumer,
    /// The position up to which everything has been read.
    read: u64,
    /// The position up to which the victim was told so.
    released: u64,
    /// The position up to which the victim has said to have read.
    credited: u64,
    has_lied: bool,
    /// The victim's calls that have been read, to be answered or not.
    calls: Vec<u32>,
    /// Blocks that the victim has lent.
    borrowed: Vec<BlockDescriptor>,
    pub responses_read: usize,
}

impl Hostile {
    pub fn new(inward: SharedRing, outward: SharedRing) -> Self {
        Self {
            inward,
            outward,
            tail: 0,
            consumer: Consumer::new(RING_BYTES as u64),
            read: 0,
            released: 0,
            credited: 0,
            has_lied: false,
            calls: Vec::new(),
            borrowed: Vec::new(),
            responses_read: 0,
        }
    }

    /// Whether it has read everything that the victim wrote.
    pub fn is_well_informed(&self) -> bool {
        !self.has_lied
    }

    /// Writes anything anywhere.
    pub fn scribble(&mut self, input: &mut Input<'_>) {
        let (offset, length) = (usize::from(input.u16()), usize::from(input.u8()));
        self.inward.lock().expect("no panic yet").scribble(offset, input.bytes(length));
        self.has_lied = true; // perhaps
    }

    /// Writes a record at the place where the victim expects it.
    pub fn write_record(&mut self, input: &mut Input<'_>) {
        let [shape, count] = [input.u8(), input.u8() % ENTRIES_MAX];
        let released_lines = self.released_lines(shape >> 6, input);
        let offset = (self.tail % RING_BYTES as u64) as usize;
        if shape & 0x0f == 0 || offset + 1024 > RING_BYTES {
            let wrap = BatchHeader { released_lines, entries: 0, wrap: true };
            let tail = (self.tail + 1).next_multiple_of(RING_BYTES as u64);
            return self.publish(&wrap.to_word().to_le_bytes(), tail);
        }
        let entries = if shape & 0x0f == 1 { u16::from(input.u8()) } else { u16::from(count) };
        let mut content =
            BatchHeader { released_lines, entries, wrap: false }.to_word().to_le_bytes().to_vec();
        for _ in 0..count {
            // Some are all for a receiver that asks for one short message after the other.
            if shape & 0x0f == 2 {
                append(&mut content, message(0, 12), &[8; 12]);
            } else {
                self.append_entry(&mut content, input);
            }
        }
        content.truncate(RING_BYTES - offset - RECORD_HEADER_BYTES);
        let bytes = (RECORD_HEADER_BYTES + content.len()) as u64;
        self.publish(&content, self.tail + bytes.next_multiple_of(LINE_BYTES));
    }

    /// How much it claims to have read: all, a line more than last time, nothing more, or anything.
    fn released_lines(&mut self, how: u8, input: &mut Input<'_>) -> u32 {
        match how {
            0 => self.released = self.read,
            1 => self.released = self.read.min(self.released + LINE_BYTES),
            2 => {}
            _ => {
                self.has_lied = true;
                return input.u64() as u32;
            }
        }
        (self.released / LINE_BYTES) as u32
    }

    /// Publishes a record and clears the flag of the next one, which starts at the position `next`.
    fn publish(&mut self, content: &[u8], next: u64) {
        let offset = |position: u64| (position % RING_BYTES as u64) as usize;
        // The flag of the next record is to be clear, too. What is overwritten unread may be read as
        // something else, or twice.
        self.has_lied |= next + LINE_BYTES > self.credited + RING_BYTES as u64;
        let mut inward = self.inward.lock().expect("no panic yet");
        inward.clear(offset(next));
        inward.publish(offset(self.tail), content);
        self.tail = next;
    }

    fn append_entry(&mut self, content: &mut Vec<u8>, input: &mut Input<'_>) {
        let shape = input.u8();
        let selector = u16::from(shape >> 4);
        let entry = |kind, call, selector, length| EntryHeader { kind, call, selector, length }.to_word();
        let (word, payload) = match shape & 0x0f {
            0..=3 => (entry(EntryKind::Request, u32::from(shape), selector, 8), vec![5; 8]),
            4 => {
                let length = u32::from(input.u16() % 1500);
                // Some say that they are longer than they are, in the bits that only messages have.
                let said = if selector == 15 { length + (1 << 13) } else { length };
                (message(u32::from(selector), said), vec![8; length as usize])
            }
            5 | 6 => {
                let length = u32::from(input.u16() % 1500);
                (entry(EntryKind::Request, 1, selector, length), vec![5; length as usize])
            }
            7 | 8 => {
                let call = self.calls.pop().unwrap_or(9);
                (entry(EntryKind::Response, call, selector % 4, 8), vec![6; 8])
            }
            9 => (entry(EntryKind::RequestBlock, 2, selector, 16), descriptor(input)),
            10 => {
                let call = self.calls.pop().unwrap_or(9);
                (entry(EntryKind::ResponseBlock, call, selector, 16), descriptor(input))
            }
            11 | 12 => {
                let block = self.borrowed.pop().unwrap_or(BlockDescriptor { offset: 0, length: 3000 });
                (entry(EntryKind::BlockReturn, 0, 0, 16), encoded(block))
            }
            13 => (entry(EntryKind::BlockReturn, 0, 0, 16), descriptor(input)),
            _ => {
                let length = usize::from(input.u8());
                (input.u64(), input.bytes(length).to_vec())
            }
        };
        append(content, word, &payload);
    }

    /// Reads all that the victim has published.
    pub fn read_all(&mut self) {
        while !self.has_lied {
            let offset = self.consumer.offset();
            let record = self.outward.lock().expect("no panic yet").record(offset);
            let Some(record) = record.expect("the victim's flags are in order") else { return };
            self.read_record(&record);
        }
    }

    fn read_record(&mut self, record: &[u8]) {
        let header =
            BatchHeader::from_word(word(record, 0)).expect("the victim writes headers that are in order");
        let sent = (self.tail / LINE_BYTES) as u32;
        let unread = sent.wrapping_sub(header.released_lines);
        assert!(unread <= sent, "credit for what was never sent");
        self.credited = self.tail - u64::from(unread) * LINE_BYTES;
        let mut at = WORD_BYTES;
        for _ in 0..header.entries {
            let entry = EntryHeader::from_word(word(record, at)).expect("farcall writes what it can read");
            at += WORD_BYTES;
            self.read_entry(entry, &record[at..at + entry.length as usize]);
            at += padded(entry.length as usize);
        }
        assert_eq!(at, record.len(), "a record ends with its last entry");
        let before = self.consumer.offset() as u64;
        let bytes = if header.wrap {
            RING_BYTES as u64 - before
        } else {
            ((RECORD_HEADER_BYTES + record.len()) as u64).next_multiple_of(LINE_BYTES)
        };
        self.consumer.take_credit();
        self.consumer.advance(bytes).expect("the victim writes within its credit");
        self.read += bytes;
        assert!(self.read - self.released <= RING_BYTES as u64, "the victim writes within its credit");
    }

    fn read_entry(&mut self, entry: EntryHeader, payload: &[u8]) {
        let block = || BlockDescriptor { offset: word(payload, 0), length: word(payload, WORD_BYTES) };
        match entry.kind {
            EntryKind::Request => self.calls.push(entry.call),
            EntryKind::RequestBlock => {
                self.calls.push(entry.call);
                self.borrowed.push(block());
            }
            EntryKind::Response => self.responses_read += 1,
            EntryKind::ResponseBlock => {
                self.responses_read += 1;
                self.borrowed.push(block());
            }
            EntryKind::Message | EntryKind::MessageCredit => {}
            EntryKind::MessageBlock => self.borrowed.push(block()),
            EntryKind::BlockReturn => assert!(block().length <= HOSTILE_BLOCK_BYTES, "it was borrowed once"),
        }
    }
}

fn message(tag: u32, length: u32) -> u64 {
    EntryHeader { kind: EntryKind::Message, call: tag, selector: 0, length }.to_word()
}

fn append(content: &mut Vec<u8>, word: u64, payload: &[u8]) {
    content.extend(word.to_le_bytes());
    content.extend(payload);
    content.resize(content.len() + padded(payload.len()) - payload.len(), 0);
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + WORD_BYTES].try_into().expect("eight bytes"))
}

/// A block in the hostile peer's memory, or a little beside it.
fn descriptor(input: &mut Input<'_>) -> Vec<u8> {
    let [offset, length] = [u64::from(input.u16()), u64::from(input.u16() >> (input.u8() % 16))];
    encoded(BlockDescriptor { offset, length })
}

fn encoded(block: BlockDescriptor) -> Vec<u8> {
    [block.offset.to_le_bytes(), block.length.to_le_bytes()].concat()
}
