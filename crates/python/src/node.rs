//! Processes of a cluster, and the counters of this one.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use farcall::bootstrap::{
    Bootstrap, BootstrapError, HostPort, JoinError, RANKS_MAX, Refusal, random_incarnation,
};
use farcall::parameters::Settings;
use farcall::{Compared, CounterFile, NodeError};
use pyo3::prelude::*;

use crate::buffer::Readable;
use crate::errors::{ClosedError, ClusterError, raised};
use crate::numbers::seconds;
use crate::owned::detached;

/// This process as a member of its cluster; for all threads.
#[pyclass(subclass, frozen, module = "farcall._native")]
pub struct Node(Mutex<Option<Arc<farcall::Node>>>);

impl Node {
    pub fn open(&self) -> PyResult<Arc<farcall::Node>> {
        let node = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        node.ok_or_else(|| ClosedError::new_err("the node is closed; open another one"))
    }
}

#[pymethods]
impl Node {
    /// `kind` is how it finds its cluster, `processes` and `address` what that needs.
    #[new]
    #[pyo3(signature = (kind, processes = 1, address = None))]
    fn new(py: Python<'_>, kind: &str, processes: u32, address: Option<&str>) -> PyResult<Self> {
        let open = || -> Result<farcall::Node, NodeError> {
            match (kind, address) {
                ("local", _) => farcall::Node::local(processes),
                ("alone", _) => farcall::Node::alone(),
                ("names", None) => farcall::Node::open(),
                ("names", Some(address)) => farcall::Node::open_at(address),
                ("store", Some(address)) => join_store(address),
                ("registry", address) => farcall::Node::serving_names(address.unwrap_or("127.0.0.1:0")),
                _ => farcall::Node::from_env(),
            }
        };
        let node = raised(detached(py, open))?;
        Ok(Self(Mutex::new(Some(Arc::new(node)))))
    }

    /// Leaves the cluster; endpoints may be closed before or after.
    fn close(&self, py: Python<'_>) {
        let node = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        detached(py, || drop(node));
    }

    /// This process's rank, from 0; None without one.
    #[getter]
    fn rank(&self) -> PyResult<Option<u32>> {
        Ok(Some(self.open()?.rank()).filter(|&rank| rank != u32::MAX))
    }

    /// The number of ranks; 0 without a world.
    #[getter]
    fn size(&self) -> PyResult<u32> {
        Ok(self.open()?.size())
    }

    /// Where processes of this machine reach the registry that this node serves; None if it serves none.
    #[getter]
    fn registry(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.registry_address().map(|address| address.to_string()))
    }

    /// Returns when every rank has called it with the same name.
    #[pyo3(signature = (name = "barrier", timeout = 30.0))]
    fn barrier(&self, py: Python<'_>, name: &str, timeout: f64) -> PyResult<()> {
        let (node, within) = (self.open()?, seconds(Some(timeout))?.unwrap_or(Duration::MAX));
        raised(detached(py, || node.barrier(name, within)))
    }

    /// Sets a register of the registry if its revision is the expected one, 0 for one that does not exist.
    /// Says whether it did, and which revision and value the register has now.
    #[pyo3(signature = (register, expected, value, timeout = 5.0))]
    fn compare_and_set(
        &self,
        py: Python<'_>,
        register: &str,
        expected: u64,
        value: Readable<'_>,
        timeout: f64,
    ) -> PyResult<(bool, u64, Vec<u8>)> {
        let (node, within) = (self.open()?, seconds(Some(timeout))?.unwrap_or(Duration::MAX));
        let value = value.as_slice().to_vec();
        let compared = detached(py, || node.compare_and_set(register, expected, &value, within));
        let Compared { was_set, revision, value } = raised(compared)?;
        Ok((was_set, revision, value))
    }

    /// Every parameter: its name, its value at this node, its default, and a line that says what it is.
    fn parameters(&self) -> PyResult<Vec<(&'static str, String, &'static str, &'static str)>> {
        let node = self.open()?;
        let parameters = node.settings().iter();
        Ok(parameters
            .map(|(known, value)| (known.name, value.to_string(), known.default, known.doc))
            .collect())
    }
}

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

/// How long a client looks for a store.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// A client of the store whose shard 0 is at `address`, with a rank that no other process has.
fn join_store(address: &str) -> Result<farcall::Node, NodeError> {
    let place =
        HostPort::parse_url(address).ok_or_else(|| NodeError::Registry { text: address.to_owned() })?;
    // Shards have the first ranks.
    let clients = RANKS_MAX / 2;
    loop {
        let rank = clients + (random_incarnation() % u64::from(clients)) as u32;
        match Bootstrap::join(&place, rank, RANKS_MAX, LOOK_WITHIN) {
            Err(BootstrapError::Join(JoinError::Refused(Refusal::RankTaken { .. }))) => {}
            joined => return Ok(farcall::Node::new(joined?, Settings::load([])?)),
        }
    }
}
