//! Collective operations for event loops: as tasks of the endpoint, on memory of their own.
//!
//! A task holds no object of Python, so an operation works on a copy, and the package copies the result to
//! the array that the program gave. Operations of a group run one after another, as the package orders them.

use core::future::Future;

use farcall_collective::{CollectiveError, Group as RustGroup, Part};
use pyo3::BoundObject;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::buffer::{Readable, Room};
use crate::errors::raised;
use crate::group::{Combine, Group, Number, SharedGroup, check_parts, exclusive, is_member, reduction};
use crate::tasks::Output;

/// The operations of a group, each with a future of Python that gets its outcome.
#[pyclass(frozen, module = "farcall._native")]
pub struct GroupTasks(Py<Group>);

/// Runs an operation, which borrows the group as long as it takes.
#[expect(
    clippy::await_holding_refcell_ref,
    reason = "`exclusive` refuses a second operation, and does not panic"
)]
async fn operate<T, R>(
    group: SharedGroup,
    operation: impl AsyncFnOnce(&mut RustGroup<'static>) -> Result<T, CollectiveError>,
    show: impl FnOnce(Python<'_>, T) -> PyResult<R> + 'static,
) -> Output
where
    T: 'static,
    R: for<'py> IntoPyObject<'py>,
{
    let outcome = match exclusive(&group) {
        Ok(mut group) => raised(operation(&mut group).await),
        Err(error) => Err(error),
    };
    Box::new(move |py| {
        let shown = show(py, outcome?)?.into_pyobject(py).map_err(Into::into)?;
        Ok(shown.into_any().unbind())
    })
}

fn owned(parts: Vec<Part<'_>>) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn list(py: Python<'_>, parts: Vec<Vec<u8>>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, parts.iter().map(|part| PyBytes::new(py, part)))?.into_any().unbind())
}

fn bytes(py: Python<'_>, bytes: &[u8]) -> Py<PyAny> {
    PyBytes::new(py, bytes).into_any().unbind()
}

impl GroupTasks {
    fn spawn<F: Future<Output = Output> + 'static>(
        &self,
        future: Py<PyAny>,
        task: impl FnOnce(SharedGroup) -> F,
    ) -> PyResult<()> {
        let (state, group) = self.0.get().parts()?;
        state.tasks.spawn(task(group), future);
        Ok(())
    }

    fn spawn_reduction<T: Number + 'static>(
        &self,
        future: Py<PyAny>,
        mut values: Vec<T>,
        how: Combine,
    ) -> PyResult<()> {
        self.spawn(future, |group| {
            let operation = async move |group: &mut RustGroup<'static>| {
                let combine = move |one: T, other| one.combine(other, how);
                group.all_reduce(&mut values, combine).await.map(|()| values)
            };
            operate(group, operation, |py, values| {
                let mut reduced = vec![0; size_of_val(&values[..])];
                for (place, &value) in reduced.chunks_exact_mut(T::BYTES).zip(&values) {
                    value.write(place);
                }
                Ok(bytes(py, &reduced))
            })
        })
    }
}

#[pymethods]
impl GroupTasks {
    #[new]
    fn new(group: Py<Group>) -> Self {
        Self(group)
    }

    fn barrier(&self, future: Py<PyAny>) -> PyResult<()> {
        self.spawn(future, |group| {
            operate(
                group,
                async |group: &mut RustGroup<'static>| group.barrier().await,
                |py, ()| Ok(py.None()),
            )
        })
    }

    /// Gives the bytes that the root has in its buffer.
    fn broadcast(&self, future: Py<PyAny>, buffer: &Bound<'_, PyAny>, root: u32) -> PyResult<()> {
        is_member(&*exclusive(&self.0.get().parts()?.1)?, root)?;
        let (mut room, _) = Room::of(buffer)?;
        let mut all = room.elements::<u8>().expect("bytes are aligned").to_vec();
        self.spawn(future, |group| {
            let operation = async move |group: &mut RustGroup<'static>| {
                group.broadcast(root, &mut all).await.map(|()| all)
            };
            operate(group, operation, |py, all| Ok(bytes(py, &all)))
        })
    }

    /// Gives the bytes of the combined array.
    fn all_reduce(&self, future: Py<PyAny>, array: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        let how = Combine::of(op)?;
        let (room, format) = Room::of(array)?;
        reduction!(room, format, T => self.spawn_reduction(future, room.copied::<T>()?, how))
    }

    /// Gives a list at the root, and None at the others.
    fn gather(&self, future: Py<PyAny>, data: Readable<'_>, root: u32) -> PyResult<()> {
        is_member(&*exclusive(&self.0.get().parts()?.1)?, root)?;
        let part = data.as_slice().to_vec();
        self.spawn(future, |group| {
            let operation = async move |group: &mut RustGroup<'static>| {
                let is_root = group.own() == root;
                group.gather(root, &part).await.map(|parts| is_root.then(|| owned(parts)))
            };
            operate(group, operation, |py, parts| {
                parts.map_or_else(|| Ok(py.None()), |parts| list(py, parts))
            })
        })
    }

    /// Gives a list.
    fn all_gather(&self, future: Py<PyAny>, data: Readable<'_>) -> PyResult<()> {
        let part = data.as_slice().to_vec();
        self.spawn(future, |group| {
            let operation =
                async move |group: &mut RustGroup<'static>| group.all_gather_v(&part).await.map(owned);
            operate(group, operation, list)
        })
    }

    /// Gives a list.
    fn all_to_all(&self, future: Py<PyAny>, parts: Vec<Readable<'_>>) -> PyResult<()> {
        check_parts(&*exclusive(&self.0.get().parts()?.1)?, parts.len())?;
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_slice().to_vec()).collect();
        self.spawn(future, |group| {
            let operation =
                async move |group: &mut RustGroup<'static>| group.all_to_all_v(&parts).await.map(owned);
            operate(group, operation, list)
        })
    }
}
