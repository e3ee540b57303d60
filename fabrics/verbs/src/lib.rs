//! RDMA through libibverbs: packets over unreliable datagrams, byte rings over reliable connections.
//!
//! [`VerbsDatagram`] moves packets between UD queue pairs; [`VerbsLanes`] connects peers by RC queue pairs
//! and writes into their rings. Devices are InfiniBand or Ethernet (RoCE) ones, or their software stand-ins.
//! libibverbs is loaded when it is first needed, so that a program with this driver also runs where there is
//! none.
#![allow(unsafe_code, reason = "a driver: calls of libibverbs and registered memory, each with its proof")]

mod choice;
mod cm;
mod config;
mod counters;
mod datagram;
mod device;
mod error;
mod events;
mod fuzz;
mod gid;
mod inventory;
mod lane;
mod pair;
mod queues;
mod region;
mod sys;

pub use config::{ConnectBy, DeviceChoice, VerbsDatagramConfig, VerbsLaneConfig};
pub use counters::{VerbsDatagramCounters, VerbsLaneCounters};
pub use datagram::VerbsDatagram;
pub use error::VerbsError;
pub use fuzz::fuzz_handshake;
pub use inventory::{CmReach, DeviceReport, PortReport, devices, rdma_cm_reach};
pub use lane::{VerbsLanes, VerbsReceiver, VerbsSender};
