//! The queue pair's life: it is started, fails, and is set up again, until its device is gone.

use super::VerbsDatagram;
use super::sending::QUEUE_KEY;
use crate::error::VerbsError;
use crate::events::{self, DeviceEvent};
use crate::region::pinned_bytes;
use crate::sys;

/// Receives between two looks at what the device reports: a look is a system call.
pub const RECEIVES_PER_LOOK: u32 = 1 << 16;

impl VerbsDatagram {
    pub(super) fn start(&mut self) -> Result<(), VerbsError> {
        let port_num = self.device.port.number;
        let zero = sys::ibv_qp_attr::default();
        let init = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_INIT, port_num, qkey: QUEUE_KEY, ..zero };
        let init_mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_QKEY;
        self.pair.modify("initialise a datagram queue pair", init, init_mask)?;
        self.receiving.refill(&self.pair, &self.counters);
        self.receiving.arm();
        let receive = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_RTR, ..zero };
        self.pair.modify("receive datagrams", receive, sys::IBV_QP_STATE)?;
        let send = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_RTS, ..zero };
        self.pair.modify("send datagrams", send, sys::IBV_QP_STATE | sys::IBV_QP_SQ_PSN)?;
        self.counters.pinned_bytes.set(pinned_bytes());
        Ok(())
    }

    /// Makes the queue pair usable again after a failure has stopped it. What was with the card is lost.
    #[cold]
    pub(super) fn restart(&mut self) {
        self.counters.restarts.increment();
        let reset = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_RESET, ..sys::ibv_qp_attr::default() };
        self.is_dead = self.pair.modify("reset a datagram queue pair", reset, sys::IBV_QP_STATE).is_err();
        if !self.is_dead {
            self.sending.forget();
            self.receiving.take_all_back();
            self.is_dead = self.start().is_err();
        }
    }

    /// Learns what the device reports on its own account.
    #[cold]
    pub(super) fn take_device_events(&mut self) {
        self.receives_until_look = RECEIVES_PER_LOOK;
        while let Some(event) = events::next_event(&self.device) {
            match event {
                DeviceEvent::PortDown => self.counters.port_losses.increment(),
                DeviceEvent::PortUp => self.counters.port_recoveries.increment(),
                DeviceEvent::DeviceGone => self.is_dead = true,
                DeviceEvent::PairFailed { .. } => self.restart(),
            }
        }
    }
}
