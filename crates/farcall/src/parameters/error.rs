//! What can be wrong with settings, and where it was found.

use core::fmt;
use std::path::PathBuf;

use super::{Domain, Value};

/// Where a setting came from. Begins the messages of [`SettingsError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File(PathBuf),
    /// The environment; the variable is named with the parameter.
    Environment,
    /// `--set`, or a call.
    Argument,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}: ", path.display()),
            Self::Environment => f.write_str("environment: "),
            Self::Argument => Ok(()),
        }
    }
}

/// Why settings could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No parameter has that name: use the nearest one, or look into the list of all.
    #[error("{origin}unknown parameter `{name}`; did you mean `{nearest}`?")]
    Unknown {
        /// Where it was found.
        origin: Origin,
        /// The name met, as it is written there.
        name: String,
        /// The most similar name, written in the same way.
        nearest: String,
    },
    /// Outside the range: take the nearest valid value.
    #[error("{origin}{name}={text} is out of range; the nearest valid value is {nearest}")]
    OutOfRange {
        /// Where it was found.
        origin: Origin,
        /// The parameter, as it is written there.
        name: String,
        /// The value met.
        text: String,
        /// The nearest valid value.
        nearest: Value,
    },
    /// Only powers of two are valid: take the nearest.
    #[error("{origin}{name}={text} is not a power of two; the nearest valid value is {nearest}")]
    NotPowerOfTwo {
        /// Where it was found.
        origin: Origin,
        /// The parameter, as it is written there.
        name: String,
        /// The value met.
        text: String,
        /// The nearest valid value.
        nearest: Value,
    },
    /// Not one of the words of a choice.
    #[error("{origin}{name}={text} is not {domain}; did you mean `{nearest}`?")]
    NotAChoice {
        /// Where it was found.
        origin: Origin,
        /// The parameter, as it is written there.
        name: String,
        /// The value met.
        text: String,
        /// The valid values.
        domain: &'static Domain,
        /// The most similar word.
        nearest: Value,
    },
    /// Of another type.
    #[error("{origin}{name}={text} is not {domain}; the default is {default}")]
    WrongKind {
        /// Where it was found.
        origin: Origin,
        /// The parameter, as it is written there.
        name: String,
        /// The value met.
        text: String,
        /// The valid values.
        domain: &'static Domain,
        /// A value that is valid.
        default: &'static str,
    },
    /// Not of the form `name=value`.
    #[error("`{argument}` sets nothing; write name=value, such as ring.ring_bytes=1M")]
    NotAnAssignment {
        /// What was given.
        argument: String,
    },
    /// A variable of ours that is not text.
    #[error("the environment variable {variable} is not valid UTF-8; set it to plain text or unset it")]
    NotText {
        /// Its name.
        variable: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {path}: {reason}; correct or unset FARCALL_CONFIG", path = path.display())]
    FileUnreadable {
        /// The file that FARCALL_CONFIG names.
        path: PathBuf,
        /// The system's own words.
        reason: String,
    },
    /// The configuration file is not TOML.
    #[error("{path} is not valid TOML: {reason}", path = path.display())]
    FileMalformed {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        reason: String,
    },
    /// A value in the file that is no text, whole number or boolean.
    #[error("{path}: `{name}` must be a string, a whole number or a boolean, not a {found}", path = path.display())]
    FileValue {
        /// The file.
        path: PathBuf,
        /// The name met.
        name: String,
        /// The type of value met.
        found: &'static str,
    },
}
