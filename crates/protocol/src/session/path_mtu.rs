//! Paths that drop long packets.
//!
//! Both sides agree on the longest packet by what their own interfaces carry. A router between them may carry
//! less, and the word of it (ICMP) may be filtered: then short packets pass, the session lives, and long ones
//! are lost for ever. So when long packets have to be sent again, it is asked whether packets of that length
//! arrive at all: by PROBE packets, which are as long as what they stand for (RFC 8899, datagram PLPMTUD). If
//! none of the full length does and a shorter one does, packets beyond that length go out in parts, until a
//! later search finds that the path carries them.
//!
//! A peer that does not know PROBE answers none, and nothing changes for it.

use core::time::Duration;

use crate::keys::TAG_BYTES;
use crate::wire::{HEADER_BYTES, PART_HEADER_BYTES, PARTS_MAX, SessionPacket};
use farcall_base::Instant;

use super::config::MTU_BYTES_MIN;
use super::slot::State;
use super::{Outgoing, Sessions};

/// Lengths to look for below the full one: what Ethernet with jumbo frames, Ethernet, and common tunnels over
/// it carry behind the headers of IP and UDP, the least of IPv6, and what a datagram may always have.
const LENGTHS: [u32; 10] = [8_952, 4_052, 1_472, 1_452, 1_412, 1_372, 1_232, 1_024, 548, MTU_BYTES_MIN];

/// How often each length is tried. In the first round it is the full one alone, and mostly that ends it.
const ROUNDS: u8 = 6;

/// Long packets that have to be sent again before a path is in doubt: a few are lost for other reasons.
const DOUBTFUL: u8 = 8;

/// How many of the shortest probes may be lost. If more are, packets of any length are: the path is crowded,
/// and says nothing of its length. To send in parts would crowd it more.
const SHORTEST_LOST_MAX: u8 = 1;

/// The least time for the answers of a round.
const ROUND_MIN: Duration = Duration::from_millis(10);

/// For how long what was found is not doubted, whatever has to be sent again.
const TRUSTED: Duration = Duration::from_secs(1);

/// After which time a path that does not carry the full length is searched again although nothing is lost:
/// its route may be another one by then.
const SEARCH_AGAIN: Duration = Duration::from_secs(30);

/// What is known of a session's path: nothing of one that was never in doubt.
#[derive(Debug)]
pub(super) struct PathMtu(Option<Box<Known>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// The longest packet that passes; `None` while nothing speaks against the full length.
    limit: Option<u32>,
    /// Nothing is searched before.
    trusted_until: Instant,
    /// From then on a path with a limit is searched without a loss.
    again_at: Instant,
    search: Option<Search>,
    /// Long packets that had to be sent again since the last search, as far as it matters.
    doubts: u8,
}

/// A search that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Search {
    /// What its probes say.
    number: u64,
    rounds_left: u8,
    /// When the present round is over.
    over_at: Instant,
    /// The longest probe that arrived; 0 when none did.
    arrived: u32,
    /// The length of the shortest probes, and how many of them have not arrived.
    shortest: u32,
    shortest_lost: u8,
}

impl PathMtu {
    pub(super) const UNKNOWN: Self = Self(None);

    /// The path is another one now: what was found holds until the next doubt.
    pub(super) fn leads_elsewhere(&mut self) {
        if let Some(known) = &mut self.0 {
            (known.trusted_until, known.again_at) = (Instant::ZERO, Instant::ZERO);
        }
    }

    fn known(&self) -> Known {
        self.0.as_deref().copied().unwrap_or(Known::NOTHING)
    }

    fn known_mut(&mut self) -> &mut Known {
        self.0.get_or_insert_with(|| Box::new(Known::NOTHING))
    }

    /// The longest packet that passes, where that is not the full length.
    fn limit(&self) -> Option<u32> {
        self.0.as_ref()?.limit
    }

    fn search(&self) -> Option<&Search> {
        self.0.as_ref()?.search.as_ref()
    }

