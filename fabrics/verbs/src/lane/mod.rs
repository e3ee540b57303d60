//! The lane driver: reliable connections, each a ring in either side's memory that the other writes.
//!
//! Large payloads stay in the sender's block memory; the receiver reads them into landing memory of its own,
//! and tells when they may be used again.

mod announcements;
mod conductor;
mod connection;
mod connections;
mod driver;
mod half;
mod handshake;
mod joining;
mod landing;
mod link;
mod manager;
mod pieces;
mod pinning;
mod place;
mod receiver;
mod receives;
mod reports;
mod sender;
mod socket;

/// What strangers' bytes reach.
pub mod fuzz {
    pub use super::handshake::{Message, RING_BYTES_MIN};
    pub use super::place::parse;
}

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;

use farcall_base::Address;
use farcall_driver::{BlockMemory, CounterFile, LaneEvent, LaneFault, LaneId};

use conductor::{Command, Conductor, Notice, Terms};
use handshake::COOKIE_BYTES;
pub use handshake::{BLOCK_BYTES_MAX, RING_BYTES_MAX, RING_BYTES_MIN};
use landing::{Arrivals, Landing};
use link::Link;
use manager::Manager;
use place::{Place, address_of};
pub use receiver::VerbsReceiver;
use receives::Receives;
pub use sender::VerbsSender;

use crate::config::{ConnectBy, VerbsLaneConfig};
use crate::counters::VerbsLaneCounters;
use crate::device::{Device, Network};
use crate::error::VerbsError;
use crate::error::describe;
use crate::events;
use crate::queues::CompletionChannel;
use crate::region::{Region, pinned_bytes};
use crate::sys;

/// Lanes over reliable connections of one RDMA device.
pub struct VerbsLanes {
    conductor: Conductor,
    lanes: BTreeMap<LaneId, LaneState>,
    address: Address,
    config: VerbsLaneConfig,
    /// What we lend.
    blocks: BlockMemory<Region>,
    /// Where what peers lend us is read to.
    landing: Landing,
    channel: Arc<CompletionChannel>,
    alarm: Arc<AtomicBool>,
    counters: VerbsLaneCounters,
}

/// What the driver keeps of a lane that is up.
struct LaneState {
    link: Arc<Link>,
    /// Until the transport takes them.
    ends: Option<(VerbsSender, VerbsReceiver)>,
    arrivals: Arrivals,
}

impl VerbsLanes {
    /// Opens a device, pins the memory for blocks, and starts the driver's listening thread.
    pub fn open(config: &VerbsLaneConfig) -> Result<Self, VerbsError> {
        let device = Device::open(&config.device, config.connect_by != ConnectBy::Bootstrap)?;
        config.check(&device)?;
        events::listen(&device)?;
        let channel = CompletionChannel::new(&device)?;
        let receives = Arc::new(Receives::new(&device, config.receives)?);
        let region = |access| Region::new(&device, config.block_bytes, access, config.huge_pages);
        let blocks = BlockMemory::new(region(sys::IBV_ACCESS_REMOTE_READ)?);
        // There, the answer to a read is a write of the peer's (RFC 5040, section 3.4).
        let written_by_reads =
            if device.network == Network::Iwarp { sys::IBV_ACCESS_REMOTE_WRITE } else { 0 };
        let landing = Landing::new(region(written_by_reads)?);
        let manager = Manager::open(&device, config.connect_by)?;
        let (listener, place) = listen(config.device.local)?;
        let alarm = Arc::new(AtomicBool::new(false));
        let counters = VerbsLaneCounters::new(CounterFile::process(), &format!("verbs {}", device.name));
        let terms = Terms {
            device,
            config: config.clone(),
            receives,
            channel: Arc::clone(&channel),
            blocks: Arc::clone(blocks.memory()),
            cookie: place.cookie,
            manager,
            alarm: Arc::clone(&alarm),
        };
        let conductor = Conductor::start(terms, listener)?;
        counters.pinned_bytes.set(pinned_bytes());
        Ok(Self {
            conductor,
            lanes: BTreeMap::new(),
            address: address_of(place),
            config: config.clone(),
            blocks,
            landing,
            channel,
            alarm,
            counters,
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &VerbsLaneCounters {
        &self.counters
    }

    fn lane_up(&mut self, lane: LaneId, link: Arc<Link>) {
        let sender = VerbsSender::new(Arc::clone(&link), self.config.signal_period);
        let receiver = VerbsReceiver::new(Arc::clone(&link), self.config.ring_bytes);
        let ends = Some((sender, receiver));
        self.lanes.insert(lane, LaneState { link, ends, arrivals: Arrivals::default() });
        self.counters.pinned_bytes.set(pinned_bytes());
    }

    fn lane_down(&mut self, lane: LaneId) {
        if let Some(LaneState { link, arrivals, .. }) = self.lanes.remove(&lane) {
            arrivals.end(&link);
            self.counters.lanes_failed.add(u64::from(link.failure().is_some()));
        }
        // The conductor has ended the queue pair: nobody reads what was lent through it.
        self.blocks.take_all_back(lane);
        self.counters.pinned_bytes.set(pinned_bytes());
    }

    /// What the conductor says next, as an event.
    #[cold]
    fn next_event(&mut self) -> Option<LaneEvent> {
        loop {
            match self.conductor.take_notice()? {
                Notice::Connected(lane, link, welcome) => {
                    self.lane_up(lane, link);
                    return Some(LaneEvent::Connected { lane, welcome });
                }
                Notice::Accepted(lane, link, hello) => {
                    self.lane_up(lane, link);
                    return Some(LaneEvent::Accepted { lane, hello });
                }
                Notice::Down(lane, fault) => {
                    self.lane_down(lane);
                    return Some(LaneEvent::Down { lane, fault });
                }
                Notice::Port(true) => self.counters.port_recoveries.increment(),
                Notice::Port(false) => self.counters.port_losses.increment(),
            }
        }
    }

    /// Has the conductor end the lanes of which the card reported a failure.
    #[cold]
    fn end_failed_lanes(&self) {
        self.alarm.store(false, Ordering::Relaxed);
        for (lane, state) in &self.lanes {
            if let Some(status) = state.link.failure() {
                let fault = LaneFault::Fabric { why: describe(status) };
                self.conductor.command(Command::End(*lane, fault));
            }
        }
    }
}

impl Drop for VerbsLanes {
    fn drop(&mut self) {
        // A read that is in flight writes to its loan until the conductor has ended the queue pair.
        for state in core::mem::take(&mut self.lanes).into_values() {
            state.arrivals.end(&state.link);
        }
    }
}

impl fmt::Debug for VerbsLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerbsLanes({:?}, {} lanes)", self.address, self.lanes.len())
    }
}

fn listen(local: Option<IpAddr>) -> Result<(TcpListener, Place), VerbsError> {
    let system = |source| VerbsError::System { what: "listen for peers", source };
    let listener = TcpListener::bind((local.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0)).map_err(system)?;
    listener.set_nonblocking(true).map_err(system)?;
    let mut cookie = [0; COOKIE_BYTES];
    rustix::rand::getrandom(&mut cookie, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| system(error.into()))?;
    let socket = listener.local_addr().map_err(system)?;
    Ok((listener, Place { socket, cookie }))
}
