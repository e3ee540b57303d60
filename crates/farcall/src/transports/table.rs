//! Every transport that this program has: a row each. To add a pair of a protocol and a fabric is to add its
//! row.
//!
//! A row has the constant and the name by which a transport is known, what it is in a sentence, what tells
//! whether its fabric is on this machine, and what builds it.

use core::error::Error;
use core::net::IpAddr;

use farcall_mpi::Mpi;
use farcall_ofi::datagram::OfiDatagram;
use farcall_ofi::messages::Ofi;
use farcall_shm::ShmLanes;
use farcall_tcp::{Tcp, TcpConfig};
use farcall_transport::Presence;
use farcall_ucx::Ucx;
use farcall_udp::UdpDriver;
use farcall_verbs::{VerbsDatagram, VerbsLanes};

use super::build::Build::{OfSeveral, OnMachine, OnSimulatedHost};
use super::build::{Build, Builder};
use super::config::{
    mpi_config, mpi_library_config, ofi_config, ofi_datagram_config, ofi_library_config, shm_config,
    tcp_config, tcp_library_config, tls_config, ucx_config, ucx_library_config, udp_config,
    verbs_datagram_config, verbs_lane_config,
};
use super::{Fabric, LibraryKind, Protocol, TransportKind};
use crate::bootstrap::random_incarnation;

/// What is known of a transport.
pub(super) struct Row {
    pub(super) kind: TransportKind,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Whether what carries it is on this machine; `None` where it needs nothing but the machine.
    pub(super) presence: Option<fn() -> Presence>,
    pub(super) build: Build,
}

