//! Putting protocols on drivers.

use core::error::Error;
use core::net::IpAddr;
use std::io;
use std::sync::Once;

use farcall_base::{Entropy, Identity, SessionNumbers};
use farcall_driver::clock::Clock;
use farcall_driver::decorate::{Fault, FaultConfig, LaneDelay};
use farcall_driver::{CounterFile, Datagram, LaneDriver};
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::calls::Policy;
use farcall_protocol::homa::HomaPolicy;
use farcall_sim::Host;
use farcall_transport::{
    Library, LibraryConfig, LibraryTransport, LifeWatch, PacketConfig, PacketTransport, Ring, RingConfig,
    Transport,
};

use super::TransportKind;
use super::config::{basic_config, fault_config, homa_config, homa_rules, lane_delay_config, ring_config};
use super::security;
use crate::bootstrap::random;
use crate::life::Watch;
use crate::parameters::Settings;
use crate::said::{Kind, Level};
use crate::simulated::{ChargedTransport, SimulatedWatch};

/// What is said of networks whose peers nobody checks.
static STRANGERS: Kind = Kind::new(Level::Warning, "transports that check nobody");
/// What is said of processes that cannot answer for endpoints that are not polled.
static NO_LIFE_PORT: Kind = Kind::new(Level::Warning, "life ports that there are not");

/// Where an endpoint is to be.
#[derive(Clone, Copy)]
pub enum Site<'a> {
    /// On this machine, which other ranks reach at this address.
    Machine(IpAddr),
    /// On a host of a simulated fabric.
    Simulated(&'a Host),
}

impl Site<'_> {
    /// What answers for an endpoint here while it is not polled.
    fn watch(&self, settings: &Settings) -> io::Result<Box<dyn LifeWatch>> {
        Ok(match self {
            Self::Machine(local) => Box::new(Watch::at(*local, settings.net.life_port)?),
            Self::Simulated(host) => Box::new(SimulatedWatch::new(Host::clone(host))),
        })
    }

    /// From which an endpoint draws what peers must not foretell: the system's random source. On a simulated
    /// fabric it follows from the incarnation, which was drawn from the simulation's seed, so that every run
    /// with that seed is the same.
    pub fn seed(&self, identity: Identity) -> [u8; 32] {
        match self {
            Self::Machine(_) => random(),
            Self::Simulated(_) => {
                let seed = identity.incarnation.rotate_left(32) ^ u64::from(identity.endpoint);
                Entropy::repeatable_seed(seed)
            }
        }
    }
}

/// What a transport is to be like, whatever its kind.
pub struct Builder<'a> {
    /// As which endpoint it introduces itself.
    pub identity: Identity,
    /// What it is set up with.
    pub settings: &'a Settings,
    /// How many ranks there are: peers with others are refused.
    pub ranks: u32,
    /// The endpoint's clock.
    pub clock: &'a Clock,
    /// Under which name it counts.
    pub label: &'a str,
    /// Where the endpoint is to be.
    pub site: Site<'a>,
    /// From which transports draw what peers must not foretell: see [`Site::seed`].
    pub seed: [u8; 32],
    /// Which numbers its sessions get.
    pub numbers: SessionNumbers,
}

/// A transport, or why there is none.
pub(super) type Built = Result<Box<dyn Transport>, Box<dyn Error>>;

/// What makes a transport of one kind, on the sites that this kind has.
pub(super) enum Build {
    /// For a process of this machine, which other ranks reach at the address.
    OnMachine(fn(&Builder<'_>, IpAddr) -> Built),
    /// For a host of a simulated fabric.
    OnSimulatedHost(fn(&Builder<'_>, &Host) -> Built),
    /// Of several transports.
    OfSeveral,
}

/// Says once that an external library is about to be reached from a network. It checks neither who calls
/// nor what comes, and nothing above it can.
fn warn_of_strangers(kind: TransportKind) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        STRANGERS.say(format_args!(
            "{kind} takes whatever its network sends, unchecked: use it on trusted networks only"
        ));
    });
}

impl Builder<'_> {
    /// From which the keys of sessions are drawn, apart from what is shown of the other numbers.
    fn entropy_of_keys(&self) -> Entropy {
        let mut seed = self.seed;
        seed[31] ^= 0x80;
        Entropy::from_seed(seed)
    }

