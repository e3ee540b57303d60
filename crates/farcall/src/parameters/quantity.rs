//! Sizes and durations as people write them: `4K` is 4096 bytes, `10us` ten microseconds.
//!
//! Numbers are whole. Sizes use powers of 1024 and need no unit; a duration must have one, because a bare
//! number would be read as seconds by one reader and as microseconds by the next.

use core::time::Duration;

/// One kibibyte.
pub const K: u64 = 1 << 10;
/// One mebibyte.
pub const M: u64 = 1 << 20;
/// One gibibyte.
pub const G: u64 = 1 << 30;
/// One tebibyte.
pub const T: u64 = 1 << 40;

/// Suffixes of sizes, largest first.
const SIZE_UNITS: [(&str, u64); 4] = [("T", T), ("G", G), ("M", M), ("K", K)];

/// Suffixes of durations with their nanoseconds, largest first.
const DURATION_UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Why a text is not a size or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a whole number of bytes, or with another suffix.
    #[error("not a size; write a whole number with K, M, G or T, such as 4K")]
    NotASize,
    /// Not a whole number with a unit of time.
    #[error("not a duration; write a whole number with ns, us, ms or s, such as 10us")]
    NotADuration,
    /// A number that 64 bits do not hold.
    #[error("too large; write a number that fits in 64 bits")]
    TooLarge,
}

/// Reads a size such as `100`, `4K` or `1M`, in bytes.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let bytes = wide_size(text).ok_or(QuantityError::NotASize)?;
    u64::try_from(bytes).map_err(|_| QuantityError::TooLarge)
}

/// Reads a duration such as `500ns`, `10us`, `1ms` or `2s`.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let nanos = wide_duration(text).ok_or(QuantityError::NotADuration)?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| QuantityError::TooLarge)
}

/// Writes a size with the largest unit that keeps it whole: 4096 is `4K`, 1000 is `1000`.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS, "")
}

/// Writes a duration with the largest unit that keeps it whole: 1500 microseconds are `1500us`.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), &DURATION_UNITS, "s")
}

/// A size that may be beyond any range; numbers that are too long even for 128 bits count as the largest.
pub(super) fn wide_size(text: &str) -> Option<u128> {
    let upper = text.trim().to_ascii_uppercase();
    let suffix = SIZE_UNITS.iter().find_map(|(unit, factor)| Some((upper.strip_suffix(unit)?, *factor)));
    let (digits, factor) = suffix.unwrap_or((&upper, 1));
    Some(wide_integer(digits)?.saturating_mul(u128::from(factor)))
}

/// A duration in nanoseconds that may be beyond any range.
pub(super) fn wide_duration(text: &str) -> Option<u128> {
    let text = text.trim();
    let digits_end = text.find(|character: char| !character.is_ascii_digit())?;
    let (digits, unit) = text.split_at(digits_end);
    let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    Some(wide_integer(digits)?.saturating_mul(u128::from(*factor)))
}

/// A whole number that may be beyond any range.
pub(super) fn wide_integer(text: &str) -> Option<u128> {
    let digits = text.trim();
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().unwrap_or(u128::MAX))
}

fn show(number: u64, units: &[(&str, u64)], unit_of_zero: &str) -> String {
    let fitting = units.iter().find(|(_, factor)| number != 0 && number.is_multiple_of(*factor));
    match fitting {
        Some((unit, factor)) => format!("{}{unit}", number / factor),
        None => format!("{number}{unit_of_zero}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units_of_either_case() {
        let cases =
            [("0", 0), ("100", 100), ("4K", 4096), ("4k", 4096), ("1M", M), (" 2G ", 2 * G), ("3T", 3 * T)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "K", "4KB", "1.5M", "-1", "+1", "4 apples", "0x10", "٣"] {
            assert_eq!(parse_size(text), Err(QuantityError::NotASize), "{text}");
        }
        for text in ["99999999T", "340282366920938463463374607431768211456"] {
            assert_eq!(parse_size(text), Err(QuantityError::TooLarge), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(parse_duration("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_duration("2 s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("0ns"), Ok(Duration::ZERO));
        for text in ["", "10", "us", "10 minutes", "1.5s", "-1s"] {
            assert_eq!(parse_duration(text), Err(QuantityError::NotADuration), "{text}");
        }
        assert_eq!(parse_duration("99999999999999s"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for bytes in [0, 1, 1000, 4096, 5 * K, 64 * M, G, u64::MAX] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
        for nanos in [0, 1, 1500, 1_000_000, 10_000_000_000, u64::MAX] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
        }
    }
}
