//! Reading TOML files so that what is wrong is said in one sentence, with the file and the field.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML: correct the line.
    #[error("`{file}`, line {line}: {message}")]
    Syntax {
        /// The file, or the name of an embedded one.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A field is missing, unknown, of the wrong type or out of range: correct it.
    #[error("`{file}`, `{field}`: {message}")]
    Field {
        /// The file, or the name of an embedded one.
        file: String,
        /// The field, or the section that lacks one.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// An override is not `section.field=value`: correct it.
    #[error("`{text}` does not set a field; write section.field=value")]
    Override {
        /// What was given.
        text: String,
    },
}

impl ConfigError {
    /// Something is wrong with a field.
    pub(crate) fn field(file: &str, field: &str, message: impl Into<String>) -> Self {
        Self::Field { file: file.into(), field: field.into(), message: message.into() }
    }
}

/// Reads `text`, known as `file` in messages, after it has replaced fields: each override is
/// `section.field=value`.
pub fn read<T: DeserializeOwned>(file: &str, text: &str, overrides: &[&str]) -> Result<T, ConfigError> {
    let mut table: Table = text.parse().map_err(|error| syntax(file, text, &error))?;
    for set in overrides {
        replace(&mut table, set)?;
    }
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let (field, message) = (error.path().to_string(), error.inner().message());
        // Of a field that is missing at the top there is no path.
        ConfigError::field(file, if field == "." { "top level" } else { &field }, message)
    })
}

fn syntax(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let before = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count();
    let message = error.message().replace('\n', ", ");
    ConfigError::Syntax { file: file.to_owned(), line, message }
}

/// Applies `section.field=value`.
fn replace(table: &mut Table, set: &str) -> Result<(), ConfigError> {
    let malformed = || ConfigError::Override { text: set.to_owned() };
    let (path, text) = set.split_once('=').ok_or_else(malformed)?;
    let value = value_of(text.trim());
    let mut names: Vec<_> = path.trim().split('.').collect();
    let field = names.pop().filter(|field| !field.is_empty()).ok_or_else(malformed)?;
    let mut section = table;
    for name in names {
        let inner = section.entry(name).or_insert_with(|| Value::Table(Table::new()));
        section = inner.as_table_mut().ok_or_else(malformed)?;
    }
    section.insert(field.to_owned(), value);
    Ok(())
}

/// The value as TOML writes it; a bare word is a text.
fn value_of(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    parsed.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.to_owned()))
}
