//! One collective operation at one member, and whether its result is right.

use std::rc::Rc;

use farcall::Endpoint;
use farcall_collective::{CollectiveError, Group, GroupError, GroupId, sum};

use super::{Round, RoundKind};
use crate::payload::{self, Role};

/// How an operation ended at a member.
#[derive(Debug)]
pub enum RoundEnd {
    /// With the right result.
    Right,
    /// With another one.
    Wrong(String),
    /// Without one.
    Failed(CollectiveError),
    /// There was no group: the scenario is drawn wrongly.
    NoGroup(GroupError),
}

/// What a member contributes to the operation of that number, for `to` or for all.
fn part(number: usize, from: u32, to: u32, bytes: usize) -> &'static [u8] {
    payload::bytes(64 * (64 * number + from as usize) + to as usize, Role::Message, bytes)
}

/// Takes part in an operation of `hosts` hosts as `own`.
pub async fn take_part(
    endpoint: Rc<Endpoint>,
    number: usize,
    round: Round,
    own: u32,
    hosts: u32,
) -> RoundEnd {
    let group = Group::new(&endpoint, GroupId::new(number as u16), own, 0..hosts);
    let mut group = match group {
        Ok(group) => group.with_timeout(round.within),
        Err(error) => return RoundEnd::NoGroup(error),
    };
    let member = Member { number, own, hosts, round: &round };
    let end = match round.kind {
        RoundKind::Barrier => group.barrier().await.map(|()| None),
        RoundKind::Broadcast => member.broadcast(&mut group).await,
        RoundKind::AllGather => member.all_gather(&mut group).await,
        RoundKind::AllReduce => member.all_reduce(&mut group).await,
        RoundKind::AllToAll => member.all_to_all(&mut group).await,
    };
    match end {
        Ok(None) => RoundEnd::Right,
        Ok(Some(difference)) => RoundEnd::Wrong(difference),
        Err(error) => RoundEnd::Failed(error),
    }
}

/// One member in one operation.
struct Member<'r> {
    number: usize,
    own: u32,
    hosts: u32,
    round: &'r Round,
}

/// What is wrong with a result, if anything is.
type Judged = Result<Option<String>, CollectiveError>;

fn compare(what: &str, expected: &[u8], received: &[u8]) -> Option<String> {
    let wrong = expected.len() != received.len() || expected != received;
    wrong.then(|| {
        format!("{what}: {} bytes were expected, {} arrived or differ", expected.len(), received.len())
    })
}

impl Member<'_> {
    async fn broadcast(&self, group: &mut Group<'_>) -> Judged {
        let Round { root, bytes, .. } = *self.round;
        let sent = part(self.number, root, root, bytes);
        let mut buffer = if self.own == root { sent.to_vec() } else { vec![0; bytes] };
        group.broadcast(root, &mut buffer).await?;
        Ok(compare("the broadcast", sent, &buffer))
    }

    async fn all_gather(&self, group: &mut Group<'_>) -> Judged {
        let bytes = self.round.bytes;
        let part_of = |member| part(self.number, member, member, bytes);
        let mut parts = vec![0; bytes * self.hosts as usize];
        group.all_gather(part_of(self.own), &mut parts).await?;
        let expected: Vec<u8> = (0..self.hosts).flat_map(part_of).copied().collect();
        Ok(compare("what was gathered", &expected, &parts))
    }

    async fn all_reduce(&self, group: &mut Group<'_>) -> Judged {
        // Half of each byte is lost, and with it the risk that a sum overflows.
        let values_of = |member| -> Vec<u64> {
            let bytes = part(self.number, member, member, self.round.bytes);
            bytes
                .chunks_exact(8)
                .map(|chunk| chunk.iter().fold(0, |value, byte| value << 4 ^ u64::from(*byte)))
                .collect()
        };
        let mut values = values_of(self.own);
        group.all_reduce(&mut values, sum).await?;
        let mut expected = vec![0; values.len()];
        for member in 0..self.hosts {
            expected.iter_mut().zip(values_of(member)).for_each(|(total, value)| *total += value);
        }
        Ok((values != expected).then(|| "the sums are wrong".to_owned()))
    }

    /// Parts of different lengths; some are empty.
    async fn all_to_all(&self, group: &mut Group<'_>) -> Judged {
        let part_from = |from: u32, to: u32| {
            part(self.number, from, to, self.round.bytes * ((from + 2 * to) % 3) as usize / 2)
        };
        let sent: Vec<_> = (0..self.hosts).map(|to| part_from(self.own, to)).collect();
        let received = group.all_to_all_v(&sent).await?;
        let wrong = (0..self.hosts).zip(&received).find_map(|(from, received)| {
            compare(&format!("the part of {from}"), part_from(from, self.own), received)
        });
        Ok(wrong.or_else(|| (received.len() != sent.len()).then(|| "parts are missing".to_owned())))
    }
}
