//! Sizes as the command line takes them, and times as people read them.
//!
//! The notation is that of the parameters, so that `--sizes 1M` and `--set ring.ring_bytes=1M` mean the same.
//! Sizes are binary, as in clusterperf: `1K` is 1024 bytes.

use core::fmt;
use core::str::FromStr;

use farcall::parameters::quantity::{parse_size, show_size};

/// A number of bytes, read and written with a binary suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let wrong = || SizeError { text: text.to_owned() };
        let bytes = parse_size(text).map_err(|_| wrong())?;
        usize::try_from(bytes).map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_size(self.0 as u64))
    }
}

/// What was written is not a size, or one that no memory holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size; write a whole number of bytes such as 100, 10K or 1M")]
pub struct SizeError {
    text: String,
}

/// A number of nanoseconds as clusterperf prints times: in microseconds, and long ones in milliseconds or
/// seconds.
pub fn in_readable_unit(nanos: f64) -> (f64, &'static str) {
    [(1e9, "s"), (1e6, "ms")]
        .into_iter()
        .find(|(factor, _)| nanos >= *factor)
        .map_or((nanos / 1e3, "us"), |(factor, unit)| (nanos / factor, unit))
}

/// A rate in the unit that leaves digits before the point: of a few a second nothing is left in millions.
pub fn rate_in_words(per_second: f64) -> String {
    let (value, prefix) = scaled(per_second);
    format!("{value:.2} {prefix}/s").replace(" /s", "/s")
}

/// Bits per second, the same way.
pub fn bits_in_words(per_second: f64) -> String {
    let (value, prefix) = scaled(per_second);
    let prefix = if prefix == "K" { "k" } else { prefix };
    format!("{value:.*} {prefix}b/s", usize::from(value < 10.0))
}

/// A time in words.
pub fn time_in_words(nanos: f64) -> String {
    let (value, unit) = in_readable_unit(nanos);
    format!("{value:.2} {unit}")
}

fn scaled(value: f64) -> (f64, &'static str) {
    [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")]
        .into_iter()
        .find(|(factor, _)| value >= *factor)
        .map_or((value, ""), |(factor, prefix)| (value / factor, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_survive_printing() {
        for (text, bytes) in [("100", 100), ("1K", 1024), ("10K", 10_240), ("1M", 1 << 20), ("1000", 1000)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_size_is_named_in_the_refusal() {
        for text in ["", "1.5K", "ten", "-1", "99999999T"] {
            let refusal = text.parse::<Size>().expect_err("not a size").to_string();
            assert!(refusal.starts_with(&format!("`{text}` is not a size; ")), "{refusal}");
        }
    }

    #[test]
    fn times_get_the_unit_that_suits_them() {
        assert_eq!(in_readable_unit(131.0), (0.131, "us"));
        assert_eq!(in_readable_unit(1310.0), (1.31, "us"));
        assert_eq!(in_readable_unit(13e6), (13.0, "ms"));
        assert_eq!(in_readable_unit(2e9), (2.0, "s"));
    }

    #[test]
    fn rates_get_the_unit_that_suits_them() {
        let rates = [83.1, 617.1, 18_904.0, 4.2e6].map(rate_in_words);
        assert_eq!(rates, ["83.10/s", "617.10/s", "18.90 K/s", "4.20 M/s"]);
        let bits = [800.0, 56_000.0, 4.09e9, 37.2e9, 1.6e12].map(bits_in_words);
        assert_eq!(bits, ["800 b/s", "56 kb/s", "4.1 Gb/s", "37 Gb/s", "1.6 Tb/s"]);
        assert_eq!([800.0, 12_033_690.0].map(time_in_words), ["0.80 us", "12.03 ms"]);
    }
}
