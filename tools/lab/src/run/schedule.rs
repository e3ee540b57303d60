//! What goes wrong at which time of a simulated measurement, from a file.

use core::str::FromStr;

use farcall::simulated::{Schedule, ScheduleError};
use serde_json::Value;

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Faults by schedule, and how they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSchedule {
    /// What happens when.
    pub schedule: Schedule,
    /// The same for records, which outlive the file.
    pub written: Value,
}

/// Why there is no schedule: correct the file.
#[derive(Debug, thiserror::Error)]
pub enum FaultScheduleError {
    /// It says something wrong, or cannot be read.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// It is longer than anybody writes.
    #[error("the fault schedule `{file}` is longer than {FILE_BYTES_MAX} bytes")]
    TooLong {
        /// The file.
        file: String,
    },
    /// It says nothing.
    #[error("the fault schedule `{file}` has neither `packets` nor an `event`")]
    Empty {
        /// The file.
        file: String,
    },
}

impl FromStr for FaultSchedule {
    type Err = FaultScheduleError;

    fn from_str(path: &str) -> Result<Self, FaultScheduleError> {
        let file = path.to_owned();
        let unreadable = |source| ScheduleError::Unreadable { file: file.clone(), source };
        if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
            return Err(FaultScheduleError::TooLong { file });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(path, &text)
    }
}

impl FaultSchedule {
    /// The schedule in `text`, known by `name` in messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, FaultScheduleError> {
        let schedule = Schedule::parse(name, text)?;
        if schedule == Schedule::new() {
            return Err(FaultScheduleError::Empty { file: name.to_owned() });
        }
        // It was just read as the same.
        let written = toml::from_str(text).unwrap_or(Value::Null);
        Ok(Self { schedule, written })
    }

    /// Refuses hosts that there are not.
    pub fn check(&self, hosts: usize) -> Result<(), ScheduleError> {
        self.schedule.check(hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSY: &str =
        "[[event]]\nat_us = 0\naction = { towards = { hosts = [3], packets = { drop = 0.1 } } }\n";

    #[test]
    fn a_schedule_is_kept_as_it_was_written_and_held_against_the_hosts() {
        let read = FaultSchedule::parse("lossy.toml", LOSSY).expect("it is right");
        assert_eq!(read.written["event"][0]["action"]["towards"]["packets"]["drop"], 0.1);
        assert!(read.check(4).is_ok());
        assert!(read.check(3).expect_err("the last is 2").to_string().contains("names host 3"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("", "has neither `packets` nor an `event`"),
            ("[[event]\n", "`lossy.toml`, line 1: "),
            ("[[event]]\nat_us = 1\naction = { towards = { hosts = [1] } }", "missing field `packets`"),
            ("[[event]]\nat_us = 1\naction = { toward = {} }", "unknown variant `toward`"),
        ] {
            let error = FaultSchedule::parse("lossy.toml", text).expect_err(text).to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(
            "/no/such/file"
                .parse::<FaultSchedule>()
                .expect_err("none")
                .to_string()
                .contains("cannot be read")
        );
    }
}
