//! Tagged messages as rings and libraries have them: matched here, and sent within the window of their
//! receiver.
//!
//! A [`Mail`] is the receiving half of one transport, a [`Correspondent`] what there is for each session.
//! Neither knows how messages travel: a transport asks what is to become of a message and does it, because
//! only the transport can hand its outbox to the sink.

use std::collections::VecDeque;

use farcall_protocol::matching::{
    ExactReceives, Matching, Overrun, Pattern, ReceiveWindow, SendWindow, Source, Tag,
};

use crate::batch::Taken;
use crate::orphaned::Orphaned;
use crate::waiting::WaitingPayload;
use crate::{
    DownReason, Envelope, Incoming, Kept, MessageId, Origin, Posted, SendOutcome, SessionId, Spares,
};

/// The receives and unexpected messages of one transport, and the ends of sends that the sink does not know
/// yet.
pub struct Mail {
    matching: Matching<Unexpected>,
    /// Whether messages that nobody expects go to the sink.
    pub hands_on: bool,
    pub ended_sends: Vec<(MessageId, SendOutcome)>,
    /// Memory of sends that waited, for the next that do.
    pub spares: Spares,
    orphaned: Orphaned,
}

/// A message that nobody expected.
#[derive(Debug)]
struct Unexpected {
    session: SessionId,
    payload: Kept,
    /// What it counts in its session's window.
    lines: u32,
    /// Its place among the messages of its session.
    number: u32,
}

/// A message that is waited for no longer, and what it counts in the window of its session.
pub struct Claimed {
    pub envelope: Envelope,
    pub payload: Kept,
    pub lines: u32,
    /// Its place among the messages of its session.
    pub number: u32,
}

/// What is to become of a message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A receive gets it.
    Receive(MessageId),
    /// The sink gets it, as one that nobody expects.
    HandOn,
    /// It was kept.
    Kept,
    /// Nobody expects it and it shall wait where it lies. Nothing was changed.
    Left,
}

/// The messages of one session.
#[derive(Default)]
pub struct Correspondent {
    /// Whose messages come here.
    pub source: Source,
    /// Tagged messages that wait for room or for the window; bounded by the operations of the layer above.
    pub sends: VecDeque<WaitingSend>,
    pub send_window: SendWindow,
    pub receive_window: ReceiveWindow,
    /// Messages that have left and that have come, by which both ends name them alike: always counted,
    /// because tracing begins at different times at the two.
    pub sent: u32,
    pub received: u32,
}

/// A tagged message that waits for room, or for the peer's window.
pub struct WaitingSend {
    pub send: MessageId,
    pub tag: Tag,
    pub payload: WaitingPayload,
    /// When it was submitted, if that is traced.
    pub submitted: Option<u64>,
}

impl Correspondent {
    /// Whether a message that counts so much may overtake nothing and fits the peer's window.
    #[inline]
    pub fn may_send(&self, lines: u32) -> bool {
        self.sends.is_empty() && self.send_window.admits(lines)
    }

    /// A message leaves that counts so much; gives its number.
    #[inline]
    pub fn send(&mut self, lines: u32) -> u32 {
        let number = self.sent;
        self.send_window.send(lines);
        self.sent = number.wrapping_add(1);
        number
    }

    /// Messages of a burst came and were received.
    #[inline]
    pub fn pass(&mut self, taken: Taken) -> Result<(), Overrun> {
        self.receive_window.arrive(taken.lines)?;
        self.receive_window.consume(taken.lines);
        self.received = self.received.wrapping_add(u32::from(taken.messages));
        Ok(())
    }

    /// Takes back the sends of that name which wait; returns how many there were.
    pub fn cancel(&mut self, send: MessageId) -> usize {
        let before = self.sends.len();
        self.sends.retain(|waiting| waiting.send != send);
        before - self.sends.len()
    }
}

impl Mail {
    /// Nothing waits. `seed`, drawn at random, keeps peers from choosing tags that are slow to find.
    pub fn new(seed: u64) -> Self {
        Self {
            matching: Matching::new(seed),
            hands_on: false,
            ended_sends: Vec::new(),
            spares: Spares::default(),
            orphaned: Orphaned::default(),
        }
    }

    /// A send that waited has left; the buffer was its payload's.
    #[inline]
    pub fn has_left(&mut self, send: MessageId, spare: Vec<u8>) {
        self.spares.keep(spare);
        self.ended_sends.push((send, Ok(())));
    }

    /// The ends that were in this memory have been reported; if no others came meanwhile, the next come into
    /// it.
    #[inline]
    pub fn reuse(&mut self, ended: Vec<(MessageId, SendOutcome)>) {
        if self.ended_sends.is_empty() {
            self.ended_sends = ended;
        }
    }

