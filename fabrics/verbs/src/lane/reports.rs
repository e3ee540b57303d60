//! What the device and rdma_cm report, and what becomes of connections then.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use farcall_driver::LaneFault;

use super::conductor::Notice;
use super::connection::{Connection, Phase};
use super::connections::Connections;
use super::manager::Claim;
use crate::cm::{CmEvent, Happening};
use crate::events::{DeviceEvent, descriptor, next_event};

impl Connections {
    /// Does what the device reports.
    pub fn take_device_events(&mut self) {
        while let Some(event) = next_event(&self.shared.terms.device) {
            match event {
                DeviceEvent::PortDown => self.shared.notify(Notice::Port(false)),
                DeviceEvent::PortUp => self.shared.notify(Notice::Port(true)),
                DeviceEvent::DeviceGone => {
                    self.device_is_gone = true;
                    self.end_all_that_use_the_device();
                }
                DeviceEvent::PairFailed { number, why } => {
                    let is_it = |connection: &Connection| match &connection.phase {
                        Phase::Up(link) => link.pair_number() == number,
                        _ => false,
                    };
                    if let Some(index) = self.table.iter().position(is_it) {
                        self.end(index, LaneFault::Corrupt { what: why });
                    }
                }
            }
        }
    }

    fn end_all_that_use_the_device(&mut self) {
        let why = "the device failed or was removed";
        let mut index = 0;
        while let Some(connection) = self.table.get(index) {
            match connection.phase {
                Phase::Up(_) | Phase::Joining(_) => self.end(index, LaneFault::Fabric { why }),
                _ => index += 1,
            }
        }
    }

    /// Does what rdma_cm reports.
    pub fn take_manager_events(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(manager) = &shared.terms.manager else { return };
        while let Some(CmEvent { about, what }) = manager.events.next() {
            let (index, outcome) = match what {
                Happening::DeviceGone => {
                    self.end_all_that_use_the_device();
                    continue;
                }
                Happening::Asked(id, said) => {
                    let claim = Claim::decode(&said);
                    let awaits =
                        |connection: &Connection| claim.is_some_and(|claim| connection.awaits(&claim));
                    let Some(index) = self.table.iter().position(awaits) else {
                        id.reject();
                        continue;
                    };
                    (index, self.table[index].accept(&shared, id))
                }
                what => match self.table.iter().position(|connection| connection.joins_by(about)) {
                    Some(index) => (index, self.table[index].joined(&shared, what)),
                    None => continue,
                },
            };
            if let Err(fault) = outcome {
                self.end(index, fault);
            }
        }
    }
}

impl crate::device::Device {
    /// What becomes readable when the device reports something.
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor lives as long as the device, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(descriptor(self)) }
    }
}
