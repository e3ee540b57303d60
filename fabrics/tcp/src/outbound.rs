//! Out: what waits for a connection, and how it leaves in few system calls.
//!
//! Short messages are frames in one buffer. Long ones leave in pieces, between which short ones may leave:
//! nothing waits behind a long message for longer than a piece takes, beyond what the kernel has been given.
//! Pieces are of the message with the fewest bytes to go and of the oldest in turn, so that none starves.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use farcall_transport::{Owned, Payload, Spares};

use crate::arrival::HeadBytes;
use crate::frame::{Front, STREAMS_MAX, put_composed, put_whole};

/// The most pieces in one system call.
const PIECES_PER_CALL: usize = 16;

/// The most memory that an idle connection keeps for short messages.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The payload of a long message.
pub enum Held {
    /// The caller's, while its call lasts: what is given along as `lent`.
    Lent,
    /// What was left of such a one, from byte `base` on.
    Rest {
        bytes: Vec<u8>,
        base: usize,
    },
    /// Shared or lent memory.
    Loan(farcall_driver::Loan),
    Shared(Payload),
}

impl From<Owned> for Held {
    fn from(owned: Owned) -> Self {
        match owned {
            Owned::Loan(loan) => Self::Loan(loan),
            Owned::Shared(payload) => Self::Shared(payload),
        }
    }
}

/// A long message that has not left.
struct Long {
    head: HeadBytes,
    stream: u8,
    total: usize,
    /// Bytes that have left, or are in the piece that leaves.
    at: usize,
    held: Held,
}

impl Long {
    fn bytes<'b>(&'b self, lent: &'b [u8], from: usize, to: usize) -> &'b [u8] {
        match &self.held {
            Held::Lent => &lent[from..to],
            Held::Rest { bytes, base } => &bytes[from - base..to - base],
            Held::Loan(loan) => &loan[from..to],
            Held::Shared(payload) => &payload[from..to],
        }
    }
}

/// A piece of which a part has left.
struct Begun {
    place: usize,
    front: Front,
    front_sent: usize,
    /// Of the payload, the next byte and the end.
    at: usize,
    end: usize,
}

/// A piece that is offered to the kernel.
struct Planned {
    place: usize,
    front: Front,
    begin: usize,
    end: usize,
}

/// What the kernel does with what it is offered.
pub trait Writer {
    /// Takes some of the bytes, in their order; says how many.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
}

/// Whether all has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    All,
    /// The kernel has no room.
    Blocked,
}

/// What waits for a connection.
pub struct Outbound {
    /// Frames.
    short: Vec<u8>,
    short_sent: usize,
    /// Long messages that have a stream, oldest first.
    started: Vec<Long>,
    /// Those that have none.
    waiting: VecDeque<Long>,
    begun: Option<Begun>,
    /// Frames that nothing which is long may come after.
    last: Vec<u8>,
    /// Bytes of payloads of long messages that have not left.
    long_bytes: usize,
    /// Whether the next piece is of the oldest.
    is_turn_of_oldest: bool,
    piece_bytes: usize,
}

