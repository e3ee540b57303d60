//! The driver's side of rdma_cm: where it listens, and what callers say there to be recognized.
//!
//! rdma_cm connects queue pairs, and nothing else: what lanes must know of each other is longer than what it
//! carries, so the handshake's socket stays. A request for a connection names the lane that the handshake has
//! agreed on.

use core::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::handshake::COOKIE_BYTES;
use super::link::READS_MAX;
use crate::cm::{CmId, EventChannel, address_on};
use crate::config::ConnectBy;
use crate::device::{Device, Network};
use crate::error::VerbsError;
use crate::sys;

/// How often a card repeats its request for a connection, or its agreement.
const RETRIES: u8 = 6;
/// "For ever", as for bootstrapped lanes.
const RECEIVER_RETRIES: u8 = 7;

/// What listens for connections of rdma_cm.
pub struct Manager {
    pub events: Arc<EventChannel>,
    /// Where callers find it.
    pub place: SocketAddr,
    _listener: CmId,
}

impl Manager {
    /// Listens on a device, if its lanes are connected by rdma_cm.
    pub fn open(device: &Device, connect_by: ConnectBy) -> Result<Option<Self>, VerbsError> {
        // An Ethernet port without an address of RoCE has none that a queue pair could be told.
        let cannot_do_without =
            device.network == Network::Iwarp || device.port.ethernet && !device.port.routable;
        match connect_by {
            ConnectBy::Bootstrap => return Ok(None),
            ConnectBy::Auto if !cannot_do_without => return Ok(None),
            ConnectBy::Auto | ConnectBy::Cm => {}
        }
        let events = EventChannel::new()?;
        let (name, port) = (&device.name, device.port.number);
        // What the cluster calls this machine by, if that is the device's, then the device's own address.
        let first = device.local.into_iter().chain([device.port.gid.ip()]);
        let ip = address_on(&events, device.library, name, port, first)
            .ok_or_else(|| VerbsError::NoCmAddress { device: name.clone(), port })?;
        let listener = CmId::new(&events)?;
        listener.bind(ip)?;
        listener.listen()?;
        let place = SocketAddr::new(ip, listener.port());
        Ok(Some(Self { events, place, _listener: listener }))
    }

    /// What becomes readable when rdma_cm reports something.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor lives as long as the channel, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.events.descriptor()) }
    }
}

/// Which lane a connection is for: what both sides know from the handshake, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The called driver's cookie.
    pub cookie: [u8; COOKIE_BYTES],
    /// The queue pair of the called side.
    pub called: u32,
    /// The queue pair of the caller.
    pub caller: u32,
}

/// Bytes of a claim.
const CLAIM_BYTES: usize = COOKIE_BYTES + 8;

impl Claim {
    /// The claim as private data of a request.
    pub fn encode(&self) -> [u8; CLAIM_BYTES] {
        let mut bytes = [0; CLAIM_BYTES];
        bytes[..COOKIE_BYTES].copy_from_slice(&self.cookie);
        bytes[COOKIE_BYTES..][..4].copy_from_slice(&self.called.to_le_bytes());
        bytes[COOKIE_BYTES + 4..].copy_from_slice(&self.caller.to_le_bytes());
        bytes
    }

    /// The inverse of [`Claim::encode`]; rdma_cm may have added zeros.
    pub fn decode(said: &[u8]) -> Option<Self> {
        let (cookie, rest) = said.split_first_chunk::<COOKIE_BYTES>()?;
        let (called, rest) = rest.split_first_chunk::<4>()?;
        let (caller, padding) = rest.split_first_chunk::<4>()?;
        let (called, caller) = (u32::from_le_bytes(*called), u32::from_le_bytes(*caller));
        padding.iter().all(|byte| *byte == 0).then_some(Self { cookie: *cookie, called, caller })
    }
}

/// How a queue pair is to be connected; `shared`: it takes its receives from a shared queue.
pub fn terms(number: u32, shared: bool) -> sys::rdma_conn_param {
    sys::rdma_conn_param {
        private_data: core::ptr::null(),
        private_data_len: 0,
        responder_resources: READS_MAX as u8,
        initiator_depth: READS_MAX as u8,
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RECEIVER_RETRIES,
        srq: u8::from(shared),
        qp_num: number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_the_journey_and_nothing_else_is_one() {
        let claim = Claim { cookie: [7; COOKIE_BYTES], called: 17, caller: 0x00ff_fffe };
        let bytes = claim.encode();
        assert_eq!(Claim::decode(&bytes), Some(claim));
        assert_eq!(Claim::decode(&[&bytes[..], &[0; 40]].concat()), Some(claim), "InfiniBand fills up");
        assert_eq!(Claim::decode(&[&bytes[..], &[1]].concat()), None);
        for end in 0..bytes.len() {
            assert_eq!(Claim::decode(&bytes[..end]), None, "{end} bytes");
        }
    }
}
