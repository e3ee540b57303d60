//! In: messages that receives wait for, which need no trace and no place: the way of nearly all.

use farcall_protocol::matching::{Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::OVERRUN;
use crate::batch::{MatchSource, MessagePacket, Taken};
use crate::library::LibraryTransport;
use crate::library::outbound::live;
use crate::library::seam::Library;
use crate::matcher::Matcher;
use crate::{Incoming, Matched, MatchedBatch, Sink};

impl<L: Library> LibraryTransport<L> {
    /// Hands a message that came for itself to the receive that waits for it; false when none does. It is not
    /// traced.
    #[inline]
    pub(in crate::library) fn give_expected(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<bool, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(false) };
        let Some(receive) = self.matcher.take_receive(channel.tagged.matching.source, tag) else {
            return Ok(false);
        };
        let (session, bytes) = (crate::SessionId(id.0), payload.as_slice().len());
        let lines = lines(bytes).min(lines_max(self.unexpected_lines));
        channel.tagged.matching.pass(Taken { messages: 1, lines }).map_err(|_| OVERRUN)?;
        self.counters.messages_received.increment();
        self.deferral = self.deferral.after_a_receive();
        let matched = Matched { receive, tag, payload: *payload };
        sink.received(&mut MatchedBatch::single(self, session, matched));
        Ok(true)
    }

    /// Hands messages of a batch to the receives that wait for them, up to one that none waits for, or that
    /// breaks a rule. They are not traced. Says how many there were.
    #[inline]
    pub(in crate::library) fn read_expected(
        &mut self,
        id: SessionId,
        batch: &mut Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<u16, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(0) };
        let (session, source) = (crate::SessionId(id.0), channel.tagged.matching.source);
        if !self.matcher.expects_messages() {
            return Ok(0);
        }
        let lines_max = lines_max(self.unexpected_lines);
        let packet = MessagePacket { rest: *batch, taken: Taken::default(), lines_max };
        let mut messages = MatchedBatch::of_packet(self, session, source, packet);
        sink.received(&mut messages);
        let MessagePacket { rest, taken, .. } = messages.packet_end().unwrap_or(packet);
        *batch = rest;
        // None of them was kept, so that it is early enough to look at the window now.
        if let Some(channel) = live(&mut self.channels, id) {
            channel.tagged.matching.pass(taken).map_err(|_| OVERRUN)?;
        }
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok(taken.messages)
    }
}

impl<L: Library> MatchSource for LibraryTransport<L> {
    #[inline]
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.matcher
    }
}
