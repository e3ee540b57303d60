//! The tuner: finds the settings of a program that cannot be told apart from the best, on a noisy machine.
//!
//! A [`Space`](space::Space) says which settings there are and what they become in the world: environment variables,
//! arguments, files. Its rows are enumerated once, exactly, and everything after that speaks of rows.

pub mod experiment;
pub mod expression;
pub mod import;
pub mod space;
