//! From settings to the configurations of drivers and transports.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use farcall_base::SessionNumbers;
use farcall_driver::DatagramLimits;
use farcall_driver::decorate::{FaultConfig, LaneDelayConfig};
use farcall_mpi::MpiConfig;
use farcall_ofi::datagram::OfiDatagramConfig;
use farcall_ofi::messages::OfiConfig;
use farcall_protocol::homa::HomaRules;
use farcall_shm::ShmConfig;
use farcall_shm::access::{Access, Allow, NoSuchRule, Trust};
use farcall_shm::folder::Directory;
use farcall_tcp::{TcpConfig, TlsConfig};
use farcall_transport::{LibraryConfig, PacketConfig, RingConfig};
use farcall_ucx::{Reach, UcxConfig};
use farcall_udp::UdpConfig;
use farcall_verbs::ConnectBy as LanesConnectBy;
use farcall_verbs::{DeviceChoice, VerbsDatagramConfig, VerbsLaneConfig};

use crate::parameters::{
    ConnectBy, FaultSettings, HomaSettings, Idle, MpiThreads, PeersSettings, Settings, ShmTrust, UdpSettings,
};

/// A ring of shared memory, in bytes: more than a core's own caches hold. Streams of messages of 1 KiB take
/// half as long as through a quarter of a megabyte.
const SHM_RING_BYTES: usize = 4 << 20;

pub fn fault_config(faults: &FaultSettings) -> FaultConfig {
    let probability = |permille: u16| f64::from(permille) / 1000.0;
    FaultConfig {
        drop: probability(faults.drop_permille),
        duplicate: probability(faults.duplicate_permille),
        reorder: probability(faults.reorder_permille),
        delay: probability(faults.delay_permille),
        corrupt: probability(faults.corrupt_permille),
        truncate: probability(faults.truncate_permille),
        delay_time: faults.delay_time,
        ..FaultConfig::none(faults.seed)
    }
}

/// The only fault of lanes that has parameters; `None` when there is none.
pub fn lane_delay_config(faults: &FaultSettings) -> Option<LaneDelayConfig> {
    let FaultConfig { seed, delay, delay_time, .. } = fault_config(faults);
    let delay_time = delay_time.filter(|_| delay > 0.0)?;
    Some(LaneDelayConfig { seed, delay, delay_time })
}

/// Where processes of this machine meet, and which may share memory.
///
/// # Errors
/// When `shm.allow` names users or groups that this system does not have.
pub fn host_access(settings: &Settings) -> Result<Access, NoSuchRule> {
    let directory = match settings.shm.directory {
        Some(path) => Directory::At(path.as_str().into()),
        None => Directory::OfUser,
    };
    Ok(Access { directory, allow: Allow::parse(settings.shm.allow.as_str())? })
}

pub fn shm_ring_bytes(settings: &Settings) -> usize {
    settings.ring.ring_bytes.unwrap_or(SHM_RING_BYTES)
}

pub fn shm_config(settings: &Settings) -> Result<ShmConfig, NoSuchRule> {
    Ok(ShmConfig {
        ring_bytes: shm_ring_bytes(settings),
        block_bytes: settings.shm.block_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
        nontemporal: settings.shm.nontemporal,
        access: host_access(settings)?,
        trust: match settings.shm.trust {
            ShmTrust::SameUser => Trust::SameUser,
            ShmTrust::All => Trust::All,
            ShmTrust::None => Trust::None,
        },
        process_bytes_max: settings.shm.process_bytes_max,
        mapped_bytes_max: settings.shm.mapped_bytes_max,
    })
}

/// The longest payload that is copied through a ring, and where peers read lent blocks in place: they are as
/// fast there as in the ring only when they are longer.
const RING_INLINE_BYTES: usize = 8184;
const RING_INLINE_BYTES_IN_PLACE: usize = 16 << 10;

