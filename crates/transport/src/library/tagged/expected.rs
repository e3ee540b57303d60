//! In: messages that receives wait for, which need no trace and no place: the way of nearly all.

use farcall_protocol::matching::{Source, Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::OVERRUN;
use crate::batch::{MATCHED_MAX, Taken, Together};
use crate::library::LibraryTransport;
use crate::library::outbound::live;
use crate::library::seam::Library;
use crate::{Incoming, Matched, MessageId, Short, Sink};

impl<L: Library> LibraryTransport<L> {
    /// Hands a message that came for itself to the receive that waits for it; false when none does. It is not traced.
    #[inline]
    pub(in crate::library) fn give_expected(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<bool, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(false) };
        let Some(receive) = self.mail.take_receive(channel.tagged.mail.source, tag) else { return Ok(false) };
        let (session, bytes) = (crate::SessionId(id.0), payload.as_slice().len());
        let lines = lines(bytes).min(lines_max(self.unexpected_lines));
        channel.tagged.mail.pass(Taken { messages: 1, lines }).map_err(|_| OVERRUN)?;
        self.counters.messages_received.increment();
        self.patience = self.patience.after_a_receive();
        sink.received(self, session, &[Matched { receive, tag, payload: *payload }]);
        Ok(true)
    }

    /// Hands messages of a batch to the receives that wait for them, up to one that none waits for, or that breaks a rule. They
    /// are not traced. Says how many there were.
    #[inline]
    pub(in crate::library) fn read_expected(
        &mut self,
        id: SessionId,
        batch: &mut Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<u16, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(0) };
        let (session, source) = (crate::SessionId(id.0), channel.tagged.mail.source);
        let (mut taken, mut together) = (Taken::default(), Together::new());
        while self.mail.expects_messages() {
            self.match_next(source, batch, &mut taken, &mut together);
            if together.is_empty() {
                break;
            }
            sink.received(self, session, &together);
            if batch.unread() == 0 {
                break;
            }
            together.clear();
        }
        // None of them was kept, so that it is early enough to look at the window now.
        if let Some(channel) = live(&mut self.channels, id) {
            channel.tagged.mail.pass(taken).map_err(|_| OVERRUN)?;
        }
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok(taken.messages)
    }

    /// Matches the next messages of a batch with the receives that wait for them, as many as there is room for: short ones
    /// together, a longer one alone.
    ///
    /// A function by itself, which has its registers for this.
    #[inline(never)]
    fn match_next<'b>(
        &mut self,
        source: Source,
        batch: &mut Batch<'b>,
        taken: &mut Taken,
        together: &mut Together<'b>,
    ) {
        // What is more than can be counted is left to the next poll.
        if taken.messages > u16::MAX - MATCHED_MAX as u16 {
            return;
        }
        let (mut unread, mut lines) = (*batch, taken.lines);
        let lines_max = lines_max(self.unexpected_lines);
        let lines_of = |matched: &Matched<'_>| self::lines(matched.payload.as_slice().len()).min(lines_max);
        if let Some(mut receives) = self.mail.exact_receives(source) {
            while !together.is_full()
                && let Some(matched) =
                    take_next(&mut unread, Short::BYTES_MAX, |tag| receives.take(tag).map(MessageId))
            {
                lines += lines_of(&matched);
                together.push(matched);
            }
            receives.were_taken(together.len() as u32);
        }
        if together.is_empty()
            && let Some(matched) =
                take_next(&mut unread, usize::MAX, |tag| self.mail.take_receive(source, tag))
        {
            lines += lines_of(&matched);
            together.push(matched);
        }
        *batch = unread;
        taken.messages += together.len() as u16;
        taken.lines = lines;
    }
}

/// Takes the next message of a batch, if it has at most so many bytes and `receive_for` a receive for it.
#[inline(always)]
fn take_next<'b>(
    batch: &mut Batch<'b>,
    bytes_max: usize,
    receive_for: impl FnOnce(Tag) -> Option<MessageId>,
) -> Option<Matched<'b>> {
    let mut ahead = *batch;
    let (tag, payload) = ahead.next()?.ok()?;
    if payload.len() > bytes_max {
        return None;
    }
    let receive = receive_for(tag)?;
    *batch = ahead;
    Some(Matched { receive, tag, payload: Incoming::Borrowed(payload) })
}
