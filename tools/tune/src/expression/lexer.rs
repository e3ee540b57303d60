//! The words of an expression.

use farcall::parameters::quantity::{parse_duration, parse_size};

use super::parser::ExpressionError;

/// One word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A number; with a unit of size in bytes, with one of time in nanoseconds.
    Number(f64),
    /// Something in quotes.
    Text(String),
    /// A name, or `true`, `and` and so on.
    Name(String),
    /// An operator or a parenthesis.
    Symbol(&'static str),
}

/// All operators and parentheses; longer ones before their beginnings.
const SYMBOLS: [&str; 17] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "=", "!", "+", "-", "*", "/", "%", "(", ")"];

/// Splits `text` into words.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_digit() {
            number(rest)?
        } else if first == '\'' || first == '"' {
            quoted(rest, first)?
        } else if is_name(first) {
            let length = rest.find(|character| !is_name(character)).unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.ok_or(ExpressionError::Character { character: first })?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(rest: &str) -> Result<(Token, usize), ExpressionError> {
    let end = rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '.');
    let length = end.unwrap_or(rest.len());
    let text = &rest[..length];
    let plain = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let with_unit = || {
        let size = parse_size(text).ok().map(|bytes| bytes as f64);
        size.or_else(|| parse_duration(text).ok().map(|span| span.as_nanos() as f64))
    };
    let number = plain.or_else(with_unit);
    Ok((Token::Number(number.ok_or_else(|| ExpressionError::Number { text: text.to_owned() })?), length))
}

fn quoted(rest: &str, quote: char) -> Result<(Token, usize), ExpressionError> {
    let inside = &rest[1..];
    let length = inside.find(quote).ok_or(ExpressionError::Quote)?;
    Ok((Token::Text(inside[..length].to_owned()), length + 2))
}

/// Names may have dots, as farcall's parameters do.
fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '.'
}
