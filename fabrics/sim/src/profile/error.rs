//! Why there is no such fabric.

use std::io;

use crate::config::ConfigError;

/// Why a profile cannot be used. Each is one sentence that names the file and the field.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Neither an embedded name nor a file that can be read: correct the name.
    #[error("there is no fabric profile `{name}`: as a file, {source}; the embedded ones are {known}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// The embedded profiles.
        known: String,
        /// Why it could not be read as a file.
        source: io::Error,
    },
    /// The profile says something wrong, or not enough: correct it.
    #[error("fabric profile {0}")]
    Wrong(#[from] ConfigError),
    /// More hosts than places: use fewer, or a larger topology.
    #[error("fabric profile `{profile}`, `topology`: there are places for {places} hosts, not for {hosts}")]
    TooManyHosts {
        /// The profile.
        profile: String,
        /// How many were asked for.
        hosts: usize,
        /// How many there is room for.
        places: usize,
    },
}
