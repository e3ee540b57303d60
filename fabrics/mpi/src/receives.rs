//! Receives of one endpoint. Some are posted ahead, so that MPI puts short messages where they are read, and
//! one call says whether there is one. A message that is too long for them is announced by a short one, and
//! has a receive of its own in another communicator, where nobody has to look for it.

use core::ffi::c_int;
use core::time::Duration;
use std::collections::VecDeque;

use farcall_base::Instant;
use farcall_transport::{Arrival, Incoming, Spares, split_composed};

use crate::api::Started;
use crate::operations::{Operation, Progress, received_bytes};

/// The longest message that a receive posted ahead has room for, in bytes. Every batch of short messages
/// fits.
pub const SHORT_BYTES_MAX: usize = 8 << 10;
/// Receives that are posted ahead.
const POSTED: usize = 16;
/// A message of this many bytes is a batch that others wait behind, or was gathered while others were taken.
const STREAMED_BYTES_MIN: usize = 2 << 10;
/// The most long messages on their way that are asked after at a time.
const LONG_PER_LOOK: usize = 4;
/// The first byte of an announcement. In a message it is the length of a head, and no head is so long.
const ANNOUNCES: u8 = u8::MAX;
const ANNOUNCEMENT_BYTES: usize = 9;

/// A message that has arrived.
pub struct MpiArrival {
    bytes: Vec<u8>,
    /// How many of the bytes are the message.
    length: usize,
    head_bytes: usize,
}

impl MpiArrival {
    fn new(bytes: Vec<u8>, length: usize) -> Result<Self, Vec<u8>> {
        match split_composed(&bytes[..length]).map(|(head, _)| head.len()) {
            Some(head_bytes) => Ok(Self { bytes, length, head_bytes }),
            None => Err(bytes),
        }
    }
}

impl Arrival for MpiArrival {
    #[inline]
    fn head(&self) -> &[u8] {
        &self.bytes[1..1 + self.head_bytes]
    }

    #[inline]
    fn payload(&self) -> Incoming<'_> {
        Incoming::Borrowed(&self.bytes[1 + self.head_bytes..self.length])
    }
}

/// Says that a message of this many bytes follows from a rank.
pub fn announce(memory: &mut Vec<u8>, rank: u32, length: usize) {
    memory.clear();
    memory.push(ANNOUNCES);
    memory.extend_from_slice(&rank.to_le_bytes());
    memory.extend_from_slice(&(length as u32).to_le_bytes());
}

/// Rank and length of an announced message.
fn announced(message: &[u8]) -> Option<(u32, usize)> {
    let message: &[u8; ANNOUNCEMENT_BYTES] = message.try_into().ok()?;
    let number = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes"));
    (message[0] == ANNOUNCES).then(|| (number(1), number(5) as usize))
}

/// The receives in flight.
pub struct Receives {
    tag: c_int,
    /// The longest message that is taken.
    bytes_max: usize,
    /// Oldest first, which is the order in which MPI fills them.
    posted: VecDeque<Operation>,
    /// Memory for those, of [`SHORT_BYTES_MAX`] bytes each.
    buffers: Vec<Vec<u8>>,
    long: VecDeque<Operation>,
}

impl Receives {
    pub fn new(mpi: &Started, tag: c_int, bytes_max: usize) -> Self {
        let (posted, buffers) = (VecDeque::with_capacity(POSTED), Vec::with_capacity(POSTED));
        let mut this = Self { tag, bytes_max, posted, buffers, long: VecDeque::new() };
        this.post(mpi);
        this
    }

    /// Posts as many as are wanted.
    #[inline]
    fn post(&mut self, mpi: &Started) {
        while self.posted.len() < POSTED {
            let memory = self.buffers.pop().unwrap_or_else(|| vec![0; SHORT_BYTES_MAX]);
            match Operation::receive(mpi, mpi.communicator, (None, self.tag), memory) {
                Some(receive) => self.posted.push_back(receive),
                // It is tried again at the next look.
                None => break,
            }
        }
    }

    /// Takes the next short message, if it has come, and those behind it while each is as long as in a
    /// stream. Returns how much there was to do.
    ///
    /// Only one at a time otherwise: to ask for another that has not come would let MPI work once more.
    #[inline]
    pub fn look(&mut self, mpi: &Started, arrivals: &mut VecDeque<MpiArrival>, spares: &mut Spares) -> usize {
        let mut done = 0;
        while let Some(length) = self.look_once(mpi, arrivals, spares) {
            done += 1;
            if length < STREAMED_BYTES_MIN || done == POSTED {
                break;
            }
        }
        done
    }

