//! The profiles that are part of the program.

/// Their names and texts.
pub const EMBEDDED: &[(&str, &str)] = &[("ideal", include_str!("../../profiles/ideal.toml"))];