macro_rules! transports {
    ($($(#[$about:meta])* $set:ident {
        $($constant:ident = $kind:expr, $name:literal, $description:literal, $presence:expr, $build:expr;)+
    })+) => {
        impl TransportKind {
            $($(
                #[doc = concat!("`", $name, "`: ", $description, ".")]
                pub const $constant: Self = $kind;
            )+)+
            $(
                $(#[$about])*
                pub const $set: &'static [Self] = &[$(Self::$constant),+];
            )+
        }

        pub(super) const TABLE: &[Row] = &[$($(Row {
            kind: TransportKind::$constant,
            name: $name,
            description: $description,
            presence: $presence,
            build: $build,
        }),+),+];
    };
}

const RING: Protocol = Protocol::Ring;
const BASIC: Protocol = Protocol::Basic;
const HOMA: Protocol = Protocol::Homa;

transports! {
    /// All that connect processes on every machine.
    ALL {
        RING_SHM = pair(RING, Fabric::Shm), "ring+shm",
            "rings in shared memory, between processes of one machine",
            None, OnMachine(|builder, _| builder.ring(ShmLanes::new(shm_config(builder.settings)?)?));
        BASIC_UDP = pair(BASIC, Fabric::Udp), "basic+udp",
            "receiver-granted packets over the kernel's UDP sockets",
            None, OnMachine(|builder, local| builder.basic(udp(builder, local)?));
        HOMA_UDP = pair(HOMA, Fabric::Udp), "homa+udp",
            "packets granted to the shortest messages first, over the kernel's UDP sockets",
            None, OnMachine(|builder, local| builder.homa(udp(builder, local)?, None));
        TCP = TransportKind::Tcp { secured: false }, "tcp",
            "messages over connections of the kernel's TCP",
            None, OnMachine(|builder, local| {
                let tcp = Tcp::listen(tcp_config(builder.settings, local, builder.identity.endpoint))?;
                builder.library(tcp, &tcp_library_config(builder.settings))
            });
    }
    /// All that need a key or certificates: see the parameters of `tls`.
    SECURED {
        TCP_TLS = TransportKind::Tcp { secured: true }, "tcp+tls",
            "messages over connections of the kernel's TCP, encrypted; needs a key or certificates (tls.*)",
            Some(tls_presence), OnMachine(|builder, local| {
                let tcp = tcp_config(builder.settings, local, builder.identity.endpoint);
                let tls = Some(tls_config(builder.settings)?);
                let tcp = Tcp::listen(TcpConfig { tls, ..tcp })?;
                builder.library(tcp, &tcp_library_config(builder.settings))
            });
    }
    /// All that choose among the others.
    SEVERAL {
        AUTO = TransportKind::Auto, "auto",
            "the best of ring+shm, ring+verbs, tcp and basic+udp that both ends of a session have",
            None, OfSeveral;
    }
    /// All that connect processes of machines with RDMA devices: see [`TransportKind::presence`].
    VERBS {
        RING_VERBS = pair(RING, Fabric::Verbs), "ring+verbs",
            "rings in the peers' memory, written over RDMA's reliable connections",
            Some(verbs_presence), OnMachine(|builder, local| {
                builder.ring(VerbsLanes::open(&verbs_lane_config(builder.settings, local))?)
            });
        BASIC_VERBS = pair(BASIC, Fabric::Verbs), "basic+verbs",
            "receiver-granted packets over RDMA's unreliable datagrams",
            Some(verbs_presence), OnMachine(|builder, local| builder.basic(verbs(builder, local)?));
        HOMA_VERBS = pair(HOMA, Fabric::Verbs), "homa+verbs",
            "packets granted to the shortest messages first, over RDMA's unreliable datagrams",
            Some(verbs_presence), OnMachine(|builder, local| builder.homa(verbs(builder, local)?, None));
    }
    /// All that connect processes over the packets of a library that may be absent: see
    /// [`TransportKind::presence`].
    OFI_PACKETS {
        BASIC_OFI = pair(BASIC, Fabric::Ofi), "basic+ofi",
            "receiver-granted packets over libfabric's datagrams",
            Some(ofi_presence), OnMachine(|builder, local| builder.basic(ofi(builder, local)?));
        HOMA_OFI = pair(HOMA, Fabric::Ofi), "homa+ofi",
            "packets granted to the shortest messages first, over libfabric's datagrams",
            Some(ofi_presence), OnMachine(|builder, local| builder.homa(ofi(builder, local)?, None));
    }
    /// All that connect processes by an external library, which may be absent: see
    /// [`TransportKind::presence`].
    LIBRARIES {
        UCX = TransportKind::Library(LibraryKind::Ucx), "ucx",
            "messages of UCX, which chooses shared memory, RDMA or TCP by itself; on trusted networks only",
            Some(farcall_ucx::presence), OnMachine(|builder, local| {
                let ucx = Ucx::new(&ucx_config(builder.settings, local))?;
                builder.library(ucx, &ucx_library_config(builder.settings))
            });
        MPI = TransportKind::Library(LibraryKind::Mpi), "mpi",
            "messages of MPI, between processes that one launcher started together; on trusted networks only",
            Some(farcall_mpi::presence), OnMachine(|builder, _| {
                let mpi = Mpi::new(&mpi_config(builder.settings, random_incarnation()))?;
                builder.library(mpi, &mpi_library_config(builder.settings))
            });
        OFI = TransportKind::Library(LibraryKind::Ofi), "ofi",
            "messages of libfabric, over the provider that ofi.provider names; on trusted networks only",
            Some(farcall_ofi::messages::presence), OnMachine(|builder, local| {
                let ofi = Ofi::new(&ofi_config(builder.settings, local, random_incarnation()))?;
                builder.library(ofi, &ofi_library_config(builder.settings))
            });
    }
    /// All that connect hosts of a simulated fabric.
    SIMULATED {
        RING_SIM = pair(RING, Fabric::Sim), "ring+sim",
            "rings in the peers' memory, on a simulated fabric",
            None, OnSimulatedHost(|builder, host| builder.ring(host.lanes()));
        BASIC_SIM = pair(BASIC, Fabric::Sim), "basic+sim",
            "receiver-granted packets on a simulated fabric",
            None, OnSimulatedHost(|builder, host| builder.basic(host.datagram()));
        HOMA_SIM = pair(HOMA, Fabric::Sim), "homa+sim",
            "packets granted to the shortest messages first, on a simulated fabric",
            None, OnSimulatedHost(|builder, host| {
                let link = host.fabric().profile().link.rate;
                builder.homa(host.datagram(), Some(link.bits_per_second()))
            });
    }
}

const fn pair(protocol: Protocol, fabric: Fabric) -> TransportKind {
    TransportKind::Pair { protocol, fabric }
}

/// A driver, or why there is none.
type Opened<D> = Result<D, Box<dyn Error>>;

fn udp(builder: &Builder<'_>, local: IpAddr) -> Opened<UdpDriver> {
    Ok(UdpDriver::bind(&udp_config(builder.settings, local, builder.identity.endpoint))?)
}

fn verbs(builder: &Builder<'_>, local: IpAddr) -> Opened<VerbsDatagram> {
    Ok(VerbsDatagram::open(&verbs_datagram_config(builder.settings, local))?)
}

fn ofi(builder: &Builder<'_>, local: IpAddr) -> Opened<OfiDatagram> {
    Ok(OfiDatagram::open(&ofi_datagram_config(builder.settings, local))?)
}

/// It is built in; what it needs is the user's to give.
fn tls_presence() -> Presence {
    Presence::Here { found: "TLS 1.3, by rustls".to_owned() }
}

fn ofi_presence() -> Presence {
    match farcall_ofi::datagram::providers() {
        Ok(found) => Presence::Here { found },
        Err(error) => Presence::Absent { why: error.to_string() },
    }
}

fn verbs_presence() -> Presence {
    match farcall_verbs::devices() {
        Ok(devices) => {
            let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
            Presence::Here { found: names.join(", ") }
        }
        Err(error) => Presence::Absent { why: error.to_string() },
    }
}
