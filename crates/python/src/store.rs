//! A client of the store: versioned objects in tables, on the shards of a cluster.

use core::future::Future;
use std::rc::{Rc, Weak};

use farcall_kv::durable::Level;
use farcall_kv::store::Condition;
use farcall_kv::wire::{PutRequest, SHARDS_MAX};
use farcall_kv::{Client, Name, Receipt, TableId, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::borrowing::{Borrowing, Child, Close};
use crate::buffer::Readable;
use crate::errors::{Raise, raised};
use crate::numbers::seconds;
use crate::owned::Owned;
use crate::state::{State, open};
use crate::tasks::Output;

/// A client of all shards of a store; operations give their outcome to a future if there is one.
#[pyclass(frozen, module = "farcall._native")]
pub struct Store(Owned<Parts>);

struct Parts {
    client: Rc<Child<Client<'static>>>,
    state: Weak<State>,
}

impl Store {
    pub fn new(state: Rc<State>, ranks: Vec<u32>) -> PyResult<Self> {
        if !(1..=SHARDS_MAX as usize).contains(&ranks.len()) {
            let sentence = format!("a store has 1 to {SHARDS_MAX} shards; give the rank of each");
            return Err(PyValueError::new_err(sentence));
        }
        let Ok(client) = Borrowing::new(&state.endpoint, |endpoint| {
            Ok::<_, core::convert::Infallible>(Client::new(endpoint, ranks))
        });
        let client = Child::new(client, &state.children);
        Ok(Self(Owned::new(Parts { client, state: Rc::downgrade(&state) })))
    }

    fn run<F: Future<Output = Output> + 'static>(
        &self,
        py: Python<'_>,
        future: Option<Py<PyAny>>,
        operation: impl FnOnce(Rc<Borrowing<Client<'static>>>) -> F,
    ) -> PyResult<Py<PyAny>> {
        let Parts { client, state } = self.0.get()?;
        open(state)?.run(py, operation(client.open()?), future)
    }
}

/// Waits for an operation, which may have a timeout.
macro_rules! done {
    ($operation:expr, $within:expr) => {
        match $within {
            Some(within) => $operation.within(within).await,
            None => $operation.await,
        }
    };
}

/// What must hold for a write: no version is any, 0 that there is no object.
pub fn condition(version: Option<u64>) -> Condition {
    match version {
        None => Condition::Always,
        Some(0) => Condition::Absent,
        Some(version) => Condition::Version(version),
    }
}

pub fn bytes_of(data: &Readable<'_>) -> Vec<u8> {
    data.as_slice().to_vec()
}

/// The number that a write gave, its version or its sum, and the level that it has reached.
pub fn written<'py, N>(py: Python<'py>, number: N, level: Level) -> PyResult<Py<PyAny>>
where
    (N, String): IntoPyObject<'py, Target = PyTuple, Error = PyErr, Output = Bound<'py, PyTuple>>,
{
    Ok((number, level.to_string()).into_pyobject(py)?.into_any().unbind())
}

/// An object as Python has it: its value and its version.
pub fn object(py: Python<'_>, value: &[u8], version: u64) -> PyResult<Py<PyAny>> {
    Ok((PyBytes::new(py, value), version).into_pyobject(py)?.into_any().unbind())
}

#[pymethods]
impl Store {
    #[pyo3(signature = (name, level, _future = None))]
    fn create_table(
        &self,
        py: Python<'_>,
        name: String,
        level: &str,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let level = Level::named(level)
            .ok_or_else(|| PyValueError::new_err(format!("a level is {}", Level::FORMS)))?;
        self.run(py, _future, move |client| async move {
            let outcome = client.create_table_at(&name, level).await;
            let output: Output =
                Box::new(move |py| Ok(raised(outcome)?.0.into_pyobject(py)?.into_any().unbind()));
            output
        })
    }