/// For lanes whose peers read blocks in place, or have them copied.
pub fn ring_config(settings: &Settings, are_blocks_in_place: bool) -> RingConfig {
    let inline_bytes = if are_blocks_in_place { RING_INLINE_BYTES_IN_PLACE } else { RING_INLINE_BYTES };
    RingConfig {
        inline_bytes: settings.ring.inline_bytes.unwrap_or(inline_bytes),
        batch_bytes: settings.ring.batch_bytes,
        message_bytes_max: settings.ring.message_bytes_max,
        calls_max: settings.ring.calls_max,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        connect_timeout: settings.endpoint.peer_timeout,
        rest_interval: settings.ring.rest_interval,
        ranks: u32::MAX,
        numbers: SessionNumbers::ALL,
    }
}

/// The port of the process's endpoint of that number, where the first one has a fixed port. Beyond the last
/// port there is none that is fixed.
fn port_of(first: Option<u16>, endpoint: u32) -> u16 {
    first.map_or(0, |first| u16::try_from(u32::from(first) + endpoint).unwrap_or(0))
}

/// For the process's endpoint of that number.
pub fn udp_config(settings: &Settings, local: IpAddr, endpoint: u32) -> UdpConfig {
    let UdpSettings { mtu_bytes, bind_address, port, connect } = settings.udp;
    let bind = SocketAddr::new(bind_address.unwrap_or(local), port_of(port, endpoint));
    UdpConfig { bind, mtu_bytes, connect, ..UdpConfig::default() }
}

fn verbs_device(settings: &Settings, local: IpAddr) -> DeviceChoice {
    let verbs = &settings.verbs;
    DeviceChoice {
        device: verbs.device.map(|name| name.as_str().to_owned()),
        port: verbs.port,
        gid_index: verbs.gid_index,
        local: Some(local),
    }
}

pub fn verbs_datagram_config(settings: &Settings, local: IpAddr) -> VerbsDatagramConfig {
    let verbs = &settings.verbs;
    VerbsDatagramConfig {
        device: verbs_device(settings, local),
        mtu_bytes: verbs.mtu,
        signal_period: usize::from(verbs.signal_period),
        inline_bytes: verbs.inline_bytes,
        huge_pages: verbs.huge_pages,
        ..VerbsDatagramConfig::default()
    }
}

/// All of a ring is pinned for the card.
pub fn verbs_ring_bytes(settings: &Settings) -> usize {
    settings.ring.ring_bytes.unwrap_or(VerbsLaneConfig::default().ring_bytes)
}

pub fn verbs_lane_config(settings: &Settings, local: IpAddr) -> VerbsLaneConfig {
    let (verbs, default) = (&settings.verbs, VerbsLaneConfig::default());
    VerbsLaneConfig {
        device: verbs_device(settings, local),
        connect_by: match verbs.connect {
            ConnectBy::Auto => LanesConnectBy::Auto,
            ConnectBy::Bootstrap => LanesConnectBy::Bootstrap,
            ConnectBy::Cm => LanesConnectBy::Cm,
        },
        ring_bytes: verbs_ring_bytes(settings),
        peer_ring_bytes_max: verbs.peer_ring_bytes,
        pinned_bytes_max: verbs.pinned_bytes,
        block_bytes: verbs.block_bytes,
        mtu_bytes: verbs.mtu,
        signal_period: usize::from(verbs.signal_period),
        inline_bytes: verbs.inline_bytes,
        huge_pages: verbs.huge_pages,
        ..default
    }
}

/// The part of a configuration that says what peers may cost.
fn costs_of_peers(peers: &PeersSettings) -> PacketConfig {
    PacketConfig {
        sessions_max: peers.sessions_max,
        sessions_per_host: peers.sessions_per_host,
        half_open_max: peers.half_open_max,
        half_open_per_host: peers.half_open_per_host,
        cookies_from: peers.cookies_from,
        session_bytes_max: peers.session_bytes,
        bytes_max: peers.bytes,
        keep_time: peers.keep_time,
        messages: peers.messages,
        ..PacketConfig::default()
    }
}

