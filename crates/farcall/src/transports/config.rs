//! From settings to the configurations of drivers and transports.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use farcall_driver::DatagramLimits;
use farcall_driver::decorate::FaultConfig;
use farcall_driver_shm::{ShmConfig, ShmDatagramConfig};
use farcall_driver_udp::UdpConfig;
use farcall_protocol::homa::HomaRules;
use farcall_transport::{PacketConfig, RingConfig};

use crate::parameters::{FaultSettings, HomaSettings, Idle, Settings};

pub fn fault_config(faults: &FaultSettings) -> FaultConfig {
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

pub fn shm_config(settings: &Settings) -> ShmConfig {
    ShmConfig {
        ring_bytes: settings.ring.ring_bytes,
        block_bytes: settings.shm.block_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
    }
}

pub fn shm_datagram_config(settings: &Settings) -> ShmDatagramConfig {
    ShmDatagramConfig {
        mtu_bytes: settings.shm.mtu_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
        connect_within: settings.endpoint.peer_timeout,
        ..ShmDatagramConfig::default()
    }
}

pub fn ring_config(settings: &Settings) -> RingConfig {
    RingConfig {
        inline_bytes: settings.ring.inline_bytes,
        batch_bytes: settings.ring.batch_bytes,
        message_bytes_max: settings.ring.message_bytes_max,
        calls_max: settings.ring.calls_max,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        connect_timeout: settings.endpoint.peer_timeout,
    }
}

pub fn udp_config(settings: &Settings, local: IpAddr) -> UdpConfig {
    let address = settings.udp.bind_address.unwrap_or(local);
    UdpConfig { bind: SocketAddr::new(address, 0), mtu_bytes: settings.udp.mtu_bytes, ..UdpConfig::default() }
}

/// The ranges of the parameters keep the conversions from failing.
pub fn basic_config(settings: &Settings) -> PacketConfig {
    let basic = &settings.basic;
    PacketConfig {
        message_bytes_max: basic.message_bytes_max as u32,
        calls_max: basic.calls_max as u16,
        unscheduled_bytes: basic.rtt_bytes as u32,
        checksum: basic.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: basic.resend_interval,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        ..PacketConfig::default()
    }
}

/// As for `basic_config`.
pub fn homa_config(settings: &Settings) -> PacketConfig {
    let homa = &settings.homa;
    PacketConfig {
        message_bytes_max: homa.message_bytes_max as u32,
        calls_max: homa.calls_max as u16,
        unscheduled_bytes: homa.rtt_bytes as u32,
        checksum: homa.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: homa.resend_interval,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        ..PacketConfig::default()
    }
}

/// Full packets that the network card is given ahead unless the settings say otherwise: one is on the link while the next
/// one is read (Montazeri et al., SIGCOMM 2018, §4).
const PACKETS_AHEAD: u64 = 2;

/// The rules on a driver with such limits, over a link that carries so many bits per second if that is known.
pub fn homa_rules(
    homa: &HomaSettings,
    limits: DatagramLimits,
    link: Option<u64>,
) -> Result<HomaRules, TooFewPriorities> {
    let priorities = limits.priorities;
    let grant_bytes = homa.grant_bytes.unwrap_or((2 * limits.mtu_bytes).max(homa.rtt_bytes / 4));
    let wanted = homa.priorities.unwrap_or(priorities);
    if wanted > priorities {
        return Err(TooFewPriorities { wanted, priorities });
    }
    let link = homa.link_gbps.map(|gbps| u64::from(gbps) * 1_000_000_000).or(link);
    let ahead_nanos = link
        .map_or(0, |bits| (PACKETS_AHEAD * limits.mtu_bytes as u64 * 8).saturating_mul(1_000_000_000) / bits);
    Ok(HomaRules {
        rtt_bytes: homa.rtt_bytes as u32,
        grant_bytes: grant_bytes as u32,
        overcommit: homa.overcommit,
        priorities: wanted,
        unscheduled_priorities: homa.unscheduled_priorities,
        cutoffs: homa.cutoffs.map(|sizes| sizes.as_slice().to_vec()),
        fifo_permille: homa.fifo_permille,
        link_bits_per_second: link,
        backlog: homa.backlog.unwrap_or(Duration::from_nanos(ahead_nanos)),
    })
}

/// More priorities were asked for than the driver has: lower `homa.priorities`, or leave it `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("homa.priorities={wanted} is more than the {priorities} of this driver; `auto` takes what there is")]
pub struct TooFewPriorities {
    wanted: u8,
    priorities: u8,
}
