//! Those who ask whether this process lives.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::place::Key;
use super::words::{QUESTION_BYTES, Question};

/// The most connections at a time; beyond, the one that has asked nothing for the longest time makes room.
const ASKERS_MAX: usize = 1024;

/// How long a connection stays on which nothing is asked.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// How long a stranger may take for a first question.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

/// A connection to this process.
pub struct Asker {
    pub stream: TcpStream,
    bytes: [u8; QUESTION_BYTES],
    got: usize,
    /// When it asked last, or came.
    active_at: Instant,
    has_asked: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stays,
    Ends,
}

/// The system has nothing to accept another connection with, which waits until it has.
#[derive(Debug, PartialEq, Eq)]
pub struct NoDescriptor;

/// All of them.
#[derive(Default)]
pub struct Askers(Vec<Asker>);

impl Askers {
    pub fn iter(&self) -> impl Iterator<Item = &Asker> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in those that wait to be accepted.
    pub fn accept(
        &mut self,
        mut accept: impl FnMut() -> io::Result<TcpStream>,
        now: Instant,
    ) -> Result<(), NoDescriptor> {
        loop {
            let stream = match accept() {
                Ok(stream) => stream,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // It was gone before it was taken.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => return Err(NoDescriptor),
                },
            };
            // What blocked would hold up all answers.
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.0.len() == ASKERS_MAX
                && let Some(idle) = (0..self.0.len()).min_by_key(|place| self.0[*place].active_at)
            {
                self.0.swap_remove(idle);
            }
            let bytes = [0; QUESTION_BYTES];
            self.0.push(Asker { stream, bytes, got: 0, active_at: now, has_asked: false });
        }
    }

    /// Answers those of which `is_ready` says that they have said something, and drops those that say
    /// nothing.
    pub fn serve(
        &mut self,
        mut is_ready: impl FnMut(&Asker) -> bool,
        key: Key,
        endpoints: &BTreeSet<u64>,
        now: Instant,
    ) {
        self.0.retain_mut(|asker| {
            let fate = if is_ready(asker) { asker.serve(key, endpoints, now) } else { Fate::Stays };
            fate == Fate::Stays && !asker.is_idle(now)
        });
    }
}

impl Asker {
    fn is_idle(&self, now: Instant) -> bool {
        now.duration_since(self.active_at) > if self.has_asked { IDLE_MAX } else { FIRST_WITHIN }
    }

    /// Reads what was asked and answers it. A wrong question gets nothing.
    fn serve(&mut self, key: Key, endpoints: &BTreeSet<u64>, now: Instant) -> Fate {
        loop {
            match self.stream.read(&mut self.bytes[self.got..]) {
                Ok(0) => return Fate::Ends,
                Ok(bytes) => self.got += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Stays,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Fate::Ends,
            }
            if self.got < QUESTION_BYTES {
                continue;
            }
            let Some(question) = Question::read(&self.bytes, key) else { return Fate::Ends };
            (self.got, self.active_at, self.has_asked) = (0, now, true);
            let answer = question.answer(key, endpoints.contains(&question.endpoint));
            // A peer that does not read its answers need not have more.
            if !matches!(self.stream.write(&answer), Ok(bytes) if bytes == answer.len()) {
                return Fate::Ends;
            }
        }
    }
}
