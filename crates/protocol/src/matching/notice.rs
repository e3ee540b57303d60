//! Passage for messages that the window holds up behind those of other tags.
//!
//! A window bounds what waits unexpected, whatever its tags are, so that messages which no receive wants can
//! fill it. Then the two ends speak about tags, by [`Notice`]s:
//!
//! 1. a receiver that has unread messages of a peer, and receives that none of them fits, *asks* the peer;
//! 2. a sender that was asked *announces* each tag of its waiting messages, once;
//! 3. the receiver *grants* an announced tag as soon as a receive wants it;
//! 4. the sender answers each grant at once: its oldest message of that tag leaves *beyond* the window, or
//!    none waits any more and the tag is *withdrawn*;
//! 5. when nothing waits any longer the sender has *drained*: both ends forget all tags.
//!
//! Nothing of it happens while receives keep up: who has read everything that came returns credit instead. A
//! tag has one grant at a time, so that its messages keep their order, and each message beyond the window had
//! a receive when its grant was given; what has lost it meanwhile is bounded by
//! [`ReceiveWindow::may_exceed`].
//!
//! [`ReceiveWindow::may_exceed`]: super::ReceiveWindow::may_exceed

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::Tag;
use super::window::Overrun;

/// The most grants of a session that are not answered.
pub const GRANTS_MAX: usize = 16;

/// The most tags that a sender announces; it has no more messages that wait.
pub const ANNOUNCED_MAX: usize = 1 << 16;

/// What one end says to the other about messages that wait for the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// To the sender: name the tags of what waits.
    Ask,
    /// To the receiver: messages of this tag wait.
    Announce(Tag),
    /// To the sender: one message of this tag may leave beyond the window.
    Grant(Tag),
    /// To the receiver: the message of a grant follows, and counts this many lines.
    Beyond {
        /// The tag that was granted.
        tag: Tag,
        /// What the message counts.
        lines: u32,
    },
    /// To the receiver: a grant finds no message of this tag.
    Withdraw(Tag),
    /// To the receiver: nothing waits.
    Drained,
}

impl Notice {
    /// Its code, tag and lines on the wire; 0 where it has none.
    pub const fn to_wire(self) -> (u16, u32, u32) {
        match self {
            Self::Ask => (1, 0, 0),
            Self::Announce(tag) => (2, tag.0, 0),
            Self::Grant(tag) => (3, tag.0, 0),
            Self::Beyond { tag, lines } => (4, tag.0, lines),
            Self::Withdraw(tag) => (5, tag.0, 0),
            Self::Drained => (6, 0, 0),
        }
    }

    /// The notice with this code; `None` for a code that none has.
    pub const fn from_wire(code: u16, tag: u32, lines: u32) -> Option<Self> {
        let tag = Tag(tag);
        Some(match code {
            1 => Self::Ask,
            2 => Self::Announce(tag),
            3 => Self::Grant(tag),
            4 => Self::Beyond { tag, lines },
            5 => Self::Withdraw(tag),
            6 => Self::Drained,
            _ => return None,
        })
    }
}

/// The sender's side of one session: which tags of its waiting messages the peer knows.
///
/// Waiting messages are a queue of the caller's, oldest first; what leaves it is reported.
#[derive(Debug, Default)]
pub struct Announcing {
    is_asked: bool,
    /// Whether a tag that was announced has been granted since.
    tags: BTreeMap<Tag, bool>,
    granted: VecDeque<Tag>,
    /// This many of the waiting messages, from the oldest on, have a tag that was announced.
    announced: usize,
}

impl Announcing {
    /// The receiver asks.
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// The next tag to announce of those that wait: `tag_of` gives that of a place in the queue.
    pub fn next(&mut self, tag_of: impl Fn(usize) -> Option<Tag>) -> Option<Tag> {
        while self.is_asked
            && self.tags.len() < ANNOUNCED_MAX
            && let Some(tag) = tag_of(self.announced)
        {
            self.announced += 1;
            if let Entry::Vacant(place) = self.tags.entry(tag) {
                place.insert(false);
                return Some(tag);
            }
        }
        None
    }

    /// The receiver grants a tag. One that is not announced any more crossed the notice that said so.
    pub fn grant(&mut self, tag: Tag) -> Result<(), Overrun> {
        match self.tags.get_mut(&tag) {
            Some(true) => return Err(Overrun),
            Some(granted) => *granted = true,
            None => return Ok(()),
        }
        self.granted.push_back(tag);
        Ok(())
    }

    /// The oldest grant that was not answered.
    pub fn granted(&self) -> Option<Tag> {
        self.granted.front().copied()
    }

