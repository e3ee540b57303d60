//! Who sends what to whom, and after what.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// An operation in which all ranks take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Collective {
    /// Every rank has a message for every other.
    Shuffle,
    /// Rank 0 has a message for all, passed on in a tree.
    Broadcast,
    /// Every rank has a message for rank 0, collected in a tree: who passes on adds its own.
    Gather,
    /// Every rank has a message for all: in round k each passes all that it has to the rank 2^k further on (Bruck et
    /// al., 1997), which works for any number of ranks.
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
pub const BANDWIDTH_MESSAGES: usize = 64;

impl Collective {
    /// All operations.
    pub const ALL: [Self; 7] = [
        Self::Shuffle,
        Self::Broadcast,
        Self::Gather,
        Self::AllGather,
        Self::PointToPoint,
        Self::Bandwidth,
        Self::TwoWayBandwidth,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shuffle => "shuffle",
            Self::Broadcast => "broadcast",
            Self::Gather => "gather",
            Self::AllGather => "all-gather",
            Self::PointToPoint => "point-to-point",
            Self::Bandwidth => "bandwidth",
            Self::TwoWayBandwidth => "two-way-bandwidth",
        }
    }

    /// Bytes that a rank moves in one operation for its rate: those that it sends, with the message to itself where the
    /// operation has one.
    pub fn bytes_per_rank(self, ranks: u32, message_bytes: usize) -> usize {
        match self {
            Self::Shuffle | Self::AllGather | Self::Gather => ranks as usize * message_bytes,
            Self::Broadcast | Self::PointToPoint => message_bytes,
            Self::Bandwidth | Self::TwoWayBandwidth => BANDWIDTH_MESSAGES * message_bytes,
        }
    }

    /// The fewest ranks.
    pub const fn ranks_min(self) -> u32 {
        match self {
            Self::PointToPoint | Self::Bandwidth | Self::TwoWayBandwidth => 2,
            _ => 1,
        }
    }
}

/// A message that a rank sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// To whom.
    pub to: u32,
    /// How long it is.
    pub bytes: usize,
    /// The ranks whose messages must have arrived first.
    pub after: Vec<u32>,
}

/// All messages of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// By sender, in clockwise order of receivers where that makes sense.
    sends: Vec<Vec<Send>>,
    /// By receiver: sender and length of each message.
    arrivals: Vec<Vec<(u32, usize)>>,
}

impl Schedule {
    /// The messages of an operation among `ranks` ranks.
    pub fn new(collective: Collective, ranks: u32, message_bytes: usize) -> Self {
        let sends: Vec<Vec<Send>> =
            (0..ranks).map(|rank| sends_of(collective, rank, ranks, message_bytes)).collect();
        let mut arrivals = vec![Vec::new(); ranks as usize];
        for (from, of_sender) in (0..).zip(&sends) {
            for send in of_sender {
                arrivals[send.to as usize].push((from, send.bytes));
            }
        }
        Self { sends, arrivals }
    }

    /// How many ranks take part.
    pub fn ranks(&self) -> u32 {
        self.sends.len() as u32
    }

    /// What a rank sends.
    pub fn sends(&self, rank: u32) -> &[Send] {
        &self.sends[rank as usize]
    }

    /// The messages that a rank gets: from whom, and how long.
    pub fn arrivals(&self, rank: u32) -> &[(u32, usize)] {
        &self.arrivals[rank as usize]
    }
}

fn sends_of(collective: Collective, rank: u32, ranks: u32, bytes: usize) -> Vec<Send> {
    let at_once = |to| Send { to, bytes, after: Vec::new() };
    match collective {
        Collective::Shuffle => (1..ranks).map(|distance| at_once((rank + distance) % ranks)).collect(),
        Collective::Broadcast => {
            let after: Vec<u32> = parent(rank).into_iter().collect();
            children(rank, ranks).map(|to| Send { to, bytes, after: after.clone() }).collect()
        }
        Collective::Gather => {
            let after = children(rank, ranks).collect();
            let bytes = bytes * subtree(rank, ranks);
            parent(rank).into_iter().map(|to| Send { to, bytes, after: Vec::clone(&after) }).collect()
        }
        Collective::AllGather => all_gather(rank, ranks, bytes),
        Collective::PointToPoint if rank == 0 => vec![at_once(1)],
        Collective::PointToPoint => Vec::new(),
        Collective::Bandwidth if rank % 2 == 1 => Vec::new(),
        Collective::Bandwidth | Collective::TwoWayBandwidth => {
            let partner = rank ^ 1;
            if partner < ranks { vec![at_once(partner); BANDWIDTH_MESSAGES] } else { Vec::new() }
        }
    }
}

