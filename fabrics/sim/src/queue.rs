//! The event queue: what happens next, at which time, and among equals in the order in which it was
//! scheduled.
//!
//! A heap with four children a node: half as deep as a binary one, and the children of a node lie on one or
//! two cache lines. The order of scheduling is part of the key, so that the same run always pops in the same
//! order.

use crate::time::Picos;

/// What can happen on the simulated fabric. Packets, hosts and ports are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The doorbell of a host, in one of its lives, reached its NIC: the next `count` packets of its send
    /// queue may go.
    Doorbell { host: u32, incarnation: u32, count: u32 },
    /// A packet of a lane, sent in that life of its host, reached the NIC with a doorbell of its own.
    Posted { packet: u32, incarnation: u32 },
    /// The last bit of a packet reached the first switch, which has decided where it goes.
    Ingress { packet: u32 },
    /// As [`Event::Ingress`], of a packet that a fault held up.
    LateIngress { packet: u32 },
    /// A packet reached the queue of a later output port.
    Hop { packet: u32, port: u32 },
    /// An output port has sent its packet and takes the next.
    PortFree { port: u32 },
    /// The last bit of a packet reached the NIC of the receiving machine.
    NicArrival { packet: u32 },
    /// A packet is in the receiving host's memory.
    Deliver { packet: u32 },
    /// The call for a lane has been in flight for as long as it may.
    ConnectTimeout { connection: u32 },
    /// The host at this end of a lane notices that the other one has crashed.
    PeerLost { connection: u32, side: u8 },
}

/// Children of a node.
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Picos,
    order: u64,
    event: Event,
}

impl Entry {
    #[inline]
    fn before(&self, other: &Self) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

/// Events by time.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: Vec<Entry>,
    scheduled: u64,
    peak: usize,
}

impl EventQueue {
    /// Adds an event.
    #[inline]
    pub fn schedule(&mut self, at: Picos, event: Event) {
        let entry = Entry { at, order: self.scheduled, event };
        self.scheduled += 1;
        let mut hole = self.heap.len();
        self.heap.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
        self.peak = self.peak.max(self.heap.len());
    }

    /// When the next event happens; [`Picos::NEVER`] without one.
    #[inline]
    pub fn next_at(&self) -> Picos {
        self.heap.first().map_or(Picos::NEVER, |entry| entry.at)
    }

    /// Takes the next event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Picos, Event)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some((last.at, last.event)) };
        self.sink(last);
        Some((first.at, first.event))
    }

    /// Puts `entry` where it belongs, from the free place at the top down.
    #[inline]
    fn sink(&mut self, entry: Entry) {
        let heap = &mut self.heap[..];
        let mut hole = 0;
        loop {
            let first_child = hole * ARITY + 1;
            let children = first_child..(first_child + ARITY).min(heap.len());
            let earlier =
                |least: usize, child: usize| if heap[child].before(&heap[least]) { child } else { least };
            let Some(least) = children.reduce(earlier) else { break };
            if !heap[least].before(&entry) {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = entry;
    }

    /// The most events that have waited at a time.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Bytes of memory that the queue holds.
    pub fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_scheduling() {
        let seed = 0x5eed;
        println!("seed {seed:#x}");
        let (mut random, mut queue) = (Random::new(seed), EventQueue::default());
        let mut expected = Vec::new();
        for number in 0..2_000_u32 {
            let at = Picos(random.below(300));
            queue.schedule(at, Event::Deliver { packet: number });
            expected.push((at, number));
        }
        assert_eq!(queue.peak(), 2_000);
        expected.sort_unstable();
        for (at, number) in expected {
            assert_eq!(queue.next_at(), at);
            assert_eq!(queue.pop(), Some((at, Event::Deliver { packet: number })));
        }
        assert_eq!((queue.pop(), queue.next_at()), (None, Picos::NEVER));
    }

    #[test]
    fn pops_and_pushes_may_alternate() {
        let seed = 0xa17e;
        println!("seed {seed:#x}");
        let (mut random, mut queue, mut now) = (Random::new(seed), EventQueue::default(), Picos::ZERO);
        for number in 0..10_000_u32 {
            queue.schedule(now + Picos(random.below(100)), Event::Deliver { packet: number });
            if random.chance(0.8) {
                let (at, _) = queue.pop().expect("one was just scheduled");
                assert!(at >= now, "time went back from {now:?} to {at:?}");
                now = at;
            }
        }
    }
}
