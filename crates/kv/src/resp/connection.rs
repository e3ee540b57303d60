//! One client's connection: its socket, what it sent and was not done yet, and what it did not read yet.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::held::HeldReplies;
use super::parse::Parser;
use super::session::Session;
use crate::memcached::Conversation;

/// Bytes of replies that a client has not read, from which on its commands wait.
pub const UNREAD_BYTES_MAX: usize = 256 << 10;

/// Bytes that a client may send while it waits for something; the rest stays in its socket.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Memory of requests and replies up to which it is kept for the next ones.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// A client.
#[derive(Debug)]
pub struct Connection {
    pub socket: OwnedFd,
    pub session: Session,
    /// Bytes that came and are not done: the start of a request, or what waits for earlier replies to be
    /// read.
    pub input: Vec<u8>,
    /// How far the first request in `input` is understood.
    pub parser: Parser,
    /// Replies that the socket did not take yet, from `sent` on.
    pub output: Vec<u8>,
    sent: usize,
    /// Which of them wait for the log.
    pub held: HeldReplies,
    /// When the socket last took something, in milliseconds of the front's clock.
    progress_ms: u64,
    /// What the loop watches the socket for.
    pub watched: EventFlags,
    /// Requests in `input` wait for replies to be read.
    pub is_held: bool,
    /// They wait until the log takes more.
    pub is_paused: bool,
    /// Nothing follows what is in `output`.
    pub is_closing: bool,
    /// What is remembered of a client that speaks memcached's protocol.
    pub memcached: Option<Box<Conversation>>,
}

impl Connection {
    /// A client that has just connected.
    pub fn new(socket: OwnedFd, session: Session) -> Self {
        Self {
            socket,
            input: Vec::new(),
            parser: Parser::default(),
            output: Vec::new(),
            sent: 0,
            held: HeldReplies::default(),
            progress_ms: session.since_ms,
            session,
            watched: EventFlags::IN,
            is_held: false,
            is_paused: false,
            is_closing: false,
            memcached: None,
        }
    }

    /// Reads what has come, up to the length of `to`; `None` when nothing has. 0 is the end.
    pub fn read(&self, to: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.socket, to, RecvFlags::DONTWAIT) {
            Ok((read, _)) => Ok(Some(read)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends replies, as many as the socket takes.
    pub fn flush(&mut self, now_ms: u64) -> io::Result<()> {
        let end = self.held.sendable(self.output.len());
        if self.sent == end {
            return Ok(());
        }
        while self.sent < end {
            match send(&self.socket, &self.output[self.sent..end], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            {
                Ok(sent) => {
                    self.sent += sent;
                    self.progress_ms = now_ms;
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.sent == self.output.len() {
            self.forget_output();
        } else if self.sent > KEPT_BYTES_MAX && self.sent > self.output.len() / 2 {
            // Of a client whose replies always wait for the next flush there is no end.
            self.output.drain(..self.sent);
            self.held.forget(self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn forget_output(&mut self) {
        self.held.forget(self.output.len());
        self.sent = 0;
        self.output.clear();
    }

    /// Whether there is something that the socket could take.
    fn is_sendable(&self) -> bool {
        self.sent < self.held.sendable(self.output.len())
    }

    /// Replies that waited for the log may be sent from now on.
    pub fn released(&mut self, now_ms: u64) {
        self.progress_ms = now_ms;
    }

    /// Closes it, whatever it has not read.
    pub fn discard(&mut self) {
        self.held.flushed(u64::MAX);
        self.forget_output();
        self.is_closing = true;
    }

    /// Bytes of replies that the socket did not take.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether its commands wait until it reads.
    pub fn is_stalled(&self) -> bool {
        self.unsent_bytes() > UNREAD_BYTES_MAX
    }

    /// Whether it is stalled, and has read nothing since a time.
    pub fn is_stuck_since(&self, ms: u64) -> bool {
        self.is_stalled() && self.is_sendable() && self.progress_ms <= ms
    }

    /// How many bytes of the first request in `input` must be there before more of it can be understood.
    pub fn wanted(&self) -> usize {
        self.memcached.as_ref().map_or_else(|| self.parser.wanted(), |memcached| memcached.wanted())
    }

    /// What the loop is to watch the socket for.
    pub fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        let waits =
            (self.session.blocked.is_some() || self.is_paused) && self.input.len() >= WAITING_BYTES_MAX;
        if !self.is_closing && !self.is_stalled() && !waits {
            interest |= EventFlags::IN;
        }
        if self.is_sendable() {
            interest |= EventFlags::OUT;
        }
        interest
    }

    /// Gives memory back that a quiet client does not need.
    pub fn trim(&mut self) {
        if self.input.is_empty() {
            self.input = Vec::new();
        } else if self.input.capacity() > KEPT_BYTES_MAX && self.input.len() < self.input.capacity() / 4 {
            self.input.shrink_to_fit();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }
}
