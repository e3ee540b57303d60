//! What homa is told about the fabric and about whom to prefer.

use core::time::Duration;

use crate::wire::PRIORITIES_MAX;

/// The most senders that may be granted bytes at a time.
pub const OVERCOMMIT_MAX: u16 = 64;

/// How grants, priorities and the pace of sending are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomaRules {
    /// What is in flight in a round trip, in bytes: at most as much of a message is granted ahead of its
    /// arrival.
    pub rtt_bytes: u32,
    /// A grant permits at least this many bytes, or all the rest, and goes as many bytes beyond what a round
    /// trip needs. Not every packet then needs a grant.
    pub grant_bytes: u32,
    /// The most messages, each of another sender, that are granted bytes at a time.
    pub overcommit: u16,
    /// How many priorities messages are told apart by, 1 to [`PRIORITIES_MAX`].
    pub priorities: u8,
    /// How many of them unscheduled bytes have; `None` learns it from the traffic.
    pub unscheduled_priorities: Option<u8>,
    /// The lengths of messages that part the priorities of unscheduled bytes, ascending; `None` learns them.
    pub cutoffs: Option<Vec<u32>>,
    /// The share of grants, and of packets sent, that goes to the oldest message instead of the shortest, in
    /// 1/1000.
    pub fifo_permille: u16,
    /// What the link carries, in bits a second; `None` sends as fast as the driver takes packets.
    pub link_bits_per_second: Option<u64>,
    /// How much the network card may have in its queue, as the time that the link takes for it.
    pub backlog: Duration,
}

impl Default for HomaRules {
    /// Eight priorities, everything else learnt; no pace, because the link is not known.
    fn default() -> Self {
        Self {
            rtt_bytes: 64 << 10,
            grant_bytes: 16 << 10,
            overcommit: 8,
            priorities: PRIORITIES_MAX,
            unscheduled_priorities: None,
            cutoffs: None,
            fifo_permille: 50,
            link_bits_per_second: None,
            backlog: Duration::from_micros(2),
        }
    }
}

impl HomaRules {
    /// How far grants to one message go ahead of its arrival, where the path was `measured` to carry this
    /// many bytes in a round trip.
    pub(super) fn window_bytes(&self, measured: u32) -> u32 {
        self.rtt_bytes.max(measured).saturating_add(self.grant_bytes)
    }

    pub(super) fn check(&self) -> Result<(), RulesError> {
        let priorities = self.priorities;
        if priorities == 0 || priorities > PRIORITIES_MAX {
            return Err(RulesError::Priorities { priorities });
        }
        if self.overcommit == 0 || self.overcommit > OVERCOMMIT_MAX {
            return Err(RulesError::Overcommit { overcommit: self.overcommit });
        }
        if let Some(unscheduled) = self.unscheduled_priorities
            && (unscheduled == 0 || unscheduled >= priorities)
        {
            return Err(RulesError::UnscheduledPriorities { unscheduled, priorities });
        }
        if let Some(cutoffs) = &self.cutoffs {
            if !cutoffs.is_sorted_by(|shorter, longer| shorter < longer) {
                return Err(RulesError::CutoffsOrder);
            }
            if cutoffs.len() >= usize::from(priorities) {
                return Err(RulesError::Cutoffs { cutoffs: cutoffs.len(), priorities });
            }
            if self.unscheduled_priorities.is_some_and(|count| usize::from(count) != cutoffs.len() + 1) {
                return Err(RulesError::CutoffsCount { cutoffs: cutoffs.len() });
            }
        }
        let nothing_sent = [u64::from(self.rtt_bytes), u64::from(self.grant_bytes)].contains(&0)
            || self.link_bits_per_second == Some(0);
        if self.fifo_permille > 1000 || nothing_sent {
            return Err(RulesError::OutOfRange);
        }
        Ok(())
    }
}

/// Why rules cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Packets have no such number of priorities: choose 1 to 8.
    #[error("{priorities} priorities are outside of 1 to {PRIORITIES_MAX}")]
    Priorities {
        /// The number given.
        priorities: u8,
    },
    /// Nobody would be granted anything, or more than there is room to keep track of.
    #[error("an overcommitment of {overcommit} is outside of 1 to {OVERCOMMIT_MAX}")]
    Overcommit {
        /// The number given.
        overcommit: u16,
    },
    /// Scheduled bytes need a priority too: use a driver with more, or leave the number to be learnt.
    #[error("{unscheduled} of {priorities} priorities for unscheduled bytes leave none for the others")]
    UnscheduledPriorities {
        /// The number given.
        unscheduled: u8,
        /// All that there are.
        priorities: u8,
    },
    /// Each length parts two priorities: give fewer, or use a driver with more priorities.
    #[error("{cutoffs} cutoffs part more priorities than the {priorities} that there are")]
    Cutoffs {
        /// How many lengths were given.
        cutoffs: usize,
        /// The priorities.
        priorities: u8,
    },
    /// The number of priorities for unscheduled bytes follows from the cutoffs: give one of the two.
    #[error("{cutoffs} cutoffs part another number of priorities than was given; leave that to be learnt")]
    CutoffsCount {
        /// How many lengths were given.
        cutoffs: usize,
    },
    /// Sort the lengths.
    #[error("the lengths of cutoffs must ascend")]
    CutoffsOrder,
    /// A share over 1000, or a zero where nothing could be sent.
    #[error("a share over 1000 of 1000, or no bytes in a round trip, in a grant or on the link")]
    OutOfRange,
}