/// How far a measured window may grow; 0 where nothing is to be measured.
fn measured_window(window_bytes: usize, rtt_bytes: usize) -> u32 {
    if window_bytes > rtt_bytes { window_bytes as u32 } else { 0 }
}

/// The ranges of the parameters keep the conversions from failing.
pub fn basic_config(settings: &Settings) -> PacketConfig {
    let basic = &settings.basic;
    PacketConfig {
        message_bytes_max: basic.message_bytes_max as u32,
        calls_max: basic.calls_max as u16,
        unscheduled_bytes: basic.rtt_bytes as u32,
        window_bytes_max: measured_window(basic.window_bytes, basic.rtt_bytes),
        checksum: basic.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: basic.resend_interval,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        ..costs_of_peers(&settings.peers)
    }
}

/// As for `basic_config`.
pub fn homa_config(settings: &Settings) -> PacketConfig {
    let homa = &settings.homa;
    PacketConfig {
        message_bytes_max: homa.message_bytes_max as u32,
        calls_max: homa.calls_max as u16,
        unscheduled_bytes: homa.rtt_bytes as u32,
        window_bytes_max: measured_window(homa.window_bytes, homa.rtt_bytes),
        checksum: homa.checksum,
        peer_timeout: settings.endpoint.peer_timeout,
        resend_interval: homa.resend_interval,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        ..costs_of_peers(&settings.peers)
    }
}

/// The most memory that transports over libraries lend at a time.
const LIBRARY_LOAN_BYTES_MAX: usize = 256 << 20;

/// The most sessions over libraries whose processes are all of one launch.
const LIBRARY_SESSIONS_MAX: u16 = 4096;

pub fn ucx_config(settings: &Settings, local: IpAddr) -> UcxConfig {
    UcxConfig {
        payload_bytes_max: settings.ucx.message_bytes_max,
        error_handling: settings.ucx.error_handling,
        reach: if local.is_loopback() { Reach::Loopback } else { Reach::Network },
        may_sleep: settings.endpoint.idle == Idle::Block,
    }
}

/// As for `basic_config`.
pub fn ucx_library_config(settings: &Settings) -> LibraryConfig {
    LibraryConfig {
        message_bytes_max: settings.ucx.message_bytes_max as u32,
        calls_max: settings.ucx.calls_max as u16,
        peer_timeout: settings.endpoint.peer_timeout,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        loan_bytes_max: LIBRARY_LOAN_BYTES_MAX,
        ranks: u32::MAX,
        sessions_max: LIBRARY_SESSIONS_MAX,
        sessions_per_host: LIBRARY_SESSIONS_MAX,
        numbers: SessionNumbers::ALL,
    }
}

/// For the process's endpoint of that number.
pub fn tcp_config(settings: &Settings, local: IpAddr, endpoint: u32) -> TcpConfig {
    let tcp = &settings.tcp;
    TcpConfig {
        bind: SocketAddr::new(tcp.bind_address.unwrap_or(local), port_of(tcp.port, endpoint)),
        payload_bytes_max: tcp.message_bytes_max,
        peer_timeout: settings.endpoint.peer_timeout,
        introduction_timeout: tcp.introduction_timeout,
        strangers_max: usize::from(tcp.strangers),
        strangers_per_host: usize::from(tcp.strangers_per_host),
        queue_bytes_max: tcp.queue_bytes,
        piece_bytes: tcp.piece_bytes,
        tls: None,
    }
}

/// How connections are secured, as far as the settings say it.
pub fn tls_config(settings: &Settings) -> Result<TlsConfig, NoIdentity> {
    let tls = &settings.tls;
    let cluster_key = match (&tls.cert, &tls.key, &tls.ca) {
        (None, None, None) => tls.cluster_key.as_ref().or(settings.security.key_file.as_ref()),
        _ => tls.cluster_key.as_ref(),
    };
    match (cluster_key, &tls.cert, &tls.key, &tls.ca) {
        (Some(key), None, None, None) => Ok(TlsConfig::ClusterKey { file: key.as_str().into() }),
        (None, Some(cert), Some(key), Some(ca)) => Ok(TlsConfig::Certificates {
            certificate: cert.as_str().into(),
            key: key.as_str().into(),
            authority: ca.as_str().into(),
            check_address: tls.check_address,
        }),
        _ => Err(NoIdentity),
    }
}

