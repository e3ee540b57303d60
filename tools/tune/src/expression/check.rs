//! Conditions that cannot mean anything are found before anything runs: a number compared with a word, a sum
//! of words.

use core::fmt;
use core::ops::{BitAnd, BitOr};

use super::{Class, Expression};
use crate::space::Value;

/// What a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number.
    Number = 1,
    /// A word.
    Word = 2,
    /// True or false.
    Flag = 4,
}

/// Some types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types(u8);

/// Why a condition cannot mean anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// The sides of a comparison are never of one type.
    #[error(
        "a comparison of {left} with {right} never holds; words need quotes and numbers must not have any"
    )]
    NeverEqual {
        /// What the left side is.
        left: Types,
        /// What the right side is.
        right: Types,
    },
    /// Order and arithmetic are for numbers.
    #[error("{found} has no order and cannot be reckoned with")]
    NotANumber {
        /// What stands there.
        found: Types,
    },
    /// A word is no condition.
    #[error("{found} is not a condition, which holds or does not")]
    NotACondition {
        /// What stands there.
        found: Types,
    },
}

impl Types {
    /// The types of some values.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Self {
        values.into_iter().map(|value| Self::from(Type::of(value))).fold(Self(0), |all, one| all | one)
    }

    fn contains(self, one: Type) -> bool {
        self.0 & one as u8 != 0
    }
}

impl Type {
    fn of(value: &Value) -> Self {
        match value {
            Value::Number(_) => Self::Number,
            Value::Word(_) => Self::Word,
            Value::Flag(_) => Self::Flag,
        }
    }
}

impl Expression {
    /// Checks that the expression can be a condition; `types` gives those of the values of a parameter.
    pub fn check(&self, types: &impl Fn(usize) -> Types) -> Result<(), TypeError> {
        self.types(types).and_then(condition)
    }

    fn types(&self, of_parameter: &impl Fn(usize) -> Types) -> Result<Types, TypeError> {
        match self {
            Self::Literal(value) => Ok(Type::of(value).into()),
            Self::Parameter(index) => Ok(of_parameter(*index)),
            Self::Not(inner) => inner.check(of_parameter).map(|()| Type::Flag.into()),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.types(of_parameter)?, right.types(of_parameter)?);
                match operator.class() {
                    Class::Logic => condition(left).and(condition(right)),
                    Class::Equality if left & right == Types(0) => Err(TypeError::NeverEqual { left, right }),
                    Class::Equality => Ok(()),
                    Class::Order | Class::Arithmetic => number(left).and(number(right)),
                }?;
                let arithmetic = operator.class() == Class::Arithmetic;
                Ok(if arithmetic { Type::Number } else { Type::Flag }.into())
            }
        }
    }
}

/// Conditions are flags; a number is one as in C, because OTPO's files are full of them.
fn condition(types: Types) -> Result<(), TypeError> {
    let fits = types.contains(Type::Flag) || types.contains(Type::Number);
    if fits { Ok(()) } else { Err(TypeError::NotACondition { found: types }) }
}

fn number(types: Types) -> Result<(), TypeError> {
    if types.contains(Type::Number) { Ok(()) } else { Err(TypeError::NotANumber { found: types }) }
}

impl From<Type> for Types {
    fn from(one: Type) -> Self {
        Self(one as u8)
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(Type::Number, "a number"), (Type::Word, "a word"), (Type::Flag, "true or false")];
        let held: Vec<_> =
            words.iter().filter(|(one, _)| self.contains(*one)).map(|(_, word)| *word).collect();
        f.write_str(&held.join(" or "))
    }
}
