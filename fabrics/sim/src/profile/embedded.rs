//! The profiles that are part of the program.

/// Their names and texts.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("ideal", include_str!("../../profiles/ideal.toml")),
    ("connectx2-qdr", include_str!("../../profiles/connectx2-qdr.toml")),
    ("omni-path-100", include_str!("../../profiles/omni-path-100.toml")),
    ("connectx7-ndr", include_str!("../../profiles/connectx7-ndr.toml")),
];
