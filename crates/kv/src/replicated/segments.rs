//! What is asked of a backup about a segment of a log that several shards take over: how many bytes each hash
//! slot has in it, or the records that one of them needs. The backup looks at the segment and filters it, so
//! that each record crosses the network once.

use farcall::Deferred;
use farcall_disk::BLOCK_BYTES;
use farcall_replica::{Answered, Backup, Handled, LogId, PIECE_BYTES_MAX, Refusal, Request, Subject};

use crate::durable::parts::{CheckedSegment, Weights, select};
use crate::durable::{Ending, FRAME_BYTES, frame_at};
use crate::placement::{SlotRange, SlotSet};
use crate::wire::{Fields, HASH_SLOTS, Malformed};

/// Kinds of these requests; those of a primary are lower.
const WEIGH: u8 = 6;
const SELECT: u8 = 7;

/// The most ranges of one request: every second slot.
const RANGES_MAX: usize = HASH_SLOTS as usize / 2;

/// What is asked about a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Bytes by slot.
    Weights,
    /// Records that somebody needs who takes these slots.
    Records(Vec<SlotRange>),
}

/// A request about a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The replica, and the epoch in which it is read.
    pub subject: Subject,
    /// The number of the log, which all its groups have.
    pub log: u64,
    /// The segment.
    pub segment: Ending,
    /// What is asked.
    pub asked: Asked,
}

impl SegmentRequest {
    /// The message, to the service of backups.
    pub fn encode(&self) -> Vec<u8> {
        let Self { subject, log, segment, asked } = self;
        let Subject { log: LogId { store, shard }, replica, epoch } = subject;
        let Ending { segment, frame, bytes, crc } = segment;
        let mut to = vec![if *asked == Asked::Weights { WEIGH } else { SELECT }];
        to.extend_from_slice(&shard.to_le_bytes());
        [store, replica, epoch, log, segment].iter().for_each(|it| to.extend_from_slice(&it.to_le_bytes()));
        [frame, bytes, crc].iter().for_each(|it| to.extend_from_slice(&it.to_le_bytes()));
        if let Asked::Records(ranges) = asked {
            let numbers = ranges.iter().flat_map(|range| [range.first, range.last]);
            numbers.for_each(|number| to.extend_from_slice(&(number as u16).to_le_bytes()));
        }
        to
    }

    /// Whether a message is of a kind that is read here.
    pub fn is_one(message: &[u8]) -> bool {
        matches!(message.first(), Some(&(WEIGH | SELECT)))
    }

    /// Reads a message.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (kind, shard) = (fields.u8()?, fields.u32()?);
        let log = LogId { store: fields.u64()?, shard };
        let subject = Subject { log, replica: fields.u64()?, epoch: fields.u64()? };
        let (log, segment) = (fields.u64()?, fields.u64()?);
        let (frame, bytes, crc) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let is_whole = (bytes as usize).is_multiple_of(BLOCK_BYTES);
        if !is_whole || !(BLOCK_BYTES..=FRAME_BYTES).contains(&(bytes as usize)) {
            return Err(Malformed);
        }
        let (ranges, rest) = fields.rest().as_chunks::<4>();
        let range = |[a, b, c, d]: &[u8; 4]| {
            let slot = |bytes| u32::from(u16::from_le_bytes(bytes));
            let range = SlotRange { first: slot([*a, *b]), last: slot([*c, *d]) };
            if range.first <= range.last && range.last < HASH_SLOTS { Ok(range) } else { Err(Malformed) }
        };
        let asked = match kind {
            WEIGH if ranges.is_empty() => Asked::Weights,
            SELECT if (1..=RANGES_MAX).contains(&ranges.len()) => {
                Asked::Records(ranges.iter().map(range).collect::<Result<_, _>>()?)
            }
            _ => return Err(Malformed),
        };
        if !rest.is_empty() {
            return Err(Malformed);
        }
        Ok(Self { subject, log, segment: Ending { segment, frame, bytes, crc }, asked })
    }

    /// What a segment says to it; a damaged one is refused as a disk that cannot be read is.
    fn answer(&self, segment: &[u8]) -> Answered {
        let segment = CheckedSegment::new(self.log, &self.segment, segment);
        let segment = segment.map_err(|_| Refusal::DiskFailed)?;
        let mut answer = Vec::new();
        match &self.asked {
            Asked::Weights => {
                let mut weights = Weights::default();
                weights.add_segment(&segment);
                weights.encode(&mut answer);
            }
            Asked::Records(ranges) => select(&segment, &SlotSet::of_all(ranges), &mut answer),
        }
        Ok(answer)
    }
}

