//! Our half of a lane: what can be made before the peer is known, and what it must know of it.

use core::ffi::c_int;
use std::sync::Arc;

use super::announcements::Announcements;
use super::conductor::Terms;
use super::handshake::{Offer, PeerMemory};
use super::link::{Link, READS_MAX, WRITES_MAX};
use super::receives::Receives;
use crate::cm::CmId;
use crate::config::VerbsLaneConfig;
use crate::device::{Device, Network};
use crate::error::VerbsError;
use crate::pair::{Depths, QueuePair};
use crate::queues::{CompletionChannel, CompletionQueue};
use crate::region::Region;
use crate::sys;

/// How long a card waits for an acknowledgement: 4.096 us times two to this, 67 ms. Soft-RoCE needs as much.
const ACK_TIMEOUT: u8 = 14;
/// How often it asks again. One less than the most, which Soft-RoCE takes for "for ever".
const RETRIES: u8 = 6;
/// How often it offers a write again to a peer that has no receive: for ever; a peer that hangs is the
/// business of deadlines.
const RECEIVER_RETRIES: u8 = 7;
/// After which time: 0.64 ms.
const RECEIVER_NOT_READY: u8 = 12;

/// A queue pair and our ring, before the peer is known.
pub struct Half {
    pub pair: QueuePair,
    pub sends: Arc<CompletionQueue>,
    pub arrivals: Arc<CompletionQueue>,
    /// The ring that the peer writes and we read.
    pub ring: Region,
    /// Where announcements lie that are messages of their own.
    pub announcements: Option<Announcements>,
    /// Where our queue pair begins to count its packets.
    sequence: u32,
}