    /// The oldest grant is answered, by a message or, without one, by withdrawing its tag.
    pub fn answer(&mut self, has_message: bool) {
        let Some(tag) = self.granted.pop_front() else { return };
        if has_message {
            self.tags.insert(tag, false);
        } else {
            self.tags.remove(&tag);
        }
    }

    /// A message has left the queue, at this place.
    #[inline]
    pub fn left(&mut self, place: usize) {
        self.announced -= usize::from(place < self.announced);
    }

    /// Messages have left the queue, wherever.
    pub fn left_anywhere(&mut self) {
        self.announced = 0;
    }

    /// Whether the receiver has asked since the last time that everything had left.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Whether any tag is announced.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.tags.is_empty()
    }

    /// The queue is empty: whether the receiver has to be told, which forgets all tags.
    #[inline]
    pub fn drain(&mut self) -> bool {
        if self.tags.is_empty() {
            return false;
        }
        *self = Self::default();
        true
    }
}

/// The receiver's side of one session: which tags the peer has announced.
#[derive(Debug, Default)]
pub struct Granting {
    has_asked: bool,
    /// Whether a tag is granted at the moment.
    tags: BTreeMap<Tag, bool>,
    unanswered: usize,
    /// Whether a grant was due that was one too many.
    is_starved: bool,
}

impl Granting {
    /// Whether to ask the peer now, which counts as done.
    #[inline]
    pub fn ask(&mut self) -> bool {
        !core::mem::replace(&mut self.has_asked, true)
    }

    /// The peer announces a tag.
    pub fn announce(&mut self, tag: Tag) -> Result<(), Overrun> {
        let is_new = self.has_asked && self.tags.len() < ANNOUNCED_MAX;
        if !is_new || self.tags.insert(tag, false).is_some() {
            return Err(Overrun);
        }
        Ok(())
    }

    /// A receive wants this tag: whether to grant it now, which counts as done.
    pub fn grant(&mut self, tag: Tag, has_room: bool) -> bool {
        let Some(granted @ false) = self.tags.get_mut(&tag) else { return false };
        if !has_room || self.unanswered == GRANTS_MAX {
            self.is_starved = true;
            return false;
        }
        *granted = true;
        self.unanswered += 1;
        true
    }

    /// The peer answers a grant: with a message, or by withdrawing the tag.
    pub fn answered(&mut self, tag: Tag, has_message: bool) -> Result<(), Overrun> {
        if self.tags.get(&tag) != Some(&true) {
            return Err(Overrun);
        }
        self.unanswered -= 1;
        if has_message {
            self.tags.insert(tag, false);
        } else {
            self.tags.remove(&tag);
        }
        Ok(())
    }

    /// Nothing waits at the peer.
    pub fn drained(&mut self) {
        *self = Self::default();
    }

