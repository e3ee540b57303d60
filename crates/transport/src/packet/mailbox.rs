//! What a packet transport keeps of messages: those that nobody expected, and for each session what is in
//! flight or waits.

use std::collections::{HashMap, VecDeque};

use farcall_base::{Identity, SipKey};
use farcall_protocol::matching::{Matching, Sequencer, Source, Tag, WINDOW_LINE_BYTES};
use farcall_protocol::wire::CallKey;

use super::PacketConfig;
use crate::matcher::{OrphanedSessions, WaitingSend};
use crate::notices::{Receiving, Sending};
use crate::{Kept, MessageId, SessionId};

/// All messages of a packet transport.
pub struct Mailbox {
    pub matching: Matching<Held>,
    pub hands_on: bool,
    pub channels: Channels,
    /// What a peer's unexpected messages may count.
    pub window_lines: u32,
    orphaned: OrphanedSessions,
    /// What the messages of ended sessions take, and may take.
    pub orphaned_bytes: usize,
    orphaned_bytes_max: usize,
    /// Whether messages are taken at all.
    pub takes_messages: bool,
    /// Sessions of which messages wait until one of their calls is over: no answer to a message may come that
    /// would send them.
    pub starved: Vec<SessionId>,
    pub scratch: Vec<u8>,
    /// How many messages left.
    pub sent: u64,
    /// How many of them left beyond a window.
    pub sent_beyond: u64,
    /// Sessions of which messages wait that no receive wanted, and perhaps others.
    pub unread: Vec<SessionId>,
}

/// A message that nobody expected.
#[derive(Debug)]
pub struct Held {
    pub session: SessionId,
    pub payload: Kept,
    pub lines: u32,
    pub number: u32,
    /// Whether it came beyond the window.
    pub is_beyond: bool,
}

/// What a message takes beside its payload: its place, and its links in the queues of those that wait.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// Messages that outlive their sessions take at most this part of what peers can make an endpoint hold.
const ORPHANED_DIVISOR: usize = 8;

/// What a message with such a payload takes while it waits.
pub fn stored_bytes(payload: &Kept) -> usize {
    payload.len() + MESSAGE_OVERHEAD_BYTES
}

/// A message that came before those in front of it.
pub struct Early {
    pub tag: Tag,
    pub request: CallKey,
    pub number: u32,
    /// Whether it is a notice.
    pub is_notice: bool,
    pub payload: Kept,
}

/// A message whose answer waits until it is received.
pub struct Withheld {
    pub number: u32,
    pub request: CallKey,
    pub lines: u32,
}

/// The messages of the sessions that have had any: a server has thousands of sessions, and most carry calls
/// alone.
#[derive(Default)]
pub struct Channels(HashMap<SessionId, Channel>);

impl Channels {
    /// The messages of a session, if it has had any.
    #[inline]
    pub fn get(&self, session: SessionId) -> Option<&Channel> {
        self.0.get(&session)
    }

    /// The same to be changed.
    #[inline]
    pub fn get_mut(&mut self, session: SessionId) -> Option<&mut Channel> {
        self.0.get_mut(&session)
    }

    /// The messages of a session; its `peer` is not known while it is opening.
    #[inline]
    pub fn of(&mut self, session: SessionId, peer: impl FnOnce() -> Option<Identity>) -> &mut Channel {
        self.0.entry(session).or_insert_with(|| {
            let mut channel = Channel::default();
            if let Some(peer) = peer() {
                channel.up(session, peer);
            }
            channel
        })
    }
}

/// The messages of one session.
#[derive(Default)]
pub struct Channel {
    /// Whose messages come here; not known while the session is opening.
    pub source: Source,
    pub next_number: u32,
    /// Messages that were not answered yet, with what they count.
    pub in_flight: VecDeque<(MessageId, u32)>,
    pub in_flight_lines: u32,
    pub waiting: VecDeque<WaitingSend>,
    pub sequencer: Sequencer<Early>,
    /// What the unexpected messages count that were answered.
    pub held_lines: u32,
    pub withheld: VecDeque<Withheld>,
    /// What its unexpected messages take.
    pub stored_bytes: usize,
    /// What is said to the peer about messages that a window holds up.
    pub receiving: Receiving,
    pub sending: Sending,
    /// What the unexpected messages count that came beyond the window.
    pub beyond_lines: u32,
    /// Calls that carry notices.
    pub notices_in_flight: usize,
    /// Whether the session is in [`Mailbox::unread`].
    pub is_listed: bool,
    /// Whether the peer may send no messages.
    pub is_refused: bool,
}

