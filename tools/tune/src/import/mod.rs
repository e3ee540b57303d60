//! Spaces out of what others know: OTPO's parameter files, and the listings in which programs describe
//! themselves.
//!
//! A listing says which parameters there are and what they are by default, sometimes between which bounds. It
//! cannot say what is worth trying, so the values are a first guess around the default, to be edited: a space
//! of all of them would be tuned for ever.

mod guess;
mod listings;
pub mod otpo;
mod own;
mod rpn;

pub use listings::{ListingError, libfabric, open_mpi, ucx};
pub use own::farcall;

#[cfg(test)]
mod tests;
