//! What a device reports on its own account: failed queue pairs, ports, its end.

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::device::Device;
use crate::error::VerbsError;
use crate::sys;

/// Something that a device reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// A queue pair cannot go on, because of what its peer did.
    PairFailed {
        /// Its number.
        number: u32,
        /// In words.
        why: &'static str,
    },
    /// The port lost its link.
    PortDown,
    /// The port has its link again.
    PortUp,
    /// The device cannot be used any more.
    DeviceGone,
}

/// What becomes readable when the device reports something.
pub fn descriptor(device: &Device) -> RawFd {
    // SAFETY: the context lives as long as the device.
    unsafe { (*device.context).async_fd }
}

/// Makes the device's reports readable without waiting.
pub fn listen(device: &Device) -> Result<(), VerbsError> {
    let descriptor = descriptor(device);
    // SAFETY: an open descriptor of the live context; only its flags change.
    let result = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(VerbsError::last("listen to the device")) } else { Ok(()) }
}

/// The next report that matters here; `None` when there is none.
pub fn next_event(device: &Arc<Device>) -> Option<DeviceEvent> {
    loop {
        let mut event = sys::ibv_async_event { element: core::ptr::null_mut(), event_type: 0 };
        // SAFETY: a live context; the library writes the event, or fails when there is none.
        if unsafe { (device.library.ibv_get_async_event)(device.context, &raw mut event) } != 0 {
            return None;
        }
        let meaning = meaning_of(&event);
        // SAFETY: an event that was just taken; a queue that it is about cannot be destroyed before this.
        unsafe { (device.library.ibv_ack_async_event)(&raw mut event) };
        if meaning.is_some() {
            return meaning;
        }
    }
}

fn meaning_of(event: &sys::ibv_async_event) -> Option<DeviceEvent> {
    let why = match event.event_type {
        sys::IBV_EVENT_QP_ACCESS_ERR => "it reached for memory that it may not use",
        sys::IBV_EVENT_QP_REQ_ERR => "it sent a request that makes no sense",
        sys::IBV_EVENT_QP_FATAL => "the queue pair to it failed",
        sys::IBV_EVENT_DEVICE_FATAL => return Some(DeviceEvent::DeviceGone),
        sys::IBV_EVENT_PORT_ACTIVE => return Some(DeviceEvent::PortUp),
        sys::IBV_EVENT_PORT_ERR => return Some(DeviceEvent::PortDown),
        _ => return None,
    };
    // SAFETY: events of these kinds are about a queue pair, which lives until the event is acknowledged.
    let number = unsafe { (*event.element.cast::<sys::ibv_qp>()).qp_num };
    Some(DeviceEvent::PairFailed { number, why })
}