impl Channel {
    /// The session is up: from now on its messages have a source. Its peer reads notices unless it refuses
    /// one.
    fn up(&mut self, session: SessionId, peer: Identity) {
        self.source = Source::new(peer.rank, peer.endpoint, session.0);
        self.receiving.is_understood = true;
    }
}

impl Mailbox {
    /// No messages yet.
    pub fn new(secret: SipKey, config: &PacketConfig) -> Self {
        Self {
            matching: Matching::new(secret),
            hands_on: false,
            channels: Channels::default(),
            window_lines: u32::try_from(config.unexpected_bytes / WINDOW_LINE_BYTES).unwrap_or(u32::MAX),
            orphaned: OrphanedSessions::default(),
            orphaned_bytes: 0,
            orphaned_bytes_max: config.bytes_max / ORPHANED_DIVISOR,
            takes_messages: config.messages,
            starved: Vec::new(),
            scratch: Vec::new(),
            sent: 0,
            sent_beyond: 0,
            unread: Vec::new(),
        }
    }

    /// Whether messages wait that the sink takes.
    #[inline]
    pub fn keeps_for_sink(&self) -> bool {
        self.hands_on && !self.matching.has_no_messages()
    }

    /// Takes back sends that wait.
    pub fn cancel_send(&mut self, send: MessageId) -> usize {
        let waiting = |channel: &mut Channel| {
            let before = channel.waiting.len();
            channel.waiting.retain(|waiting| waiting.send != send);
            channel.sending.were_cancelled();
            before - channel.waiting.len()
        };
        self.channels.0.values_mut().map(waiting).sum()
    }

    pub fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.matching.withdraw(receive.0)
    }

    /// A session is up, of which messages may wait.
    pub fn session_up(&mut self, session: SessionId, peer: Identity) {
        if let Some(channel) = self.channels.get_mut(session) {
            channel.up(session, peer);
        }
    }

    /// Whether calls of a session carry notices.
    pub fn has_notices_in_flight(&self, session: SessionId) -> bool {
        self.channels.get(session).is_some_and(|channel| channel.notices_in_flight > 0)
    }

    /// Something of a session waits until one of its calls is over.
    pub fn starve(&mut self, session: SessionId) {
        if !self.starved.contains(&session) {
            self.starved.push(session);
        }
    }

    /// A session is over: gives the sends that it leaves behind. What it sent can still be received, within
    /// bounds.
    pub fn session_down(&mut self, session: SessionId) -> Vec<MessageId> {
        self.starved.retain(|starved| *starved != session);
        self.unread.retain(|unread| *unread != session);
        // One that never came up counts as well: whoever remembers whom ended sessions led to remembers it,
        // too.
        let channel = self.channels.0.remove(&session).unwrap_or_default();
        self.orphaned_bytes += channel.stored_bytes;
        let mut freed = 0;
        let mut is_of = |message: &Held, session: SessionId| {
            let is_of = message.session == session;
            freed += if is_of { stored_bytes(&message.payload) } else { 0 };
            is_of
        };
        self.orphaned.add(&mut self.matching, channel.source, session, &mut is_of);
        self.orphaned_bytes -= freed;
        while self.orphaned_bytes > self.orphaned_bytes_max && self.forget_oldest_orphan() {}
        let in_flight = channel.in_flight.into_iter().map(|(send, _)| send);
        in_flight.chain(channel.waiting.into_iter().map(|waiting| waiting.send)).collect()
    }

    fn forget_oldest_orphan(&mut self) -> bool {
        let mut freed = 0;
        let any = self.orphaned.forget_oldest(&mut self.matching, |message, session| {
            let is_of = message.session == session;
            freed += if is_of { stored_bytes(&message.payload) } else { 0 };
            is_of
        });
        self.orphaned_bytes -= freed;
        any
    }
}
