//! Sessions over a library: how they are opened, come up and end, what they say, and which destinations they
//! lead to.
//!
//! A library knows destinations and no sessions. Several sessions may lead to one destination, one after the
//! other, and it is forgotten when none does any more.

use farcall_base::Instant;
use farcall_driver::Destination;
use farcall_protocol::matching::Source;
use farcall_protocol::session::{EndReason, PeerAddress, SessionEvent, SessionId};
use farcall_protocol::wire::{Header, Opcode};

use super::LibraryTransport;
use super::NOBODY;
use super::channel::Channel;
use super::seam::{ARRIVAL_HEAD_BYTES_MAX, Library};
use crate::matcher::Deferral;
use crate::{DownReason, Outgoing, Sink, down_reason};

impl<L: Library> LibraryTransport<L> {
    /// Starts to open a session.
    pub(super) fn open(&mut self, to: Destination, now: Instant) -> Option<SessionId> {
        self.note_destination(to);
        let id = self.sessions.connect(PeerAddress(to.0), now).ok()?;
        self.add_channel(id, to);
        Some(id)
    }

    /// Tells every peer that this is the end.
    pub(super) fn close_all(&mut self) {
        for index in 0..self.channels.len() {
            if let Some(channel) = &self.channels[index] {
                self.sessions.close(channel.id);
            }
        }
        self.transmit_session_packets();
    }

    /// Sends what sessions have to say.
    #[inline]
    pub(super) fn transmit_session_packets(&mut self) {
        if self.sessions.wants_transmit() {
            self.transmit_those_waiting();
        }
    }

    /// What does not fit a head goes in front of the payload. OPEN goes with the address that answers must be
    /// sent to.
    #[cold]
    fn transmit_those_waiting(&mut self) {
        while let Some(to) = self.sessions.poll_transmit(&mut self.head) {
            if to == NOBODY {
                continue;
            }
            let packet = self.head.as_bytes();
            let opcode = Header::parse(packet).map(|header| header.opcode);
            let (head, rest) = packet.split_at(packet.len().min(ARRIVAL_HEAD_BYTES_MAX));
            let address = if opcode == Ok(Opcode::Open) { self.address.as_bytes() } else { &[] };
            let payload = [rest, address].concat();
            let (to, payload) = (Destination(to.0), Outgoing::Slice(&payload));
            match opcode {
                Ok(Opcode::Close) => self.library.send_behind(to, head, payload),
                _ => self.library.send(to, head, payload),
            }
        }
    }

    /// Tells the sink which sessions came up and which ended.
    pub(super) fn report_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some(event) = self.sessions.poll_event() {
            match event {
                SessionEvent::Up { id, peer } => {
                    self.session_up(id, Source::new(peer.rank, peer.endpoint, id.0));
                    let to = self.channel(id).map(|channel| channel.to);
                    let principal = to.map(|to| self.library.principal(to)).unwrap_or_default();
                    sink.session_up(self, crate::SessionId(id.0), peer, &principal);
                }
                // Packets of libraries do not say where they are from.
                SessionEvent::Moved { .. } => {}
                SessionEvent::Down { id, reason } => {
                    self.any_ended = true;
                    // What has arrived can still be received.
                    if let Some(held) = self.held.take_if(|held| held.rest.id == id) {
                        self.deferral = Deferral::Never;
                        self.go_on(held, sink);
                    }
                    let reason = self.reason_of(id, reason);
                    if let Some(mut channel) = self.take_channel(id) {
                        if matches!(
                            reason,
                            DownReason::Dead | DownReason::NotPolled | DownReason::Unreachable
                        ) {
                            self.library.presume_dead(channel.to);
                        }
                        self.matcher.end_session(
                            &mut channel.tagged.sends,
                            &channel.tagged.matching,
                            crate::SessionId(id.0),
                            &reason,
                        );
                        self.report_sends(sink);
                    }
                    sink.session_down(self, crate::SessionId(id.0), &reason);
                }
            }
        }
    }

    /// The sessions that lead to a destination end for this reason.
    pub(super) fn explain_loss(&mut self, lost: Destination, why: &str) {
        let of_them = self.channels.iter().flatten().filter(|channel| channel.to == lost);
        self.excesses.extend(of_them.map(|channel| (channel.id, why.to_owned())));
    }

    fn reason_of(&mut self, id: SessionId, reason: EndReason) -> DownReason {
        match self.excesses.iter().position(|(ended, _)| *ended == id) {
            Some(place) => DownReason::Refused { why: self.excesses.swap_remove(place).1 },
            None => down_reason(reason),
        }
    }

    /// The limits are known now: what waited is sent, unless it is over them.
    fn session_up(&mut self, id: SessionId, source: Source) {
        let Some(&link) = self.sessions.link(id) else { return };
        let channel = match self.channel(id) {
            Some(_) => self.channel(id).expect("it was there a moment ago"),
            None => self.add_channel(id, Destination(link.to.0)),
        };
        channel.link = Some(link);
        channel.offer = link.agreed;
        if let Some(why) = channel.excess() {
            self.excesses.push((id, why));
            return self.sessions.end_because(id, EndReason::Closed);
        }
        self.open_messages(&link, id, source);
        self.note_held_up(id);
        self.send_waiting_calls();
    }

    /// Ends a session whose peer broke the protocol.
    pub(super) fn violated(&mut self, id: SessionId, what: &'static str) {
        self.counters.violations.increment();
        self.sessions.end_because(id, EndReason::Violation { what });
    }

    /// Makes room for a session. The last one of its place may be over before its end is reported.
    pub(super) fn add_channel(&mut self, id: SessionId, to: Destination) -> &mut Channel {
        let offer = self.sessions.config().offer;
        if self.channels.len() <= id.index() {
            self.channels.resize_with(id.index() + 1, || None);
        }
        let place = &mut self.channels[id.index()];
        self.displaced.extend(place.take());
        place.insert(Channel::new(id, to, offer))
    }

    /// Takes out the channel of a session whose end is reported now.
    fn take_channel(&mut self, id: SessionId) -> Option<Channel> {
        let place = self.channels.get_mut(id.index())?;
        let in_place = place.take_if(|channel| channel.id == id);
        in_place.or_else(|| {
            let displaced = self.displaced.iter().position(|channel| channel.id == id)?;
            Some(self.displaced.swap_remove(displaced))
        })
    }

    /// Remembers a destination, so that it can be forgotten when no session leads there.
    pub(super) fn note_destination(&mut self, to: Destination) {
        if !self.destinations.contains(&to) {
            self.destinations.push(to);
        }
    }

    /// Forgets the destinations that no session leads to, if a session has ended or `may_have_expired`
    /// without a word.
    pub(super) fn forget_unused_destinations(&mut self, may_have_expired: bool) {
        if !core::mem::take(&mut self.any_ended) && !may_have_expired {
            return;
        }
        let (sessions, library) = (&self.sessions, &mut self.library);
        self.destinations.retain(|&to| {
            let used = sessions.any_to(PeerAddress(to.0));
            if !used {
                library.forget(to);
            }
            used
        });
    }
}
