//! Merging the results of several tunings: what is good here or there, or here and there.
//!
//! The outcome is a smaller space, as OTPO's: for each parameter the values that occur in the equivalence
//! sets.

use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::ExperimentFile;
use crate::space::Value;

/// How sets are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Rows of any.
    Union,
    /// Rows of all.
    Intersection,
}

farcall_base::named!(Merging:
    Union = "union", "Rows of any set";
    Intersection = "intersection", "Rows of all sets";
);

/// Why results cannot be merged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// The spaces differ.
    #[error(
        "the results belong to different spaces: `{parameter}` is not a parameter of all; merge tunings of one space"
    )]
    Spaces {
        /// The parameter that one lacks.
        parameter: String,
    },
    /// No row is in all sets.
    #[error("no row is in all of the sets; take the union, or more trials")]
    Empty,
}

/// A row, as people read it.
type Row = BTreeMap<String, String>;

/// The space of the first experiment with only the values that occur in the merged set, and how many rows the
/// set has.
pub fn merge(
    file: &ExperimentFile,
    sets: &[BTreeSet<Row>],
    merging: Merging,
) -> Result<(ExperimentFile, usize), MergeError> {
    let names: BTreeSet<&String> = file.parameter.iter().map(|entry| &entry.name).collect();
    if let Some(stranger) = sets.iter().flatten().flat_map(Row::keys).find(|name| !names.contains(name)) {
        return Err(MergeError::Spaces { parameter: stranger.clone() });
    }
    let in_all = |row: &&Row| merging == Merging::Union || sets.iter().all(|set| set.contains(*row));
    let merged: BTreeSet<&Row> = sets.iter().flatten().filter(in_all).collect();
    if merged.is_empty() {
        return Err(MergeError::Empty);
    }
    let mut narrowed = file.clone();
    let space = file.space().map_err(|_| MergeError::Empty)?;
    for (entry, parameter) in narrowed.parameter.iter_mut().zip(&space.parameters) {
        let met: BTreeSet<&String> = merged.iter().filter_map(|row| row.get(&entry.name)).collect();
        let kept: Vec<&Value> = (0..parameter.levels.len())
            .filter(|&level| met.contains(&parameter.show(level)))
            .map(|level| &parameter.levels[level].value)
            .collect();
        // A parameter that was never in play keeps its values.
        if kept.is_empty() {
            continue;
        }
        let shown = |value: &Value| match value {
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            other => toml::Value::String(parameter.kind.show(other)),
        };
        let default = &parameter.levels[parameter.default].value;
        let default = if kept.contains(&default) { default } else { kept[0] };
        entry.default = Some(shown(default));
        entry.values = Some(kept.iter().map(|value| shown(value)).collect());
        entry.range = None;
    }
    Ok((narrowed, merged.len()))
}
