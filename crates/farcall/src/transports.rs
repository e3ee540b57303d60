//! The transports that this program has, by name.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use farcall_driver::decorate::{Fault, FaultConfig};
use farcall_driver::{CounterFile, Datagram, DatagramLimits};
use farcall_driver_shm::{ShmConfig, ShmDatagram, ShmDatagramConfig, ShmLanes};
use farcall_driver_udp::{UdpConfig, UdpDriver};
use farcall_protocol::Identity;
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::calls::Policy;
use farcall_protocol::homa::{HomaPolicy, HomaRules};
use farcall_protocol::session::ConfigError;
use farcall_transport::{PacketConfig, PacketTransport, Ring, RingConfig, Transport};

use crate::bootstrap::random_incarnation;
use crate::parameters::{FaultSettings, HomaSettings, Idle, Settings};

/// A transport and the driver that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// The ring protocol over shared memory.
    RingShm,
    /// The basic protocol over UDP.
    BasicUdp,
    /// The basic protocol over shared memory.
    BasicShm,
    /// The homa protocol over UDP.
    HomaUdp,
    /// The homa protocol over shared memory.
    HomaShm,
}

impl TransportKind {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::RingShm, Self::BasicUdp, Self::BasicShm, Self::HomaUdp, Self::HomaShm];

    /// The name: protocol and driver.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingShm => "ring+shm",
            Self::BasicUdp => "basic+udp",
            Self::BasicShm => "basic+shm",
            Self::HomaUdp => "homa+udp",
            Self::HomaShm => "homa+shm",
        }
    }

    /// One line for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RingShm => "rings in shared memory, between processes of one machine",
            Self::BasicUdp => "receiver-granted packets over the kernel's UDP sockets",
            Self::BasicShm => {
                "receiver-granted packets through shared memory, between processes of one machine"
            }
            Self::HomaUdp => "packets granted to the shortest messages first, over the kernel's UDP sockets",
            Self::HomaShm => {
                "packets granted to the shortest messages first, through shared memory on one machine"
            }
        }
    }

    /// Builds the transport for the endpoint that `identity` names, counting under `label`; `local` is this machine's
    /// address towards the other ranks.
    pub(crate) fn build(
        self,
        identity: Identity,
        settings: &Settings,
        local: IpAddr,
        label: &str,
    ) -> Result<Box<dyn Transport>, Box<dyn core::error::Error>> {
        let counters = CounterFile::process();
        Ok(match self {
            Self::RingShm => {
                let driver = ShmLanes::new(shm_config(settings))?;
                Box::new(Ring::new(driver, identity, ring_config(settings), counters, label))
            }
            Self::BasicUdp => basic(udp_driver(settings, local)?, identity, settings, label)?,
            Self::BasicShm => basic(shm_driver(settings)?, identity, settings, label)?,
            Self::HomaUdp => homa(udp_driver(settings, local)?, identity, settings, label)?,
            Self::HomaShm => homa(shm_driver(settings)?, identity, settings, label)?,
        })
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportKind {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        let known = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownTransport { name: name.into() })
    }
}

/// A transport's name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport {
    name: String,
}

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = TransportKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "unknown transport `{}`; the transports here are {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownTransport {}

/// The basic protocol over a driver.
fn basic<D: Datagram + 'static>(
    driver: D,
    identity: Identity,
    settings: &Settings,
    label: &str,
) -> Result<Box<dyn Transport>, ConfigError> {
    packet(driver, BasicPolicy, identity, settings, &basic_config(settings), label)
}

/// The homa protocol over a driver.
fn homa<D: Datagram + 'static>(
    driver: D,
    identity: Identity,
    settings: &Settings,
    label: &str,
) -> Result<Box<dyn Transport>, Box<dyn core::error::Error>> {
    let policy = HomaPolicy::new(homa_rules(&settings.homa, driver.limits())?)?;
    Ok(packet(driver, policy, identity, settings, &homa_config(settings), label)?)
}

/// The packet transport over a driver, with faults in between if the settings ask for any.
fn packet<D: Datagram + 'static, P: Policy>(
    driver: D,
    policy: P,
    identity: Identity,
    settings: &Settings,
    config: &PacketConfig,
    label: &str,
) -> Result<Box<dyn Transport>, ConfigError> {
    let (seed, counters) = (random_incarnation(), CounterFile::process());
    let faults = fault_config(&settings.fault);
    if faults == FaultConfig::none(faults.seed) {
        return Ok(Box::new(PacketTransport::new(driver, policy, identity, seed, config, counters, label)?));
    }
    let driver = Fault::new(driver, faults, &format!("fault {label}"));
    Ok(Box::new(PacketTransport::new(driver, policy, identity, seed, config, counters, label)?))
}

