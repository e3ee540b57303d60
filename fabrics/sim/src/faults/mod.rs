//! What goes wrong on a fabric, and when: faults of packets by probability, and faults of hosts and paths by
//! schedule.

mod cuts;
mod packets;
mod schedule;

pub use cuts::Cuts;
pub use packets::{Fate, PacketFaults};
pub use schedule::{Action, Schedule, ScheduleError, Scheduled};
