//! One client's connection: its socket, what it sent and was not done yet, and what it did not read yet.

use std::io;

use rustix::event::epoll::EventFlags;

use super::held::HeldReplies;
use super::input::Input;
use super::parse::Parser;
use super::reading::Rest;
use super::reply::Reply;
use super::session::Session;
use super::socket::Socket;
use super::spares::Spares;
use crate::memcached::Conversation;

/// Bytes of replies that a client has not read, from which on its commands wait.
pub const UNREAD_BYTES_MAX: usize = 256 << 10;

/// Bytes that a client may send while it waits for something; the rest stays in its socket.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Replies that were sent are forgotten once they are longer.
const SENT_BYTES_MAX: usize = 64 << 10;

/// Longer requests are received where they are understood.
const SHORT_BYTES_MAX: usize = 16 << 10;

/// Requests that are received at a time where they are long: as many as have this length together.
const REQUESTS_BYTES: usize = 256 << 10;

/// A client.
#[derive(Debug)]
pub struct Connection {
    pub socket: Socket,
    pub session: Session,
    /// Bytes that came and are not done: the start of a request, or what waits for earlier replies to be
    /// read.
    pub input: Input,
    /// How long the longest of the requests was that ran last: the next ones may be as long.
    pub request_bytes: usize,
    /// How far the first request in `input` is understood.
    pub parser: Parser,
    /// Replies that the socket did not take yet, from `sent` on.
    pub output: Vec<u8>,
    /// How long the replies before them were together.
    pub last_replies_bytes: usize,
    sent: usize,
    /// What follows them: long values are read when their turn has come.
    pub rest: Rest,
    /// The reply that the rest belongs to waits for the log.
    pub rest_is_held: bool,
    /// Which of them wait for the log.
    pub held: HeldReplies,
    /// When the socket last took something, in milliseconds of the front's clock.
    progress_ms: u64,
    /// What the loop watches the socket for.
    pub watched: EventFlags,
    /// What it took when that was counted last.
    pub counted_bytes: usize,
    /// Requests in `input` wait for replies to be read.
    pub is_held: bool,
    /// They wait until the log takes more.
    pub is_paused: bool,
    /// It is among those of which more was deciphered than was read.
    pub is_unread: bool,
    /// Nothing follows what is in `output`.
    pub is_closing: bool,
    /// What is remembered of a client that speaks memcached's protocol.
    pub memcached: Option<Box<Conversation>>,
}

impl Connection {
    /// A client that has just connected.
    pub fn new(socket: Socket, session: Session) -> Self {
        Self {
            socket,
            input: Input::default(),
            request_bytes: 0,
            parser: Parser::default(),
            output: Vec::new(),
            last_replies_bytes: 0,
            sent: 0,
            rest: Rest::default(),
            rest_is_held: false,
            held: HeldReplies::default(),
            progress_ms: session.since_ms,
            session,
            watched: EventFlags::IN,
            counted_bytes: 0,
            is_held: false,
            is_paused: false,
            is_unread: false,
            is_closing: false,
            memcached: None,
        }
    }

