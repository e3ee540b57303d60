//! OTPO's conditions: reverse Polish notation, `a b >` for `a > b`.

/// A condition in the usual notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infix {
    /// The condition.
    pub text: String,
    /// The parameters that it mentions.
    pub names: Vec<String>,
}

/// Why a condition cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpnError {
    /// An operator without two operands.
    #[error("has an operator with fewer than two operands before it")]
    Operands,
    /// Operands that nothing joins.
    #[error("has operands that no operator joins")]
    Unjoined,
}

const OPERATORS: [&str; 12] = ["+", "-", "*", "/", "=", "!=", ">", "<", ">=", "<=", "&&", "||"];

/// Puts operators between their operands. Words that are neither numbers nor one of `names` become quoted
/// values.
pub fn infix(text: &str, names: &[&str]) -> Result<Infix, RpnError> {
    let mut stack: Vec<String> = Vec::new();
    let mut mentioned = Vec::new();
    for word in text.split_whitespace() {
        if OPERATORS.contains(&word) {
            let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                return Err(RpnError::Operands);
            };
            let operator = if word == "=" { "==" } else { word };
            stack.push(format!("({left} {operator} {right})"));
        } else if names.contains(&word) {
            mentioned.push(word.to_owned());
            stack.push(word.to_owned());
        } else if word.parse::<f64>().is_ok() {
            stack.push(word.to_owned());
        } else {
            stack.push(format!("'{word}'"));
        }
    }
    match <[String; 1]>::try_from(stack) {
        Ok([text]) => {
            let outer = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let text = outer.map_or(text.clone(), str::to_owned);
            Ok(Infix { text, names: mentioned })
        }
        Err(_) => Err(RpnError::Unjoined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_come_between_their_operands() {
        let text = |rpn: &str| infix(rpn, &["a", "b"]).map(|infix| infix.text);
        assert_eq!(text("a b >"), Ok("a > b".to_owned()));
        assert_eq!(text("a 2 * b <= a dynamic = &&"), Ok("((a * 2) <= b) && (a == 'dynamic')".to_owned()));
        assert_eq!(text("a"), Ok("a".to_owned()));
        assert_eq!(text("a >"), Err(RpnError::Operands));
        assert_eq!(text("a b"), Err(RpnError::Unjoined));
        assert_eq!(text(""), Err(RpnError::Unjoined));
    }
}
