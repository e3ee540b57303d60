//! Placeholder

pub mod bootstrap;
pub mod parameters;