    /// Reads what has come, up to the length of `to`; `None` when nothing has. 0 is the end.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        let read = self.socket.read(to)?;
        if let Some(principal) = self.socket.take_proof() {
            self.session.principal = principal;
        }
        Ok(read)
    }

    /// Sends replies, as many as the socket takes.
    pub fn flush(&mut self, now_ms: u64) -> io::Result<()> {
        self.socket.push()?;
        let end = self.held.sendable(self.output.len());
        if self.sent == end {
            return Ok(());
        }
        while self.sent < end
            && let Some(sent) = self.socket.write(&self.output[self.sent..end])?
        {
            self.sent += sent;
            self.progress_ms = now_ms;
        }
        if self.sent == self.output.len() {
            self.forget_output();
        } else if self.sent > SENT_BYTES_MAX && self.sent > self.output.len() / 2 {
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
        self.last_replies_bytes = self.output.len();
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
        self.rest = Rest::default();
        self.is_closing = true;
    }

    /// Bytes of replies that the socket did not take.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent + self.rest.bytes()
    }

    /// Memory that it takes beside the store: what it sent and is sent, and what is remembered of it.
    pub fn memory_bytes(&self) -> usize {
        let sent = self.input.memory_bytes() + self.parser.memory_bytes();
        let read = self.output.capacity() + self.rest.bytes();
        sent + read + self.session.memory_bytes() + self.socket.memory_bytes()
    }

    /// Whether everything was sent.
    pub fn has_sent_all(&self) -> bool {
        self.sent == self.output.len() && self.rest.is_empty() && !self.socket.wants_write()
    }

    /// Whether more of long values may follow the output now.
    pub fn wants_more(&self) -> bool {
        !self.rest.is_empty() && self.held.is_empty() && !self.is_stalled()
    }

    /// Takes a reply, of which long values are a part, as what is sent next.
    pub fn take_reply(&mut self, reply: Reply) {
        let (mut output, longs) = reply.into_parts();
        self.rest = Rest::split(&mut output, longs);
        self.output = output;
    }

    /// Puts something behind everything that is to be sent.
    pub fn append(&mut self, put: impl FnOnce(&mut Reply)) {
        let is_last = self.rest.is_empty();
        let memory = if is_last { core::mem::take(&mut self.output) } else { Vec::new() };
        let mut reply = Reply::new(memory, self.session.protocol);
        put(&mut reply);
        if is_last {
            self.output = reply.into_bytes();
        } else {
            self.rest.push(reply.into_bytes());
        }
    }

    /// Refuses the replies that wait for the log.
    pub fn refuse_held(&mut self, text: &str) {
        if core::mem::take(&mut self.rest_is_held) {
            // A part of the reply follows, which nothing can stand for.
            self.discard();
        } else {
            self.held.refuse(&mut self.output, text);
        }
    }

    /// Whether its commands wait until it reads.
    pub fn is_stalled(&self) -> bool {
        self.output.len() - self.sent > UNREAD_BYTES_MAX
    }

    /// Whether it is stalled, and has read nothing since a time.
    pub fn is_stuck_since(&self, ms: u64) -> bool {
        self.is_stalled() && self.is_sendable() && self.progress_ms <= ms
    }

    /// Whether it has neither read nor sent anything since a time for which it takes memory that others need:
    /// replies, or long values that are no objects yet.
    pub fn is_idle_since(&self, ms: u64) -> bool {
        let last_ms = self.session.last_ms.max(self.session.long_ms);
        let holds_longs = self.session.has_long_values() && !self.is_paused;
        self.is_stuck_since(ms) || holds_longs && last_ms <= ms
    }

    /// How many bytes of the first request in `input` must be there before more of it can be understood.
    pub fn wanted(&self) -> usize {
        self.memcached.as_ref().map_or_else(|| self.parser.wanted(), |memcached| memcached.wanted())
    }

    /// How many bytes are to be received behind `input`, if the requests there are long, or may be: up to
    /// where a request ends if it is as long as those before it. So nothing of the next one must be moved.
    pub fn long_bytes(&self) -> Option<usize> {
        let waits = self.session.blocked.is_some() || self.is_paused;
        let length = self.wanted().max(self.request_bytes);
        if length <= SHORT_BYTES_MAX || waits {
            return None;
        }
        let requests = (REQUESTS_BYTES / length).max(1);
        (requests * length).checked_sub(self.input.len()).filter(|bytes| *bytes > 0)
    }

    /// What the loop is to watch the socket for.
    pub fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        let waits =
            (self.session.blocked.is_some() || self.is_paused) && self.input.len() >= WAITING_BYTES_MAX;
        if !self.is_closing && !self.is_stalled() && !waits && self.rest.is_empty() {
            interest |= EventFlags::IN;
        }
        if self.is_sendable() || self.socket.wants_write() {
            interest |= EventFlags::OUT;
        }
        interest
    }

    /// Gives memory back that a quiet client does not need.
    pub fn trim(&mut self, inputs: &mut Spares) {
        self.input.trim(inputs);
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }
}
