//! What goes wrong: carried out when its time has come, or when a packet has drawn it.

use super::packets::{Cargo, Packet};
use super::{Step, World};
use crate::faults::{Action, Fate, PacketFaults, Schedule, ScheduleError, Scheduled};
use crate::queue::Event;
use crate::time::Picos;

/// What the fingerprint notes of an action.
const ACTION: u8 = 32;
/// What the fingerprint notes of a packet's faults.
const FAULT: u8 = 33;

impl World {
    /// Replaces what is still to come by `schedule`. What is past in it happens at once.
    pub fn set_schedule(&mut self, schedule: Schedule) -> Result<(), ScheduleError> {
        schedule.check(self.hosts.len())?;
        self.faults = schedule.packets;
        self.schedule = schedule.events;
        // The next one is the last. Sorting is stable, and of equal times the first written shall come first.
        self.schedule.reverse();
        self.schedule.sort_by_key(|event| core::cmp::Reverse(event.at));
        Ok(())
    }

    /// When the next scheduled action is due.
    pub(super) fn next_action_at(&self) -> Picos {
        self.schedule.last().map_or(Picos::NEVER, |event| event.at)
    }

    /// Carries the next scheduled action out.
    pub(super) fn next_action(&mut self) {
        if let Some(Scheduled { action, .. }) = self.schedule.pop() {
            self.act(&action);
        }
    }

    /// Carries an action out, whose hosts exist.
    pub fn act(&mut self, action: &Action) {
        self.hash.note(self.now, ACTION, 0, 0);
        match action {
            Action::Packets(faults) => self.faults = *faults,
            Action::Towards { hosts, packets } => {
                hosts.iter().for_each(|host| self.hosts[*host as usize].struck_by = Some(*packets));
            }
            Action::Partition { from, to, one_way } => self.partition(from, to, *one_way),
            Action::Heal => {
                self.cuts.heal();
                self.unpark();
            }
            Action::Pause(hosts) => hosts.iter().for_each(|host| self.pause(*host)),
            Action::Resume(hosts) => hosts.iter().for_each(|host| self.resume(*host)),
            Action::Crash(hosts) => hosts.iter().for_each(|host| self.crash(*host)),
            Action::Restart(hosts) => hosts.iter().for_each(|host| self.restart(*host)),
            Action::Slow { hosts, factor } => {
                hosts.iter().for_each(|host| self.hosts[*host as usize].slowness = *factor as u64);
            }
        }
    }

    /// Whether `from` would find `to` up, in that life of it.
    pub fn finds_alive(&self, from: u32, to: u32, incarnation: u32) -> bool {
        let state = self.hosts.get(to as usize);
        let is_up = state.is_some_and(|host| host.up && host.incarnation == incarnation);
        is_up && !self.cuts.separate(from, to) && !self.cuts.separate(to, from)
    }

    fn partition(&mut self, from: &[u32], to: &[u32], one_way: bool) {
        for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))) {
            self.cuts.cut(from, to);
            if !one_way {
                self.cuts.cut(to, from);
            }
        }
    }

    fn pause(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !core::mem::replace(&mut state.paused, true) {
            state.paused_at = self.now;
        }
        self.wakes.set(host, Picos::NEVER);
    }

    fn resume(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if core::mem::take(&mut state.paused) {
            state.usage.stood += self.now - state.paused_at;
        }
        if state.driven && state.up {
            self.wakes.set(host, self.now.max(state.local()));
        }
    }

    fn crash(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !state.up {
            return;
        }
        self.wakes.set(host, Picos::NEVER);
        let lost = state.crash();
        self.totals.drops_host_down += lost.len() as u64;
        lost.into_iter().for_each(|packet| self.packets.discard(packet));
        self.lose_lanes_of(host);
        self.pending.push_back(Step::Crashed(host));
    }

    fn restart(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !state.up {
            state.up = true;
            state.catch_up(self.now);
            self.pending.push_back(Step::Restarted(host));
        }
    }

    /// A packet is where faults strike. Says whether it goes on now.
    pub(super) fn suffers(&mut self, number: u32) -> bool {
        let packet = self.packets.get(number);
        let destination = packet.destination;
        let cut = self.cuts.separate(packet.source, destination);
        if let Cargo::Lane(cargo) = packet.cargo {
            if cut {
                self.park(number, cargo);
            }
            return !cut;
        }
        if cut {
            self.totals.drops_partition += 1;
            self.drop_packet(number);
            return false;
        }
        let faults = self.hosts[destination as usize].struck_by.unwrap_or(self.faults);
        !faults.any() || self.draw(number, faults)
    }

    /// Draws the faults of a packet. Says whether it goes on now.
    fn draw(&mut self, number: u32, faults: PacketFaults) -> bool {
        let mut fate = faults.draw(&mut self.random);
        if fate.drop {
            self.totals.drops_fault += 1;
            self.drop_packet(number);
            return false;
        }
        self.damage(number, &mut fate);
        if fate.duplicate {
            self.totals.duplicated += 1;
            let twin = self.twin(number);
            self.route(twin);
        }
        let Some(held) = self.held_up(&fate) else { return true };
        self.totals.held_up += held;
        self.queue.schedule(self.now + held, Event::LateIngress { packet: number });
        false
    }

    /// How long a packet is held up.
    fn held_up(&mut self, fate: &Fate) -> Option<Picos> {
        self.totals.delayed += u64::from(fate.delay.is_some());
        self.totals.reordered += u64::from(fate.reorder.is_some());
        match (fate.reorder, fate.delay) {
            (None, None) => None,
            (reorder, delay) => Some(reorder.unwrap_or_default() + delay.unwrap_or_default()),
        }
    }

    fn damage(&mut self, number: u32, fate: &mut Fate) {
        let packet = self.packets.get_mut(number);
        if packet.length == 0 {
            return;
        }
        if fate.truncate {
            packet.length = fate.shortened(packet.length);
            self.totals.truncated += 1;
        }
        if fate.corrupt {
            fate.flip_bits(&mut packet.bytes[..packet.length as usize]);
            self.totals.corrupted += 1;
        }
        self.hash.note(self.now, FAULT, packet.destination, u64::from(packet.length));
    }

    /// A second packet like this one.
    fn twin(&mut self, number: u32) -> u32 {
        let Packet { source, destination, priority, length, cargo, spread, next, .. } =
            *self.packets.get(number);
        let bytes = self.packets.copy_of(number);
        self.packets.insert(Packet { source, destination, priority, length, bytes, cargo, spread, next })
    }
}
