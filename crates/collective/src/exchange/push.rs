//! What a member sends in an exchange: which chunk of which message comes next, and how many may be in
//! flight.

use farcall::{CallError, Operation, Outgoing, Payload};
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
    candidates: Vec<Candidate>,
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

/// A message that could send a chunk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    /// Its place in the list of messages, which is in clockwise order from the own member.
    message: usize,
    bytes_left: usize,
}

impl<'g, 'e> Push<'g, 'e> {
    pub fn new(group: &'g Group<'e>, messages: Vec<(u32, Outgoing<'g>)>, limits: PushLimits) -> Self {
        let mut messages: Vec<Message<'g>> =
            messages.into_iter().map(|(to, payload)| Message { to, payload, sent: 0 }).collect();
        messages.sort_by_key(|message| (message.to + group.size() - group.own()) % group.size());
        let candidate =
            |(message, of): (usize, &Message<'g>)| Candidate { message, bytes_left: of.payload.len() };
        Self {
            candidates: messages.iter().enumerate().map(candidate).collect(),
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
    /// what it has got: nothing says when it has.
    pub fn push(&mut self) -> Result<bool, CollectiveError> {
        let endpoint = self.group.endpoint;
        self.pending.retain(|operation| !endpoint.is_transmitted(*operation));
        while self.outstanding < self.limits.outstanding_max {
            if self.pending.len() >= self.limits.pending_max {
                return Ok(!self.candidates.is_empty());
            }
            let Some(place) = choose(self.limits.policy, &self.candidates, &mut self.random) else { break };
            let Candidate { message, .. } = self.candidates.swap_remove(place);
            self.send_chunk(message)?;
        }
        Ok(false)
    }

    fn send_chunk(&mut self, number: usize) -> Result<(), CollectiveError> {
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
        let call = group.endpoint.call(group.peer(to)?, service, chunk).within(group.current_timeout.get());
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
            bytes_left => self.candidates.push(Candidate { message: number, bytes_left }),
        }
        Ok(())
    }
}

/// The place among the candidates of the message to serve; `None` when there is none.
fn choose(policy: PushPolicy, candidates: &[Candidate], random: &mut Random) -> Option<usize> {
    if candidates.is_empty() {
        return None;
    }
    let mut any = || random.below(candidates.len() as u64) as usize;
    Some(match policy {
        PushPolicy::Deterministic => {
            let urgency = |place: &usize| {
                let Candidate { message, bytes_left } = candidates[*place];
                (bytes_left, core::cmp::Reverse(message))
            };
            (0..candidates.len()).max_by_key(urgency)?
        }
        PushPolicy::Random => any(),
        PushPolicy::PowerOfTwo => {
            let (one, other) = (any(), any());
            if candidates[one].bytes_left >= candidates[other].bytes_left { one } else { other }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(bytes_left: &[usize]) -> Vec<Candidate> {
        let number = |(message, &bytes_left)| Candidate { message, bytes_left };
        bytes_left.iter().enumerate().map(number).collect()
    }

    #[test]
    fn the_longest_goes_first_and_of_equals_the_next_clockwise() {
        let mut random = Random::new(1);
        let mut chosen =
            |candidates: &[Candidate]| choose(PushPolicy::Deterministic, candidates, &mut random);
        assert_eq!(chosen(&candidates(&[5, 9, 9, 2])), Some(1));
        assert_eq!(chosen(&[]), None);
        let swapped: Vec<Candidate> = candidates(&[7, 7]).into_iter().rev().collect();
        assert_eq!(chosen(&swapped), Some(1), "the order of candidates does not matter");
    }

    #[test]
    fn of_two_drawn_at_random_the_longer_goes_first() {
        let mut random = Random::new(7);
        let candidates = candidates(&[1, 1, 1, 9]);
        let draws = 10_000;
        let longest = (0..draws)
            .filter(|_| choose(PushPolicy::PowerOfTwo, &candidates, &mut random) == Some(3))
            .count();
        // It is among two of four drawn with replacement in 7 of 16 cases.
        assert!(longest.abs_diff(draws * 7 / 16) < draws / 20, "{longest} of {draws}");
    }
}
