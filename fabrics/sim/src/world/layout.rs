//! Which output ports there are, and the way of a packet through them.
//!
//! Ports are numbered: first those down to each machine, then the uplinks of each rack, then the second
//! level's ports down to each rack. Where a port leads follows from its number.

use super::port::Port;
use crate::profile::{Profile, Topology, UplinkChoice};

/// The ports' numbers.
#[derive(Clone, Debug)]
pub struct Layout {
    machines: u32,
    machines_per_rack: u32,
    racks: u32,
    uplinks_per_rack: u32,
    choice: UplinkChoice,
    /// The uplink that each rack's next packet takes.
    next_uplink: Vec<u32>,
    seed: u64,
}

/// Where a packet goes after a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// To another switch's output port.
    Port(u32),
    /// To the receiving machine.
    Machine,
}

impl Layout {
    /// The layout of a topology; `seed` draws the ways of flows.
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let machines = topology.machines() as u32;
        let (machines_per_rack, racks, uplinks_per_rack, choice) = match topology {
            Topology::SingleSwitch(_) => (machines, 1, 0, UplinkChoice::Flow),
            Topology::TwoLevel(levels) => (
                levels.machines_per_rack as u32,
                levels.racks as u32,
                levels.uplinks_per_rack as u32,
                levels.uplink_choice,
            ),
        };
        let next_uplink = vec![0; racks as usize];
        Self { machines, machines_per_rack, racks, uplinks_per_rack, choice, next_uplink, seed }
    }

    /// The ports of that layout.
    pub fn ports(&self, profile: &Profile) -> Vec<Port> {
        let port = |rate| Port::new(rate, profile.link.header_bytes, &profile.switch);
        let mut ports: Vec<Port> = (0..self.machines).map(|_| port(profile.link.rate)).collect();
        if let Topology::TwoLevel(levels) = &profile.topology {
            ports.extend((0..2 * self.racks * self.uplinks_per_rack).map(|_| port(levels.uplink)));
        }
        ports
    }

    /// The first switch's port for a packet between two machines. `ordered` ones keep to the way of their
    /// flow.
    pub fn first_port(&mut self, from: u32, to: u32, flow: (u32, u32), ordered: bool) -> u32 {
        let rack = from / self.machines_per_rack;
        if rack == to / self.machines_per_rack {
            return to;
        }
        let uplink = match self.choice {
            UplinkChoice::Packet if !ordered => {
                let next = &mut self.next_uplink[rack as usize];
                *next = (*next + 1) % self.uplinks_per_rack;
                *next
            }
            _ => (mixed(self.seed, flow) % u64::from(self.uplinks_per_rack)) as u32,
        };
        self.machines + rack * self.uplinks_per_rack + uplink
    }

    /// Where a packet to machine `to` goes after `port`.
    #[inline]
    pub fn after(&self, port: u32, to: u32) -> NextHop {
        if port < self.machines {
            return NextHop::Machine;
        }
        let uplinks = self.racks * self.uplinks_per_rack;
        let above = port - self.machines;
        if above < uplinks {
            let (switch, rack) = (above % self.uplinks_per_rack, to / self.machines_per_rack);
            return NextHop::Port(self.machines + uplinks + rack * self.uplinks_per_rack + switch);
        }
        NextHop::Port(to)
    }

    /// Whether a port leads up from a rack.
    pub fn is_uplink(&self, port: u32) -> bool {
        (self.machines..self.machines + self.racks * self.uplinks_per_rack).contains(&port)
    }
}

/// A number that says nothing about the hosts but that they are the same.
fn mixed(seed: u64, (source, destination): (u32, u32)) -> u64 {
    let pair = u64::from(source) << 32 | u64::from(destination);
    farcall_base::Random::new(seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_racks(choice: &str) -> Layout {
        let topology = format!(
            "topology={{ two-level = {{ racks = 3, machines_per_rack = 4, servers_per_machine = 1, \
             uplinks_per_rack = 2, uplink_gbps = 10, uplink_choice = \"{choice}\" }} }}"
        );
        let profile = Profile::load_with("ideal", &[&topology]).expect("correct");
        let layout = Layout::new(&profile.topology, 1);
        assert_eq!(layout.ports(&profile).len(), 12 + 6 + 6);
        layout
    }

    /// All ports of the way from a machine to another.
    fn way(layout: &mut Layout, from: u32, to: u32) -> Vec<u32> {
        let mut ports = vec![layout.first_port(from, to, (from, to), false)];
        while let NextHop::Port(port) = layout.after(*ports.last().expect("one at least"), to) {
            ports.push(port);
        }
        ports
    }

    #[test]
    fn within_a_rack_there_is_one_hop_and_between_racks_there_are_three() {
        let mut layout = two_racks("flow");
        assert_eq!(way(&mut layout, 4, 7), [7]);
        let between = way(&mut layout, 1, 10);
        let switch = between[0] - 12;
        assert!(switch < 2 && layout.is_uplink(between[0]), "{between:?}");
        assert_eq!(between, [12 + switch, 18 + 2 * 2 + switch, 10]);
    }

    #[test]
    fn flows_keep_to_one_uplink_and_packets_take_turns() {
        let uplinks = |choice| {
            let mut layout = two_racks(choice);
            let mut taken: Vec<_> = (0..8).map(|_| way(&mut layout, 0, 8)[0]).collect();
            taken.sort_unstable();
            taken.dedup();
            taken.len()
        };
        assert_eq!((uplinks("flow"), uplinks("packet")), (1, 2));
        let mut layout = two_racks("flow");
        let mut all: Vec<_> = (4..12).map(|to| way(&mut layout, 0, to)[0]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2, "all flows take the same uplink");
    }
}
