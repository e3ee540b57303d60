//! How a packet transport is set up.

use core::time::Duration;

use farcall_base::SessionNumbers;
use farcall_driver::DatagramLimits;
use farcall_protocol::basic::BasicConfig;
use farcall_protocol::session::SessionConfig;
use farcall_protocol::wire::Offer;

use crate::PEER_TIMEOUT_DEFAULT;

/// Limits and times. What concerns both sides of a session is negotiated: the smaller value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// The longest message, in bytes.
    pub message_bytes_max: u32,
    /// The most unanswered calls of a session, each way.
    pub calls_max: u16,
    /// The most sessions at a time.
    pub sessions_max: u16,
    /// The most of them that one host opened.
    pub sessions_per_host: u16,
    /// The most sessions that others have asked for and not confirmed yet.
    pub half_open_max: u16,
    /// The most of those that are of one host.
    pub half_open_per_host: u16,
    /// With so many of those, the requester for another one must first prove its address.
    pub cookies_from: u16,
    /// How many ranks there are: peers with others are refused.
    pub ranks: u32,
    /// How much of a message is sent before its receiver grants more, in bytes: what is in flight in a round
    /// trip.
    pub unscheduled_bytes: u32,
    /// How far the window of a session may grow, in bytes: the most of a peer's messages that may be in
    /// flight.
    pub window_bytes_max: u32,
    /// Whether every packet carries a checksum; it does when either side wants it. `None` wants one unless
    /// the driver's fabric checks packets itself.
    pub checksum: Option<bool>,
    /// The silence after which a peer counts as dead.
    pub peer_timeout: Duration,
    /// How often waiting calls are looked at; after two such intervals of silence they ask again.
    pub resend_interval: Duration,
    /// The most memory lent at a time, in bytes.
    pub loan_bytes_max: usize,
    /// How many bytes of a peer's messages may wait for a receive.
    pub unexpected_bytes: usize,
    /// The most bytes that a session can make us hold; two of the longest messages, or eight times the
    /// unexpected bytes, if that is more.
    pub session_bytes_max: usize,
    /// The most bytes of all sessions together; twice those of one if that is more.
    pub bytes_max: usize,
    /// How long a result waits for its acknowledgement, or a part of a request for the rest, without a word
    /// about it from the peer.
    pub keep_time: Duration,
    /// Whether tagged messages are taken. The session of a peer that sends one nevertheless ends.
    pub messages: bool,
    /// Which numbers sessions get here.
    pub numbers: SessionNumbers,
}

/// A short message that waits takes some four times what it counts, and as many more may be in flight.
const UNEXPECTED_FACTOR: usize = 8;

impl Default for PacketConfig {
    fn default() -> Self {
        let basic = BasicConfig::default();
        let SessionConfig { offer, sessions_max, half_open_max, cookies_from, ranks, .. } = basic.session;
        let SessionConfig { sessions_per_host, half_open_per_host, .. } = basic.session;
        let SessionConfig { session_bytes_max, bytes_max, keep_time, window_bytes_max, .. } = basic.session;
        Self {
            message_bytes_max: offer.message_bytes_max,
            calls_max: offer.calls_max,
            sessions_max,
            sessions_per_host,
            half_open_max,
            half_open_per_host,
            cookies_from,
            ranks,
            unscheduled_bytes: offer.unscheduled_bytes,
            window_bytes_max,
            checksum: None,
            peer_timeout: PEER_TIMEOUT_DEFAULT,
            resend_interval: basic.resend_interval,
            loan_bytes_max: 256 << 20,
            unexpected_bytes: 1 << 20,
            session_bytes_max,
            bytes_max,
            keep_time,
            messages: true,
            numbers: SessionNumbers::ALL,
        }
    }
}

impl PacketConfig {
    /// What sessions are configured with on a driver with these limits.
    pub(super) fn session(&self, driver: DatagramLimits) -> SessionConfig {
        let offer = Offer {
            message_bytes_max: self.message_bytes_max,
            mtu_bytes: u32::try_from(driver.mtu_bytes).unwrap_or(u32::MAX),
            unscheduled_bytes: self.unscheduled_bytes,
            calls_max: self.calls_max,
            checksum: self.checksum.unwrap_or(!driver.checks_packets),
        };
        let least = (2 * self.message_bytes_max as usize).max(UNEXPECTED_FACTOR * self.unexpected_bytes);
        let session_bytes_max = self.session_bytes_max.max(least);
        SessionConfig {
            offer,
            sessions_max: self.sessions_max,
            sessions_per_host: self.sessions_per_host,
            half_open_max: self.half_open_max,
            half_open_per_host: self.half_open_per_host,
            cookies_from: self.cookies_from,
            ranks: self.ranks,
            peer_timeout: self.peer_timeout,
            session_bytes_max,
            bytes_max: self.bytes_max.max(2 * session_bytes_max),
            window_bytes_max: self.window_bytes_max,
            keep_time: self.keep_time,
            numbers: self.numbers,
        }
    }
}
