//! A handle to one life of one host.

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_driver::clock::Clock;

use crate::datagram::SimDatagram;
use crate::fabric::Fabric;
use crate::lane::SimLanes;
use crate::time::Picos;
use crate::world::{HostUsage, NicUsage, PortUsage, Work};

/// The name of the drivers, and the start of their addresses.
pub(crate) const NAME: &str = "sim";

/// A host of a fabric, from one start to its crash. It may be used from anywhere inside its program.
#[derive(Clone)]
pub struct Host {
    fabric: Fabric,
    number: u32,
    incarnation: u32,
    clock: Clock,
}

impl Host {
    pub(crate) fn new(fabric: Fabric, number: u32, incarnation: u32, clock: Clock) -> Self {
        Self { fabric, number, incarnation, clock }
    }

    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    pub(crate) fn id(&self) -> u32 {
        self.number
    }

    /// How many times it has been started before.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The fabric that it is on.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// A clock that shows the host's own time: in a turn it moves on with what the processor does.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Where other hosts of the fabric reach it, in this life and the next ones.
    pub fn address(&self) -> Address {
        address_of(self.number)
    }

    /// A driver for packets from and to this host.
    pub fn datagram(&self) -> SimDatagram {
        SimDatagram::new(self.clone())
    }

    /// A driver for lanes from and to this host.
    ///
    /// # Panics
    /// When the host has one already.
    pub fn lanes(&self) -> SimLanes {
        SimLanes::new(self.clone())
    }

    /// Whether the host of that number is up, in that life of it, and what is sent again until it arrives
    /// would come through to it and back. A paused host is up.
    pub fn finds_alive(&self, number: u32, incarnation: u32) -> bool {
        self.fabric.lock().finds_alive(self.number, number, incarnation)
    }

    /// The descriptor that becomes readable when something arrives.
    ///
    /// # Panics
    /// When the process has no descriptors left.
    pub(crate) fn bell(&self) -> RawFd {
        self.fabric.lock().bell(self.number).expect("a descriptor for a simulated host")
    }

    pub(crate) fn silence_bell(&self) {
        self.fabric.lock().silence_bell(self.number);
    }

    /// Its processor is at work for that long.
    pub fn spend(&self, time: Duration) {
        self.fabric.lock().spend(self.number, Work::Handler, Picos::from(time));
    }

    /// Its processor runs one handler, at the profile's cost.
    pub fn spend_handler(&self) {
        let mut world = self.fabric.lock();
        let span = world.profile.host.handler;
        world.spend(self.number, Work::Serving, span);
    }

    /// What it has done so far, in all its lives.
    pub fn usage(&self) -> HostUsage {
        self.fabric.lock().host_usage(self.number)
    }

    /// What the NIC of its machine has done so far, for all servers of the machine.
    pub fn nic_usage(&self) -> NicUsage {
        self.fabric.lock().nic_usage(self.number)
    }

    /// What the switch's port to its machine has done so far.
    pub fn port_usage(&self) -> PortUsage {
        self.fabric.lock().port_usage(self.number)
    }
}

/// The address of a host.
pub(crate) fn address_of(host: u32) -> Address {
    let bytes = [NAME.as_bytes(), &host.to_le_bytes()].concat();
    Address::new(bytes).expect("seven bytes")
}

/// The host at an address, of `hosts` hosts.
pub(crate) fn host_at(address: &Address, hosts: usize) -> Result<u32, AddressError> {
    let number = address.as_bytes().strip_prefix(NAME.as_bytes()).and_then(|rest| rest.try_into().ok());
    let host = number.map(u32::from_le_bytes).filter(|host| (*host as usize) < hosts);
    host.ok_or(AddressError::WrongKind { driver: NAME })
}