fn fault_config(faults: &FaultSettings) -> FaultConfig {
    let probability = |permille: u16| f64::from(permille) / 1000.0;
    FaultConfig {
        drop: probability(faults.drop_permille),
        duplicate: probability(faults.duplicate_permille),
        reorder: probability(faults.reorder_permille),
        delay: probability(faults.delay_permille),
        corrupt: probability(faults.corrupt_permille),
        truncate: probability(faults.truncate_permille),
        ..FaultConfig::none(faults.seed)
    }
}

fn shm_config(settings: &Settings) -> ShmConfig {
    ShmConfig {
        ring_bytes: settings.ring.ring_bytes,
        block_bytes: settings.shm.block_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
    }
}

fn shm_driver(settings: &Settings) -> Result<ShmDatagram, Box<dyn core::error::Error>> {
    Ok(ShmDatagram::new(ShmDatagramConfig {
        mtu_bytes: settings.shm.mtu_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
        connect_within: settings.endpoint.peer_timeout,
        ..ShmDatagramConfig::default()
    })?)
}

fn ring_config(settings: &Settings) -> RingConfig {
    RingConfig {
        inline_bytes: settings.ring.inline_bytes,
        batch_bytes: settings.ring.batch_bytes,
        message_bytes_max: settings.ring.message_bytes_max,
        calls_max: settings.ring.calls_max,
        connect_timeout: settings.endpoint.peer_timeout,
    }
}

fn udp_driver(settings: &Settings, local: IpAddr) -> Result<UdpDriver, Box<dyn core::error::Error>> {
    let address = settings.udp.bind_address.unwrap_or(local);
    let (bind, mtu_bytes) = (SocketAddr::new(address, 0), settings.udp.mtu_bytes);
    Ok(UdpDriver::bind(&UdpConfig { bind, mtu_bytes, ..UdpConfig::default() })?)
}

/// The ranges of the parameters keep the conversions from failing.
fn basic_config(settings: &Settings) -> PacketConfig {
    let basic = &settings.basic;
    PacketConfig {
        message_bytes_max: basic.message_bytes_max as u32,
        calls_max: basic.calls_max as u16,
        unscheduled_bytes: basic.rtt_bytes as u32,
        checksum: basic.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: basic.resend_interval,
        ..PacketConfig::default()
    }
}

/// As for `basic_config`.
fn homa_config(settings: &Settings) -> PacketConfig {
    let homa = &settings.homa;
    PacketConfig {
        message_bytes_max: homa.message_bytes_max as u32,
        calls_max: homa.calls_max as u16,
        unscheduled_bytes: homa.rtt_bytes as u32,
        checksum: homa.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: homa.resend_interval,
        ..PacketConfig::default()
    }
}

/// The rules on a driver with such limits.
fn homa_rules(homa: &HomaSettings, limits: DatagramLimits) -> Result<HomaRules, TooFewPriorities> {
    let priorities = limits.priorities;
    let grant_bytes = homa.grant_bytes.unwrap_or((2 * limits.mtu_bytes).max(homa.rtt_bytes / 4));
    let wanted = homa.priorities.unwrap_or(priorities);
    if wanted > priorities {
        return Err(TooFewPriorities { wanted, priorities });
    }
    Ok(HomaRules {
        rtt_bytes: homa.rtt_bytes as u32,
        grant_bytes: grant_bytes as u32,
        overcommit: homa.overcommit,
        priorities: wanted,
        unscheduled_priorities: homa.unscheduled_priorities,
        cutoffs: homa.cutoffs.map(|sizes| sizes.as_slice().to_vec()),
        fifo_permille: homa.fifo_permille,
        link_bits_per_second: homa.link_gbps.map(|gbps| u64::from(gbps) * 1_000_000_000),
        backlog: homa.backlog,
    })
}

/// More priorities were asked for than the driver has: lower `homa.priorities`, or leave it `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("homa.priorities={wanted} is more than the {priorities} of this driver; `auto` takes what there is")]
struct TooFewPriorities {
    wanted: u8,
    priorities: u8,
}
