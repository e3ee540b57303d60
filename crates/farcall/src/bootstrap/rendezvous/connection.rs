//! One connection of the registry: frames out of what arrives, bytes that wait until the socket takes them.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::limits::FRAME_BYTES_MAX;
use super::super::messages::Answer;
use super::super::stream::keep_alive;

/// The most bytes that wait for a member that does not read; a member beyond it has stopped.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The most bytes taken from a connection before others have their turn; a frame and its length fit.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// A connection that does not block.
pub(super) struct Connection {
    stream: TcpStream,
    from: IpAddr,
    /// What the server has last asked the kernel to report.
    interest: EventFlags,
    input: Vec<u8>,
    output: Vec<u8>,
    state: State,
}

/// What a connection may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It must join before `deadline`.
    Fresh { deadline: Instant },
    /// It has joined.
    Member,
    /// It ends when everything has been sent, at `deadline` at the latest.
    Refused { deadline: Instant },
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished;

impl Connection {
    /// Takes an accepted connection, which must join before `deadline`.
    pub(super) fn new(stream: TcpStream, from: IpAddr, deadline: Instant) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        let (input, output, state) = (Vec::new(), Vec::new(), State::Fresh { deadline });
        Ok(Self { stream, from, interest: EventFlags::IN, input, output, state })
    }

    /// The other machine.
    pub(super) fn from(&self) -> IpAddr {
        self.from
    }

    /// Whether what the kernel is asked to report must change, and to what.
    pub(super) fn new_interest(&mut self) -> Option<EventFlags> {
        let output = if self.output.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
        let wanted = EventFlags::IN | output;
        (core::mem::replace(&mut self.interest, wanted) != wanted).then_some(wanted)
    }

    /// What it may do next.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Lets it go on as a member.
    pub(super) fn admit(&mut self) {
        self.state = State::Member;
    }

    /// Ends it after what has been queued is sent.
    pub(super) fn refuse(&mut self, deadline: Instant) {
        self.state = State::Refused { deadline };
    }

    /// When it ends at the latest, unless it becomes a member before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Fresh { deadline } | State::Refused { deadline } => Some(deadline),
            State::Member => None,
        }
    }

    /// How many bytes wait for the socket to take them.
    pub(super) fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// Whether the other side has ended the connection, even if bytes from before that are still to be read.
    pub(super) fn has_hung_up(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(self, PollFlags::RDHUP)], Some(&at_once)), Ok(1))
    }

    /// Reads what has arrived, up to a bound.
    pub(super) fn fill(&mut self) -> Result<(), Finished> {
        let mut chunk = [0; 4096];
        while self.input.len() < INPUT_BYTES_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Finished),
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => return Err(Finished),
            }
        }
        Ok(())
    }

    /// Whether anything has arrived that was not taken yet.
    pub(super) fn has_spoken(&mut self) -> bool {
        // What is wrong with the connection comes to light when it is served.
        let _ = self.fill();
        !self.input.is_empty()
    }

    /// The next message that has arrived whole, without its length.
    pub(super) fn next_message(&mut self) -> Result<Option<Vec<u8>>, Finished> {
        let Some(length) = self.input.first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(Finished);
        }
        if self.input.len() < 4 + length {
            return Ok(None);
        }
        let message = self.input[4..4 + length].to_vec();
        self.input.drain(..4 + length);
        Ok(Some(message))
    }

    /// Queues an answer and sends what the socket takes.
    pub(super) fn send(&mut self, answer: &Answer) -> Result<(), Finished> {
        self.output.extend_from_slice(&answer.to_frame());
        if self.output.len() > OUTPUT_BYTES_MAX { Err(Finished) } else { self.flush() }
    }

    /// Sends what the socket takes; a refused connection is finished when all is sent.
    pub(super) fn flush(&mut self) -> Result<(), Finished> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(Finished),
                Ok(length) => drop(self.output.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => return Err(Finished),
            }
        }
        if matches!(self.state, State::Refused { .. }) { Err(Finished) } else { Ok(()) }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
