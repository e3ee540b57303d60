//! Why there is no such fabric.

use std::io;

/// Why a profile cannot be used. Each is one sentence that names the file and the field.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Neither an embedded name nor a file that can be read: correct the name.
    #[error("there is no fabric profile `{name}`: not a file ({source}), and the embedded ones are {known}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// The embedded profiles.
        known: String,
        /// Why it could not be read as a file.
        source: io::Error,
    },
    /// Not TOML: correct the line.
    #[error("fabric profile `{profile}`, line {line}: {message}")]
    Syntax {
        /// The profile.
        profile: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A field is missing, unknown, of the wrong type or out of range: correct the field.
    #[error("fabric profile `{profile}`: {message} (in `{field}`)")]
    Field {
        /// The profile.
        profile: String,
        /// The field, or the section that lacks one.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// An override is not `section.field=value`: correct it.
    #[error("`{text}` does not set a field of a fabric profile; write section.field=value")]
    Override {
        /// What was given.
        text: String,
    },
    /// More hosts than places: use fewer, or a larger topology.
    #[error("fabric profile `{profile}` has places for {places} hosts, not for {hosts} (in `topology`)")]
    TooManyHosts {
        /// The profile.
        profile: String,
        /// How many were asked for.
        hosts: usize,
        /// How many there is room for.
        places: usize,
    },
}
