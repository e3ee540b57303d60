//! The values that parameters take, and how they are read and written.

use core::fmt;
use core::time::Duration;

use farcall::parameters::quantity::{parse_duration, parse_size, show_duration, show_size};

/// A value: what expressions compute with.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number. Sizes are in bytes, durations in nanoseconds. Whole numbers are exact up to 2^53.
    Number(f64),
    /// A word, such as `auto` or the name of an algorithm.
    Word(String),
    /// True or false.
    Flag(bool),
}

/// Whole numbers from here on are not exact, so none is accepted.
pub const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// What kind of values a parameter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Any numbers.
    Real,
    /// Numbers of bytes, with or without a binary suffix.
    Size,
    /// Spans of time, with their unit.
    Duration,
    /// True and false.
    Boolean,
    /// Words that have an order, such as levels of effort.
    Ordinal,
    /// Words without an order.
    Categorical,
}

impl Kind {
    /// Whether values have an order, so that some are neighbours and some are extremes.
    pub fn is_ordered(self) -> bool {
        self != Self::Categorical
    }

    /// Reads a value of this kind. Where numbers are expected, a word such as `auto` or `inf` is a value too.
    pub fn read(self, text: &str) -> Result<Value, ValueError> {
        let text = text.trim();
        let number = match self {
            Self::Integer => text.parse::<i64>().ok().map(|number| number as f64),
            Self::Real => text.parse::<f64>().ok().filter(|number| number.is_finite()),
            Self::Size => parse_size(text).ok().map(|bytes| bytes as f64),
            Self::Duration => parse_duration(text).ok().map(|span| span.as_nanos() as f64),
            Self::Boolean => {
                return match text {
                    "true" | "on" | "yes" | "y" | "1" => Ok(Value::Flag(true)),
                    "false" | "off" | "no" | "n" | "0" => Ok(Value::Flag(false)),
                    _ => Err(ValueError { text: text.to_owned(), expected: self.expected() }),
                };
            }
            Self::Ordinal | Self::Categorical => return Ok(Value::Word(text.to_owned())),
        };
        match number {
            Some(number) if number.abs() < NUMBER_MAX => Ok(Value::Number(number)),
            None if is_word(text) => Ok(Value::Word(text.to_owned())),
            _ => Err(ValueError { text: text.to_owned(), expected: self.expected() }),
        }
    }

    /// Writes a value as people read it.
    pub fn show(self, value: &Value) -> String {
        match (self, value) {
            (Self::Size, Value::Number(bytes)) if *bytes >= 0.0 => show_size(*bytes as u64),
            (Self::Duration, Value::Number(nanos)) if *nanos >= 0.0 => {
                show_duration(Duration::from_nanos(*nanos as u64))
            }
            _ => value.to_string(),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Integer => "a whole number such as 8",
            Self::Real => "a number such as 0.5",
            Self::Size => "a size such as 100, 4K or 1M",
            Self::Duration => "a duration such as 10us or 1ms",
            Self::Boolean => "true or false",
            Self::Ordinal | Self::Categorical => "a word",
        }
    }
}

/// What is written is not a value of the kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ValueError {
    text: String,
    expected: &'static str,
}

/// Plain: sizes as bytes, durations as nanoseconds.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// Letters first, so that a mistyped number is not taken for one.
fn is_word(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(char::is_alphabetic)
        && characters.all(|character| character.is_alphanumeric() || "_-.".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_notation_of_their_kind() {
        let number = |kind: Kind, text| match kind.read(text) {
            Ok(Value::Number(number)) => number,
            other => panic!("{text} gave {other:?}"),
        };
        assert_eq!(number(Kind::Integer, "-3"), -3.0);
        assert_eq!(number(Kind::Size, "64K"), 65536.0);
        assert_eq!(number(Kind::Duration, "10us"), 10_000.0);
        assert_eq!(number(Kind::Real, "0.25"), 0.25);
        assert_eq!(Kind::Boolean.read("y"), Ok(Value::Flag(true)));
        assert_eq!(Kind::Size.read("auto"), Ok(Value::Word("auto".to_owned())));
        assert_eq!(Kind::Categorical.read("64K"), Ok(Value::Word("64K".to_owned())));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let wrong = [
            (Kind::Integer, "8.5"),
            (Kind::Integer, "9007199254740993"),
            (Kind::Size, "64KB-"),
            (Kind::Duration, "10"),
            (Kind::Boolean, "maybe"),
            (Kind::Real, "1e400"),
        ];
        for (kind, text) in wrong {
            let error = kind.read(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a")) || kind == Kind::Boolean, "{error}");
        }
    }

    #[test]
    fn values_are_shown_with_their_units() {
        assert_eq!(Kind::Size.show(&Value::Number(65536.0)), "64K");
        assert_eq!(Kind::Duration.show(&Value::Number(1_500_000.0)), "1500us");
        assert_eq!(Kind::Integer.show(&Value::Number(-1.0)), "-1");
        assert_eq!(Kind::Size.show(&Value::Word("inf".to_owned())), "inf");
    }
}
