//! One parameter's value, as text can give it and as the typed fields of the settings hold it.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use super::domain::{AUTO, Kind};
use super::name::{Name, Text};
use super::quantity::{show_duration, show_size};
use super::sizes::Sizes;

/// A value whose type is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count.
    Integer(u64),
    /// A number of bytes.
    Size(u64),
    /// A span of time.
    Duration(Duration),
    /// Yes or no.
    Boolean(bool),
    /// One of the words of a choice.
    Choice(&'static str),
    /// An address without a port.
    IpAddress(IpAddr),
    /// The name of something.
    Name(Name),
    /// A path or a rule.
    Text(Text),
    /// Several numbers of bytes, ascending.
    Sizes(Sizes),
    /// Left to the program.
    Auto,
}

/// The text that [`super::Domain::parse`] reads as the same value.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Size(bytes) => f.write_str(&show_size(*bytes)),
            Self::Duration(duration) => f.write_str(&show_duration(*duration)),
            Self::Boolean(yes) => write!(f, "{yes}"),
            Self::Choice(word) => f.write_str(word),
            Self::IpAddress(address) => write!(f, "{address}"),
            Self::Name(name) => write!(f, "{name}"),
            Self::Text(text) => write!(f, "{text}"),
            Self::Sizes(sizes) => write!(f, "{sizes}"),
            Self::Auto => f.write_str(AUTO),
        }
    }
}

/// A type that a field of the settings can have.
///
/// The declaration pairs each field with a domain; a test sets every parameter to each of its bounds, so that
/// the panics for values outside a field's type cannot be reached from text.
pub(super) trait Field: Sized {
    /// The field's content for a value of the field's domain.
    fn from_value(value: Value) -> Self;

    /// The value for the field's content.
    fn to_value(&self, kind: &Kind) -> Value;
}

macro_rules! whole_number_fields {
    ($($number:ty),+) => {$(
        impl Field for $number {
            fn from_value(value: Value) -> Self {
                match value {
                    Value::Integer(number) | Value::Size(number) => {
                        number.try_into().expect("the declared range fits the field's type")
                    }
                    other => unreachable!("{other} is not a whole number, which the declaration promised"),
                }
            }

            fn to_value(&self, kind: &Kind) -> Value {
                match kind {
                    Kind::Size { .. } => Value::Size(*self as u64),
                    _ => Value::Integer(*self as u64),
                }
            }
        }
    )+};
}

whole_number_fields!(u8, u16, u32, u64, usize);

impl Field for Duration {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Duration(duration) => duration,
            other => unreachable!("{other} is not a duration, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Duration(*self)
    }
}

impl Field for bool {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Boolean(yes) => yes,
            other => unreachable!("{other} is not a boolean, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Boolean(*self)
    }
}

impl Field for IpAddr {
    fn from_value(value: Value) -> Self {
        match value {
            Value::IpAddress(address) => address,
            other => unreachable!("{other} is not an address, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::IpAddress(*self)
    }
}

impl Field for Name {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Name(name) => name,
            other => unreachable!("{other} is not a name, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Name(*self)
    }
}

impl Field for Text {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Text(text) => text,
            other => unreachable!("{other} is not a path or a rule, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Text(*self)
    }
}

impl Field for Sizes {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Sizes(sizes) => sizes,
            other => unreachable!("{other} is not a list of sizes, which the declaration promised"),
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Sizes(*self)
    }
}

/// `None` stands for `auto`.
impl<T: Field> Field for Option<T> {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Auto => None,
            other => Some(T::from_value(other)),
        }
    }

    fn to_value(&self, kind: &Kind) -> Value {
        self.as_ref().map_or(Value::Auto, |field| field.to_value(kind))
    }
}
