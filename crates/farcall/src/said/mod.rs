//! What the library and its programs say on standard error beside their results: by kinds, each with a level
//! and a limit, so that nothing that happens often, or that a peer can make happen, fills a log.
//!
//! Of a kind the first messages of a period are said, the others are counted, and when the period is over
//! their number is. The parameter `log.level` says which levels are said at all.
//!
//! ```
//! use farcall::said::{Kind, Level};
//!
//! static ORDERS_REFUSED: Kind = Kind::new(Level::Warning, "orders that were refused");
//!
//! ORDERS_REFUSED.say(format_args!("order 7 is refused: there are no nails"));
//! ```

mod later;
mod limiter;

use core::fmt::Display;
use core::sync::atomic::{AtomicU8, Ordering};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::parameters::{LogLevel, Settings};
use limiter::{Admitted, Limiter};
pub use limiter::{MESSAGES_OF_PERIOD, PERIOD};

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work any more.
    Error = 1,
    /// Something is not as it should be, and goes on.
    Warning = 2,
    /// Something that somebody may wait for.
    Info = 3,
}

/// The last level that is said; 0 says nothing.
static UP_TO: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// From now on the process says what the settings want: those that were heeded last hold. Every node that is
/// made heeds its own.
pub fn heed(settings: &Settings) {
    let up_to = match settings.log.level {
        LogLevel::Off => 0,
        LogLevel::Errors => Level::Error as u8,
        LogLevel::Warnings => Level::Warning as u8,
        LogLevel::All => Level::Info as u8,
    };
    UP_TO.store(up_to, Ordering::Relaxed);
}

/// Messages about the same thing: they share a limit.
#[derive(Debug)]
pub struct Kind {
    level: Level,
    /// What they are about, in the plural.
    words: &'static str,
    limiter: Mutex<Limiter>,
}

impl Kind {
    /// A kind; `words` say in the plural what its messages are about.
    pub const fn new(level: Level, words: &'static str) -> Self {
        Self { level, words, limiter: Mutex::new(Limiter::new()) }
    }

    /// Says a sentence, or counts it. Whoever says something does not end if nobody can read it.
    pub fn say(&'static self, what: impl Display) {
        if self.level as u8 > UP_TO.load(Ordering::Relaxed) {
            return;
        }
        let admitted = self.limiter().admit(std::process::id(), Instant::now());
        match admitted {
            Admitted::Said { left_out } => {
                left_out.into_iter().for_each(|left_out| self.say_left_out(left_out));
                write(format_args!("farcall: {what}"));
            }
            Admitted::LeftOut { is_first: true } => later::remind(self),
            Admitted::LeftOut { is_first: false } => {}
        }
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_left_out(&self, left_out: u64) {
        write(left_out_line(left_out, self.words));
    }
}

fn left_out_line(left_out: u64, words: &str) -> String {
    format!("farcall: … {} more of this kind in {} s: {words}", grouped(left_out), PERIOD.as_secs())
}

fn write(line: impl Display) {
    let _unread = writeln!(io::stderr(), "{line}");
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_said_in_words() {
        let line = left_out_line(3120, "refusals by the policy");
        assert_eq!(line, "farcall: … 3,120 more of this kind in 10 s: refusals by the policy");
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
