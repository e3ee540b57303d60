//! Spaces out of what others know: OTPO's parameter files, and the listings in which programs describe themselves.

pub mod otpo;
mod rpn;