    /// Whether messages go to the sink and to nobody else.
    #[inline]
    pub fn only_hands_on(&self) -> bool {
        self.hands_on && self.matching.has_no_receives()
    }

    /// Whether messages wait that the sink takes.
    #[inline]
    pub fn keeps_for_sink(&self) -> bool {
        self.hands_on && !self.matching.has_no_messages()
    }

    /// Whether no receive waits for a message, no message for a receive, and the sink for none.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.hands_on && self.matching.is_empty()
    }

    /// Whether a receive or the sink waits for a message.
    #[inline]
    pub fn expects_messages(&self) -> bool {
        self.hands_on || !self.matching.has_no_receives()
    }

    /// A message came: the receive that gets it, which waits no longer, if there is one.
    #[inline(always)]
    pub fn take_receive(&mut self, source: Source, tag: Tag) -> Option<MessageId> {
        self.matching.arrive(source, tag).map(MessageId)
    }

    /// To find the receives for messages of a source that came together; `None` where any waits that leaves
    /// the source or the tag open.
    #[inline(always)]
    pub fn exact_receives(&mut self, source: Source) -> Option<ExactReceives<'_>> {
        self.matching.exact_receives(source)
    }

    /// A message came that counts so many `lines`; `leave` says whether it may wait where it lies.
    #[inline]
    pub fn arrive(
        &mut self,
        from: &mut Correspondent,
        envelope: Envelope,
        payload: &Incoming<'_>,
        lines: u32,
        leave: bool,
    ) -> Result<Verdict, Overrun> {
        let receive = self.take_receive(from.source, envelope.tag);
        if receive.is_none() && leave && !self.hands_on {
            return Ok(Verdict::Left);
        }
        from.receive_window.arrive(lines)?;
        let number = from.received;
        from.received = number.wrapping_add(1);
        let verdict = match receive {
            Some(receive) => Verdict::Receive(receive),
            None if self.hands_on => Verdict::HandOn,
            None => {
                self.keep(from.source, envelope, payload, lines, number);
                return Ok(Verdict::Kept);
            }
        };
        from.receive_window.consume(lines);
        Ok(verdict)
    }

    #[cold]
    fn keep(&mut self, source: Source, envelope: Envelope, payload: &Incoming<'_>, lines: u32, number: u32) {
        let Envelope { session, tag, .. } = envelope;
        self.matching.keep(source, tag, Unexpected { session, payload: Kept::from(payload), lines, number });
    }

    /// Posts a receive; `is_down` says that the session that it names has ended. A message that is claimed
    /// counts as consumed from now on: the window of its session must be told.
    #[inline]
    pub fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        is_down: bool,
    ) -> Result<Claimed, Posted> {
        let pattern = Pattern { source: from.map(Origin::source), tag };
        match self.matching.post(receive.0, pattern) {
            Some(expected) => Ok(Claimed::new(expected.tag, expected.message)),
            None if is_down => {
                self.matching.withdraw(receive.0);
                Err(Posted::Down)
            }
            None => Err(Posted::Waiting),
        }
    }

    /// As [`Mail::post`] where no message waits and there is a place for it; false otherwise, and then
    /// nothing has happened.
    #[inline(always)]
    pub fn post_at_once(&mut self, receive: MessageId, source: Source, tag: Tag) -> bool {
        self.matching.post_at_once(receive.0, source, tag)
    }

    /// Takes back a receive. False when it does not wait.
    pub fn withdraw(&mut self, receive: MessageId) -> bool {
        self.matching.withdraw(receive.0)
    }

    /// The oldest unexpected message, if the sink takes all.
    pub fn claim_for_sink(&mut self) -> Option<Claimed> {
        const ANY: Pattern = Pattern { source: None, tag: None };
        let expected = if self.hands_on { self.matching.take(ANY) } else { None }?;
        Some(Claimed::new(expected.tag, expected.message))
    }

    /// A session is over: the sends that wait for it end, and what it sent before can still be received,
    /// within bounds.
    pub fn part(&mut self, from: &mut Correspondent, session: SessionId, reason: &DownReason) {
        let sends = core::mem::take(&mut from.sends);
        self.ended_sends.extend(sends.into_iter().map(|waiting| (waiting.send, Err(reason.clone()))));
        self.orphaned.add(&mut self.matching, from.source, session, |message| message.session);
    }
}

impl Claimed {
    #[inline]
    fn new(tag: Tag, message: Unexpected) -> Self {
        let Unexpected { session, payload, lines, number } = message;
        Self { envelope: Envelope { session, tag, bytes: payload.len() }, payload, lines, number }
    }
}
