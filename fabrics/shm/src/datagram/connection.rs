//! One connection to a peer, both directions, and the table of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{Destination, LaneId};

use super::inlet::Inlet;
use super::outlet::Outlet;
use crate::conductor::Link;

/// Bits of a packet's number that are its slot; the rest is the index of its connection.
const SLOT_BITS: u32 = 12;

/// The most connections in a table, so that every packet has a number.
const TABLE_MAX: usize = 1 << (u32::BITS - SLOT_BITS);

/// Where a connection stands. Up → Draining → removed, or Up → Broken → removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Packets flow.
    Up,
    /// The peer is gone; what it sent before is still received.
    Draining,
    /// The peer broke the rules; nothing of it is read any more.
    Broken,
}

/// One of them.
#[derive(Debug)]
pub struct Connection {
    /// Its number for the conductor.
    pub lane: LaneId,
    /// Who is at the other end.
    pub peer: Destination,
    /// Where it stands.
    pub stage: Stage,
    /// The receiving end.
    pub inlet: Inlet,
    /// The sending end, while it is up.
    pub outlet: Option<Outlet>,
    /// Packets that found no slot.
    pub waiting: VecDeque<Vec<u8>>,
    /// Whether the peer's doorbell must be looked after by the next flush.
    pub bell_due: bool,
    /// Since when no packet of those that wait has left.
    pub full_since: Option<Instant>,
    /// Whether packets are dropped instead of kept until the peer reads again.
    pub stalled: bool,
    /// Tells the peer, when dropped, that we are done with it.
    pub link: Option<Arc<Link>>,
}

/// All of them, under indices that packets carry.
#[derive(Debug, Default)]
pub struct Connections {
    table: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    by_lane: BTreeMap<LaneId, usize>,
    /// The indices in use, for receiving.
    live: Vec<usize>,
}

impl Connections {
    /// Adds one and returns its index; `None` when there are too many.
    pub fn add(&mut self, connection: Connection) -> Option<usize> {
        let index = self.vacant.pop().unwrap_or(self.table.len());
        if index == TABLE_MAX {
            return None;
        }
        if index == self.table.len() {
            self.table.push(None);
        }
        self.by_lane.insert(connection.lane, index);
        self.live.push(index);
        self.table[index] = Some(connection);
        Some(index)
    }

    /// Removes one of which no packets are out.
    pub fn remove(&mut self, index: usize) -> Connection {
        let connection = self.table[index].take().expect("a connection in the table");
        self.by_lane.remove(&connection.lane);
        self.live.retain(|&live| live != index);
        self.vacant.push(index);
        connection
    }

    /// The connection of this index.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut Connection {
        self.table.get_mut(index).and_then(Option::as_mut).expect("a connection in the table")
    }

    /// The connection of this index, if there is one.
    pub fn get(&mut self, index: usize) -> Option<&mut Connection> {
        self.table.get_mut(index)?.as_mut()
    }

    /// The index of the connection that the conductor knows by this number.
    pub fn of_lane(&self, lane: LaneId) -> Option<usize> {
        self.by_lane.get(&lane).copied()
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// The index of the one at this place among all; places change when one is removed.
    #[inline]
    pub fn live(&self, place: usize) -> usize {
        self.live[place]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.live.iter().filter_map(|&index| Some((index, self.table[index].as_ref()?)))
    }
}

/// The number of a connection's first slot.
#[inline]
pub fn packet_number(index: usize) -> u32 {
    (index as u32) << SLOT_BITS
}

/// The connection's index and the slot of a packet's number.
#[inline]
pub fn place_of(number: u32) -> (usize, usize) {
    ((number >> SLOT_BITS) as usize, (number & ((1 << SLOT_BITS) - 1)) as usize)
}
