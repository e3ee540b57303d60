//! Notices about messages that the window holds up, as calls to a service of their own. They are numbered
//! with the messages, so that both keep their order.
//!
//! A peer that does not serve it hears nothing more of notices.

use farcall_driver::Datagram;
use farcall_protocol::calls::{CallError, Policy};
use farcall_protocol::matching::{Notice, Source, Tag, lines};
use farcall_protocol::session::EndReason;
use farcall_protocol::wire::CallKey;

use crate::matcher::WaitingSend;
use crate::notices::{Due, Held};
use crate::packet::PacketTransport;
use crate::packet::mailbox::Channel;
use crate::packet::outbound::to_protocol;
use crate::{Incoming, Outgoing, SessionId, Sink};

/// The service that carries notices.
pub const NOTICES: u16 = u16::MAX - 1;

/// The name of all calls that carry notices without a message.
pub const NOTICE_CALL: u32 = u32::MAX;

/// The most calls of a session that carry notices at a time, so that enough are left for others.
const NOTICES_IN_FLIGHT_MAX: usize = 8;

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    /// A receive waits that may be for messages which a peer keeps.
    pub(super) fn note_wanted(&mut self, source: Option<Source>, tag: Tag) {
        let mut unread = core::mem::take(&mut self.mail.unread);
        unread.retain(|&session| {
            let Some(channel) = self.mail.channels.get_mut(session) else { return false };
            channel.is_listed = channel.is_held_up();
            if channel.is_listed && source.is_none_or(|source| source == channel.source) {
                channel.receiving.want(tag);
                self.exchange_notices(session);
            }
            self.mail.channels.get(session).is_some_and(|channel| channel.is_listed)
        });
        self.mail.unread = unread;
    }

    /// A notice came, in its turn; its code is behind what it carries.
    pub(super) fn take_notice(
        &mut self,
        session: SessionId,
        request: CallKey,
        tag: Tag,
        number: u32,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some((&code, message)) = payload.split_last() else {
            return self.violation(session, "a notice without a code");
        };
        let Some(notice) = Notice::from_wire(code.into(), tag.0, lines(message.len())) else {
            return self.violation(session, "a notice of unknown code");
        };
        let Some(channel) = self.mail.channels.get_mut(session) else { return };
        if channel.is_refused && matches!(notice, Notice::Beyond { .. }) {
            return self.calls.end_because(to_protocol(session), EndReason::NotAllowed);
        }
        let taken = match notice {
            Notice::Ask | Notice::Grant(_) => channel.sending.take(notice),
            _ => channel.receiving.take(notice),
        };
        if taken.is_err() {
            return self.violation(session, "a notice that answers nothing");
        }
        self.acknowledge(session, request);
        if let Notice::Beyond { .. } = notice {
            self.deliver_beyond(session, tag, number, &Incoming::Borrowed(message), sink);
        }
        self.exchange_notices(session);
    }

    /// A call ended that carried a notice.
    pub(in crate::packet) fn notice_ended(&mut self, session: SessionId, is_understood: bool) {
        let Some(channel) = self.mail.channels.get_mut(session) else { return };
        channel.notices_in_flight = channel.notices_in_flight.saturating_sub(1);
        channel.receiving.is_understood &= is_understood;
        self.exchange_notices(session);
    }

    /// Sends the notices that are due, and the messages that were granted, as long as there are calls.
    pub(super) fn exchange_notices(&mut self, session: SessionId) {
        if self.agreed(session).is_none() {
            return;
        }
        let Some(channel) = self.mail.channels.get_mut(session) else { return };
        let (matching, source) = (&self.mail.matching, channel.source);
        let held = Held {
            is_held_up: channel.is_held_up(),
            has_room: channel.beyond_lines < self.mail.window_lines,
            has_receives: !matching.has_no_receives(),
        };
        channel.receiving.examine(&held, |tag| matching.wants(source, tag));
        while let Some(channel) = self.mail.channels.get_mut(session)
            && channel.notices_in_flight < NOTICES_IN_FLIGHT_MAX
        {
            if !self.calls.has_free_call(to_protocol(session)) {
                return self.mail.starve(session);
            }
            if let Some(notice) = channel.receiving.next() {
                channel.receiving.sent();
                self.send_notice(session, notice);
                continue;
            }
            match channel.sending.next(&channel.waiting) {
                None => return,
                Some(Due::Notice(notice)) => self.send_notice(session, notice),
                Some(Due::Beyond(tag, place)) => self.send_beyond(session, tag, place),
            }
        }
    }

    fn send_notice(&mut self, session: SessionId, notice: Notice) {
        let (code, tag, _) = notice.to_wire();
        let carried = self.carry(session, NOTICE_CALL, NOTICES, Tag(tag), &[code as u8]);
        if let (Ok(_), Some(channel)) = (carried, self.mail.channels.get_mut(session)) {
            channel.notices_in_flight += 1;
        }
    }

    /// Sends the message of a grant.
    fn send_beyond(&mut self, session: SessionId, tag: Tag, place: usize) {
        let Some(channel) = self.mail.channels.get_mut(session) else { return };
        let Some(waiting) = channel.waiting.remove(place) else { return };
        channel.sending.promise(tag);
        channel.sending.passed(place);
        let WaitingSend { send, payload, submitted, .. } = waiting;
        let (code, ..) = Notice::Beyond { tag, lines: 0 }.to_wire();
        let mut bytes = Outgoing::from(payload).as_slice().to_vec();
        bytes.push(code as u8);
        match self.carry(session, send.0, NOTICES, tag, &bytes) {
            Ok(number) => {
                self.mail.sent += 1;
                self.mail.sent_beyond += 1;
                self.tracer.mark_submitted(submitted, number, session);
            }
            // It waited for the session, and is over what was agreed then.
            Err(CallError::TooLong { bytes, bytes_max }) => {
                let reason = EndReason::WaitingCallTooLong { bytes, bytes_max };
                self.calls.end_because(to_protocol(session), reason);
            }
            // The caller looked for a free call; the sends of a session that has ended end with it.
            Err(CallError::TooMany { .. } | CallError::Down) => {}
        }
        if let Some(channel) = self.mail.channels.get_mut(session) {
            channel.in_flight.push_back((send, 0));
        }
    }
}

impl Channel {
    /// Whether messages wait that no receive wanted.
    pub fn is_held_up(&self) -> bool {
        self.held_lines > 0 || self.beyond_lines > 0 || !self.withheld.is_empty()
    }
}
