//! The operations that are measured, and one rank's part in them: calls of the library of collective
//! operations, or messages between pairs of ranks.

use std::rc::Rc;

use farcall::{Clock, ConnectError, Endpoint, Instant, Outgoing, Payload, ReceiveError, SendError, Tag};
use farcall_collective::{
    Algorithms, AllGather, Broadcast, BySize, CollectiveError, Gather, Group, GroupError, GroupId, PushLimits,
};
use serde::{Deserialize, Serialize};

use super::CollectivePlan;
use super::root::OPERATION_MAX;

/// An operation in which all ranks take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Collective {
    /// Every rank has a message for every other: an exchange.
    Shuffle,
    /// Rank 0 has a message for all, passed on in a tree.
    Broadcast,
    /// Every rank has a message for rank 0, collected in a tree.
    Gather,
    /// Every rank has a message for all, by Bruck's algorithm.
    AllGather,
    /// Rank 0 has a message for rank 1: the time of one way.
    PointToPoint,
    /// Ranks in pairs: the even one sends the odd one 64 messages.
    Bandwidth,
    /// As [`Collective::Bandwidth`], both ways at once.
    TwoWayBandwidth,
}

/// Children of each rank in a tree, as in the measurements that farcall compares itself with.
const TREE_DEGREE: u32 = 10;

/// Messages of an operation that measures bandwidth.
const BANDWIDTH_MESSAGES: usize = 64;

/// Their tag.
const STREAM: Tag = Tag(1);

farcall_base::named!(Collective:
    Shuffle = "shuffle",
    Broadcast = "broadcast",
    Gather = "gather",
    AllGather = "all-gather",
    PointToPoint = "point-to-point",
    Bandwidth = "bandwidth",
    TwoWayBandwidth = "two-way-bandwidth",
);

impl Collective {
    /// Bytes that a rank moves in one operation for its rate: those that it sends, with the message to itself
    /// where the operation has one.
    pub fn bytes_per_rank(self, ranks: u32, message_bytes: usize) -> usize {
        match self {
            Self::Shuffle | Self::AllGather | Self::Gather => ranks as usize * message_bytes,
            Self::Broadcast | Self::PointToPoint => message_bytes,
            Self::Bandwidth | Self::TwoWayBandwidth => BANDWIDTH_MESSAGES * message_bytes,
        }
    }

    /// About how many others a rank has sessions to: those of its messages, of the barrier that comes first,
    /// and rank 0.
    pub fn peers(self, ranks: u32) -> u32 {
        let of_barrier = 2 * (u32::BITS - ranks.leading_zeros()) + 1;
        let of_messages = match self {
            Self::Shuffle => ranks,
            Self::Broadcast | Self::Gather => TREE_DEGREE + 1,
            Self::AllGather => of_barrier,
            Self::PointToPoint | Self::Bandwidth | Self::TwoWayBandwidth => 1,
        };
        (of_messages + of_barrier).min(ranks)
    }

    /// The fewest ranks.
    pub const fn ranks_min(self) -> u32 {
        match self {
            Self::PointToPoint | Self::Bandwidth | Self::TwoWayBandwidth => 2,
            _ => 1,
        }
    }
}

/// Why a rank could not do its part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The ranks are no group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A collective operation failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The other rank of a pair cannot be reached.
    #[error("the other rank of the pair cannot be reached: {0}")]
    Connect(#[from] ConnectError),
    /// A message of a pair was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A message of a pair was not received.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
}

/// One rank's part in the operations of a plan.
pub(super) struct Work<'e> {
    group: Group<'e>,
    clock: Clock,
    plan: Rc<CollectivePlan>,
    /// Whether chunks are copied where they arrive.
    copies: bool,
    message: Payload,
    /// What arrives, where the operation says where.
    buffer: Vec<u8>,
}

