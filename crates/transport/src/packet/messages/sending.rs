//! Out: as calls, as long as there are some, and in the order in which they were sent.

use farcall_driver::Datagram;
use farcall_protocol::calls::{CallError, Payload, Policy};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::session::EndReason;

use super::{BEHIND_PAYLOAD_BYTES_MAX, MESSAGES, NOTICE_CALL};
use crate::matcher::WaitingSend;
use crate::packet::PacketTransport;
use crate::packet::mailbox::Channel;
use crate::packet::outbound::{Lent, to_protocol};
use crate::trace::event;
use crate::waiting::WaitingPayload;
use crate::{DownReason, MessageId, Outgoing, Refused, SendOutcome, SessionId, Sink, Submitted};

/// Messages up to this many bytes are put together in memory that is used again.
const SCRATCH_BYTES_MAX: usize = 2048;

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    pub(in crate::packet) fn send_message(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Submitted {
        let offer = self.agreed(session).unwrap_or(self.calls.sessions().config().offer);
        let bytes_max = offer.message_bytes_max as usize;
        if payload.len() + BEHIND_PAYLOAD_BYTES_MAX > bytes_max {
            let bytes_max = bytes_max.saturating_sub(BEHIND_PAYLOAD_BYTES_MAX);
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        let submitted = self.tracer.begin();
        let must_wait = self.mail.channels.get(session).is_some_and(|channel| !channel.waiting.is_empty());
        let refused = match must_wait {
            true => Err(Some(payload)),
            false => self.transmit(session, send, tag, payload, submitted),
        };
        match refused {
            Ok(()) => {}
            Err(None) => return Submitted::DOWN,
            Err(Some(payload)) => {
                let waiting = WaitingSend { send, tag, payload: payload.into(), submitted };
                let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
                channel.waiting.push_back(waiting);
                if channel.sending.is_asked() {
                    self.exchange_notices(session);
                }
            }
        }
        Submitted::Queued
    }

    /// Makes the call that carries a message. Gives the payload back if it has to wait, nothing if the
    /// session is down, or ends because the message waited for it and is over its limit. Before the session
    /// is up every message waits: the numbers of those in calls must stay within the agreed limit of calls,
    /// and in the order in which calls leave.
    fn transmit<'p>(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'p>,
        submitted: Option<u64>,
    ) -> Result<(), Option<Outgoing<'p>>> {
        let Some(agreed) = self.agreed(session) else {
            let is_opening = self.calls.is_open(to_protocol(session));
            return Err(is_opening.then_some(payload));
        };
        let calls_max = agreed.calls_max;
        let counted = lines(payload.len());
        let window_lines = self.mail.window_lines;
        let is_free = self.mail.channels.get(session).is_none_or(|channel| {
            let fits = channel.in_flight_lines + counted <= window_lines || channel.in_flight.is_empty();
            fits && channel.in_flight.len() < usize::from(calls_max / 2).max(1)
        });
        if !is_free {
            return Err(Some(payload));
        }
        let made = self.carry(session, send.0, MESSAGES, tag, payload.as_slice());
        let number = match made {
            Ok(number) => number,
            Err(CallError::TooMany { .. }) => {
                self.mail.starve(session);
                return Err(Some(payload));
            }
            Err(CallError::TooLong { bytes, bytes_max }) => {
                let reason = EndReason::WaitingCallTooLong { bytes, bytes_max };
                self.calls.end_because(to_protocol(session), reason);
                return Err(None);
            }
            Err(CallError::Down) => return Err(None),
        };
        self.mail.sent += 1;
        self.tracer.mark_submitted(submitted, number, session);
        if self.tracer.is_on()
            && let Some(call) = self.calls.key_of(to_protocol(session), send.0)
        {
            self.mark_message_named(event::MESSAGE_NAMED, session, call, number);
        }
        let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
        channel.in_flight.push_back((send, counted));
        channel.in_flight_lines += counted;
        Ok(())
    }

    /// Makes a call that carries this payload with its tag and the next number, which is returned.
    pub(super) fn carry(
        &mut self,
        session: SessionId,
        name: u32,
        service: u16,
        tag: Tag,
        payload: &[u8],
    ) -> Result<u32, CallError> {
        let number = self.mail.channels.get(session).map_or(0, |channel| channel.next_number);
        let trailer = (u64::from(number) << 32 | u64::from(tag.0)).to_le_bytes();
        let is_short = payload.len() + trailer.len() <= SCRATCH_BYTES_MAX;
        let mut bytes = match is_short {
            true => core::mem::take(&mut self.mail.scratch),
            false => self.calls.take_buffer(payload.len() + trailer.len()),
        };
        bytes.clear();
        bytes.reserve_exact(payload.len() + trailer.len());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&trailer);
        if is_short {
            let made = self.calls.call(to_protocol(session), name, service, Payload::Slice(&bytes));
            self.mail.scratch = bytes;
            made?;
        } else {
            let payload = Payload::Owned(Lent::Shared(crate::Payload::with_home(&self.home, bytes)));
            self.calls.call(to_protocol(session), name, service, payload)?;
        }
        let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
        channel.next_number = number.wrapping_add(1);
        Ok(number)
    }

    /// The peer has taken a message.
    pub(in crate::packet) fn message_taken(
        &mut self,
        session: SessionId,
        send: MessageId,
        sink: &mut dyn Sink,
    ) {
        let is_it = |channel: &Channel| channel.in_flight.iter().position(|(other, _)| *other == send);
        let channel = self.mail.channels.get_mut(session);
        let Some((channel, place)) = channel.and_then(|channel| is_it(channel).map(|place| (channel, place)))
        else {
            return match send {
                MessageId(NOTICE_CALL) => self.notice_ended(session, true),
                _ => self.violation(session, "a call was answered as a message is"),
            };
        };
        let (_, counted) = channel.in_flight.remove(place).expect("it was found");
        channel.in_flight_lines -= counted;
        let is_any_announced = channel.sending.is_any_announced();
        self.send_waiting(session);
        if is_any_announced {
            self.exchange_notices(session);
        }
        sink.sent(self, send, Ok(()));
    }

    /// Whether a message could go that waits for a call to end.
    #[inline]
    pub(in crate::packet) fn can_feed(&self) -> bool {
        self.mail.starved.iter().any(|&session| self.calls.has_free_call(to_protocol(session)))
    }

    /// Sends messages that waited for a call to end, however it ended.
    #[cold]
    pub(in crate::packet) fn feed_starved(&mut self) {
        // Those for which there are still too few calls come back to the end.
        let mut place = 0;
        for _ in 0..self.mail.starved.len() {
            let session = self.mail.starved[place];
            if self.calls.has_free_call(to_protocol(session)) {
                self.mail.starved.remove(place);
                self.send_waiting(session);
                self.exchange_notices(session);
            } else {
                place += 1;
            }
        }
    }

    /// Sends messages that wait, oldest first.
    pub(in crate::packet) fn send_waiting(&mut self, session: SessionId) {
        while let Some(WaitingSend { send, tag, payload, submitted }) =
            self.mail.channels.get_mut(session).and_then(|channel| channel.waiting.pop_front())
        {
            let mut is_down = false;
            let sent = payload.offer(|payload| {
                self.transmit(session, send, tag, payload, submitted).map_err(|refused| {
                    is_down = refused.is_none();
                    refused.unwrap_or(Outgoing::Slice(&[]))
                })
            });
            if let Err(payload) = sent
                && let Some(channel) = self.mail.channels.get_mut(session)
            {
                // Of a session that is down the end is reported soon, and with it the end of the send.
                let payload = if is_down { WaitingPayload::Bytes(Vec::new()) } else { payload };
                return channel.waiting.push_front(WaitingSend { send, tag, payload, submitted });
            }
            if let Some(channel) = self.mail.channels.get_mut(session) {
                channel.sending.left();
            }
        }
    }

    /// Reports the sends of a session that has ended.
    pub(in crate::packet) fn fail_messages(
        &mut self,
        session: SessionId,
        reason: &DownReason,
        sink: &mut dyn Sink,
    ) {
        for send in self.mail.session_down(session) {
            let outcome: SendOutcome = Err(reason.clone());
            sink.sent(self, send, outcome);
        }
    }
}
