//! What primaries and backups say to each other, byte by byte as `docs/protocol/replication.md` shows it.
//!
//! All are requests of a primary. What a backup does not do it refuses by a [`Refusal`].

use farcall_disk::BLOCK_BYTES;

/// A log: that of a shard of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// The store's number, drawn when it was created.
    pub store: u64,
    /// The shard.
    pub shard: u32,
}

/// What a request is about, and in which epoch it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The log.
    pub log: LogId,
    /// The replica of it, by its number; 0 where the request is about all of them.
    pub replica: u64,
    /// The epoch of the primary that asks.
    pub epoch: u64,
}

/// The most bytes that one request writes or reads.
pub const PIECE_BYTES_MAX: usize = 256 << 10;

/// The most replicas that a fence retains.
pub const RETAINED_MAX: usize = 16;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Begins an empty replica.
    Begin {
        /// Whether it lies on a disk, and writes are answered once they are flushed where they say so.
        flushed: bool,
    },
    /// Writes blocks of a replica.
    Write {
        /// The number of the write, from 1: they are done in this order.
        sequence: u64,
        /// Where, in bytes.
        at: u64,
        /// How many bytes, whole blocks.
        bytes: u32,
        /// Whether they are flushed, with all that was written before.
        flush: bool,
        /// What; zeros at its end are left out.
        data: &'a [u8],
    },
    /// Reads blocks of a replica; answered by them, without zeros at their end.
    Read {
        /// Where, in bytes.
        at: u64,
        /// How many, whole blocks.
        bytes: u32,
    },
    /// Refuses every older epoch from now on, and drops the log's replicas but these; answered by what there
    /// is, as [`Held`] each.
    Fence {
        /// The numbers of the replicas that stay.
        retained: Vec<u64>,
    },
    /// Sums up blocks of a replica; answered by their CRC32C.
    Sum {
        /// Where, in bytes.
        at: u64,
        /// How many, whole blocks.
        bytes: u32,
    },
}

/// A replica that a backup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub replica: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Held {
    /// Bytes of one in an answer.
    const BYTES: usize = 16;

    /// Appends it to an answer.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.replica.to_le_bytes());
        to.extend_from_slice(&self.bytes.to_le_bytes());
    }

    /// Reads an answer; `None` if it is none.
    pub fn decode_all(answer: &[u8]) -> Option<Vec<Self>> {
        let (held, rest) = answer.as_chunks::<{ Self::BYTES }>();
        let one = |bytes: &[u8; Self::BYTES]| {
            let mut fields = Fields(bytes);
            Some(Self { replica: fields.u64()?, bytes: fields.u64()? })
        };
        if rest.is_empty() { held.iter().map(one).collect() } else { None }
    }
}

/// Why a backup does not do what it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// Nothing that a primary sends.
    #[error("the backup does not understand the request; use the same farcall on all machines")]
    Malformed = 1,
    /// The primary was replaced.
    #[error("the backup knows a later epoch: another process is the primary")]
    OlderEpoch = 2,
    /// The backup was started again, or has dropped it.
    #[error("the backup does not have this replica (any more)")]
    NoSuchReplica = 3,
    /// A write is missing before this one.
    #[error("a write before this one did not arrive")]
    OutOfOrder = 4,
    /// It was started without a directory.
    #[error("the backup has no disk; start it with --data DIR")]
    NoDisk = 5,
    /// Its disk or its memory for replicas is full.
    #[error("the backup has no room for this")]
    Full = 6,
    /// Look into the system's log of its machine.
    #[error("the backup's disk reports an error")]
    DiskFailed = 7,
}

impl Refusal {
    /// All of them.
    const ALL: [Self; 7] = [
        Self::Malformed,
        Self::OlderEpoch,
        Self::NoSuchReplica,
        Self::OutOfOrder,
        Self::NoDisk,
        Self::Full,
        Self::DiskFailed,
    ];

    /// The refusal that a code means.
    pub fn from_wire(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }
}

/// Bytes of a request before what is its own.
const SUBJECT_BYTES: usize = 29;

impl<'a> Request<'a> {
    /// The message.
    pub fn encode(&self, of: Subject) -> Vec<u8> {
        let Subject { log: LogId { store, shard }, replica, epoch } = of;
        let mut to = Vec::with_capacity(SUBJECT_BYTES + 32);
        to.push(self.kind());
        to.extend_from_slice(&shard.to_le_bytes());
        [store, replica, epoch].iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        match self {
            Self::Begin { flushed } => to.push(u8::from(*flushed)),
            Self::Write { sequence, at, bytes, flush, data } => {
                to.extend_from_slice(&sequence.to_le_bytes());
                to.extend_from_slice(&at.to_le_bytes());
                to.extend_from_slice(&bytes.to_le_bytes());
                to.push(u8::from(*flush));
                to.extend_from_slice(data);
            }
            Self::Read { at, bytes } | Self::Sum { at, bytes } => {
                to.extend_from_slice(&at.to_le_bytes());
                to.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Fence { retained } => {
                retained.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
            }
        }
        to
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Begin { .. } => 1,
            Self::Write { .. } => 2,
            Self::Read { .. } => 3,
            Self::Fence { .. } => 4,
            Self::Sum { .. } => 5,
        }
    }