    /// Builds the transport of this kind.
    pub fn build(&self, kind: TransportKind) -> Built {
        security::check(kind, self.settings)?;
        match (&kind.row().build, &self.site) {
            (Build::OfSeveral, _) => self.several(kind),
            (Build::OnMachine(build), Site::Machine(local)) => {
                if matches!(kind, TransportKind::Library(_)) && !local.is_loopback() {
                    warn_of_strangers(kind);
                }
                build(self, *local)
            }
            (Build::OnSimulatedHost(build), Site::Simulated(host)) => {
                Ok(Box::new(ChargedTransport::new(build(self, host)?, Host::clone(host))))
            }
            (Build::OnSimulatedHost(_), Site::Machine(_)) => {
                Err("it needs a simulated fabric, whose hosts are not processes".into())
            }
            (Build::OnMachine(_), Site::Simulated(_)) => {
                Err(format!("simulated hosts have no {kind}").into())
            }
        }
    }

    pub(super) fn ring<D: LaneDriver + 'static>(&self, driver: D) -> Built {
        let config = ring_config(self.settings, driver.limits().blocks_in_place);
        let config = RingConfig { ranks: self.ranks, numbers: self.numbers, ..config };
        let (entropy, counters) = (Entropy::from_seed(self.seed), CounterFile::process());
        match lane_delay_config(&self.settings.fault) {
            None => Ok(Box::new(Ring::new(driver, self.identity, entropy, config, counters, self.label))),
            Some(delay) => {
                let label = format!("fault {}", self.label);
                let driver = LaneDelay::new(driver, delay, self.clock.clone(), &label);
                Ok(Box::new(Ring::new(driver, self.identity, entropy, config, counters, self.label)))
            }
        }
    }

    /// What answers for the endpoint while it is not polled; `None` when it gets no port.
    fn watch(&self) -> Option<Box<dyn LifeWatch>> {
        static SAID: Once = Once::new();
        let refused = |error: &io::Error| {
            SAID.call_once(|| {
                NO_LIFE_PORT.say(format_args!(
                    "no port to answer at for endpoints that are not polled ({error}): their peers take \
                     silence of endpoint.peer_timeout for death"
                ));
            });
        };
        self.site.watch(self.settings).inspect_err(refused).ok()
    }

    pub(super) fn library<L: Library + 'static>(&self, library: L, config: &LibraryConfig) -> Built {
        let (identity, label, counters) = (self.identity, self.label, CounterFile::process());
        let config = &LibraryConfig { ranks: self.ranks, numbers: self.numbers, ..*config };
        let entropy = Entropy::from_seed(self.seed);
        let made = LibraryTransport::new(library, identity, entropy, config, counters, label)?;
        Ok(match self.watch() {
            Some(watch) => Box::new(made.watched_by(watch, self.settings.endpoint.poll_timeout)),
            None => Box::new(made),
        })
    }

    pub(super) fn basic<D: Datagram + 'static>(&self, driver: D) -> Built {
        self.packet(driver, BasicPolicy, &basic_config(self.settings))
    }

    /// Homa over a driver whose link carries so many bits per second, as far as that is known.
    pub(super) fn homa<D: Datagram + 'static>(&self, driver: D, link: Option<u64>) -> Built {
        let rules = homa_rules(&self.settings.homa, driver.limits(), link)?;
        self.packet(driver, HomaPolicy::new(rules)?, &homa_config(self.settings))
    }

    /// A packet protocol over a driver, with faults in between if the settings ask for any.
    fn packet<D: Datagram + 'static, P: Policy>(&self, driver: D, policy: P, config: &PacketConfig) -> Built {
        let faults = fault_config(&self.settings.fault);
        if faults == FaultConfig::none(faults.seed) {
            return self.packet_over(driver, policy, config);
        }
        let driver = Fault::new(driver, faults, self.clock.clone(), &format!("fault {}", self.label));
        self.packet_over(driver, policy, config)
    }

    fn packet_over<D: Datagram + 'static, P: Policy>(
        &self,
        driver: D,
        policy: P,
        config: &PacketConfig,
    ) -> Built {
        let (identity, label, entropy) = (self.identity, self.label, Entropy::from_seed(self.seed));
        let config = &PacketConfig { ranks: self.ranks, numbers: self.numbers, ..*config };
        let counters = CounterFile::process();
        let made = PacketTransport::new(driver, policy, identity, entropy, config, counters, label)?;
        let made = match security::keys(self.settings, &self.site)? {
            Some(keys) => made.sealed_by(keys, self.entropy_of_keys()),
            None => made,
        };
        Ok(match self.watch() {
            Some(watch) => Box::new(made.watched_by(watch, self.settings.endpoint.poll_timeout)),
            None => Box::new(made),
        })
    }
}