/// A segment that a backup reads, by the same requests as a primary's.
#[derive(Debug)]
pub struct SegmentReading<To = Deferred> {
    /// Who is answered.
    pub to: To,
    request: SegmentRequest,
    read: Vec<u8>,
    /// The number under which the next piece was promised.
    promised: Option<u64>,
}

impl<To> SegmentReading<To> {
    pub fn new(request: SegmentRequest, to: To) -> Self {
        Self { to, request, read: Vec::new(), promised: None }
    }

    /// Takes the answer with this number if it is the one that it waits for.
    pub fn takes(&mut self, number: u64, answer: &Answered) -> Option<Result<(), Refusal>> {
        self.promised.take_if(|promised| *promised == number)?;
        Some(self.append(answer))
    }

    /// Reads on, as far as nothing has to be waited for; gives the answer once there is one.
    pub fn step(&mut self, backup: &mut Backup) -> Option<Answered> {
        while self.promised.is_none() {
            let Ending { frame, bytes, .. } = self.request.segment;
            if self.read.len() >= bytes as usize {
                return Some(self.request.answer(&self.read));
            }
            let at = frame_at(frame) + self.read.len() as u64;
            let read = Request::Read { at, bytes: self.next_bytes() as u32 };
            match backup.handle(&read.encode(self.request.subject)) {
                Handled::Now(answer) => {
                    if let Err(refusal) = self.append(&answer) {
                        return Some(Err(refusal));
                    }
                }
                Handled::Later(number) => self.promised = Some(number),
            }
        }
        None
    }

    fn next_bytes(&self) -> usize {
        (self.request.segment.bytes as usize - self.read.len()).min(PIECE_BYTES_MAX)
    }

    /// Answers leave out the zeros at their end.
    fn append(&mut self, answer: &Answered) -> Result<(), Refusal> {
        let piece = answer.as_ref().map_err(|refusal| *refusal)?;
        let end = self.read.len() + self.next_bytes();
        self.read.extend_from_slice(piece);
        self.read.resize(end, 0);
        Ok(())
    }
}

/// Takes any bytes for a request, and those that are one back to the same bytes.
#[doc(hidden)]
pub fn fuzz_segment_requests(bytes: &[u8]) {
    if let Ok(request) = SegmentRequest::decode(bytes) {
        assert_eq!(request.encode(), bytes);
    }
    let mut weights = Weights::default();
    if weights.add(bytes).is_ok() {
        assert_eq!(weights.by_slot().len(), HASH_SLOTS as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/protocol/replication.md");

    fn requests() -> [(&'static str, SegmentRequest); 2] {
        let subject = Subject { log: LogId { store: 7, shard: 1 }, replica: 5, epoch: 3 };
        let segment = Ending { segment: 6, frame: 2, bytes: 8192, crc: 9 };
        let request = |asked| SegmentRequest { subject, log: 0x0123_4567_89ab_cdef, segment, asked };
        let ranges = vec![SlotRange { first: 0, last: 9 }, SlotRange { first: 16_383, last: 16_383 }];
        [("select", request(Asked::Records(ranges))), ("weigh", request(Asked::Weights))]
    }

    #[test]
    fn requests_have_the_documented_bytes() {
        let block = DOCUMENT.split("```golden-segments\n").nth(1).and_then(|rest| rest.split("```").next());
        let documented: Vec<&str> = block.expect("a block").lines().collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
        let written: Vec<String> =
            requests().iter().map(|(name, request)| format!("{name}:{}", hex(&request.encode()))).collect();
        assert_eq!(written, documented);
    }

    #[test]
    fn what_is_written_is_read_and_what_breaks_a_limit_is_not() {
        for (_, request) in requests() {
            let message = request.encode();
            assert_eq!(SegmentRequest::decode(&message), Ok(request.clone()));
            for bytes in 0..message.len() {
                fuzz_segment_requests(&message[..bytes]);
            }
            for bytes in [0, 1, 4097, FRAME_BYTES as u32 + 4096] {
                let segment = Ending { bytes, ..request.segment };
                let message = SegmentRequest { segment, ..request.clone() }.encode();
                assert_eq!(SegmentRequest::decode(&message), Err(Malformed));
            }
        }
    }
}
