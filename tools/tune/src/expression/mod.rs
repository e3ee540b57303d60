//! Conditions on parameters, such as `num > low && (mode == 'eager' || size <= 64K)`.
//!
//! A parameter that is not in play (its own condition does not hold) has no value, and neither has a
//! comparison of a number with a word such as `auto`. What depends on such a thing is unknown, by Kleene's
//! logic: `false && unknown` is false, `true && unknown` is unknown. An unknown requirement rejects nothing.

mod check;
mod lexer;
mod parser;

use core::cmp::Ordering;

pub use check::{Type, TypeError, Types};
pub use parser::{ExpressionError, parse};

use crate::space::Value;

/// A parsed condition. Parameters are given by their index.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Literal(Value),
    /// The value of a parameter.
    Parameter(usize),
    /// The opposite of a condition.
    Not(Box<Expression>),
    /// Two operands.
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// What is done with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Either holds.
    Or,
    /// Both hold.
    And,
    /// The same value.
    Equal,
    /// Another value.
    NotEqual,
    /// Less.
    Less,
    /// Less or the same.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or the same.
    GreaterOrEqual,
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The product.
    Multiply,
    /// The quotient; by nought it is unknown.
    Divide,
    /// What a division leaves; by nought it is unknown.
    Remainder,
}

/// A value under evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand<'a> {
    Number(f64),
    Word(&'a str),
    Flag(bool),
}

impl Expression {
    /// Whether the condition holds; `None` when it is unknown. `value` gives a parameter's value if it is in
    /// play.
    pub fn holds<'a>(&'a self, value: &impl Fn(usize) -> Option<&'a Value>) -> Option<bool> {
        match self.evaluate(value)? {
            Operand::Flag(flag) => Some(flag),
            Operand::Number(number) => Some(number != 0.0),
            Operand::Word(_) => None,
        }
    }

    /// The parameters that it mentions, each once, in order.
    pub fn parameters(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The conditions of which it is the conjunction: it is false when one of them is.
    pub fn clauses(&self) -> Vec<&Self> {
        match self {
            Self::Binary(Operator::And, left, right) => [left.clauses(), right.clauses()].concat(),
            _ => vec![self],
        }
    }

    fn visit(&self, found: &mut Vec<usize>) {
        match self {
            Self::Literal(_) => {}
            Self::Parameter(index) => found.push(*index),
            Self::Not(inner) => inner.visit(found),
            Self::Binary(_, left, right) => {
                left.visit(found);
                right.visit(found);
            }
        }
    }

    fn evaluate<'a>(&'a self, value: &impl Fn(usize) -> Option<&'a Value>) -> Option<Operand<'a>> {
        match self {
            Self::Literal(literal) => Some(Operand::of(literal)),
            Self::Parameter(index) => value(*index).map(Operand::of),
            Self::Not(inner) => inner.holds(value).map(|holds| Operand::Flag(!holds)),
            Self::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
                // The value that decides whatever the other side is.
                let decisive = *operator == Operator::Or;
                let left = left.holds(value);
                if left == Some(decisive) {
                    return Some(Operand::Flag(decisive));
                }
                match (left, right.holds(value)) {
                    (_, Some(right)) if right == decisive => Some(Operand::Flag(decisive)),
                    (Some(_), Some(_)) => Some(Operand::Flag(!decisive)),
                    _ => None,
                }
            }
            Self::Binary(operator, left, right) => {
                operator.apply(left.evaluate(value)?, right.evaluate(value)?)
            }
        }
    }
}

impl Operator {
    /// Of two known operands; `and` and `or` do not come here.
    fn apply<'a>(self, left: Operand<'a>, right: Operand<'a>) -> Option<Operand<'a>> {
        let order = || left.compare(right);
        let flag = |flag| Some(Operand::Flag(flag));
        match self {
            // A number and a word are different for certain.
            Self::Equal => flag(left == right),
            Self::NotEqual => flag(left != right),
            Self::Less => flag(order()? == Ordering::Less),
            Self::LessOrEqual => flag(order()? != Ordering::Greater),
            Self::Greater => flag(order()? == Ordering::Greater),
            Self::GreaterOrEqual => flag(order()? != Ordering::Less),
            Self::And | Self::Or => None,
            _ => {
                let (left, right) = (left.number()?, right.number()?);
                let number = match self {
                    Self::Add => left + right,
                    Self::Subtract => left - right,
                    Self::Multiply => left * right,
                    Self::Divide => left / right,
                    _ => left % right,
                };
                number.is_finite().then_some(Operand::Number(number))
            }
        }
    }

    /// Whether operands are conditions, values to compare, or numbers.
    fn class(self) -> Class {
        match self {
            Self::Or | Self::And => Class::Logic,
            Self::Equal | Self::NotEqual => Class::Equality,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => Class::Order,
            _ => Class::Arithmetic,
        }
    }
}

/// What an operator takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Logic,
    Equality,
    Order,
    Arithmetic,
}

impl<'a> Operand<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::Number(number) => Self::Number(*number),
            Value::Word(word) => Self::Word(word),
            Value::Flag(flag) => Self::Flag(*flag),
        }
    }

    fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Only numbers have an order here: that of words is nobody's intention.
    fn compare(self, other: Self) -> Option<Ordering> {
        self.number()?.partial_cmp(&other.number()?)
    }
}

#[cfg(test)]
mod tests;