impl Outbound {
    pub fn new(piece_bytes: usize) -> Self {
        Self {
            short: Vec::new(),
            short_sent: 0,
            started: Vec::new(),
            waiting: VecDeque::new(),
            begun: None,
            last: Vec::new(),
            long_bytes: 0,
            is_turn_of_oldest: false,
            piece_bytes,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.short.is_empty() && self.started.is_empty()
    }

    /// Bytes that have not left.
    pub fn queued_bytes(&self) -> usize {
        self.short.len() - self.short_sent + self.long_bytes + self.last.len()
    }

    pub fn put_raw(&mut self, bytes: &[u8]) {
        self.short.extend_from_slice(bytes);
    }

    #[inline]
    pub fn put_whole(&mut self, head: &[u8], payload: &[u8]) {
        put_whole(&mut self.short, head, payload);
    }

    #[inline]
    pub fn put_composed(&mut self, message: &[u8]) {
        put_composed(&mut self.short, message);
    }

    /// Queues a short message behind the long ones that wait.
    pub fn put_behind(&mut self, head: &[u8], payload: &[u8]) {
        if self.started.is_empty() {
            return self.put_whole(head, payload);
        }
        put_whole(&mut self.last, head, payload);
    }

    pub fn put_long(&mut self, head: &[u8], total: usize, held: Held) {
        self.long_bytes += total;
        self.waiting.push_back(Long { head: HeadBytes::copy(head), stream: 0, total, at: 0, held });
        self.start_waiting();
    }

    /// Copies what is left of a lent payload.
    pub fn keep_lent(&mut self, lent: &[u8], spares: &mut Spares) {
        let begun = self.begun.as_ref().map(|begun| (begun.place, begun.at));
        let all = self.started.iter_mut().enumerate().map(|(place, long)| (Some(place), long));
        for (place, long) in all.chain(self.waiting.iter_mut().map(|long| (None, long))) {
            if matches!(long.held, Held::Lent) {
                let base = begun.filter(|begun| Some(begun.0) == place).map_or(long.at, |begun| begun.1);
                let mut bytes = spares.take(lent.len() - base);
                bytes.extend_from_slice(&lent[base..]);
                long.held = Held::Rest { bytes, base };
            }
        }
    }

    /// Gives streams to those that wait, as far as there are any.
    fn start_waiting(&mut self) {
        while self.started.len() < STREAMS_MAX {
            let Some(mut long) = self.waiting.pop_front() else { return };
            let is_free = |stream: &u8| self.started.iter().all(|other| other.stream != *stream);
            long.stream = (0..STREAMS_MAX as u8).find(is_free).expect("fewer are started than there are");
            self.started.push(long);
        }
    }

    /// Gives the writer all that it takes.
    pub fn flush(
        &mut self,
        writer: &mut impl Writer,
        lent: &[u8],
        spares: &mut Spares,
    ) -> io::Result<Flushed> {
        while !self.is_empty() {
            if !self.write_once(writer, lent, spares)? {
                return Ok(Flushed::Blocked);
            }
        }
        Ok(Flushed::All)
    }

    /// One system call; says whether the writer took all that it was offered.
    fn write_once(&mut self, writer: &mut impl Writer, lent: &[u8], spares: &mut Spares) -> io::Result<bool> {
        if self.started.is_empty() {
            let offered = self.short.len() - self.short_sent;
            let taken = writer.write(&[IoSlice::new(&self.short[self.short_sent..])])?;
            self.short_left(taken);
            return Ok(taken == offered);
        }
        let plan = self.plan();
        let mut parts = Vec::with_capacity(3 + 2 * plan.len());
        if let Some(begun) = &self.begun {
            parts.push(IoSlice::new(&begun.front.as_bytes()[begun.front_sent..]));
            parts.push(IoSlice::new(self.started[begun.place].bytes(lent, begun.at, begun.end)));
        }
        parts.push(IoSlice::new(&self.short[self.short_sent..]));
        for planned in &plan {
            parts.push(IoSlice::new(planned.front.as_bytes()));
            parts.push(IoSlice::new(self.started[planned.place].bytes(lent, planned.begin, planned.end)));
        }
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        let taken = writer.write(&parts);
        drop(parts);
        let taken = taken.inspect_err(|_| self.undo(&plan, 0))?;
        self.account(taken, plan, spares);
        Ok(taken == offered)
    }

    /// The pieces that come next.
    fn plan(&mut self) -> Vec<Planned> {
        let mut plan = Vec::with_capacity(PIECES_PER_CALL);
        while plan.len() < PIECES_PER_CALL {
            let unfinished = |long: &Long| long.at < long.total;
            let mut candidates =
                self.started.iter().enumerate().filter(|(_, long)| unfinished(long)).map(|(place, _)| place);
            let chosen = if self.is_turn_of_oldest {
                candidates.next()
            } else {
                candidates.min_by_key(|&place| self.started[place].total - self.started[place].at)
            };
            let Some(place) = chosen else { break };
            self.is_turn_of_oldest = !self.is_turn_of_oldest;
            let long = &mut self.started[place];
            let (begin, end) = (long.at, long.total.min(long.at + self.piece_bytes));
            let front = match begin {
                0 => Front::first(long.stream, long.head.as_bytes(), long.total, end),
                _ => Front::next(long.stream, end - begin),
            };
            long.at = end;
            plan.push(Planned { place, front, begin, end });
        }
        plan
    }

    /// Takes back the pieces of a plan from this one on.
    fn undo(&mut self, plan: &[Planned], from: usize) {
        for planned in plan[from..].iter().rev() {
            self.started[planned.place].at = planned.begin;
        }
    }

    /// Notes what has left of what was offered.
    fn account(&mut self, mut taken: usize, plan: Vec<Planned>, spares: &mut Spares) {
        if let Some(begun) = &mut self.begun {
            let of_front = taken.min(begun.front.as_bytes().len() - begun.front_sent);
            let of_payload = (taken - of_front).min(begun.end - begun.at);
            begun.front_sent += of_front;
            begun.at += of_payload;
            self.long_bytes -= of_payload;
            taken -= of_front + of_payload;
            if begun.at < begun.end || begun.front_sent < begun.front.as_bytes().len() {
                return self.undo(&plan, 0);
            }
            self.begun = None;
        }
        let of_short = taken.min(self.short.len() - self.short_sent);
        self.short_left(of_short);
        taken -= of_short;
        for (number, planned) in plan.iter().enumerate() {
            let front_bytes = planned.front.as_bytes().len();
            let bytes = front_bytes + planned.end - planned.begin;
            if taken < bytes {
                let unbegun = if taken > 0 { number + 1 } else { number };
                self.undo(&plan, unbegun);
                if taken > 0 {
                    let front_sent = taken.min(front_bytes);
                    let at = planned.begin + taken - front_sent;
                    self.long_bytes -= at - planned.begin;
                    let Planned { place, front, end, .. } = *planned;
                    self.begun = Some(Begun { place, front, front_sent, at, end });
                }
                break;
            }
            taken -= bytes;
            self.long_bytes -= planned.end - planned.begin;
        }
        self.drop_finished(spares);
    }

    /// Drops the long messages that have left.
    fn drop_finished(&mut self, spares: &mut Spares) {
        let mut place = 0;
        while let Some(long) = self.started.get(place) {
            let is_begun = self.begun.as_ref().is_some_and(|begun| begun.place == place);
            if long.at < long.total || is_begun {
                place += 1;
                continue;
            }
            if let Held::Rest { bytes, .. } = self.started.remove(place).held {
                spares.keep(bytes);
            }
            if let Some(begun) = &mut self.begun
                && begun.place > place
            {
                begun.place -= 1;
            }
        }
        self.start_waiting();
        if self.started.is_empty() {
            self.short.append(&mut self.last);
        }
    }

    #[inline]
    fn short_left(&mut self, taken: usize) {
        self.short_sent += taken;
        if self.short_sent == self.short.len() {
            self.short_sent = 0;
            self.short.clear();
            if self.short.capacity() > KEPT_BYTES_MAX {
                self.short.shrink_to(KEPT_BYTES_MAX);
            }
        } else if self.short_sent > KEPT_BYTES_MAX.max(self.short.len() / 2) {
            self.short.drain(..self.short_sent);
            self.short_sent = 0;
        }
    }
}
