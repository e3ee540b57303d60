//! The way of messages to the provider, which has no room at times.

use farcall_driver::Destination;
use farcall_libfabric::Posted;
use farcall_transport::Outgoing;

use crate::endpoint::Ofi;
use crate::frame::FRAME_TAG;

impl Ofi {
    /// Sends the frame that was put together.
    #[inline]
    pub(crate) fn send_frame(&mut self, to: Destination) {
        let Some(peer) = self.peers.reachable(to) else { return };
        if self.frame.len() <= self.inject_bytes && peer.waiting.is_empty() {
            match self.endpoint.inject_tagged(&self.frame, peer.at, FRAME_TAG) {
                Posted::Taken => return,
                Posted::Again => {}
                Posted::Failed => return self.failed.push(to),
            }
        }
        let send = self.sends.add(to, FRAME_TAG, Outgoing::Slice(&self.frame));
        self.start(to, send);
    }

    /// Gives a send to the provider, or lets it wait behind others to the same destination.
    pub(crate) fn start(&mut self, to: Destination, send: u32) {
        let Some(peer) = self.peers.reachable(to) else {
            self.sends.finish(send);
            return;
        };
        peer.under_way += 1;
        peer.waiting.push_back(send);
        if peer.waiting.len() == 1 && !self.go_on(to) {
            self.blocked.push_back(to);
        }
    }

    /// Gives the provider what waits for a destination, as much as it takes. False when something is left.
    fn go_on(&mut self, to: Destination) -> bool {
        loop {
            let Some(peer) = self.peers.reachable(to) else { return true };
            let Some(&send) = peer.waiting.front() else { return true };
            if self.posted >= self.tx_depth {
                return false;
            }
            match self.sends.post(&mut self.endpoint, send, peer.at) {
                Posted::Taken => self.posted += 1,
                Posted::Again => return false,
                Posted::Failed => {
                    self.failed.push(to);
                    return true;
                }
            }
            peer.waiting.pop_front();
        }
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
