//! The style of the house as a test.
//!
//! What a linter does not know is checked here: columns of comments and pages, words of the glossary, the map in
//! ARCHITECTURE.md, the table of seams, decision records, links, dead public items, and the number of forced inline
//! attributes and of tiny files. Each rule is a function from the [`Tree`] to [`Finding`]s; `tests/tidy.rs` runs them
//! over the checkout. What is allowed nevertheless is in `allowed.txt`, and may only become less.

pub mod allowed;
pub mod items;
pub mod orders;
pub mod pages;
pub mod picture;
pub mod records;
pub mod reference;
pub mod rust;
pub mod style;
pub mod tree;
pub mod words;

pub use allowed::Allowed;
pub use tree::{File, Finding, Tree};
