//! What the two halves of a session do about messages that the window holds up: see
//! [`farcall_protocol::matching::Notice`]. Transports carry the notices, each in its way, and the messages
//! that leave beyond the window.

use std::collections::VecDeque;

use farcall_protocol::matching::{Announcing, Granting, Notice, Overrun, Tag};

use crate::matcher::WaitingSend;

/// The receiving half.
#[derive(Default)]
pub struct Receiving {
    /// Whether the peer reads notices; nothing is done otherwise.
    pub is_understood: bool,
    granting: Granting,
    /// Tags that a receive may want by now.
    wanted: Vec<Tag>,
    /// Notices that have not left; at most one that asks, and the grants.
    due: VecDeque<Notice>,
    /// Whether the peer has said that it has drained, so that it must be asked again if any receive waits.
    has_drained: bool,
}

/// What the receiving half has to know of the rest.
pub struct Held {
    /// Whether messages are unread: otherwise credit is enough.
    pub is_held_up: bool,
    /// Whether another message may come beyond the window.
    pub has_room: bool,
    /// Whether any receive waits.
    pub has_receives: bool,
}

impl Receiving {
    /// A receive of this tag was posted, which no message fits.
    pub fn want(&mut self, tag: Tag) {
        if self.is_understood {
            self.wanted.push(tag);
        }
    }

    /// A message came that no receive wants, though some wait.
    pub fn ask(&mut self) {
        if self.is_understood && self.granting.ask() {
            self.due.push_back(Notice::Ask);
        }
    }

    /// Takes a notice of the peer. Of one beyond the window the caller changes the window.
    pub fn take(&mut self, notice: Notice) -> Result<(), Overrun> {
        match notice {
            Notice::Announce(tag) => self.granting.announce(tag)?,
            Notice::Beyond { tag, .. } => self.granting.answered(tag, true)?,
            Notice::Withdraw(tag) => return self.granting.answered(tag, false),
            Notice::Drained => {
                self.granting.drained();
                self.due.clear();
                self.has_drained = true;
                return Ok(());
            }
            Notice::Ask | Notice::Grant(_) => return Err(Overrun),
        }
        let (Notice::Announce(tag) | Notice::Beyond { tag, .. }) = notice else { return Ok(()) };
        self.wanted.push(tag);
        Ok(())
    }

    /// Asks, and grants what receives want.
    pub fn examine(&mut self, held: &Held, wants: impl Fn(Tag) -> bool) {
        let has_drained = core::mem::take(&mut self.has_drained);
        if !held.is_held_up {
            return self.wanted.clear();
        }
        if !self.wanted.is_empty() || has_drained && held.has_receives {
            self.ask();
        }
        self.wanted.extend(self.granting.take_starved());
        for tag in self.wanted.drain(..) {
            if wants(tag) && self.granting.grant(tag, held.has_room) {
                self.due.push_back(Notice::Grant(tag));
            }
        }
    }

    /// The notice that leaves next.
    pub fn next(&self) -> Option<Notice> {
        self.due.front().copied()
    }

    /// That notice has left.
    pub fn sent(&mut self) {
        self.due.pop_front();
    }

    /// Whether nothing is to be done.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.due.is_empty() && !self.has_drained
    }
}

/// The sending half.
#[derive(Default)]
pub struct Sending {
    announcing: Announcing,
    /// The tag of which the peer was told that a message follows, which has not left yet. Its grant is
    /// answered, so that another one of the same tag may come meanwhile.
    promised: Option<Tag>,
}

/// What is to be done next of the sending half.
pub enum Due {
    /// The waiting message of this tag, at this place in its queue, leaves beyond the window.
    Beyond(Tag, usize),
    /// This notice leaves.
    Notice(Notice),
}

impl Sending {
    /// Takes a notice of the peer.
    pub fn take(&mut self, notice: Notice) -> Result<(), Overrun> {
        match notice {
            Notice::Ask => self.announcing.ask(),
            Notice::Grant(tag) => self.announcing.grant(tag)?,
            _ => return Err(Overrun),
        }
        Ok(())
    }

    /// What is to be done next, if anything. A notice counts as sent.
    pub fn next(&mut self, waiting: &VecDeque<WaitingSend>) -> Option<Due> {
        if let Some(tag) = self.promised.or_else(|| self.announcing.granted()) {
            if let Some(place) = waiting.iter().position(|waiting| waiting.tag == tag) {
                return Some(Due::Beyond(tag, place));
            }
            self.announcing.answer(false);
            return Some(Due::Notice(Notice::Withdraw(tag)));
        }
        if waiting.is_empty() {
            return self.announcing.drain().then_some(Due::Notice(Notice::Drained));
        }
        let tag = self.announcing.next(|place| waiting.get(place).map(|waiting| waiting.tag));
        tag.map(|tag| Due::Notice(Notice::Announce(tag)))
    }

    /// The peer is told that the message of the oldest grant follows; says whether it was not told before.
    pub fn promise(&mut self, tag: Tag) -> bool {
        if self.promised.is_some() {
            return false;
        }
        self.promised = Some(tag);
        self.announcing.answer(true);
        true
    }

    /// The promised message, at this place in the queue, has left.
    pub fn passed(&mut self, place: usize) {
        self.promised = None;
        self.announcing.left(place);
    }

    /// The oldest message that waited has left within the window.
    #[inline]
    pub fn left(&mut self) {
        self.announcing.left(0);
    }

    /// Messages were taken back.
    pub fn were_cancelled(&mut self) {
        self.announcing.left_anywhere();
    }

    /// The tag of which the oldest message is promised to the peer, so that it cannot be taken back.
    #[inline]
    pub fn promised(&self) -> Option<Tag> {
        self.promised
    }

    /// Whether the peer asks for the tags of what waits.
    pub fn is_asked(&self) -> bool {
        self.announcing.is_asked()
    }

    /// Whether the peer knows of tags, and so has to know when nothing waits any more.
    #[inline]
    pub fn is_any_announced(&self) -> bool {
        self.announcing.is_any()
    }
}

#[cfg(test)]
mod tests {
    use farcall_protocol::matching::Tag;

    use super::*;
    use crate::waiting::WaitingPayload;

    #[test]
    fn a_tag_may_be_granted_again_before_the_message_of_its_promise_has_left() {
        let waiting = |number| WaitingSend {
            send: crate::message::MessageId(number),
            tag: Tag(1),
            payload: WaitingPayload::Bytes(Vec::new()),
            submitted: None,
        };
        let mut queue = VecDeque::from([waiting(1), waiting(2)]);
        let mut sending = Sending::default();
        sending.take(Notice::Ask).expect("it may ask");
        assert!(matches!(sending.next(&queue), Some(Due::Notice(Notice::Announce(Tag(1))))));
        sending.take(Notice::Grant(Tag(1))).expect("it is announced");
        assert!(matches!(sending.next(&queue), Some(Due::Beyond(Tag(1), 0))));
        assert!(sending.promise(Tag(1)));
        // No room for the message: the peer, which has read the promise, grants the next one of the tag.
        sending.take(Notice::Grant(Tag(1))).expect("the first grant is answered");
        for _ in 0..2 {
            assert!(matches!(sending.next(&queue), Some(Due::Beyond(Tag(1), 0))));
            sending.promise(Tag(1));
            queue.pop_front();
            sending.passed(0);
        }
        assert!(matches!(sending.next(&queue), Some(Due::Notice(Notice::Drained))));
    }
}
