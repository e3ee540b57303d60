//! One connection of the registry: frames out of what arrives, bytes that wait until the socket takes them.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use farcall_protocol::keys::{Keyring, SEALED_BYTES, StreamOpening, StreamSealing, accept_stream};

use super::super::limits::FRAME_BYTES_MAX;
use super::super::messages::Answer;
use super::super::refusal::Refusal;
use super::super::stream::{self, keep_alive};

/// The most bytes that wait for a member that does not read; a member beyond it has stopped.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The most bytes taken from a connection before others have their turn; a frame and its length fit.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// The memory that a connection keeps for its next answers.
const SPARE_BYTES: usize = 1024;

/// A connection that does not block.
pub(super) struct Connection {
    stream: TcpStream,
    from: IpAddr,
    /// What the server has last asked the kernel to report.
    interest: EventFlags,
    input: Vec<u8>,
    /// How much of the input has been taken.
    taken: usize,
    output: Vec<u8>,
    secrecy: Secrecy,
    state: State,
}

/// What is known of the keys of a connection.
enum Secrecy {
    /// There are none: the registry has no cluster key.
    Plain,
    /// The first frame must ask for them, by one of these cluster keys.
    Expected(Keyring),
    /// Each frame is sealed.
    Agreed(Box<(StreamSealing, StreamOpening)>),
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
    /// Takes an accepted connection, which must join before `deadline`, by one of the cluster keys of `ring`
    /// if there is one.
    pub(super) fn new(
        stream: TcpStream,
        from: IpAddr,
        deadline: Instant,
        ring: Option<Keyring>,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (input, output, state) = (Vec::new(), Vec::new(), State::Fresh { deadline });
        let secrecy = ring.map_or(Secrecy::Plain, Secrecy::Expected);
        Ok(Self { stream, from, interest: EventFlags::IN, input, taken: 0, output, secrecy, state })
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

    /// Lets it go on as a member. Only now it gets what a long life needs: most of a flood never join, and a
    /// system call that each of them costs delays those that do.
    pub(super) fn admit(&mut self) -> std::io::Result<()> {
        self.state = State::Member;
        self.stream.set_nodelay(true)?;
        keep_alive(&self.stream)
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
        self.input.len() > self.taken
    }

    /// The next message that has arrived whole, as its sender wrote it. The answer to one that asks for keys
    /// is queued here.
    pub(super) fn next_message(&mut self) -> Result<Option<Vec<u8>>, Finished> {
        loop {
            let Some(frame) = self.next_frame()? else { return Ok(None) };
            match &mut self.secrecy {
                Secrecy::Plain => return Ok(Some(frame)),
                Secrecy::Agreed(keys) => return keys.1.open(&frame).map(Some).ok_or(Finished),
                Secrecy::Expected(ring) => {
                    let Some((reply, sealing, opening)) = accept_stream(ring, &frame, &mut stream::entropy())
                    else {
                        self.output.extend_from_slice(&Answer::Refused(Refusal::Key).to_frame());
                        return Err(Finished);
                    };
                    self.queue_frame(&reply);
                    self.secrecy = Secrecy::Agreed(Box::new((sealing, opening)));
                }
            }
        }
    }

    fn queue_frame(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.output.extend_from_slice(bytes);
    }

    /// The next frame that has arrived whole, without its length.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, Finished> {
        let input = &self.input[self.taken..];
        let Some(length) = input.first_chunk() else {
            self.remove_taken();
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > FRAME_BYTES_MAX + SEALED_BYTES {
            return Err(Finished);
        }
        let Some(message) = input.get(4..4 + length).map(<[u8]>::to_vec) else {
            self.remove_taken();
            return Ok(None);
        };
        self.taken += 4 + length;
        Ok(Some(message))
    }

    /// Once for all messages that came together, because a stranger chooses how many. What is left is less
    /// than one, and so is its memory: there may be many connections.
    fn remove_taken(&mut self) {
        self.input.drain(..core::mem::take(&mut self.taken));
        self.input.shrink_to_fit();
    }

    /// Queues an answer.
    pub(super) fn queue(&mut self, answer: &Answer) -> Result<(), Finished> {
        let frame = answer.to_frame();
        match &mut self.secrecy {
            Secrecy::Agreed(keys) => {
                let sealed = keys.0.seal(&frame[4..]);
                self.queue_frame(&sealed);
            }
            Secrecy::Plain | Secrecy::Expected(_) => self.output.extend_from_slice(&frame),
        }
        if self.output.len() > OUTPUT_BYTES_MAX { Err(Finished) } else { Ok(()) }
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
        self.output.shrink_to(SPARE_BYTES);
        if matches!(self.state, State::Refused { .. }) { Err(Finished) } else { Ok(()) }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// A connection, and its other end.
    fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let there = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (here, from) = listener.accept().expect("it connects");
        let deadline = Instant::now() + Duration::from_secs(60);
        (Connection::new(here, from.ip(), deadline, None).expect("a socket"), there)
    }

    /// The messages that have arrived when there are `count`.
    fn messages(connection: &mut Connection, count: usize) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        while messages.len() < count {
            connection.fill().expect("it is open");
            while let Some(message) = connection.next_message().expect("they are well-formed") {
                messages.push(message);
            }
        }
        messages
    }

    #[test]
    fn messages_are_cut_out_however_they_come_and_leave_no_memory() {
        let (mut connection, mut there) = pair();
        let many: Vec<u8> =
            (0..2000_u16).flat_map(|n| [&[2, 0, 0, 0][..], &n.to_le_bytes()].concat()).collect();
        there.write_all(&many).expect("there is room");
        let expected: Vec<Vec<u8>> = (0..2000_u16).map(|n| n.to_le_bytes().to_vec()).collect();
        assert_eq!(messages(&mut connection, 2000), expected);
        assert_eq!((connection.input.len(), connection.input.capacity()), (0, 0));
        let long = [&(FRAME_BYTES_MAX as u32).to_le_bytes()[..], &[7; FRAME_BYTES_MAX]].concat();
        there.write_all(&[&long[..], &long[..100]].concat()).expect("there is room");
        assert_eq!(messages(&mut connection, 1), [[7; FRAME_BYTES_MAX]]);
        there.write_all(&long[100..]).expect("there is room");
        assert_eq!(messages(&mut connection, 1), [[7; FRAME_BYTES_MAX]]);
        assert!(connection.input.capacity() <= FRAME_BYTES_MAX + 4, "{}", connection.input.capacity());
    }

    #[test]
    fn what_was_sent_leaves_no_memory() {
        let (mut connection, mut there) = pair();
        let answer = Answer::Released { request: 7 };
        (0..10_000).for_each(|_| connection.queue(&answer).expect("it is below the bound"));
        let mut buffer = vec![0; 1 << 16];
        while connection.output_bytes() > 0 {
            connection.flush().expect("it is open");
            let _ = there.read(&mut buffer).expect("it is open");
        }
        assert!(connection.output.capacity() <= SPARE_BYTES, "{} bytes", connection.output.capacity());
    }
}
