//! What one side of a session is configured with, and how two sides agree.

use core::time::Duration;

use farcall_base::SessionNumbers;

use crate::wire::{Offer, RefuseReason};

/// The shortest MTU: every packet without payload fits it, and some payload beside a header.
pub const MTU_BYTES_MIN: u32 = 256;

/// The highest value of [`SessionConfig::sessions_max`].
pub const SESSIONS_MAX: u16 = 32_768;

/// The highest value of [`SessionConfig::half_open_max`].
pub const HALF_OPEN_MAX: u16 = 16_384;

/// The shortest peer timeout; pings go out after a quarter of it.
pub const PEER_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// What one side can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The limits to propose.
    pub offer: Offer,
    /// The most sessions at a time.
    pub sessions_max: u16,
    /// The most of them that one host opened.
    pub sessions_per_host: u16,
    /// The most sessions that others have asked for and not confirmed yet; beyond, the oldest makes room.
    pub half_open_max: u16,
    /// The most of those that are of one host; beyond, it gets no answer.
    pub half_open_per_host: u16,
    /// With so many of those, who asks for another one must first prove its address: a round trip more.
    pub cookies_from: u16,
    /// How many ranks the world has: others are refused, peers without a rank are not. 0 without a world: a
    /// rank that a peer claims means nothing.
    pub ranks: u32,
    /// The silence after which a peer counts as dead.
    pub peer_timeout: Duration,
    /// The most bytes that a peer can make this side hold in a session: its requests and responses under
    /// construction, results, slots, and messages that wait. Beyond, its requests have to come again.
    pub session_bytes_max: usize,
    /// The most bytes of all sessions together. Half of them are for whichever session asks first, and each
    /// session has an equal share of the other half.
    pub bytes_max: usize,
    /// How far the measured window of a session may grow, in bytes: the most of a peer's messages that may be
    /// in flight. It is never less than the unscheduled bytes.
    pub window_bytes_max: u32,
    /// How long a result waits for its acknowledgement, or a part of a request for the rest, without a word
    /// about it from the peer.
    pub keep_time: Duration,
    /// Which numbers sessions get here.
    pub numbers: SessionNumbers,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            offer: Offer {
                message_bytes_max: 8 << 20,
                mtu_bytes: 1472,
                unscheduled_bytes: 64 << 10,
                calls_max: 256,
                checksum: true,
            },
            sessions_max: 4096,
            sessions_per_host: 1024,
            half_open_max: 1024,
            half_open_per_host: 256,
            cookies_from: 64,
            ranks: u32::MAX,
            peer_timeout: Duration::from_secs(1),
            session_bytes_max: 64 << 20,
            bytes_max: 1 << 30,
            window_bytes_max: 16 << 20,
            keep_time: Duration::from_secs(10),
            numbers: SessionNumbers::ALL,
        }
    }
}

impl SessionConfig {
    /// Whether the values can be used at all.
    pub fn check(&self) -> Result<(), ConfigError> {
        let offer = &self.offer;
        if offer.mtu_bytes < MTU_BYTES_MIN {
            return Err(ConfigError::MtuTooShort { mtu_bytes: offer.mtu_bytes });
        }
        if offer.unscheduled_bytes == 0 || offer.calls_max == 0 {
            return Err(ConfigError::Zero);
        }
        if self.sessions_max == 0 || self.sessions_max > SESSIONS_MAX {
            return Err(ConfigError::Sessions { sessions_max: self.sessions_max });
        }
        if self.half_open_max == 0 || self.half_open_max > HALF_OPEN_MAX {
            return Err(ConfigError::HalfOpen { half_open_max: self.half_open_max });
        }
        if self.peer_timeout < PEER_TIMEOUT_MIN {
            return Err(ConfigError::PeerTimeout);
        }
        Ok(())
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Packets of that length cannot carry messages.
    #[error("an MTU of {mtu_bytes} bytes is below the minimum of {MTU_BYTES_MIN}")]
    MtuTooShort {
        /// The MTU given.
        mtu_bytes: u32,
    },
    /// With none of them nothing could ever be sent.
    #[error("unscheduled bytes and calls must be at least 1")]
    Zero,
    /// Outside of what session numbers can name.
    #[error("{sessions_max} sessions are outside of 1 to {SESSIONS_MAX}")]
    Sessions {
        /// The number given.
        sessions_max: u16,
    },
    /// Outside of what session numbers can name, beside the sessions themselves.
    #[error("{half_open_max} half-open sessions are outside of 1 to {HALF_OPEN_MAX}")]
    HalfOpen {
        /// The number given.
        half_open_max: u16,
    },
    /// Signs of life could not arrive in time.
    #[error("the peer timeout is below the minimum of {PEER_TIMEOUT_MIN:?}")]
    PeerTimeout,
    /// Incarnation 0 means "none": draw another number.
    #[error("incarnation 0 is not allowed")]
    IncarnationZero,
}

/// The smaller of both sides' limits; checksums when either side wants them.
pub(super) fn agree(ours: &Offer, theirs: &Offer) -> Result<Offer, RefuseReason> {
    let agreed = Offer {
        message_bytes_max: ours.message_bytes_max.min(theirs.message_bytes_max),
        mtu_bytes: ours.mtu_bytes.min(theirs.mtu_bytes),
        unscheduled_bytes: ours.unscheduled_bytes.min(theirs.unscheduled_bytes),
        calls_max: ours.calls_max.min(theirs.calls_max),
        checksum: ours.checksum || theirs.checksum,
    };
    if agreed.mtu_bytes < MTU_BYTES_MIN || agreed.unscheduled_bytes == 0 || agreed.calls_max == 0 {
        return Err(RefuseReason::Limits);
    }
    Ok(agreed)
}
