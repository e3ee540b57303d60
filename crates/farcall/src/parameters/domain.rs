//! Which values a parameter may take, and how text becomes one of them.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use super::Value;
use super::choice::Choice;
use super::name::{NAME_BYTES_MAX, Name, Text};
use super::nearest::nearest;
use super::quantity::{show_duration, show_size, wide_duration, wide_integer, wide_size};
use super::sizes::{SIZES_MAX, Sizes};

/// The word for "let the program choose", where a parameter allows it.
pub(super) const AUTO: &str = "auto";

/// The values that a parameter may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The type and range.
    pub kind: Kind,
    /// Whether `auto` is a value too.
    pub auto: bool,
}

/// Type and range of a parameter. All bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count of something.
    Integer {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A number of bytes.
    Size {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
        /// Whether only powers of two are valid; the bounds are then powers of two.
        power_of_two: bool,
    },
    /// A span of time.
    Duration {
        /// The least value.
        min: Duration,
        /// The greatest value.
        max: Duration,
    },
    /// `true` or `false`, also written `on` or `off`.
    Boolean,
    /// One of several words.
    Choice(&'static [&'static str]),
    /// An IPv4 or IPv6 address without a port.
    IpAddress,
    /// A word of the user's own: the name of something.
    Name,
    /// An absolute path.
    Path,
    /// Which processes of the machine may share memory.
    Allow,
    /// Numbers of bytes, ascending.
    Sizes {
        /// The least value.
        min: u32,
        /// The greatest value.
        max: u32,
        /// The most values.
        count_max: usize,
    },
}

/// Why a text is not a value of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Of the right type and outside the range.
    OutOfRange {
        /// The valid value closest to it.
        nearest: Value,
    },
    /// Within the range and not a power of two.
    NotPowerOfTwo {
        /// The valid value closest to it.
        nearest: Value,
    },
    /// Not one of the words.
    NotAChoice {
        /// The word most like it.
        nearest: Value,
    },
    /// Of another type.
    WrongKind,
}

impl Domain {
    /// A count of `unit` from `min` to `max`.
    pub(super) const fn integer(min: u64, max: u64, unit: &'static str) -> Self {
        Self { kind: Kind::Integer { min, max, unit }, auto: false }
    }

    /// A number of bytes from `min` to `max`.
    pub(super) const fn size(min: u64, max: u64) -> Self {
        Self { kind: Kind::Size { min, max, power_of_two: false }, auto: false }
    }

    /// A power of two of bytes from `min` to `max`, which are powers of two themselves.
    pub(super) const fn power_of_two(min: u64, max: u64) -> Self {
        assert!(min.is_power_of_two() && max.is_power_of_two(), "the bounds must be valid values");
        Self { kind: Kind::Size { min, max, power_of_two: true }, auto: false }
    }

    /// A span of time from `min` to `max`.
    pub(super) const fn duration(min: Duration, max: Duration) -> Self {
        Self { kind: Kind::Duration { min, max }, auto: false }
    }

    /// `true` or `false`.
    pub(super) const fn boolean() -> Self {
        Self { kind: Kind::Boolean, auto: false }
    }

    /// One of the words of `T`.
    pub(super) const fn choice<T: Choice>() -> Self {
        Self { kind: Kind::Choice(T::WORDS), auto: false }
    }

    /// An IP address.
    pub(super) const fn ip_address() -> Self {
        Self { kind: Kind::IpAddress, auto: false }
    }

    /// The name of something.
    pub(super) const fn name() -> Self {
        Self { kind: Kind::Name, auto: false }
    }

    /// An absolute path.
    pub(super) const fn path() -> Self {
        Self { kind: Kind::Path, auto: false }
    }

    /// Which processes of the machine may share memory.
    pub(super) const fn allow() -> Self {
        Self { kind: Kind::Allow, auto: false }
    }

    /// Up to `count_max` numbers of bytes from `min` to `max`, ascending.
    pub(super) const fn sizes(min: u32, max: u32, count_max: usize) -> Self {
        assert!(count_max <= SIZES_MAX, "a list holds no more");
        Self { kind: Kind::Sizes { min, max, count_max }, auto: false }
    }

    /// Also allows `auto`; the typed field is then an `Option`, `None` for `auto`.
    pub(super) const fn or_auto(self) -> Self {
        Self { auto: true, ..self }
    }

