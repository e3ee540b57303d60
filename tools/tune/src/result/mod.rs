//! What the samples come to: the settings that cannot be told apart from the best, and how sure that is.

mod chart;
mod equivalence;
mod files;
mod importance;
mod merge;
mod page;
mod summary;
mod text;
mod trades;

pub use equivalence::{CONFIDENCE, EquivalenceSet, finalists, simultaneous};
pub use files::{SettingsFile, settings_files};
pub use importance::{Importance, LocalEffect, PathStep, importance};
pub use merge::{MergeError, Merging, merge};
pub use page::part;
pub use summary::{Choice, Contrast, MetricSummary, Summary};
pub use text::lines;
pub use trades::Trade;
