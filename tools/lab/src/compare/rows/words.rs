//! What rows are called, and what they say of themselves.

use super::{
    Beside, BudgetRow, Kind, MESSAGES_WINDOW, RATE_BYTES, RATE_WINDOW, REPLICAS, SHORT_BYTES, WRITES_WINDOW,
};
use crate::run::echo::REQUEST_BYTES;
use crate::run::msgrate::Mode;
use crate::units::Size;

impl BudgetRow {
    /// A short name, unique for the transport.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Echo => format!("echo{}", Size(SHORT_BYTES)),
            Kind::EchoBeside(_) => format!("echo{}.bursts", Size(SHORT_BYTES)),
            Kind::CallRate => format!("callRate{}", Size(RATE_BYTES)),
            Kind::MessageRate(mode) => format!("messageRate{}.{mode}", Size(RATE_BYTES)),
            Kind::StoreRead => format!("read{}", Size(SHORT_BYTES)),
            Kind::ReplicatedWrite => format!("write{}.replicated{REPLICAS}", Size(SHORT_BYTES)),
            Kind::FlushedWrite => format!("write{}.flushed", Size(SHORT_BYTES)),
            Kind::FlushedWriteRate => format!("writeRate{}.flushed{WRITES_WINDOW}", Size(SHORT_BYTES)),
            Kind::Recovery(bytes) => format!("recovery{}", Size(bytes)),
            Kind::Loaned(bytes) => format!("loaned{}", Size(bytes)),
            Kind::PingPong(bytes) => format!("pingPong{}", Size(bytes)),
            Kind::Bulk(bytes) => format!("bulk{}", Size(bytes)),
        }
    }

    /// What is compared with what.
    pub fn description(&self) -> String {
        let what = self.what();
        match (self.beside, self.limit_words()) {
            (Beside::Program, _) => format!("{what} / the other build"),
            (Beside::Limit, Some(limit)) => format!("{what} / {limit}"),
            (Beside::Limit, None) => what,
        }
    }

    fn what(&self) -> String {
        match self.kind {
            Kind::Echo | Kind::EchoBeside(_) => {
                format!("median of {REQUEST_BYTES} B there, {SHORT_BYTES} B back")
            }
            Kind::CallRate => format!("calls of {RATE_BYTES} B each way, {RATE_WINDOW} in flight"),
            Kind::MessageRate(Mode::Handler) => format!("messages of {RATE_BYTES} B one way, to a handler"),
            Kind::MessageRate(mode) => {
                format!("messages of {RATE_BYTES} B one way, matched, {MESSAGES_WINDOW} {mode}")
            }
            Kind::StoreRead => format!("median read of {SHORT_BYTES} B by a key of 30 B"),
            Kind::ReplicatedWrite => format!(
                "median overwrite of {SHORT_BYTES} B, acknowledged by {REPLICAS} backups in memory, client and server in one \
                 thread; with fewer than {} cores the backups share a thread and its core, those of the bare loop too",
                REPLICAS + 1
            ),
            Kind::FlushedWrite => format!("median overwrite of {SHORT_BYTES} B, flushed"),
            Kind::FlushedWriteRate => {
                format!("overwrites of {SHORT_BYTES} B, flushed, {WRITES_WINDOW} in flight")
            }
            Kind::Recovery(bytes) => format!(
                "from the start of a process until its shard has answered a read, {} of objects of {SHORT_BYTES} B in a log",
                Size(bytes)
            ),
            Kind::Loaned(bytes) => format!("median with a loaned response of {}, untouched", Size(bytes)),
            Kind::PingPong(bytes) => format!("median of {} each way, copied in and out", Size(bytes)),
            Kind::Bulk(bytes) => format!("requests of {}, copied in, read in place", Size(bytes)),
        }
    }

    /// What its limit is; `None` where an absolute figure is asked for.
    fn limit_words(&self) -> Option<String> {
        match self.kind {
            Kind::Echo | Kind::PingPong(_) | Kind::Bulk(_) => Some("bare loop".to_owned()),
            Kind::EchoBeside(_) => Some("bare sendmmsg and recvmmsg".to_owned()),
            Kind::CallRate => None,
            Kind::MessageRate(_) => Some("bare ring".to_owned()),
            Kind::StoreRead => Some("echo of as many".to_owned()),
            Kind::ReplicatedWrite => Some(format!("bare line to {REPLICAS}, each of which acknowledges it")),
            Kind::FlushedWrite => Some("bare write and flush of a block of 4K".to_owned()),
            Kind::FlushedWriteRate => {
                Some(format!("bare write and flush of {WRITES_WINDOW} records at a time"))
            }
            Kind::Recovery(_) => Some("bare read, CRC32C and index of as many".to_owned()),
            Kind::Loaned(_) => Some(format!("of {SHORT_BYTES} B")),
        }
    }
}
