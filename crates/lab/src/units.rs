//! Sizes and durations as people write them: `100`, `10K`, `1M`; `10us`, `1ms`, `2s`.
//!
//! Sizes are binary, as in clusterperf: `1K` is 1024 bytes and `1M` is 1024 × 1024.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// A number of bytes, read and written with a binary suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size(pub usize);

/// The suffixes of sizes, the largest first.
const SIZE_SUFFIXES: [(&str, usize); 3] = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Size { text: text.to_owned() };
        let text = text.trim();
        let (number, factor) = SIZE_SUFFIXES
            .iter()
            .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|number| (number, *factor)))
            .unwrap_or((text, 1));
        let count: usize = parse_digits(number).ok_or_else(wrong)?;
        count.checked_mul(factor).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, factor) in SIZE_SUFFIXES {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{suffix}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A duration, read and written with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// The units of durations in nanoseconds, the largest first; `s` comes after those that end in it too.
const SPAN_UNITS: [(&str, u64); 4] = [("ms", 1_000_000), ("us", 1_000), ("ns", 1), ("s", 1_000_000_000)];

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Span { text: text.to_owned() };
        let trimmed = text.trim();
        let (number, nanos) = SPAN_UNITS
            .iter()
            .find_map(|(unit, nanos)| trimmed.strip_suffix(unit).map(|number| (number, *nanos)))
            .ok_or_else(wrong)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let whole: u64 = parse_digits(whole).ok_or_else(wrong)?;
        let whole = whole.checked_mul(nanos).ok_or_else(wrong)?;
        let scale =
            10_u64.checked_pow(u32::try_from(fraction.len()).map_err(|_| wrong())?).ok_or_else(wrong)?;
        let fraction: u64 = parse_digits(fraction).ok_or_else(wrong)?;
        let fraction = (u128::from(fraction) * u128::from(nanos) / u128::from(scale)) as u64;
        whole.checked_add(fraction).map(|nanos| Self(Duration::from_nanos(nanos))).ok_or_else(wrong)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = in_readable_unit(self.0.as_nanos() as f64);
        write!(f, "{}{unit}", (value * 1000.0).round() / 1000.0)
    }
}

/// A number of nanoseconds in the unit in which it has one to three digits before the point.
pub fn in_readable_unit(nanos: f64) -> (f64, &'static str) {
    [(1e9, "s"), (1e6, "ms"), (1e3, "us")]
        .into_iter()
        .find(|(factor, _)| nanos >= *factor)
        .map_or((nanos, "ns"), |(factor, unit)| (nanos / factor, unit))
}

/// Digits only: no sign, no spaces, not empty.
fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Why a size or duration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size: write digits and at most one suffix.
    #[error("`{text}` is not a size; write a whole number of bytes such as 100, 10K or 1M (1K = 1024)")]
    Size {
        /// What was written.
        text: String,
    },
    /// Not a duration: write digits and a unit.
    #[error("`{text}` is not a duration; write a number with a unit, such as 10us, 1.5ms or 2s")]
    Span {
        /// What was written.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_survive_printing() {
        for (text, bytes) in
            [("0", 0), ("100", 100), ("1K", 1024), ("10K", 10_240), ("1M", 1 << 20), ("2G", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(Size(1000).to_string(), "1000");
        assert_eq!(Size(1536).to_string(), "1536");
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "K", "-1", "+1", "1.5K", "1k", "1KB", "ten", "1 000", "99999999999G", "0x10"] {
            assert_eq!(text.parse::<Size>(), Err(UnitError::Size { text: text.to_owned() }));
        }
    }

    #[test]
    fn durations_have_units_and_survive_printing() {
        for (text, nanos) in [("7ns", 7), ("10us", 10_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_nanos(nanos))));
            assert_eq!(Span(Duration::from_nanos(nanos)).to_string(), text);
        }
        assert_eq!("0s".parse(), Ok(Span(Duration::ZERO)));
        assert_eq!("0.25s".parse(), Ok(Span(Duration::from_millis(250))));
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            "10",
            "us",
            ".5s",
            "5.s",
            "1e3s",
            "-1s",
            "1 s",
            "1h",
            "99999999999999999999s",
            "1.00000000000000000000001s",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
