//! What a member sends in an exchange: which chunk of which message comes next, and how many may be in
//! flight.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use farcall::{CallError, Operation, Outgoing, Payload, Peer};
use farcall_base::Random;

use crate::algorithms::{PushLimits, PushPolicy};
use crate::error::CollectiveError;
use crate::group::Group;

/// The messages of a member.
pub struct Push<'g, 'e> {
    group: &'g Group<'e>,
    limits: PushLimits,
    messages: Vec<Message<'g>>,
    /// Messages that could send a chunk now.
    candidates: Candidates,
    /// Messages that are not delivered entirely.
    unfinished: usize,
    outstanding: usize,
    /// Chunks that the driver may not have entirely.
    pending: Vec<Operation>,
    random: Random,
}

struct Message<'g> {
    to: u32,
    payload: Outgoing<'g>,
    /// Bytes that were sent.
    sent: usize,
}

/// A message that could send a chunk now; the most urgent one is the greatest: the longest, and of equals the
/// next clockwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    bytes_left: usize,
    /// Its place in the list of messages, which is in clockwise order from the own member.
    message: Reverse<usize>,
}

/// The messages that could send a chunk now. With a thousand members a look at all of them for each chunk
/// would be most of the work.
enum Candidates {
    ByUrgency(BinaryHeap<Candidate>),
    InAnyOrder(Vec<Candidate>),
}

impl Candidates {
    fn new(policy: PushPolicy, candidates: impl Iterator<Item = Candidate>) -> Self {
        match policy {
            PushPolicy::Deterministic => Self::ByUrgency(candidates.collect()),
            PushPolicy::Random | PushPolicy::PowerOfTwo => Self::InAnyOrder(candidates.collect()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::ByUrgency(candidates) => candidates.is_empty(),
            Self::InAnyOrder(candidates) => candidates.is_empty(),
        }
    }

    fn add(&mut self, candidate: Candidate) {
        match self {
            Self::ByUrgency(candidates) => candidates.push(candidate),
            Self::InAnyOrder(candidates) => candidates.push(candidate),
        }
    }

    /// Takes out the one to serve.
    fn take(&mut self, policy: PushPolicy, random: &mut Random) -> Option<Candidate> {
        let candidates = match self {
            Self::ByUrgency(candidates) => return candidates.pop(),
            Self::InAnyOrder(candidates) if candidates.is_empty() => return None,
            Self::InAnyOrder(candidates) => candidates,
        };
        let mut any = || random.below(candidates.len() as u64) as usize;
        let mut place = any();
        if policy == PushPolicy::PowerOfTwo {
            let other = any();
            if candidates[place].bytes_left < candidates[other].bytes_left {
                place = other;
            }
        }
        Some(candidates.swap_remove(place))
    }
}

impl<'g, 'e> Push<'g, 'e> {
    pub fn new(group: &'g Group<'e>, messages: Vec<(u32, Outgoing<'g>)>, limits: PushLimits) -> Self {
        let mut messages: Vec<Message<'g>> =
            messages.into_iter().map(|(to, payload)| Message { to, payload, sent: 0 }).collect();
        messages.sort_by_key(|message| (message.to + group.size() - group.own()) % group.size());
        let candidate = |(message, of): (usize, &Message<'g>)| Candidate {
            bytes_left: of.payload.len(),
            message: Reverse(message),
        };
        Self {
            candidates: Candidates::new(limits.policy, messages.iter().enumerate().map(candidate)),
            unfinished: messages.len(),
            random: Random::new(limits.seed ^ u64::from(group.own()) << 32),
            group,
            limits,
            messages,
            outstanding: 0,
            pending: Vec::new(),
        }
    }

    /// Whether all messages are delivered.
    pub fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Sends chunks as far as the limits allow. Says whether it stopped only because the driver has not taken
    /// what it has got, or because it is not known where a member is: nothing says when that changes.
    pub fn push(&mut self) -> Result<bool, CollectiveError> {
        let endpoint = self.group.endpoint;
        self.pending.retain(|operation| !endpoint.is_transmitted(*operation));
        while self.outstanding < self.limits.outstanding_max {
            if self.pending.len() >= self.limits.pending_max {
                return Ok(!self.candidates.is_empty());
            }
            let Some(next) = self.candidates.take(self.limits.policy, &mut self.random) else { break };
            let number = next.message.0;
            let Some(peer) = self.group.look_for(self.messages[number].to)? else {
                self.candidates.add(next);
                return Ok(true);
            };
            self.send_chunk(number, peer)?;
        }
        Ok(false)
    }

    fn send_chunk(&mut self, number: usize, peer: Peer) -> Result<(), CollectiveError> {
        let group = self.group;
        let message = &mut self.messages[number];
        let bytes = message.payload.len();
        let end = bytes.min(message.sent + self.limits.chunk_bytes);
        let service = if end == bytes { group.id.last_chunk() } else { group.id.chunk() };
        let chunk = match &message.payload {
            Outgoing::Shared(payload) if end - message.sent == bytes => {
                Outgoing::Shared(Payload::clone(payload))
            }
            payload => Outgoing::Slice(&payload.as_slice()[message.sent..end]),
        };
        let (inbox, to) = (group.inbox.clone(), message.to);
        let call = group.endpoint.call(peer, service, chunk).within(group.current_timeout.get());
        let operation = call
            .then(move |_, end| inbox.answer(number, end.as_ref().map(|_| ()).map_err(CallError::clone)))
            .map_err(|error| CollectiveError::of_call(to, error))?;
        message.sent = end;
        self.outstanding += 1;
        self.pending.push(operation);
        Ok(())
    }

    /// A chunk of a message has ended: the message's next one may leave, if there is one.
    pub fn answered(&mut self, number: usize, end: Result<(), CallError>) -> Result<(), CollectiveError> {
        let Message { to, payload, sent } = &self.messages[number];
        end.map_err(|error| CollectiveError::of_call(*to, error))?;
        self.outstanding -= 1;
        match payload.len() - sent {
            0 => self.unfinished -= 1,
            bytes_left => self.candidates.add(Candidate { bytes_left, message: Reverse(number) }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(policy: PushPolicy, bytes_left: &[usize]) -> Candidates {
        let number = |(message, &bytes_left)| Candidate { bytes_left, message: Reverse(message) };
        Candidates::new(policy, bytes_left.iter().enumerate().map(number))
    }

    #[test]
    fn the_longest_goes_first_and_of_equals_the_next_clockwise() {
        let (policy, mut random) = (PushPolicy::Deterministic, Random::new(1));
        let mut left = candidates(policy, &[5, 9, 9, 2]);
        left.add(Candidate { bytes_left: 9, message: Reverse(0) });
        let mut taken = || left.take(policy, &mut random).map(|next| (next.message.0, next.bytes_left));
        let order: Vec<_> = core::iter::from_fn(&mut taken).collect();
        assert_eq!(order, [(0, 9), (1, 9), (2, 9), (0, 5), (3, 2)]);
        assert!(left.is_empty());
    }

    #[test]
    fn of_two_drawn_at_random_the_longer_goes_first() {
        let (policy, mut random) = (PushPolicy::PowerOfTwo, Random::new(7));
        let draws = 10_000;
        let mut longest = || {
            let next = candidates(policy, &[1, 1, 1, 9]).take(policy, &mut random);
            next.is_some_and(|next| next.message == Reverse(3))
        };
        let longest = (0..draws).filter(|_| longest()).count();
        // It is among two of four drawn with replacement in 7 of 16 cases.
        assert!(longest.abs_diff(draws * 7 / 16) < draws / 20, "{longest} of {draws}");
    }
}