impl Half {
    /// Makes the queues and the ring of a new lane.
    pub fn new(
        device: &Arc<Device>,
        config: &VerbsLaneConfig,
        receives: &Receives,
        channel: &Arc<CompletionChannel>,
    ) -> Result<Self, VerbsError> {
        let sends = CompletionQueue::new(device, WRITES_MAX + READS_MAX, Some(channel))?;
        let iwarp = device.network == Network::Iwarp;
        let announcements = iwarp.then(|| Announcements::new(device, config.ring_bytes)).transpose()?;
        let (own, shared) = match iwarp {
            true => (Announcements::receives(config.ring_bytes), None),
            false => (0, Some(&receives.queue)),
        };
        // All shared receives may be used up by one lane before it is looked at, and be posted again by
        // another.
        let arrivals_max = shared.map_or(own, |queue| 2 * queue.depth);
        let arrivals = CompletionQueue::new(device, arrivals_max, Some(channel))?;
        let depths = Depths { send: WRITES_MAX + READS_MAX, receive: own, inline_bytes: config.inline_bytes };
        let pair = QueuePair::new(device, sys::IBV_QPT_RC, depths, &sends, &arrivals, shared)?;
        let ring = Region::new(device, config.ring_bytes, sys::IBV_ACCESS_REMOTE_WRITE, config.huge_pages)?;
        let init = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: device.port.number,
            qp_access_flags: (sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_REMOTE_READ) as u32,
            ..sys::ibv_qp_attr::default()
        };
        let of_infiniband = if iwarp { 0 } else { sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT };
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_ACCESS_FLAGS | of_infiniband;
        pair.modify("initialise a queue pair", init, mask)?;
        announcements.as_ref().map_or(Ok(()), |announcements| announcements.post_all(&pair))?;
        Ok(Self { pair, sends, arrivals, ring, announcements, sequence: random_sequence()? })
    }

    /// What the peer must know to connect.
    pub fn offer<'a>(&self, terms: &Terms, hello: &'a [u8]) -> Offer<'a> {
        let Terms { device, config, .. } = terms;
        let blocks = &terms.blocks;
        Offer {
            network: device.network,
            mtu: mtu_number(device, config),
            lid: device.port.lid,
            gid: device.port.gid,
            number: self.pair.number(),
            sequence: self.sequence,
            memory: PeerMemory {
                ring_address: self.ring.at(0, config.ring_bytes).as_ptr().addr() as u64,
                ring_key: self.ring.remote_key(),
                ring_bytes: config.ring_bytes as u64,
                blocks_address: blocks.at(0, config.block_bytes).as_ptr().addr() as u64,
                blocks_key: blocks.remote_key(),
                blocks_bytes: config.block_bytes as u64,
            },
            manager: terms.manager.as_ref().map(|manager| manager.place),
            hello,
        }
    }

    /// Connects to a peer that made `offer`, whose fields have been checked.
    pub fn connect(self, terms: &Terms, offer: &Offer<'_>) -> Result<Link, VerbsError> {
        self.make_ready(&terms.device, offer, mtu_number(&terms.device, &terms.config))?;
        self.into_link(terms, offer.memory, None)
    }

    /// The lane to a peer with this memory, once the queue pairs are connected, perhaps by rdma_cm.
    pub fn into_link(
        self,
        terms: &Terms,
        peer: PeerMemory,
        connection: Option<CmId>,
    ) -> Result<Link, VerbsError> {
        let Terms { device, config, receives, alarm, .. } = terms;
        let staging = Region::new(device, peer.ring_bytes as usize, 0, config.huge_pages)?;
        Ok(Link::new(self, connection, staging, peer, receives, alarm))
    }

    /// Makes the queue pair ready for what rdma_cm has agreed on with the peer, whose longest packet is
    /// given.
    pub fn make_ready_by(
        &self,
        device: &Device,
        config: &VerbsLaneConfig,
        id: &CmId,
        mtu: u8,
    ) -> Result<(), VerbsError> {
        if device.network == Network::Iwarp {
            // The device does it itself.
            return Ok(());
        }
        let (mut receive, mask) = id.attributes(sys::IBV_QPS_RTR)?;
        receive.path_mtu = receive.path_mtu.min(c_int::from(mtu.min(mtu_number(device, config))));
        // rdma_cm takes the longest time there is, 655 ms.
        receive.min_rnr_timer = RECEIVER_NOT_READY;
        self.pair.modify("connect a queue pair", receive, mask)?;
        let (mut send, mask) = id.attributes(sys::IBV_QPS_RTS)?;
        (send.timeout, send.retry_cnt, send.rnr_retry) = (ACK_TIMEOUT, RETRIES, RECEIVER_RETRIES);
        self.pair.modify("open a queue pair", send, mask)
    }

    fn make_ready(&self, device: &Device, offer: &Offer<'_>, mtu: u8) -> Result<(), VerbsError> {
        let zero = sys::ibv_qp_attr::default();
        let receive = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: c_int::from(mtu.min(offer.mtu)),
            dest_qp_num: offer.number,
            rq_psn: offer.sequence,
            max_dest_rd_atomic: READS_MAX as u8,
            min_rnr_timer: RECEIVER_NOT_READY,
            ah_attr: device.route(offer.gid, offer.lid),
            ..zero
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_AV
            | sys::IBV_QP_PATH_MTU
            | sys::IBV_QP_DEST_QPN
            | sys::IBV_QP_RQ_PSN
            | sys::IBV_QP_MAX_DEST_RD_ATOMIC
            | sys::IBV_QP_MIN_RNR_TIMER;
        self.pair.modify("connect a queue pair", receive, mask)?;
        let send = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: self.sequence,
            timeout: ACK_TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RECEIVER_RETRIES,
            max_rd_atomic: READS_MAX as u8,
            ..zero
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_SQ_PSN
            | sys::IBV_QP_TIMEOUT
            | sys::IBV_QP_RETRY_CNT
            | sys::IBV_QP_RNR_RETRY
            | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        self.pair.modify("open a queue pair", send, mask)
    }
}

/// The longest packet that we want, as verbs number it.
fn mtu_number(device: &Device, config: &VerbsLaneConfig) -> u8 {
    let of_link = device.port.mtu as u8;
    config.mtu_bytes.map_or(of_link, |bytes| of_link.min((bytes / 128).ilog2() as u8))
}

/// Where a queue pair begins to count its packets: anywhere, so that packets of an earlier one do not fit.
fn random_sequence() -> Result<u32, VerbsError> {
    let mut bytes = [0; 4];
    let random = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    random.map_err(|error| VerbsError::System { what: "draw a random number", source: error.into() })?;
    Ok(u32::from_le_bytes(bytes) & 0x00ff_ffff)
}