/// Neither a key nor certificates were given, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("set either security.key_file, or tls.cert, tls.key and tls.ca")]
pub struct NoIdentity;

/// As for `basic_config`.
pub fn tcp_library_config(settings: &Settings) -> LibraryConfig {
    LibraryConfig {
        message_bytes_max: settings.tcp.message_bytes_max as u32,
        calls_max: settings.tcp.calls_max as u16,
        peer_timeout: settings.endpoint.peer_timeout,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        loan_bytes_max: LIBRARY_LOAN_BYTES_MAX,
        ranks: u32::MAX,
        sessions_max: settings.tcp.sessions_max,
        sessions_per_host: settings.tcp.sessions_per_host,
        numbers: SessionNumbers::ALL,
    }
}

pub fn mpi_config(settings: &Settings, drawn: u64) -> MpiConfig {
    let threads = match settings.mpi.threads {
        MpiThreads::Multiple => farcall_mpi::MpiThreads::Multiple,
        MpiThreads::Single => farcall_mpi::MpiThreads::Single,
    };
    MpiConfig { payload_bytes_max: settings.mpi.message_bytes_max, threads, drawn }
}

/// As for `basic_config`.
pub fn mpi_library_config(settings: &Settings) -> LibraryConfig {
    LibraryConfig {
        message_bytes_max: settings.mpi.message_bytes_max as u32,
        calls_max: settings.mpi.calls_max as u16,
        peer_timeout: settings.endpoint.peer_timeout,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        loan_bytes_max: LIBRARY_LOAN_BYTES_MAX,
        ranks: u32::MAX,
        sessions_max: LIBRARY_SESSIONS_MAX,
        sessions_per_host: LIBRARY_SESSIONS_MAX,
        numbers: SessionNumbers::ALL,
    }
}

pub fn ofi_config(settings: &Settings, local: IpAddr, drawn: u64) -> OfiConfig {
    let ofi = &settings.ofi;
    OfiConfig {
        provider: ofi.provider.map(|name| name.as_str().to_owned()),
        local: Some(local),
        payload_bytes_max: ofi.message_bytes_max,
        eager_bytes: ofi.eager_bytes,
        inject_bytes: ofi.inject_bytes,
        tx_depth: usize::from(ofi.tx_depth),
        rx_depth: usize::from(ofi.rx_depth),
        may_sleep: settings.endpoint.idle == Idle::Block,
        drawn,
    }
}

pub fn ofi_datagram_config(settings: &Settings, local: IpAddr) -> OfiDatagramConfig {
    let ofi = &settings.ofi;
    OfiDatagramConfig {
        provider: ofi.provider.map(|name| name.as_str().to_owned()),
        local: Some(local),
        mtu_bytes: ofi.mtu_bytes,
        tx_depth: usize::from(ofi.tx_depth),
        rx_depth: usize::from(ofi.rx_depth),
        inject_bytes: ofi.inject_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
    }
}

/// As for `basic_config`.
pub fn ofi_library_config(settings: &Settings) -> LibraryConfig {
    LibraryConfig {
        message_bytes_max: settings.ofi.message_bytes_max as u32,
        calls_max: settings.ofi.calls_max as u16,
        peer_timeout: settings.endpoint.peer_timeout,
        unexpected_bytes: settings.endpoint.unexpected_bytes,
        loan_bytes_max: LIBRARY_LOAN_BYTES_MAX,
        ranks: u32::MAX,
        sessions_max: LIBRARY_SESSIONS_MAX,
        sessions_per_host: LIBRARY_SESSIONS_MAX,
        numbers: SessionNumbers::ALL,
    }
}

/// Full packets that the network card is given ahead unless the settings say otherwise: one is on the link
/// while the next one is read (Montazeri et al., SIGCOMM 2018, §4).
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
