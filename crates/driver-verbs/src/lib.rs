//! RDMA through libibverbs: packets over unreliable datagrams, byte rings over reliable connections.
//!
//! [`VerbsDatagram`] moves packets between UD queue pairs. Devices are InfiniBand or Ethernet (RoCE) ones, or their
//! software stand-ins. libibverbs is loaded when it is first needed, so that a program with this driver also runs
//! where there is none.
#![allow(unsafe_code, reason = "a driver: calls of libibverbs and registered memory, each with its proof")]

mod config;
mod counters;
mod datagram;
mod device;
mod error;
mod gid;
mod inventory;
mod queues;
mod region;
mod sys;

pub use config::{DeviceChoice, VerbsDatagramConfig};
pub use counters::VerbsDatagramCounters;
pub use datagram::VerbsDatagram;
pub use error::VerbsError;
pub use inventory::{DeviceReport, PortReport, devices};
