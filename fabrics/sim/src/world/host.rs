//! A host: one server process with one polling thread, as the fabric sees it.
//!
//! A host has a time of its own. It is the fabric's time when its turn begins, and moves on with all that the
//! processor does in the turn, so that what is sent late in a turn leaves late.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use farcall_driver::clock::Clock;

use super::crowd::Crowd;
use super::work::{Spent, Work};
use crate::bell::Bell;
use crate::faults::PacketFaults;
use crate::time::Picos;

/// A host.
#[derive(Debug)]
pub struct HostState {
    /// The machine whose NIC it shares.
    pub machine: u32,
    /// How many times it has been started; drivers and programs of an earlier life have no effect.
    pub incarnation: u32,
    /// Whether it runs.
    pub up: bool,
    /// Whether its processor stands still.
    pub paused: bool,
    /// Whether somebody runs its turns.
    pub driven: bool,
    /// How many times longer everything takes its processor.
    pub slowness: u64,
    /// What strikes packets to it, where that is not what strikes all.
    pub struck_by: Option<PacketFaults>,
    /// Its own time.
    local: Picos,
    clock: Arc<AtomicU64>,
    /// Packets in its memory, to be received.
    pub inbox: VecDeque<u32>,
    /// Packets of its send queue that the NIC does not have yet, the gathered ones last.
    pub queued: VecDeque<u32>,
    /// How many of them no doorbell has announced.
    pub gathered: u32,
    /// Places of the send queue that are in use.
    pub send_places: usize,
    /// Since when there is no place left, if there is none.
    pub full_at: Picos,
    /// Packets since the last one that reports its completion.
    pub unsignalled: usize,
    /// When places come back, and how many.
    pub completions: VecDeque<(Picos, usize)>,
    /// For threads outside of the simulation, if any waits.
    pub bell: Option<Bell>,
    /// What is in its memory and unread: packets and records.
    pub unread: Crowd,
    /// Since when its processor stands still.
    pub paused_at: Picos,
    /// What it has done so far.
    pub usage: HostUsage,
}

/// What a host has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// Processor time in turns that found something to do.
    pub busy: Picos,
    /// Processor time in all turns.
    pub polling: Picos,
    /// Turns.
    pub turns: u64,
    /// Turns that found something to do.
    pub busy_turns: u64,
    /// Packets sent; those of lanes included, also below.
    pub packets_sent: u64,
    /// Their payload.
    pub bytes_sent: u64,
    /// Packets that reached its memory.
    pub packets_received: u64,
    /// Their payload.
    pub bytes_received: u64,
    /// Sends that were refused because the send queue was full.
    pub send_queue_full: u64,
    /// How long its send queue was full.
    pub queue_full: Picos,
    /// Processor time by kind of work.
    pub spent: Spent,
    /// How long packets and records have waited in its memory for its processor, all together.
    pub unread: Picos,
    /// How long its processor has stood still in pauses.
    pub stood: Picos,
}

impl HostState {
    /// A host on a machine, that nobody has started yet.
    pub fn new(machine: u32) -> Self {
        Self {
            machine,
            incarnation: 0,
            up: true,
            paused: false,
            driven: false,
            slowness: 1,
            struck_by: None,
            local: Picos::ZERO,
            clock: Arc::default(),
            inbox: VecDeque::new(),
            queued: VecDeque::new(),
            gathered: 0,
            send_places: 0,
            full_at: Picos::ZERO,
            unsignalled: 0,
            completions: VecDeque::new(),
            bell: None,
            unread: Crowd::default(),
            paused_at: Picos::ZERO,
            usage: HostUsage::default(),
        }
    }

    /// A clock that shows its time.
    pub fn clock(&self) -> Clock {
        Clock::simulated(Arc::clone(&self.clock))
    }

    /// Its time now.
    #[inline]
    pub fn local(&self) -> Picos {
        self.local
    }

    /// Its time is at least that of the fabric.
    #[inline]
    pub fn catch_up(&mut self, now: Picos) {
        if now > self.local {
            self.local = now;
            self.clock.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Its processor is at work for `span`.
    #[inline]
    pub fn spend(&mut self, work: Work, span: Picos) {
        self.note(work, span);
        self.pass(span);
    }

    /// Processor time of that kind, which has passed or is about to.
    pub fn note(&mut self, work: Work, span: Picos) {
        self.usage.spent.add(work, span.times(self.slowness));
    }

    /// Its processor is at something for `span` of which it is not known yet whether it is work.
    #[inline]
    pub fn pass(&mut self, span: Picos) {
        self.local += span.times(self.slowness);
        self.clock.store(self.local.as_nanos(), Ordering::Relaxed);
    }

    /// What it has done until `now`.
    pub fn usage_at(&self, now: Picos) -> HostUsage {
        let standing = if self.paused { now - self.paused_at } else { Picos::ZERO };
        HostUsage { unread: self.unread.waited(now), stood: self.usage.stood + standing, ..self.usage }
    }

    /// Its life ends. Returns the packets that it had not handed over or received.
    pub fn crash(&mut self) -> Vec<u32> {
        self.up = false;
        self.driven = false;
        self.paused = false;
        self.incarnation += 1;
        self.gathered = 0;
        self.send_places = 0;
        self.unsignalled = 0;
        self.completions.clear();
        self.unread.clear(self.local);
        self.inbox.drain(..).chain(self.queued.drain(..)).collect()
    }

    /// Takes the places back whose completions it can see by now. `places_all` is how many it has.
    #[inline]
    pub fn reap(&mut self, places_all: usize) {
        while let Some((at, places)) = self.completions.front().copied() {
            if at > self.local {
                break;
            }
            self.completions.pop_front();
            if self.send_places == places_all {
                self.usage.queue_full += at - self.full_at;
            }
            self.send_places -= places;
        }
    }
}