impl<'e> Work<'e> {
    /// The part of `rank`.
    pub(super) fn new(
        endpoint: &'e Endpoint,
        rank: u32,
        plan: &Rc<CollectivePlan>,
        copies: bool,
    ) -> Result<Self, WorkError> {
        let algorithms = Algorithms {
            broadcast: BySize::always(Broadcast::Tree { degree: TREE_DEGREE }),
            gather: Gather::Tree { degree: TREE_DEGREE },
            all_gather: BySize::always(AllGather::Bruck),
            // A message of one whole chunk is not to end with an empty segment.
            segment_bytes: plan.limits.chunk_bytes + 1,
            ..Algorithms::default()
        };
        let group = Group::new(endpoint, GroupId::new(0), rank, 0..plan.ranks)?;
        let bytes = match plan.collective {
            Collective::Broadcast => plan.message_bytes,
            Collective::AllGather => plan.ranks as usize * plan.message_bytes,
            _ => 0,
        };
        Ok(Self {
            group: group.with_algorithms(algorithms).with_timeout(OPERATION_MAX),
            clock: endpoint.clock(),
            copies,
            message: Payload::from(vec![0; plan.message_bytes]),
            buffer: vec![0; bytes],
            plan: Rc::clone(plan),
        })
    }

    /// Waits for all ranks.
    pub(super) async fn meet(&mut self) -> Result<(), WorkError> {
        Ok(self.group.barrier().await?)
    }

    /// Does one operation; gives the time at which this rank had all that it expected.
    pub(super) async fn operate(&mut self) -> Result<Instant, WorkError> {
        let Self { group, message, buffer, .. } = self;
        match self.plan.collective {
            Collective::Shuffle => {
                let others = (0..group.size()).filter(|&member| member != group.own()).collect::<Vec<_>>();
                return self.exchange(&others, &others).await;
            }
            Collective::PointToPoint => {
                return match group.own() {
                    0 => self.exchange(&[1], &[]).await,
                    1 => self.exchange(&[], &[0]).await,
                    _ => self.exchange(&[], &[]).await,
                };
            }
            Collective::Broadcast => group.broadcast(0, buffer).await?,
            Collective::Gather => drop(group.gather(0, message).await?),
            Collective::AllGather => group.all_gather(message, buffer).await?,
            Collective::Bandwidth => {
                self.stream(self.group.own() % 2 == 0, self.group.own() % 2 == 1).await?
            }
            Collective::TwoWayBandwidth => self.stream(true, true).await?,
        }
        Ok(self.clock.now())
    }

    async fn exchange(&mut self, receivers: &[u32], sources: &[u32]) -> Result<Instant, WorkError> {
        let limits = PushLimits { seed: self.plan.seed, ..self.plan.limits };
        let outgoing = |&to: &u32| (to, Outgoing::Shared(self.message.clone()));
        let mut memory = vec![0; if self.copies { limits.chunk_bytes } else { 0 }];
        let sink = move |_: u32, chunk: &[u8]| {
            if let Some(memory) = memory.get_mut(..chunk.len()) {
                memory.copy_from_slice(chunk);
            }
        };
        let messages = receivers.iter().map(outgoing).collect();
        Ok(self.group.exchange(messages, sources, limits, sink).await?)
    }

    /// Sends the other rank of the pair its messages, receives them, or both. A rank without another one does
    /// nothing.
    async fn stream(&self, sends: bool, receives: bool) -> Result<(), WorkError> {
        let (endpoint, partner) = (self.group.endpoint(), self.group.own() ^ 1);
        if partner >= self.group.size() {
            return Ok(());
        }
        let peer = endpoint.peer(partner)?;
        let mut receiving = Vec::new();
        if receives {
            for _ in 0..BANDWIDTH_MESSAGES {
                receiving.push(endpoint.receive(peer, STREAM).within(OPERATION_MAX).start()?);
            }
        }
        let mut sending = Vec::new();
        if sends {
            for _ in 0..BANDWIDTH_MESSAGES {
                let send = endpoint.send(peer, STREAM, self.message.clone());
                sending.push(send.within(OPERATION_MAX).start()?);
            }
        }
        for message in receiving {
            message.await?;
        }
        for message in sending {
            message.await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for collective in Collective::ALL {
            assert_eq!(collective.name().parse(), Ok(collective));
        }
        assert!("sort".parse::<Collective>().is_err());
    }
}
