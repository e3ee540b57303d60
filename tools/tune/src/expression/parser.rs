//! From text to a tree, by precedence: `||`, `&&`, comparisons, sums, products.

use farcall::parameters::nearest::nearest;

use super::lexer::{Token, tokens};
use super::{Expression, Operator};
use crate::space::Value;

/// How deep parentheses and negations may be nested; people need two or three.
const DEPTH_MAX: usize = 64;

/// The most words of a condition: every one may make the tree one deeper.
const WORDS_MAX: usize = 1_000;

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// A character that means nothing here.
    #[error("`{character}` means nothing in a condition")]
    Character {
        /// Which.
        character: char,
    },
    /// Digits and letters that are not a number.
    #[error("`{text}` is not a number, a size such as 64K or a duration such as 10us")]
    Number {
        /// What was written.
        text: String,
    },
    /// A quotation mark without its partner.
    #[error("a quotation mark is not closed")]
    Quote,
    /// A name that no parameter has.
    #[error("there is no parameter `{name}`; did you mean `{nearest}`? A word as a value needs quotes")]
    Unknown {
        /// What was written.
        name: String,
        /// The name most like it.
        nearest: String,
    },
    /// Something is missing.
    #[error("the condition ends where a value is expected")]
    Unfinished,
    /// Something is too much.
    #[error("`{found}` is not expected there")]
    Unexpected {
        /// What was found.
        found: String,
    },
    /// Nobody writes that by hand.
    #[error("the condition is nested more than {DEPTH_MAX} deep, or has more than {WORDS_MAX} words")]
    TooDeep,
}

/// Binary operators by precedence, loosest first, with all their spellings.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("||", Operator::Or), ("or", Operator::Or)],
    &[("&&", Operator::And), ("and", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("=", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

/// Parses a condition over the parameters of these names.
pub fn parse(text: &str, names: &[&str]) -> Result<Expression, ExpressionError> {
    let tokens = tokens(text)?;
    if tokens.len() > WORDS_MAX {
        return Err(ExpressionError::TooDeep);
    }
    let mut parser = Parser { tokens, position: 0, depth: 0, names };
    let expression = parser.level(0)?;
    match parser.tokens.get(parser.position) {
        None => Ok(expression),
        Some(token) => Err(ExpressionError::Unexpected { found: token.spelling() }),
    }
}

/// `not` takes in a whole comparison; `!` is for what stands beside it.
const NOT_LEVEL: usize = 2;

struct Parser<'a> {
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
    names: &'a [&'a str],
}

impl Parser<'_> {
    fn level(&mut self, level: usize) -> Result<Expression, ExpressionError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        if level == NOT_LEVEL && self.tokens.get(self.position) == Some(&Token::Name("not".to_owned())) {
            self.position += 1;
            return self.nested(|parser| Ok(Expression::Not(Box::new(parser.level(NOT_LEVEL)?))));
        }
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.accept(operators) {
            let right = self.level(level + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn accept(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let spelling = match self.tokens.get(self.position)? {
            Token::Symbol(symbol) => *symbol,
            Token::Name(name) => name.as_str(),
            _ => return None,
        };
        let (_, operator) = operators.iter().find(|(known, _)| *known == spelling)?;
        self.position += 1;
        Some(*operator)
    }

    fn nested(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<Expression, ExpressionError>,
    ) -> Result<Expression, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ExpressionError::TooDeep);
        }
        let expression = inside(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn unary(&mut self) -> Result<Expression, ExpressionError> {
        self.nested(Self::operand)
    }

    fn operand(&mut self) -> Result<Expression, ExpressionError> {
        let token = self.tokens.get(self.position).cloned().ok_or(ExpressionError::Unfinished)?;
        self.position += 1;
        match token {
            Token::Number(number) => Ok(Expression::Literal(Value::Number(number))),
            Token::Text(text) => Ok(Expression::Literal(Value::Word(text))),
            Token::Symbol("!") => Ok(Expression::Not(Box::new(self.unary()?))),
            Token::Symbol("-") => {
                let nought = Box::new(Expression::Literal(Value::Number(0.0)));
                Ok(Expression::Binary(Operator::Subtract, nought, Box::new(self.unary()?)))
            }
            Token::Symbol("(") => self.parenthesis(),
            Token::Name(name) => self.name(&name),
            Token::Symbol(symbol) => Err(ExpressionError::Unexpected { found: symbol.to_owned() }),
        }
    }

    fn parenthesis(&mut self) -> Result<Expression, ExpressionError> {
        let inner = self.level(0)?;
        match self.tokens.get(self.position) {
            Some(Token::Symbol(")")) => self.position += 1,
            Some(token) => return Err(ExpressionError::Unexpected { found: token.spelling() }),
            None => return Err(ExpressionError::Unfinished),
        }
        Ok(inner)
    }

    fn name(&mut self, name: &str) -> Result<Expression, ExpressionError> {
        if let Some(index) = self.names.iter().position(|known| *known == name) {
            return Ok(Expression::Parameter(index));
        }
        match name {
            "true" => Ok(Expression::Literal(Value::Flag(true))),
            "false" => Ok(Expression::Literal(Value::Flag(false))),
            _ => Err(ExpressionError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, self.names.iter().copied().chain(["true", "false"])).to_owned(),
            }),
        }
    }
}

impl Token {
    fn spelling(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::Name(name) => name.clone(),
            Self::Symbol(symbol) => (*symbol).to_owned(),
        }
    }
}
