//! What happens to hosts and paths at which time.

use std::io;

use farcall_base::Instant;
use serde::Deserialize;

use super::PacketFaults;
use crate::config::{self, ConfigError};
use crate::time::Picos;
use crate::values;

/// Faults of a run. Its TOML form is described in `docs/simulation.md`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// What strikes packets from the beginning.
    #[serde(default)]
    pub packets: PacketFaults,
    /// What happens when, in any order.
    #[serde(default, rename = "event")]
    pub events: Vec<Scheduled>,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// When.
    #[serde(rename = "at_us", deserialize_with = "values::micros")]
    pub at: Picos,
    /// What.
    pub action: Action,
}

/// What can happen to hosts and paths. Hosts are given by number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Other faults strike packets from now on.
    Packets(PacketFaults),
    /// Other faults strike packets to these hosts from now on, in the place of those that strike all.
    Towards {
        /// The hosts.
        hosts: Vec<u32>,
        /// What strikes packets to them.
        packets: PacketFaults,
    },
    /// What these hosts send does not reach those any more, nor the other way round unless it is `one_way`.
    Partition {
        /// These hosts.
        from: Vec<u32>,
        /// Those hosts.
        to: Vec<u32>,
        /// Whether the other direction stays whole.
        #[serde(default)]
        one_way: bool,
    },
    /// All hosts reach each other again.
    Heal,
    /// Their processors stand still; packets still arrive.
    Pause(Vec<u32>),
    /// Their processors go on.
    Resume(Vec<u32>),
    /// Their programs end, with all they had sent that has not left yet.
    Crash(Vec<u32>),
    /// Those that are down start again.
    Restart(Vec<u32>),
    /// Everything takes their processors `factor` times as long; 1 ends it.
    Slow {
        /// The hosts.
        hosts: Vec<u32>,
        /// How many times as long.
        #[serde(deserialize_with = "values::positive_count")]
        factor: usize,
    },
}

/// Why a schedule cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The file cannot be read: correct its name.
    #[error("the fault schedule `{file}` cannot be read: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The schedule says something wrong, or not enough: correct it.
    #[error("fault schedule {0}")]
    Wrong(#[from] ConfigError),
    /// It speaks of a host that the fabric does not have: correct the number.
    #[error("the fault schedule names host {host}, and the last of the {hosts} hosts is {}", hosts - 1)]
    NoSuchHost {
        /// The host.
        host: u32,
        /// How many there are.
        hosts: usize,
    },
}

impl Schedule {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that happens at a time.
    #[must_use]
    pub fn at(mut self, at: Instant, action: Action) -> Self {
        self.events.push(Scheduled { at: Picos::from(at), action });
        self
    }

    /// The schedule in a file.
    pub fn load(file: &str) -> Result<Self, ScheduleError> {
        let unreadable = |source| ScheduleError::Unreadable { file: file.to_owned(), source };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        Self::parse(file, &text)
    }

    /// The schedule in `text`, known by `name` in messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScheduleError> {
        Ok(config::read(name, text, &[])?)
    }

    /// Whether all hosts are among the first `hosts`.
    pub fn check(&self, hosts: usize) -> Result<(), ScheduleError> {
        self.events.iter().try_for_each(|event| event.action.check(hosts))
    }
}

impl Action {
    /// Whether all hosts are among the first `hosts`.
    pub(crate) fn check(&self, hosts: usize) -> Result<(), ScheduleError> {
        match self.named().into_iter().flatten().find(|host| **host as usize >= hosts) {
            Some(host) => Err(ScheduleError::NoSuchHost { host: *host, hosts }),
            None => Ok(()),
        }
    }

    /// The hosts that it names.
    fn named(&self) -> [&[u32]; 2] {
        match self {
            Self::Packets(_) | Self::Heal => [&[], &[]],
            Self::Partition { from, to, .. } => [from, to],
            Self::Pause(hosts) | Self::Resume(hosts) | Self::Crash(hosts) | Self::Restart(hosts) => {
                [hosts, &[]]
            }
            Self::Slow { hosts, .. } | Self::Towards { hosts, .. } => [hosts, &[]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = "
        packets = { drop = 0.01, delay = 0.5, delay_us = 20 }
        [[event]]
        at_us = 100
        action = { partition = { from = [0, 1], to = [2], one_way = true } }
        [[event]]
        at_us = 150.5
        action = 'heal'
        [[event]]
        at_us = 200
        action = { crash = [3] }
        [[event]]
        at_us = 300
        action = { restart = [3] }
        [[event]]
        at_us = 300
        action = { slow = { hosts = [0], factor = 10 } }
        [[event]]
        at_us = 400
        action = { packets = {} }
    ";

    #[test]
    fn a_schedule_is_read_from_toml() {
        let schedule = Schedule::parse("faults.toml", EVERYTHING).unwrap_or_else(|error| panic!("{error}"));
        let micros = |micros: f64| Picos::from_nanos_f64(micros * 1e3);
        assert_eq!((schedule.packets.drop, schedule.packets.delay_max), (0.01, micros(20.0)));
        let partition = Action::Partition { from: vec![0, 1], to: vec![2], one_way: true };
        assert_eq!(schedule.events[0], Scheduled { at: micros(100.0), action: partition });
        assert_eq!(schedule.events[1], Scheduled { at: micros(150.5), action: Action::Heal });
        assert_eq!(schedule.events[4].action, Action::Slow { hosts: vec![0], factor: 10 });
        assert_eq!(schedule.events[5].action, Action::Packets(PacketFaults::default()));
        assert!(schedule.check(4).is_ok());
        let error = schedule.check(3).expect_err("host 3 is one too many").to_string();
        assert!(error.contains("host 3") && error.contains("the 3 hosts is 2"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_field() {
        for (text, said) in [
            ("packets = { drop = 2 }", "`packets.drop`: must be from 0 to 1, not 2"),
            ("packets = { lose = 1 }", "unknown field `lose`"),
            ("[[event]]\nat_us = 1\naction = 'explode'", "`event[0].action`: unknown variant `explode`"),
            ("[[event]]\nat_us = -1\naction = 'heal'", "`event[0].at_us`: must be from 0"),
            ("[[event]]\naction = 'heal'", "missing field `at_us`"),
        ] {
            let error = Schedule::parse("faults.toml", text).expect_err(text).to_string();
            assert!(error.contains(said) && error.contains("`faults.toml`"), "{error}");
        }
    }
}
