//! The tuner: finds the settings of a program that cannot be told apart from the best, on a noisy machine.
//!
//! A [`Space`](space::Space) says which settings there are and what they become in the world: environment
//! variables, arguments, files. Its rows are enumerated once, exactly, and everything after that speaks of
//! rows. A [`Search`](search::Search) proposes blocks of them, a [`Session`](session::Session) turns blocks
//! into trials, a [`Fit`](model::Fit) says what the samples tell about every row, and the [result] what that
//! comes to.

mod answers;
pub mod evidence;
pub mod experiment;
pub mod expression;
pub mod import;
pub mod journal;
pub mod landscape;
pub mod metric;
pub mod model;
pub mod objective;
pub mod plan;
pub mod result;
pub mod search;
pub mod session;
pub mod space;
pub mod tuning;