    /// The tags of which grants may be due, if some were one too many before.
    pub fn take_starved(&mut self) -> Vec<Tag> {
        if !core::mem::take(&mut self.is_starved) {
            return Vec::new();
        }
        self.tags.iter().filter(|(_, granted)| !**granted).map(|(tag, _)| *tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_are_those_of_the_wire() {
        for code in 0..=7 {
            let notice = Notice::from_wire(code, 5, 9);
            assert_eq!(notice.map(|notice| notice.to_wire().0), (1..=6).contains(&code).then_some(code));
        }
        let beyond = Notice::Beyond { tag: Tag(5), lines: 9 };
        assert_eq!(Notice::from_wire(4, 5, 9), Some(beyond));
        assert_eq!(beyond.to_wire(), (4, 5, 9));
    }

    #[test]
    fn a_peer_that_answers_what_was_not_granted_breaks_a_rule() {
        let mut granting = Granting::default();
        assert_eq!(granting.announce(Tag(1)), Err(Overrun), "nobody asked");
        assert!(granting.ask() && !granting.ask());
        assert_eq!(granting.announce(Tag(1)), Ok(()));
        assert_eq!(granting.announce(Tag(1)), Err(Overrun), "twice");
        assert_eq!(granting.answered(Tag(1), true), Err(Overrun), "without a grant");
        assert!(granting.grant(Tag(1), true) && !granting.grant(Tag(1), true));
        assert_eq!(granting.answered(Tag(1), false), Ok(()));
        assert!(!granting.grant(Tag(1), true), "it was withdrawn");
    }

    #[test]
    fn a_peer_that_grants_twice_breaks_a_rule_and_a_late_grant_does_not() {
        let mut announcing = Announcing::default();
        announcing.ask();
        let waiting = [Tag(4), Tag(4), Tag(5)];
        let mut next = || announcing.next(|place| waiting.get(place).copied());
        assert_eq!((next(), next(), next()), (Some(Tag(4)), Some(Tag(5)), None));
        assert_eq!((announcing.grant(Tag(4)), announcing.grant(Tag(4))), (Ok(()), Err(Overrun)));
        assert!(announcing.drain() && !announcing.drain());
        assert_eq!((announcing.grant(Tag(5)), announcing.granted()), (Ok(()), None));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u32),
        /// The oldest leaves, as when credit came.
        Leave,
        Receive(u32),
        ToSender,
        ToReceiver,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u32..40).prop_map(Step::Send),
            1 => Just(Step::Leave),
            3 => (0_u32..40).prop_map(Step::Receive),
            4 => Just(Step::ToSender),
            4 => Just(Step::ToReceiver),
        ]
    }

    /// Two ends, and the notices between them, which keep their order.
    #[derive(Default)]
    struct Ends {
        announcing: Announcing,
        waiting: VecDeque<Tag>,
        granting: Granting,
        /// Receives that no message has come for.
        receives: Vec<Tag>,
        to_sender: VecDeque<Notice>,
        to_receiver: VecDeque<Notice>,
    }

    impl Ends {
        fn examine(&mut self, tag: Tag) {
            if self.receives.contains(&tag) && self.granting.grant(tag, true) {
                self.to_sender.push_back(Notice::Grant(tag));
            }
        }

        fn receive(&mut self, tag: Tag) {
            self.receives.push(tag);
            if self.granting.ask() {
                self.to_sender.push_back(Notice::Ask);
            }
            self.examine(tag);
        }

        fn send(&mut self) {
            while let Some(tag) = self.announcing.granted() {
                let place = self.waiting.iter().position(|waiting| *waiting == tag);
                let answer = match place {
                    Some(place) => {
                        self.waiting.remove(place);
                        self.announcing.left(place);
                        Notice::Beyond { tag, lines: 1 }
                    }
                    None => Notice::Withdraw(tag),
                };
                self.announcing.answer(place.is_some());
                self.to_receiver.push_back(answer);
            }
            while let Some(tag) = self.announcing.next(|place| self.waiting.get(place).copied()) {
                self.to_receiver.push_back(Notice::Announce(tag));
            }
            if self.waiting.is_empty() && self.announcing.drain() {
                self.to_receiver.push_back(Notice::Drained);
            }
        }

        fn take_at_sender(&mut self) {
            match self.to_sender.pop_front() {
                Some(Notice::Ask) => self.announcing.ask(),
                Some(Notice::Grant(tag)) => self.announcing.grant(tag).expect("granted once"),
                _ => return,
            }
            self.send();
        }

        fn take_at_receiver(&mut self) {
            match self.to_receiver.pop_front() {
                Some(Notice::Announce(tag)) => {
                    self.granting.announce(tag).expect("announced once");
                    self.examine(tag);
                }
                Some(Notice::Beyond { tag, .. }) => {
                    self.granting.answered(tag, true).expect("granted");
                    let receive = self.receives.iter().position(|receive| *receive == tag);
                    self.receives.swap_remove(receive.expect("each message beyond the window has a receive"));
                    self.examine(tag);
                }
                Some(Notice::Withdraw(tag)) => self.granting.answered(tag, false).expect("granted"),
                Some(Notice::Drained) => {
                    self.granting.drained();
                    if !self.receives.is_empty() && self.granting.ask() {
                        self.to_sender.push_back(Notice::Ask);
                    }
                }
                _ => return,
            }
            let starved = self.granting.take_starved();
            starved.into_iter().for_each(|tag| self.examine(tag));
        }
    }

    proptest! {
        #[test]
        fn no_message_waits_that_a_receive_wants(steps in prop::collection::vec(step(), 0..400)) {
            let mut ends = Ends::default();
            for step in steps {
                match step {
                    Step::Send(tag) => {
                        ends.waiting.push_back(Tag(tag));
                        ends.send();
                    }
                    Step::Leave => {
                        if ends.waiting.pop_front().is_some() {
                            ends.announcing.left(0);
                        }
                        ends.send();
                    }
                    Step::Receive(tag) => ends.receive(Tag(tag)),
                    Step::ToSender => ends.take_at_sender(),
                    Step::ToReceiver => ends.take_at_receiver(),
                }
                prop_assert!(ends.granting.unanswered <= GRANTS_MAX);
            }
            while !ends.to_sender.is_empty() || !ends.to_receiver.is_empty() {
                ends.take_at_sender();
                ends.take_at_receiver();
            }
            let is_wanted = |tag: &&Tag| ends.receives.contains(tag);
            prop_assert_eq!(ends.waiting.iter().find(is_wanted), None);
        }
    }
}
