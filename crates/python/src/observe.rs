//! The counters of this process.

use farcall::CounterFile;
use pyo3::prelude::*;

use crate::errors::ClusterError;

/// A counter: its group, name, value and unit, and a line that says what it counts.
type Row = (String, String, u64, String, String);

/// Every counter of this process.
#[pyfunction]
pub fn counters() -> PyResult<Vec<Row>> {
    let snapshot = CounterFile::open_process(std::process::id());
    let snapshot = snapshot.map_err(|error| ClusterError::new_err(error.to_string()))?;
    let of_group = |group: farcall::GroupSnapshot| {
        let label = group.label;
        group
            .counters
            .into_iter()
            .map(move |counter| (label.clone(), counter.name, counter.value, counter.unit, counter.doc))
    };
    Ok(snapshot.groups.into_iter().flat_map(of_group).collect())
}
