//! The way of messages to the provider, which has no room at times.

use crate::libfabric::Posted;
use farcall_driver::Destination;
use farcall_transport::Outgoing;

use crate::messages::endpoint::Ofi;
use crate::messages::frame::{self, FRAME_TAG};

impl Ofi {
    /// Sends a frame, and leaves an empty buffer for it.
    #[inline]
    pub(crate) fn send_frame(&mut self, to: Destination, frame: &mut Vec<u8>) {
        if frame.len() <= self.inject_bytes
            && let Some(at) = self.peers.free_way(to)
        {
            match self.endpoint.inject_tagged(frame, at, FRAME_TAG) {
                Posted::Taken => return frame.clear(),
                Posted::Again => {}
                Posted::Failed => {
                    frame.clear();
                    return self.failed.push(to);
                }
            }
        }
        if !self.peers.is_reachable(to) {
            return frame.clear();
        }
        let send = self.sends.add_frame(to, frame);
        self.start(to, send);
    }

    /// Announces a payload and sends it.
    #[cold]
    pub(crate) fn send_long(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        if !self.peers.is_reachable(to) {
            return;
        }
        let tag = frame::payload_tag(self.number, self.serial);
        self.serial = self.serial.wrapping_add(1);
        let mut announcement = core::mem::take(&mut self.frame);
        frame::put_announcement(&mut announcement, head, payload.len(), tag);
        self.send_frame(to, &mut announcement);
        self.frame = announcement;
        let send = self.sends.add_payload(to, tag, payload);
        self.start(to, send);
    }

    /// Gives a send to the provider, or lets it wait behind others to the same destination, which is
    /// reachable.
    pub(crate) fn start(&mut self, to: Destination, send: u32) {
        if self.peers.enqueue(to, send) == 1 && !self.go_on(to) {
            self.blocked.push_back(to);
        }
    }

    /// Gives the provider what waits for a destination, as much as it is to have. False when something is
    /// left.
    fn go_on(&mut self, to: Destination) -> bool {
        while let Some((send, at)) = self.peers.next_send(to) {
            match self.sends.post(&mut self.endpoint, send, at) {
                Posted::Taken => self.peers.begin_send(to),
                Posted::Again => return false,
                Posted::Failed => {
                    self.failed.push(to);
                    return true;
                }
            }
        }
        !self.peers.any_waiting(to)
    }

    /// Tries again what the provider had no room for.
    pub(crate) fn retry(&mut self) {
        for _ in 0..self.blocked.len() {
            if let Some(to) = self.blocked.pop_front()
                && !self.go_on(to)
            {
                self.blocked.push_back(to);
            }
        }
        self.buffers.post(&mut self.endpoint);
        self.fetches.post(&mut self.endpoint);
    }
}
