//! The swarm: random clusters under random faults, and rules that must hold whatever happens.
//!
//! A seed gives a [`Scenario`]: a topology with its costs and buffers, settings, faults, calls of every kind,
//! tagged messages, collective operations and a store. It runs on the simulated fabric, with the endpoints
//! and protocols that ship. While it runs and after it, [`run`] checks that every call completes exactly once
//! and in time, that no request runs twice, that bytes arrive as they were sent, that no peer is lost without
//! cause and none is waited for too long, and that at the end nobody holds anything.
//!
//! The method is that of FoundationDB's and TigerBeetle's simulators: one thread, one seed, the same run
//! every time.

mod describe;
mod draw;
mod errands;
mod excuse;
mod explore;
mod fabric;
mod failover;
mod fault_kinds;
pub mod history;
mod ledger;
mod mail;
mod mail_book;
mod mailbox;
mod memory;
mod node;
mod operations;
mod payload;
mod power;
mod run;
mod scenario;
mod serve;
mod shrink;
mod tasks;
mod trouble;
mod tuning;

pub use explore::{Case, explore, judge};
pub use failover::{FailoverCase, FailoverFindings};
pub use fault_kinds::{FAULT_KINDS, FaultKind};
pub use power::{PowerCase, PowerCut, PowerFindings};
pub use run::{Findings, UnusableError, run, run_and};
pub use scenario::Scenario;
pub use shrink::{LeftOut, LeftOutError, Minimal, shrink};