    #[pyo3(signature = (name, _future = None))]
    fn drop_table(&self, py: Python<'_>, name: String, _future: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.run(py, _future, |client| async move {
            let outcome = client.drop_table(&name).await;
            let output: Output =
                Box::new(move |py| Ok(raised(outcome)?.into_pyobject(py)?.to_owned().into_any().unbind()));
            output
        })
    }

    #[pyo3(signature = (table, key, timeout = None, _future = None))]
    fn get(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        timeout: Option<f64>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, within) = (bytes_of(&key), seconds(timeout)?);
        raised(Name::new(TableId(table), &key))?;
        self.run(py, _future, |client| async move {
            let name = Name::new(TableId(table), &key).expect("it was checked");
            let outcome = done!(client.get(name), within);
            let output: Output = Box::new(move |py| match raised(outcome)? {
                Some(found) => object(py, found.value(), found.version()),
                None => Ok(py.None()),
            });
            output
        })
    }

    #[pyo3(signature = (table, key, value, version = None, timeout = None, _future = None))]
    #[expect(clippy::too_many_arguments, reason = "those of the method of Python")]
    fn put(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        value: Readable<'_>,
        version: Option<u64>,
        timeout: Option<f64>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, value, within) = (bytes_of(&key), bytes_of(&value), seconds(timeout)?);
        raised(Name::new(TableId(table), &key))?;
        raised(Value::new(&value))?;
        self.run(py, _future, move |client| async move {
            let name = Name::new(TableId(table), &key).expect("it was checked");
            let value = Value::new(&value).expect("it was checked");
            let outcome = done!(client.put(name, value, condition(version)).with_receipt(), within);
            let output: Output = Box::new(move |py| {
                let Receipt { result, level } = raised(outcome)?;
                written(py, result, level)
            });
            output
        })
    }

    #[pyo3(signature = (table, key, version = None, timeout = None, _future = None))]
    fn remove(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        version: Option<u64>,
        timeout: Option<f64>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, within) = (bytes_of(&key), seconds(timeout)?);
        raised(Name::new(TableId(table), &key))?;
        self.run(py, _future, move |client| async move {
            let name = Name::new(TableId(table), &key).expect("it was checked");
            let outcome = done!(client.delete(name, condition(version)).with_receipt(), within);
            let output: Output = Box::new(move |py| {
                let Receipt { result, level } = raised(outcome)?;
                result.map_or_else(|| Ok(py.None()), |version| written(py, version, level))
            });
            output
        })
    }

    #[pyo3(signature = (table, key, amount, timeout = None, _future = None))]
    fn increment(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        amount: i64,
        timeout: Option<f64>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, within) = (bytes_of(&key), seconds(timeout)?);
        raised(Name::new(TableId(table), &key))?;
        self.run(py, _future, move |client| async move {
            let name = Name::new(TableId(table), &key).expect("it was checked");
            let outcome = done!(client.increment(name, amount).with_receipt(), within);
            let output: Output = Box::new(move |py| {
                let Receipt { result: (_version, sum), level } = raised(outcome)?;
                written(py, sum, level)
            });
            output
        })
    }

    /// Reads objects: for each its value and version, None if there is none, or the exception.
    #[pyo3(signature = (table, keys, _future = None))]
    fn get_many(
        &self,
        py: Python<'_>,
        table: u64,
        keys: Vec<Readable<'_>>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(bytes_of).collect();
        keys.iter().try_for_each(|key| raised(Name::new(TableId(table), key)).map(drop))?;
        self.run(py, _future, move |client| async move {
            let name = |key| Name::new(TableId(table), key).expect("it was checked");
            let names: Vec<Name<'_>> = keys.iter().map(|key| name(key)).collect();
            let outcomes = client.multi_get(&names).await;
            let output: Output = Box::new(move |py| {
                let objects = outcomes.into_iter().map(|outcome| match outcome {
                    Ok(Some(found)) => object(py, found.value(), found.version()),
                    Ok(None) => Ok(py.None()),
                    Err(failure) => Ok(failure.raise().into_value(py).into_any()),
                });
                list(py, objects)
            });
            output
        })
    }

    /// Writes objects: for each its version afterwards, or the exception.
    #[pyo3(signature = (table, objects, _future = None))]
    fn put_many(
        &self,
        py: Python<'_>,
        table: u64,
        objects: Vec<(Readable<'_>, Readable<'_>, Option<u64>)>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let copied = |(key, value, version): &(Readable<'_>, Readable<'_>, Option<u64>)| {
            (bytes_of(key), bytes_of(value), *version)
        };
        let objects: Vec<(Vec<u8>, Vec<u8>, Option<u64>)> = objects.iter().map(copied).collect();
        for (key, value, _) in &objects {
            raised(Name::new(TableId(table), key))?;
            raised(Value::new(value))?;
        }
        self.run(py, _future, move |client| async move {
            let puts: Vec<PutRequest<'_>> = objects
                .iter()
                .map(|(key, value, version)| PutRequest {
                    name: Name::new(TableId(table), key).expect("it was checked"),
                    value: Value::new(value).expect("it was checked"),
                    condition: condition(*version),
                })
                .collect();
            let outcomes = client.multi_put_with_receipts(&puts).await;
            let output: Output = Box::new(move |py| {
                let versions = outcomes.into_iter().map(|outcome| match outcome {
                    Ok(Receipt { result, level }) => written(py, result, level),
                    Err(failure) => Ok(failure.raise().into_value(py).into_any()),
                });
                list(py, versions)
            });
            output
        })
    }

    /// How many shards the store has, as shard 0 says.
    fn shards(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.run(py, None, |client| async move {
            let outcome = client.statistics(0).await;
            let output: Output =
                Box::new(move |py| Ok(raised(outcome)?.shards.into_pyobject(py)?.into_any().unbind()));
            output
        })
    }

    /// Ends the use of the store.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.client.close();
        Ok(())
    }
}

pub fn list(py: Python<'_>, items: impl Iterator<Item = PyResult<Py<PyAny>>>) -> PyResult<Py<PyAny>> {
    let items: Vec<Py<PyAny>> = items.collect::<PyResult<_>>()?;
    Ok(PyList::new(py, items)?.into_any().unbind())
}