    /// Takes the next short message, if it has come; gives its length.
    #[inline]
    fn look_once(
        &mut self,
        mpi: &Started,
        arrivals: &mut VecDeque<MpiArrival>,
        spares: &mut Spares,
    ) -> Option<usize> {
        let Some(oldest) = self.posted.pop_front() else {
            self.post(mpi);
            return None;
        };
        let mut found = 0;
        match oldest.test(mpi) {
            Progress::Pending(oldest) => {
                self.posted.push_front(oldest);
                return None;
            }
            Progress::Done(bytes, status) => {
                found = received_bytes(mpi, &status).min(bytes.len());
                match MpiArrival::new(bytes, found) {
                    Ok(arrival) => arrivals.push_back(arrival),
                    Err(bytes) => self.take_announcement(mpi, bytes, found, spares),
                }
            }
            Progress::Failed => {}
        }
        self.post(mpi);
        Some(found)
    }

    /// What is no message announces one, or comes from no correct peer. What is longer than any message may
    /// be is cut off; MPI then calls it an error, and it is dropped.
    #[cold]
    fn take_announcement(&mut self, mpi: &Started, bytes: Vec<u8>, length: usize, spares: &mut Spares) {
        if let Some((rank, long_bytes)) = announced(&bytes[..length]) {
            let long_bytes = long_bytes.min(self.bytes_max);
            let mut memory = spares.take(long_bytes);
            memory.resize(long_bytes, 0);
            self.long.extend(Operation::receive(mpi, mpi.long, (Some(rank), self.tag), memory));
        }
        self.keep(bytes);
    }

    /// Takes the long messages that have come whole. Returns how many there were.
    #[inline]
    pub fn look_at_long(&mut self, mpi: &Started, arrivals: &mut VecDeque<MpiArrival>) -> usize {
        let mut done = 0;
        for _ in 0..LONG_PER_LOOK.min(self.long.len()) {
            let Some(oldest) = self.long.pop_front() else { break };
            match oldest.test(mpi) {
                Progress::Pending(oldest) => {
                    self.long.push_back(oldest);
                    continue;
                }
                Progress::Done(bytes, status) => {
                    let length = received_bytes(mpi, &status).min(bytes.len());
                    arrivals.extend(MpiArrival::new(bytes, length));
                }
                Progress::Failed => {}
            }
            done += 1;
        }
        done
    }

    /// Takes the memory of a message back.
    #[inline]
    pub fn release(&mut self, arrival: MpiArrival, spares: &mut Spares) {
        if arrival.bytes.len() == SHORT_BYTES_MAX {
            self.keep(arrival.bytes)
        } else {
            spares.keep(arrival.bytes)
        }
    }

    #[inline]
    fn keep(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < POSTED {
            self.buffers.push(buffer);
        }
    }

    /// Ends all of them.
    pub fn withdraw(&mut self, mpi: &Started) {
        self.posted.drain(..).for_each(|receive| receive.withdraw(mpi));
        self.long.drain(..).for_each(Operation::leak);
    }
}

/// When to look for messages. To look where nothing has come costs more than to send.
pub struct Looks {
    /// Whether something was sent since the last turn.
    has_sent: bool,
    last: Instant,
}

impl Looks {
    /// A turn that has sent something leaves the look to the next one, unless the last look is so long ago.
    const AT_LEAST_EVERY: Duration = Duration::from_micros(2);

    pub fn new(now: Instant) -> Self {
        Self { has_sent: false, last: now }
    }

    #[inline]
    pub fn note_send(&mut self) {
        self.has_sent = true;
    }

    /// Whether this turn looks; `now` is asked for where it matters.
    #[inline]
    pub fn is_due(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if !core::mem::take(&mut self.has_sent) {
            return true;
        }
        let now = now();
        let is_due = now >= self.last + Self::AT_LEAST_EVERY;
        if is_due {
            self.last = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_read_as_they_are_written_and_are_no_messages() {
        let mut bytes = vec![1];
        announce(&mut bytes, 70_000, 9 << 10);
        assert_eq!(announced(&bytes), Some((70_000, 9 << 10)));
        assert!(split_composed(&bytes).is_none());
        assert_eq!(announced(&bytes[..8]), None);
        bytes[0] = 8;
        assert_eq!(announced(&bytes), None);
    }

    #[test]
    fn who_sends_in_every_turn_looks_as_often_as_the_bound_says_and_who_does_not_in_every_turn() {
        let at = Instant::from_nanos;
        let mut looks = Looks::new(at(0));
        assert!(looks.is_due(|| at(1)) && looks.is_due(|| at(2)));
        let mut look_while_sending = |now| {
            looks.note_send();
            looks.is_due(|| at(now))
        };
        let due: Vec<u64> = (0..5000).step_by(500).filter(|&now| look_while_sending(now)).collect();
        assert_eq!(due, [2000, 4000]);
    }
}