    /// Reads a value.
    pub fn parse(&self, text: &str) -> Result<Value, Invalid> {
        let text = text.trim();
        if self.auto && text == AUTO {
            return Ok(Value::Auto);
        }
        match self.kind {
            Kind::Integer { min, max, .. } => {
                in_range(wide_integer(text), min, max, Value::Integer).map(Value::Integer)
            }
            Kind::Size { min, max, power_of_two } => parse_size(text, min, max, power_of_two),
            Kind::Duration { min, max } => {
                let value = |nanos| Value::Duration(Duration::from_nanos(nanos));
                in_range(wide_duration(text), nanos(min), nanos(max), value).map(value)
            }
            Kind::Boolean => match text {
                "true" | "on" => Ok(Value::Boolean(true)),
                "false" | "off" => Ok(Value::Boolean(false)),
                _ => Err(Invalid::WrongKind),
            },
            Kind::Choice(words) => parse_choice(text, words),
            Kind::IpAddress => text.parse::<IpAddr>().map(Value::IpAddress).map_err(|_| Invalid::WrongKind),
            Kind::Name => Name::parse(text).map(Value::Name).ok_or(Invalid::WrongKind),
            Kind::Path => text_that(text, |text| text.starts_with('/')),
            Kind::Allow => text_that(text, is_rule),
            Kind::Sizes { min, max, count_max } => parse_sizes(text, min, max, count_max),
        }
    }

    /// What is counted: `bytes`, `time`, a parameter's own unit, or nothing.
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Integer { unit, .. } => unit,
            Kind::Size { .. } | Kind::Sizes { .. } => "bytes",
            Kind::Duration { .. } => "time",
            Kind::Boolean | Kind::Choice(_) | Kind::IpAddress => "",
            Kind::Name | Kind::Path | Kind::Allow => "",
        }
    }
}

/// The valid values in words, such as `a power of two from 4K to 64M`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.auto {
            let others = if self.kind == Kind::Boolean { "," } else { " or" };
            write!(f, "{AUTO}{others} ")?;
        }
        match self.kind {
            Kind::Integer { min, max, .. } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max, power_of_two } => {
                let what = if power_of_two { "a power of two" } else { "a size" };
                write!(f, "{what} from {} to {}", show_size(min), show_size(max))
            }
            Kind::Duration { min, max } => {
                write!(f, "a duration from {} to {}", show_duration(min), show_duration(max))
            }
            Kind::Boolean => f.write_str("true or false"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::IpAddress => f.write_str("an IP address such as 127.0.0.1"),
            Kind::Name => write!(f, "a name of up to {NAME_BYTES_MAX} characters without spaces"),
            Kind::Path => f.write_str("an absolute path without spaces"),
            Kind::Allow => f.write_str("same-user, group:G, users:A,B or any"),
            Kind::Sizes { min, max, count_max } => {
                let (min, max) = (show_size(u64::from(min)), show_size(u64::from(max)));
                write!(f, "up to {count_max} ascending sizes from {min} to {max}, between commas")
            }
        }
    }
}

fn text_that(text: &str, is_valid: impl FnOnce(&str) -> bool) -> Result<Value, Invalid> {
    Text::parse(text).filter(|_| is_valid(text)).map(Value::Text).ok_or(Invalid::WrongKind)
}

/// Whether a text has the form of a rule; whether its names exist is seen where it is applied.
fn is_rule(text: &str) -> bool {
    match text.split_once(':') {
        None => matches!(text, "same-user" | "any"),
        Some(("group", group)) => !group.is_empty() && !group.contains(','),
        Some(("users", users)) => users.split(',').all(|user| !user.is_empty()),
        Some(_) => false,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn in_range(wide: Option<u128>, min: u64, max: u64, value: impl Fn(u64) -> Value) -> Result<u64, Invalid> {
    match wide.ok_or(Invalid::WrongKind)? {
        number if number < u128::from(min) => Err(Invalid::OutOfRange { nearest: value(min) }),
        number if number > u128::from(max) => Err(Invalid::OutOfRange { nearest: value(max) }),
        number => Ok(number as u64),
    }
}

fn parse_size(text: &str, min: u64, max: u64, power_of_two: bool) -> Result<Value, Invalid> {
    let bytes = in_range(wide_size(text), min, max, Value::Size)?;
    if !power_of_two || bytes.is_power_of_two() {
        return Ok(Value::Size(bytes));
    }
    // Both neighbours are within the range, because its bounds are powers of two.
    let above = bytes.next_power_of_two();
    let below = above / 2;
    let nearest = if bytes - below <= above - bytes { below } else { above };
    Err(Invalid::NotPowerOfTwo { nearest: Value::Size(nearest) })
}

fn parse_sizes(text: &str, min: u32, max: u32, count_max: usize) -> Result<Value, Invalid> {
    let sizes = Sizes::parse(text).filter(|sizes| sizes.as_slice().len() <= count_max);
    let sizes = sizes.ok_or(Invalid::WrongKind)?;
    match sizes.clamp(min, max) {
        nearest if nearest != sizes => Err(Invalid::OutOfRange { nearest: Value::Sizes(nearest) }),
        sizes => Ok(Value::Sizes(sizes)),
    }
}

fn parse_choice(text: &str, words: &'static [&'static str]) -> Result<Value, Invalid> {
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(Value::Choice(word)),
        None => Err(Invalid::NotAChoice { nearest: Value::Choice(nearest(text, words.iter().copied())) }),
    }
}
