//! Ranges: `1..256 *2` is 1, 2, 4 … 256, and `0..100 +10` is 0, 10, 20 … 100.

use super::value::{Kind, Value};

/// The most values of one parameter. More would not be tuning but a sweep.
pub const LEVELS_MAX: usize = 4096;

/// A range with its step, as a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The values, from the first to the last.
    pub values: Vec<f64>,
    /// The end that was asked for, when no step arrives there.
    pub missed_end: Option<f64>,
}

/// How one value follows from the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// By addition.
    Add(f64),
    /// By multiplication. Nought is followed by one.
    Multiply(f64),
}

/// Why a range has no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// It cannot be read.
    #[error("`{text}` is not a range; write first..last and a step, such as `1..256 *2` or `0..100 +10`")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// The step does not lead from the first to the last value.
    #[error("the range `{text}` is empty: its step does not lead from the first value to the last")]
    Empty {
        /// What was written.
        text: String,
    },
    /// More than anybody would try.
    #[error("the range `{text}` has more than {LEVELS_MAX} values; choose a larger step")]
    TooLong {
        /// What was written.
        text: String,
    },
}

impl Grid {
    /// Reads a range whose ends, and whose added step, are values of `kind`.
    pub fn read(text: &str, kind: Kind) -> Result<Self, GridError> {
        let malformed = || GridError::Malformed { text: text.to_owned() };
        let (first, rest) = text.split_once("..").ok_or_else(malformed)?;
        let (last, step) = rest.trim().split_once(char::is_whitespace).ok_or_else(malformed)?;
        let number = |text: &str, kind: Kind| match kind.read(text) {
            Ok(Value::Number(number)) => Ok(number),
            _ => Err(malformed()),
        };
        let (first, last, step) = (number(first, kind)?, number(last, kind)?, step.trim());
        let step = match (step.strip_prefix('*'), step.strip_prefix('+')) {
            (Some(factor), _) => Step::Multiply(number(factor, Kind::Real)?),
            (_, Some(summand)) => Step::Add(number(summand, kind)?),
            _ => return Err(malformed()),
        };
        Self::new(first, last, step).map_err(|failure| failure.of(text))
    }

    /// The values from `first` to at most `last`.
    pub fn new(first: f64, last: f64, step: Step) -> Result<Self, GridFailure> {
        let mut values: Vec<f64> = Vec::new();
        let mut value = first;
        while value <= last {
            if values.len() == LEVELS_MAX {
                return Err(GridFailure::TooLong);
            }
            values.push(value);
            let next = step.after(first, value, values.len());
            if next <= value {
                return Err(GridFailure::Empty);
            }
            value = next;
        }
        let end = *values.last().ok_or(GridFailure::Empty)?;
        let missed_end = (last - end > (last - first).abs() * 1e-9).then_some(last);
        Ok(Self { values, missed_end })
    }
}

/// Why a first value, a last value and a step have no values, without the text that they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridFailure {
    /// The step leads nowhere.
    Empty,
    /// More than [`LEVELS_MAX`] values.
    TooLong,
}

impl GridFailure {
    /// With the text that they came from.
    pub fn of(self, text: &str) -> GridError {
        let text = text.to_owned();
        match self {
            Self::Empty => GridError::Empty { text },
            Self::TooLong => GridError::TooLong { text },
        }
    }
}

impl Step {
    /// The value after `value`, as the `count`th one. Sums are computed from the start, so that errors do not
    /// add up.
    fn after(self, first: f64, value: f64, count: usize) -> f64 {
        match self {
            Self::Add(summand) => {
                let next = first + summand * count as f64;
                // Tenths are no binary fractions: 0.1 + 2 * 0.1 should not be shown as 0.30000000000000004.
                if summand.fract() == 0.0 && first.fract() == 0.0 { next } else { rounded(next) }
            }
            Self::Multiply(factor) if value == 0.0 && factor > 1.0 => 1.0,
            Self::Multiply(factor) => rounded(value * factor),
        }
    }
}

/// Twelve significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, kind: Kind) -> Vec<f64> {
        Grid::read(text, kind).expect(text).values
    }

    #[test]
    fn steps_add_or_multiply() {
        assert_eq!(values("1..256 *2", Kind::Integer), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        assert_eq!(values("0..30 +10", Kind::Integer), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(values("64K..256K *2", Kind::Size), [65536.0, 131072.0, 262144.0]);
        assert_eq!(values("10us..30us +10us", Kind::Duration), [10_000.0, 20_000.0, 30_000.0]);
        assert_eq!(values("0.1..0.3 +0.1", Kind::Real), [0.1, 0.2, 0.3]);
        assert_eq!(values("0..4 *2", Kind::Integer), [0.0, 1.0, 2.0, 4.0]);
    }

    #[test]
    fn an_end_that_is_not_reached_is_told() {
        assert_eq!(Grid::read("1..100 *2", Kind::Integer).map(|grid| grid.missed_end), Ok(Some(100.0)));
        assert_eq!(Grid::read("0..1 +0.1", Kind::Real).map(|grid| grid.missed_end), Ok(None));
    }

    #[test]
    fn ranges_without_values_are_refused() {
        let empty = |text: &str| Err(GridError::Empty { text: text.to_owned() });
        for text in ["8..1 *2", "1..8 *1", "1..8 +0", "1..8 +-1"] {
            assert_eq!(Grid::read(text, Kind::Integer), empty(text));
        }
        for text in ["1", "1..8", "1..8 2", "a..8 *2", "1..8 *x"] {
            assert_eq!(Grid::read(text, Kind::Integer), Err(GridError::Malformed { text: text.to_owned() }));
        }
        let long = "1..10000 +1".to_owned();
        assert_eq!(Grid::read(&long, Kind::Integer), Err(GridError::TooLong { text: long }));
    }
}