fn parent(rank: u32) -> Option<u32> {
    rank.checked_sub(1).map(|below| below / TREE_DEGREE)
}

fn children(rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    let first = rank.saturating_mul(TREE_DEGREE).saturating_add(1);
    (first..first.saturating_add(TREE_DEGREE)).take_while(move |&child| child < ranks)
}

/// Ranks in the tree below a rank, itself included.
fn subtree(rank: u32, ranks: u32) -> usize {
    1 + children(rank, ranks).map(|child| subtree(child, ranks)).sum::<usize>()
}

/// In round k a rank has the messages of 2^k ranks, and passes on as many of them as the other one lacks.
fn all_gather(rank: u32, ranks: u32, bytes: usize) -> Vec<Send> {
    let mut sends = Vec::new();
    let mut after = Vec::new();
    let mut distance = 1;
    while distance < ranks {
        let pieces = distance.min(ranks - distance) as usize;
        sends.push(Send { to: (rank + distance) % ranks, bytes: bytes * pieces, after: after.clone() });
        after.push((rank + ranks - distance) % ranks);
        distance *= 2;
    }
    sends
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|collective| collective.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|collective| collective.name()).collect();
            format!("`{name}` is none of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a schedule by its own rules: what is sent, and which ranks' data each rank has at the end.
    fn delivered(collective: Collective, ranks: u32) -> Vec<usize> {
        let schedule = Schedule::new(collective, ranks, 3);
        let mut arrived = vec![vec![false; ranks as usize]; ranks as usize];
        let mut received = vec![0; ranks as usize];
        let mut open: Vec<(u32, Send)> = (0..ranks)
            .flat_map(|rank| schedule.sends(rank).iter().map(move |send| (rank, send.clone())))
            .collect();
        while !open.is_empty() {
            let ready = |(from, send): &(u32, Send)| {
                send.after.iter().all(|&needed| arrived[*from as usize][needed as usize])
            };
            let (now, later): (Vec<_>, Vec<_>) = open.into_iter().partition(ready);
            assert!(!now.is_empty(), "{collective} among {ranks} waits for ever");
            for (from, send) in now {
                arrived[send.to as usize][from as usize] = true;
                received[send.to as usize] += send.bytes;
            }
            open = later;
        }
        for rank in 0..ranks {
            let announced: usize = schedule.arrivals(rank).iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(announced, received[rank as usize]);
        }
        received
    }

    #[test]
    fn every_operation_comes_to_its_end_with_the_right_bytes() {
        for ranks in [1, 2, 3, 10, 11, 12, 64, 113] {
            let others = 3 * (ranks as usize - 1);
            assert_eq!(delivered(Collective::Shuffle, ranks), vec![others; ranks as usize]);
            assert_eq!(delivered(Collective::AllGather, ranks), vec![others; ranks as usize]);
            assert_eq!(delivered(Collective::Gather, ranks)[0], others);
            let broadcast = delivered(Collective::Broadcast, ranks);
            assert!(broadcast[0] == 0 && broadcast[1..].iter().all(|&bytes| bytes == 3));
        }
        for ranks in [2, 3, 8] {
            assert_eq!(delivered(Collective::PointToPoint, ranks)[1], 3);
            assert_eq!(delivered(Collective::Bandwidth, ranks)[..2], [0, 3 * BANDWIDTH_MESSAGES]);
            assert_eq!(delivered(Collective::TwoWayBandwidth, ranks)[..2], [3 * BANDWIDTH_MESSAGES; 2]);
        }
    }

    #[test]
    fn names_come_back() {
        for collective in Collective::ALL {
            assert_eq!(collective.name().parse(), Ok(collective));
        }
        assert!("sort".parse::<Collective>().is_err());
    }
}
