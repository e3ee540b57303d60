//! What goes wrong at which time of a simulated measurement, from a file.

use core::str::FromStr;

use farcall::simulated::{Schedule, ScheduleError};
use serde_json::Value;

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most events that a failure names one by one.
const EVENTS_SAID_MAX: usize = 4;

/// Faults by schedule, and how they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSchedule {
    /// The file, as messages call it.
    pub file: String,
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
        Ok(Self { file: name.to_owned(), schedule, written })
    }

    /// The text of a file that says what was `written`; `None` if that was no schedule.
    pub fn text(written: &Value) -> Option<String> {
        toml::to_string(written).ok()
    }

    /// That a measurement failed with these faults, for whoever reads why.
    pub fn blamed(&self, why: impl core::fmt::Display) -> String {
        let events = self.written.get("event").and_then(Value::as_array);
        let mut said: Vec<_> = events.into_iter().flatten().map(event_words).collect();
        if said.len() > EVENTS_SAID_MAX {
            let more = said.len() - EVENTS_SAID_MAX;
            said.truncate(EVENTS_SAID_MAX);
            said.push(format!("{more} more events"));
        }
        let packets = self.written.get("packets").map(|_| "`packets` from the beginning".to_owned());
        let said = packets.into_iter().chain(said).collect::<Vec<_>>().join(", ");
        format!(
            "{why}; it had the faults of --schedule {} ({said}), and an operation that one of them ends, ends the measurement",
            self.file
        )
    }

    /// Refuses hosts that there are not.
    pub fn check(&self, hosts: usize) -> Result<(), ScheduleError> {
        self.schedule.check(hosts)
    }
}

/// What an event does, to which hosts and when.
fn event_words(event: &Value) -> String {
    let at = event.get("at_us").map_or_else(String::new, Value::to_string);
    match event.get("action") {
        Some(Value::String(word)) => format!("`{word}` at {at} us"),
        Some(Value::Object(action)) => {
            let (kind, what) = action.iter().next().map_or(("", &Value::Null), |(kind, what)| (kind, what));
            let hosts = what.as_array().or_else(|| what.get("hosts")?.as_array());
            let hosts: Vec<_> = hosts.into_iter().flatten().map(Value::to_string).collect();
            let of = if hosts.is_empty() { String::new() } else { format!(" of {}", hosts.join(", ")) };
            format!("`{kind}`{of} at {at} us")
        }
        _ => format!("something at {at} us"),
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
        let text = FaultSchedule::text(&read.written).expect("it was a table");
        assert_eq!(FaultSchedule::parse("lossy.toml", &text).expect("it is right"), read);
        assert!(read.check(4).is_ok());
        assert!(read.check(3).expect_err("the last is 2").to_string().contains("names host 3"));
    }

    #[test]
    fn a_failure_names_the_file_and_its_first_events() {
        let crash = "[[event]]\nat_us = 40\naction = { crash = [0, 2] }\n";
        let heal = "[[event]]\nat_us = 41.5\naction = 'heal'\n";
        let read = FaultSchedule::parse("ends.toml", &[crash, heal, LOSSY].concat()).expect("it is right");
        let said = read.blamed("rank 1 failed");
        let begins = "rank 1 failed; it had the faults of --schedule ends.toml (`crash` of 0, 2 at 40 us, \
                      `heal` at 41.5 us, `towards` of 3 at 0 us)";
        assert!(said.starts_with(begins), "{said}");
        let many = FaultSchedule::parse("many.toml", &crash.repeat(6)).expect("it is right").blamed("why");
        assert!(many.contains("`crash` of 0, 2 at 40 us, 2 more events)"), "{many}");
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
