//! The way to a peer, which is looked for when it is first needed.

use core::cell::{Cell, OnceCell};
use std::sync::Arc;

use super::address::Place;
use super::sending::Way;
use crate::device::Device;
use crate::queues::AddressHandle;

/// Without a way to a peer, only one in this many packets looks for one: the others would wait for the
/// network as long.
const PACKETS_PER_ATTEMPT: u32 = 64;

/// How to send to a peer.
pub struct Route {
    pub place: Place,
    /// Made when it is first needed and the network knows a way.
    pub handle: OnceCell<AddressHandle>,
    /// How often it was needed and not there.
    missed: Cell<u32>,
}

impl Route {
    /// Nothing is known but the place.
    pub fn to(place: Place) -> Self {
        Self { place, handle: OnceCell::new(), missed: Cell::new(0) }
    }

    /// The handle and the number, if the network knows a way.
    #[inline]
    pub fn way(&self, device: &Arc<Device>) -> Option<Way> {
        let handle = self.handle.get().or_else(|| self.find(device))?;
        Some(Way { handle: handle.raw(), number: self.place.number })
    }

    /// Looks for a way now: it takes long, and a sender should not have to wait for it.
    pub fn look(&self, device: &Arc<Device>) {
        self.missed.set(0);
        let _none_yet = self.way(device);
    }

    #[cold]
    fn find(&self, device: &Arc<Device>) -> Option<&AddressHandle> {
        let missed = self.missed.replace(self.missed.get().wrapping_add(1));
        if !missed.is_multiple_of(PACKETS_PER_ATTEMPT) {
            return None;
        }
        let handle = AddressHandle::new(device, self.place.gid, self.place.lid).ok()?;
        Some(self.handle.get_or_init(|| handle))
    }
}
