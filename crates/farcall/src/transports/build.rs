//! Putting protocols on drivers.

use core::error::Error;
use core::net::IpAddr;

use farcall_base::Identity;
use farcall_driver::clock::Clock;
use farcall_driver::decorate::{Fault, FaultConfig, LaneDelay};
use farcall_driver::{CounterFile, Datagram, LaneDriver};
use farcall_mpi::Mpi;
use farcall_ofi::datagram::OfiDatagram;
use farcall_ofi::messages::Ofi;
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::calls::Policy;
use farcall_protocol::homa::HomaPolicy;
use farcall_shm::ShmLanes;
use farcall_sim::Host;
use farcall_transport::{
    Library, LibraryConfig, LibraryTransport, PacketConfig, PacketTransport, Ring, Transport,
};
use farcall_ucx::Ucx;
use farcall_udp::UdpDriver;
use farcall_verbs::{VerbsDatagram, VerbsLanes};

use super::TransportKind;
use super::config::{
    basic_config, fault_config, homa_config, homa_rules, lane_delay_config, mpi_config, mpi_library_config,
    ofi_config, ofi_datagram_config, ofi_library_config, ring_config, shm_config, ucx_config,
    ucx_library_config, udp_config, verbs_datagram_config, verbs_lane_config,
};
use crate::bootstrap::random_incarnation;
use crate::parameters::Settings;
use crate::simulated::ChargedTransport;

/// Where an endpoint is to be.
pub enum Site<'a> {
    /// On this machine, which other ranks reach at this address.
    Machine(IpAddr),
    /// On a host of a simulated fabric.
    Simulated(&'a Host),
}

/// What a transport is to be like, whatever its kind.
pub struct Builder<'a> {
    /// As which endpoint it introduces itself.
    pub identity: Identity,
    /// What it is set up with.
    pub settings: &'a Settings,
    /// The endpoint's clock.
    pub clock: &'a Clock,
    /// Under which name it counts.
    pub label: &'a str,
}

type Built = Result<Box<dyn Transport>, Box<dyn Error>>;

impl Builder<'_> {
    /// Builds the transport of this kind.
    pub fn build(&self, kind: TransportKind, site: &Site<'_>) -> Built {
        match site {
            Site::Machine(local) => self.on_machine(kind, *local),
            Site::Simulated(host) => {
                let transport = self.on_simulated(kind, host)?;
                Ok(Box::new(ChargedTransport::new(transport, Host::clone(host))))
            }
        }
    }

    fn on_machine(&self, kind: TransportKind, local: IpAddr) -> Built {
        let udp = || UdpDriver::bind(&udp_config(self.settings, local));
        let verbs = || VerbsDatagram::open(&verbs_datagram_config(self.settings, local));
        let ofi = || OfiDatagram::open(&ofi_datagram_config(self.settings, local));
        let seed = random_incarnation();
        match kind {
            TransportKind::RingShm => Ok(self.ring(ShmLanes::new(shm_config(self.settings))?)),
            TransportKind::BasicUdp => self.basic(udp()?, seed),
            TransportKind::HomaUdp => self.homa(udp()?, seed, None),
            TransportKind::RingVerbs => {
                Ok(self.ring(VerbsLanes::open(&verbs_lane_config(self.settings, local))?))
            }
            TransportKind::BasicVerbs => self.basic(verbs()?, seed),
            TransportKind::HomaVerbs => self.homa(verbs()?, seed, None),
            TransportKind::BasicOfi => self.basic(ofi()?, seed),
            TransportKind::HomaOfi => self.homa(ofi()?, seed, None),
            TransportKind::Ucx => {
                self.library(Ucx::new(&ucx_config(self.settings))?, &ucx_library_config(self.settings), seed)
            }
            TransportKind::Mpi => {
                let mpi = Mpi::new(&mpi_config(self.settings, random_incarnation()))?;
                self.library(mpi, &mpi_library_config(self.settings), seed)
            }
            TransportKind::Ofi => {
                let ofi = Ofi::new(&ofi_config(self.settings, local, random_incarnation()))?;
                self.library(ofi, &ofi_library_config(self.settings), seed)
            }
            TransportKind::RingSim | TransportKind::BasicSim | TransportKind::HomaSim => {
                Err("it needs a simulated fabric, whose hosts are not processes".into())
            }
        }
    }

    fn on_simulated(&self, kind: TransportKind, host: &Host) -> Built {
        // The incarnation is drawn from the simulation's seed, so this is the same in every run with the same seed. The
        // protocol mixes it in once more: turned, the two do not cancel out.
        let seed = self.identity.incarnation.rotate_left(32) ^ u64::from(self.identity.endpoint);
        match kind {
            TransportKind::RingSim => Ok(self.ring(host.lanes())),
            TransportKind::BasicSim => self.basic(host.datagram(), seed),
            TransportKind::HomaSim => {
                let link = host.fabric().profile().link.rate;
                self.homa(host.datagram(), seed, Some(link.bits_per_second()))
            }
            real => Err(format!("simulated hosts have no {real}").into()),
        }
    }

    fn ring<D: LaneDriver + 'static>(&self, driver: D) -> Box<dyn Transport> {
        let config = ring_config(self.settings, driver.can_prefetch());
        let counters = CounterFile::process();
        match lane_delay_config(&self.settings.fault) {
            None => Box::new(Ring::new(driver, self.identity, config, counters, self.label)),
            Some(delay) => {
                let driver = LaneDelay::new(driver, delay, self.clock.clone());
                Box::new(Ring::new(driver, self.identity, config, counters, self.label))
            }
        }
    }

    fn library<L: Library + 'static>(&self, library: L, config: &LibraryConfig, seed: u64) -> Built {
        let (identity, label, counters) = (self.identity, self.label, CounterFile::process());
        Ok(Box::new(LibraryTransport::new(library, identity, seed, config, counters, label)?))
    }

    fn basic<D: Datagram + 'static>(&self, driver: D, seed: u64) -> Built {
        self.packet(driver, BasicPolicy, &basic_config(self.settings), seed)
    }

    /// Homa over a driver whose link carries so many bits per second, as far as that is known.
    fn homa<D: Datagram + 'static>(&self, driver: D, seed: u64, link: Option<u64>) -> Built {
        let rules = homa_rules(&self.settings.homa, driver.limits(), link)?;
        self.packet(driver, HomaPolicy::new(rules)?, &homa_config(self.settings), seed)
    }

    /// A packet protocol over a driver, with faults in between if the settings ask for any.
    fn packet<D: Datagram + 'static, P: Policy>(
        &self,
        driver: D,
        policy: P,
        config: &PacketConfig,
        seed: u64,
    ) -> Built {
        let (identity, label, counters) = (self.identity, self.label, CounterFile::process());
        let faults = fault_config(&self.settings.fault);
        if faults == FaultConfig::none(faults.seed) {
            return Ok(Box::new(PacketTransport::new(
                driver, policy, identity, seed, config, counters, label,
            )?));
        }
        let driver = Fault::new(driver, faults, self.clock.clone(), &format!("fault {label}"));
        Ok(Box::new(PacketTransport::new(driver, policy, identity, seed, config, counters, label)?))
    }
}