    /// Reads a message; `None` if it is none.
    pub fn decode(message: &'a [u8]) -> Option<(Subject, Self)> {
        let mut fields = Fields(message);
        let (kind, shard) = (fields.u8()?, fields.u32()?);
        let log = LogId { store: fields.u64()?, shard };
        let subject = Subject { log, replica: fields.u64()?, epoch: fields.u64()? };
        let request = match kind {
            1 => Self::Begin { flushed: fields.flag()? },
            2 => {
                let (sequence, (at, bytes)) = (fields.u64()?, fields.range()?);
                let (flush, data) = (fields.flag()?, core::mem::take(&mut fields.0));
                if data.len() > bytes as usize {
                    return None;
                }
                Self::Write { sequence, at, bytes, flush, data }
            }
            3 => fields.range().map(|(at, bytes)| Self::Read { at, bytes })?,
            4 => {
                let (numbers, rest) = core::mem::take(&mut fields.0).as_chunks::<8>();
                if numbers.len() > RETAINED_MAX || !rest.is_empty() {
                    return None;
                }
                Self::Fence { retained: numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect() }
            }
            5 => fields.range().map(|(at, bytes)| Self::Sum { at, bytes })?,
            _ => return None,
        };
        fields.0.is_empty().then_some((subject, request))
    }
}

/// A part of a block image without the zeros at its end.
pub fn without_zeros(mut blocks: &[u8]) -> &[u8] {
    // Whole blocks first: most of a new image is blank. Then lines: of a block that one short write is in,
    // nearly all of them are, and byte by byte that would take longer than the way to a backup.
    blocks = without_blank::<BLOCK_BYTES>(blocks);
    blocks = without_blank::<LINE_BYTES>(blocks);
    let end = blocks.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &blocks[..end]
}

/// Bytes that are compared at a time.
const LINE_BYTES: usize = 64;

/// The same without the zeros at its end, as far as they are whole chunks.
fn without_blank<const BYTES: usize>(mut blocks: &[u8]) -> &[u8] {
    while let Some((rest, last)) = blocks.split_last_chunk::<BYTES>()
        && *last == [0; BYTES]
    {
        blocks = rest;
    }
    blocks
}

/// Takes a message apart from its start.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        self.u8().filter(|&byte| byte <= 1).map(|byte| byte == 1)
    }

    /// Where blocks are, and how many bytes they have.
    fn range(&mut self) -> Option<(u64, u32)> {
        let (at, bytes) = (self.u64()?, self.u32()?);
        let whole = at.is_multiple_of(BLOCK_BYTES as u64) && (bytes as usize).is_multiple_of(BLOCK_BYTES);
        let is_short = (1..=PIECE_BYTES_MAX).contains(&(bytes as usize));
        (whole && is_short && at.checked_add(u64::from(bytes)).is_some()).then_some((at, bytes))
    }
}

/// Takes any bytes for a request, and those that are one back to the same bytes.
#[doc(hidden)]
pub fn fuzz_requests(bytes: &[u8]) {
    if let Some((subject, request)) = Request::decode(bytes) {
        assert_eq!(request.encode(subject), bytes);
    }
    if let Some(held) = Held::decode_all(bytes) {
        assert_eq!(held.len() * Held::BYTES, bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/protocol/replication.md");

    #[test]
    fn messages_have_the_documented_bytes() {
        let of = Subject { log: LogId { store: 7, shard: 1 }, replica: 5, epoch: 3 };
        let (at, bytes) = (8192, 4096);
        let requests = [
            ("begin", Request::Begin { flushed: true }),
            ("write", Request::Write { sequence: 1, at, bytes, flush: true, data: b"data" }),
            ("read", Request::Read { at, bytes }),
            ("fence", Request::Fence { retained: vec![5] }),
            ("sum", Request::Sum { at, bytes }),
        ];
        let block = DOCUMENT.split("```golden\n").nth(1).and_then(|rest| rest.split("```").next());
        let documented: Vec<&str> = block.expect("a block").lines().collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
        let mut written: Vec<String> =
            requests.iter().map(|(name, request)| format!("{name}:{}", hex(&request.encode(of)))).collect();
        let mut held = Vec::new();
        Held { replica: 5, bytes: 1 << 20 }.encode(&mut held);
        written.push(format!("held:{}", hex(&held)));
        written.sort();
        assert_eq!(written, documented);
        for (_, request) in requests {
            let message = request.encode(of);
            assert_eq!(Request::decode(&message), Some((of, request)));
        }
    }

    #[test]
    fn what_breaks_a_limit_is_no_request() {
        let of = Subject { log: LogId { store: 7, shard: 1 }, replica: 5, epoch: 3 };
        let read = |at, bytes| Request::Read { at, bytes }.encode(of);
        for message in [read(1, 4096), read(0, 1), read(0, 0), read(0, 1 << 30), read(u64::MAX - 4095, 8192)]
        {
            assert_eq!(Request::decode(&message), None);
        }
        let many = Request::Fence { retained: vec![1; RETAINED_MAX + 1] }.encode(of);
        assert_eq!(Request::decode(&many), None);
        let long = Request::Write { sequence: 1, at: 0, bytes: 4096, flush: false, data: &[1; 4097] };
        assert_eq!(Request::decode(&long.encode(of)), None);
        assert_eq!(Held::decode_all(&[0; 15]), None);
    }

    #[test]
    fn zeros_at_the_end_are_left_out_wherever_they_begin() {
        let lengths = [0, 1, 63, 64, 65, BLOCK_BYTES, 2 * BLOCK_BYTES];
        for bytes in lengths {
            let mut blocks = vec![0; bytes];
            assert_eq!(without_zeros(&blocks), [], "{bytes} bytes");
            for last in 0..bytes {
                blocks[last] = 1;
                assert_eq!(without_zeros(&blocks).len(), last + 1, "{bytes} bytes");
                blocks[last] = 0;
            }
        }
    }
}
