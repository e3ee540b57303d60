//! Refusals on standard error, which a peer that asks again and again must not fill.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::{Duration, Instant as WallTime};

/// The time between two lines of one log.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Writes a line to standard error, if anybody reads that: whoever is refused must not end the process.
pub(super) fn say(line: &str) {
    let _unread = writeln!(io::stderr(), "{line}");
}

/// Says what was refused, at most once a second; of what is not said in between it says the number.
#[derive(Debug, Default)]
pub struct RefusalLog {
    said_at: Option<WallTime>,
    unsaid: u64,
}

impl RefusalLog {
    /// Something was refused, which a sentence says.
    pub fn refused(&mut self, what: impl Display) {
        if let Some(line) = self.line(what, WallTime::now()) {
            say(&line);
        }
    }

    fn line(&mut self, what: impl Display, now: WallTime) -> Option<String> {
        if self.said_at.is_some_and(|said_at| now.duration_since(said_at) < LINE_EVERY) {
            self.unsaid += 1;
            return None;
        }
        self.said_at = Some(now);
        Some(match core::mem::take(&mut self.unsaid) {
            0 => format!("farcall: {what}"),
            unsaid => format!("farcall: {what}; {unsaid} more were refused since the last such line"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_line_a_second_that_counts_the_others() {
        let (mut log, begin) = (RefusalLog::default(), WallTime::now());
        assert_eq!(log.line("no", begin), Some("farcall: no".to_owned()));
        for _ in 0..1000 {
            assert_eq!(log.line("no", begin + LINE_EVERY / 2), None);
        }
        let line = log.line("no", begin + LINE_EVERY).expect("a second is over");
        assert_eq!(line, "farcall: no; 1000 more were refused since the last such line");
        assert_eq!(log.line("no", begin + LINE_EVERY * 2), Some("farcall: no".to_owned()));
    }
}
