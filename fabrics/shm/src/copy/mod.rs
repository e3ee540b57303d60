//! How payloads get from one core to another.

pub mod progress;
