//! Texts with fields, such as `P,{size},{num}:S,{size}`, which a row's values fill.

use farcall::parameters::nearest::nearest;

/// A text with fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Parameter(usize),
    Directory,
}

/// The field that is filled with the directory of a trial's own files.
pub const DIRECTORY_FIELD: &str = "trial.directory";

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A field that nothing fills.
    #[error("`{{{field}}}` in `{text}` is no parameter; did you mean `{{{nearest}}}`?")]
    Unknown {
        /// The field.
        field: String,
        /// The template.
        text: String,
        /// The name most like it.
        nearest: String,
    },
    /// A brace without its partner.
    #[error("a brace in `{text}` has no partner; for a brace itself write it twice")]
    Brace {
        /// The template.
        text: String,
    },
}

impl Template {
    /// Reads a template over the parameters of these names. Doubled braces stand for themselves.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, TemplateError> {
        let brace = || TemplateError::Brace { text: text.to_owned() };
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(position) = rest.find(['{', '}']) {
            literal.push_str(&rest[..position]);
            let at = &rest[position..];
            if at.starts_with("{{") || at.starts_with("}}") {
                literal.push_str(&at[..1]);
                rest = &at[2..];
                continue;
            }
            let inside = at.strip_prefix('{').ok_or_else(brace)?;
            let (field, after) = inside.split_once('}').ok_or_else(brace)?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(core::mem::take(&mut literal)));
            }
            pieces.push(Piece::of_field(field.trim(), text, names)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces })
    }

    /// A template that is one parameter.
    pub fn of_parameter(index: usize) -> Self {
        Self { pieces: vec![Piece::Parameter(index)] }
    }

    /// The parameters that it mentions.
    pub fn parameters(&self) -> impl Iterator<Item = usize> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Parameter(index) => Some(*index),
            _ => None,
        })
    }

    /// Fills the fields; `None` when one of them is a parameter that is not in play. `text` gives the text of
    /// a parameter, `directory` the trial's own directory.
    pub fn fill<'a>(&self, text: &impl Fn(usize) -> Option<&'a str>, directory: &str) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => filled.push_str(literal),
                Piece::Parameter(index) => filled.push_str(text(*index)?),
                Piece::Directory => filled.push_str(directory),
            }
        }
        Some(filled)
    }
}

impl Piece {
    fn of_field(field: &str, text: &str, names: &[&str]) -> Result<Self, TemplateError> {
        if field == DIRECTORY_FIELD {
            return Ok(Self::Directory);
        }
        let index = names.iter().position(|name| *name == field);
        index.map(Self::Parameter).ok_or_else(|| TemplateError::Unknown {
            field: field.to_owned(),
            text: text.to_owned(),
            nearest: nearest(field, names.iter().copied().chain([DIRECTORY_FIELD])).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["size", "num"];

    #[test]
    fn fields_are_filled() {
        let template =
            Template::parse("P,{size},{ num }:{{x}} {trial.directory}/a", &NAMES).expect("a template");
        assert_eq!(template.parameters().collect::<Vec<_>>(), [0, 1]);
        let text = |index: usize| Some(["64", "8"][index]);
        assert_eq!(template.fill(&text, "/tmp/t").as_deref(), Some("P,64,8:{x} /tmp/t/a"));
        assert_eq!(template.fill(&|index| (index == 0).then_some("64"), ""), None);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| Template::parse(text, &NAMES).expect_err(text).to_string();
        assert_eq!(error("{sise}"), "`{sise}` in `{sise}` is no parameter; did you mean `{size}`?");
        assert_eq!(
            error("a {size"),
            "a brace in `a {size` has no partner; for a brace itself write it twice"
        );
        assert_eq!(error("a } b"), "a brace in `a } b` has no partner; for a brace itself write it twice");
    }
}
