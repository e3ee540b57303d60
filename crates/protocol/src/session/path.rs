//! Packets of a session from where it is not.
//!
//! The driver may know the peer's address by a new number, or a router on the way may have given the peer
//! another address. The packet itself counts for nothing, but the address is asked for a number that only
//! its owner can read: a PING, which is not longer than the shortest packet. When the PONG comes from
//! there, the session is there.

use core::time::Duration;

use crate::wire::{Header, Opcode, SessionPacket};
use farcall_base::Instant;

use super::slot::{Path, State};
use super::{AddressUse, PeerAddress, SessionEvent, Sessions};

/// How soon another address, or the same one again, is asked.
const ASK_AFTER: Duration = Duration::from_millis(5);

impl Sessions {
    /// A packet with the right number and checksum came from another address than the session's.
    #[cold]
    pub(super) fn note_elsewhere(&mut self, index: u16, from: PeerAddress, header: &Header, now: Instant) {
        self.counters.from_elsewhere += 1;
        let slot = &mut self.slots[usize::from(index)];
        if slot.state != State::Up {
            return;
        }
        let answers = |path: &Path| {
            header.opcode == Opcode::Pong && path.to == from && path.number == header.call.to_wire()
        };
        if slot.path.as_deref().is_some_and(answers) {
            return self.move_to(index, from, now);
        }
        if slot.path.as_ref().is_some_and(|path| now.since(path.asked_at) < ASK_AFTER) {
            return;
        }
        let number = self.pings.bits();
        slot.path = Some(Box::new(Path { to: from, number, asked_at: now }));
        self.counters.pings_sent += 1;
        self.queue_in(index, from, SessionPacket::Ping { number });
    }

    fn move_to(&mut self, index: u16, to: PeerAddress, now: Instant) {
        let slot = &mut self.slots[usize::from(index)];
        let former = core::mem::replace(&mut slot.link.to, to);
        slot.path = None;
        slot.path_mtu.leads_elsewhere();
        slot.heard_at = now;
        let id = slot.id(index);
        self.by_address.remove(&(former, index));
        self.by_address.insert((to, index));
        self.counters.moved += 1;
        self.note_address(AddressUse::Needed(to));
        self.note_address(AddressUse::Released(former));
        self.events.push_back(SessionEvent::Moved { id, to });
    }
}