    fn search_mut(&mut self) -> Option<&mut Search> {
        self.0.as_mut()?.search.as_mut()
    }
}

impl Known {
    const NOTHING: Self =
        Self { limit: None, trusted_until: Instant::ZERO, again_at: Instant::ZERO, search: None, doubts: 0 };
}

impl Sessions {
    /// Whether any session's path does not carry the full length.
    #[inline]
    pub(crate) fn has_short_paths(&self) -> bool {
        self.short_paths > 0
    }

    /// Looks at a packet, made of two pieces, that goes out now. One that had to be `repeated` puts its path
    /// in doubt; one that is too long for its path is to go out in parts, which are polled from now on: then
    /// the answer is true.
    pub(crate) fn fit_to_path(
        &mut self,
        index: u16,
        packet: [&[u8]; 2],
        repeated: bool,
        now: Instant,
    ) -> bool {
        let bytes = packet[0].len() + packet[1].len();
        let path = &mut self.slots[usize::from(index)].path_mtu;
        if repeated && bytes > MTU_BYTES_MIN as usize {
            let doubts = &mut path.known_mut().doubts;
            *doubts = doubts.saturating_add(1);
        }
        let Known { limit, again_at, doubts, .. } = path.known();
        let is_too_long = limit.is_some_and(|limit| bytes > limit as usize);
        if doubts >= DOUBTFUL || (is_too_long && now >= again_at) {
            self.search_path(index, now);
        }
        is_too_long && limit.is_some_and(|limit| self.send_in_parts(index, packet, limit))
    }

    /// The longest packet that passes on each path that does not carry all; the least of them, or 0.
    pub fn shortest_path_bytes(&self) -> u32 {
        self.slots.iter().filter_map(|slot| slot.path_mtu.limit()).min().unwrap_or(0)
    }

    /// Begins a search unless one goes on, or was over a short time ago.
    pub(super) fn search_path(&mut self, index: u16, now: Instant) {
        let slot = &mut self.slots[usize::from(index)];
        let Known { search, trusted_until, .. } = slot.path_mtu.known();
        if slot.state != State::Up || search.is_some() || now < trusted_until {
            return;
        }
        // Who forges an answer must know the session's own number; this one keeps searches apart.
        self.counters.path_searches += 1;
        let number = self.counters.path_searches;
        slot.path_mtu.known_mut().search = Some(Search {
            number,
            rounds_left: ROUNDS,
            over_at: now,
            arrived: 0,
            shortest: 0,
            shortest_lost: 0,
        });
        self.searching.push(index);
        self.next_round(index, now);
    }

    /// Goes on with every search whose round is over.
    pub(super) fn sweep_searches(&mut self, now: Instant) {
        for index in core::mem::take(&mut self.searching) {
            let Some(search) = self.slots[usize::from(index)].path_mtu.search() else { continue };
            let over_at = search.over_at;
            self.searching.push(index);
            if now >= over_at {
                self.next_round(index, now);
            }
        }
        self.search_at = self.next_search();
    }

    fn next_search(&self) -> Instant {
        let searches =
            self.searching.iter().filter_map(|&index| self.slots[usize::from(index)].path_mtu.search());
        searches.map(|search| search.over_at).min().unwrap_or(Instant::NEVER)
    }

    /// Sends the probes of another round, or draws the conclusion of those that were.
    fn next_round(&mut self, index: u16, now: Instant) {
        let full = self.full_length(index);
        let slot = &mut self.slots[usize::from(index)];
        let (to, round_trip) = (slot.link.to, Duration::from_nanos(slot.round_trip_nanos));
        let limit = slot.path_mtu.limit();
        let Some(search) = slot.path_mtu.search_mut() else { return };
        if search.shortest_lost > SHORTEST_LOST_MAX {
            return self.conclude(index, limit, now);
        }
        if search.rounds_left == 0 {
            // Where nothing arrives at all there is nothing to conclude.
            let limit = if search.arrived > 0 { Some(search.arrived) } else { limit };
            return self.conclude(index, limit, now);
        }
        let is_first = search.rounds_left == ROUNDS;
        search.rounds_left -= 1;
        search.over_at = now + ROUND_MIN.max(2 * round_trip);
        self.search_at = self.search_at.min(search.over_at);
        let number = search.number;
        let shorter = LENGTHS.into_iter().filter(|&bytes| !is_first && can_take_parts(full, bytes));
        if let Some(shortest) = shorter.clone().next_back() {
            (search.shortest, search.shortest_lost) = (shortest, search.shortest_lost + 1);
        }
        for bytes in core::iter::once(full).chain(shorter) {
            self.counters.path_probes += 1;
            self.push_outgoing(to, Outgoing::Probe { index, number, bytes });
        }
    }

    /// A probe arrived at the peer.
    pub(super) fn on_probed(&mut self, index: u16, number: u64, bytes: u32, now: Instant) {
        let full = self.full_length(index);
        let Some(search) = self.slots[usize::from(index)].path_mtu.search_mut() else { return };
        if search.number != number || bytes > full {
            return;
        }
        search.arrived = search.arrived.max(bytes);
        if bytes == search.shortest {
            search.shortest_lost = search.shortest_lost.saturating_sub(1);
        }
        if bytes == full {
            self.conclude(index, None, now);
        }
    }

    fn conclude(&mut self, index: u16, limit: Option<u32>, now: Instant) {
        let found = Known {
            limit,
            trusted_until: now + TRUSTED,
            again_at: now + SEARCH_AGAIN,
            search: None,
            doubts: 0,
        };
        let known = self.slots[usize::from(index)].path_mtu.known_mut();
        let before = core::mem::replace(known, found).limit;
        self.short_paths -= usize::from(before.is_some());
        self.short_paths += usize::from(limit.is_some());
        self.counters.paths_shortened += u64::from(limit.is_some() && before != limit);
        self.searching.retain(|searching| *searching != index);
        self.search_at = self.next_search();
    }

    /// The session is over.
    pub(super) fn forget_path(&mut self, index: u16) {
        self.short_paths -= usize::from(self.slots[usize::from(index)].path_mtu.limit().is_some());
        self.slots[usize::from(index)].path_mtu = PathMtu::UNKNOWN;
        self.searching.retain(|searching| *searching != index);
    }

    /// The longest packet of a session as the driver sees it.
    pub(super) fn full_length(&self, index: u16) -> u32 {
        let sealed = if self.has_keys() { TAG_BYTES as u32 } else { 0 };
        self.slots[usize::from(index)].link.agreed.mtu_bytes + sealed
    }

    /// Makes a probe: its head, and what follows in `self.payload`.
    pub(super) fn put_probe(&mut self, index: u16, number: u64, bytes: u32, head: &mut crate::wire::Head) {
        let probe = SessionPacket::Probe { number };
        let remote = self.slots[usize::from(index)].link.remote;
        let mut payload = core::mem::take(&mut self.payload);
        payload.clear();
        if self.has_keys() {
            probe.put_unchecked(remote, head);
            let mut sealed = core::mem::take(&mut self.sealed_probe);
            payload.resize(bytes as usize - HEADER_BYTES - TAG_BYTES, 0);
            if self.seal(index, [head.as_bytes(), &payload], &mut sealed) {
                head.replace(&sealed[..HEADER_BYTES]);
                payload.clear();
                payload.extend_from_slice(&sealed[HEADER_BYTES..]);
            }
            self.sealed_probe = sealed;
        } else {
            payload.resize(bytes as usize - HEADER_BYTES, 0);
            probe.put(remote, head);
            head.seal(&payload);
        }
        self.payload = payload;
    }
}

/// Whether packets of the `full` length can go out in parts over a path that carries `bytes`.
fn can_take_parts(full: u32, bytes: u32) -> bool {
    bytes < full && full.div_ceil(bytes - PART_HEADER_BYTES as u32) <= u32::from(PARTS_MAX)
}
