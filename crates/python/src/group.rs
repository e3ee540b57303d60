//! Collective operations on memory of Python, such as arrays of numpy.

use core::cell::{RefCell, RefMut};
use std::rc::{Rc, Weak};

use farcall_collective::{Collective, CollectiveError, Element, GROUP_IDS, Group as RustGroup, GroupId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::borrowing::{Borrowing, Child, Close};
use crate::buffer::{Readable, Room};
use crate::errors::{ClosedError, raised};
use crate::owned::Owned;
use crate::state::{State, open};

/// A member's view of a group of processes: what MPI calls a communicator.
#[pyclass(frozen, module = "farcall")]
pub struct Group(Owned<Parts>);

struct Parts {
    group: Rc<Child<RefCell<RustGroup<'static>>>>,
    state: Weak<State>,
}

/// A group, which one operation at a time borrows.
pub type SharedGroup = Rc<Borrowing<RefCell<RustGroup<'static>>>>;

impl Group {
    pub fn new(state: Rc<State>, number: u16, own: u32, ranks: Vec<u32>) -> PyResult<Self> {
        if number >= GROUP_IDS {
            return Err(PyValueError::new_err(format!("the number of a group is below {GROUP_IDS}")));
        }
        let id = GroupId::new(number);
        let group = Borrowing::new(&state.endpoint, |endpoint| {
            RustGroup::new(endpoint, id, own, ranks).map(RefCell::new)
        });
        let group = Child::new(raised(group)?, &state.children);
        Ok(Self(Owned::new(Parts { group, state: Rc::downgrade(&state) })))
    }

    /// The endpoint and the group, unless they are closed.
    pub fn parts(&self) -> PyResult<(Rc<State>, SharedGroup)> {
        let Parts { group, state } = self.0.get()?;
        Ok((open(state)?, group.open()?))
    }
}

/// Waits for an operation of a group. One that is interrupted breaks its group.
fn wait<T>(
    state: &State,
    py: Python<'_>,
    mut operation: Collective<'_, T>,
) -> PyResult<Result<T, CollectiveError>> {
    state.may_wait()?;
    let mut outcome = None;
    state.wait_detached(py, None, || {
        outcome = operation.poll_now();
        outcome.is_some()
    })?;
    // Messages of an operation that has ended here may still have to leave.
    state.endpoint.poll_once();
    Ok(outcome.expect("it is over"))
}

/// How two elements are combined.
#[derive(Clone, Copy)]
pub enum Combine {
    Sum,
    Product,
    Min,
    Max,
}

impl Combine {
    pub fn of(name: &str) -> PyResult<Self> {
        match name {
            "sum" => Ok(Self::Sum),
            "prod" => Ok(Self::Product),
            "min" => Ok(Self::Min),
            "max" => Ok(Self::Max),
            _ => Err(PyValueError::new_err("the operation is `sum`, `prod`, `min` or `max`")),
        }
    }
}

/// An element that can be combined; integers wrap around, as those of numpy do.
pub trait Number: Element {
    fn combine(self, other: Self, how: Combine) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $sum:expr, $product:expr;)+) => {$(
        impl Number for $number {
            fn combine(self, other: Self, how: Combine) -> Self {
                match how {
                    Combine::Sum => $sum(self, other),
                    Combine::Product => $product(self, other),
                    Combine::Min => farcall_collective::min(self, other),
                    Combine::Max => farcall_collective::max(self, other),
                }
            }
        }
    )+};
}

numbers! {
    i8: Self::wrapping_add, Self::wrapping_mul;
    u8: Self::wrapping_add, Self::wrapping_mul;
    i16: Self::wrapping_add, Self::wrapping_mul;
    u16: Self::wrapping_add, Self::wrapping_mul;
    i32: Self::wrapping_add, Self::wrapping_mul;
    u32: Self::wrapping_add, Self::wrapping_mul;
    i64: Self::wrapping_add, Self::wrapping_mul;
    u64: Self::wrapping_add, Self::wrapping_mul;
    f32: core::ops::Add::add, core::ops::Mul::mul;
    f64: core::ops::Add::add, core::ops::Mul::mul;
}

/// What `$body` makes of a memory whose elements are of the type `$number`.
macro_rules! reduction {
    ($room:ident, $format:expr, $number:ident => $body:expr) => {{
        macro_rules! with {
            ($chosen:ty) => {{
                type $number = $chosen;
                $body
            }};
        }
        match ($format, $room.item_bytes()) {
            (Some(b'f'), 4) => with!(f32),
            (Some(b'd'), 8) => with!(f64),
            (Some(b'b' | b'h' | b'i' | b'l' | b'q'), 1) => with!(i8),
            (Some(b'b' | b'h' | b'i' | b'l' | b'q'), 2) => with!(i16),
            (Some(b'b' | b'h' | b'i' | b'l' | b'q'), 4) => with!(i32),
            (Some(b'b' | b'h' | b'i' | b'l' | b'q'), 8) => with!(i64),
            (Some(b'B' | b'H' | b'I' | b'L' | b'Q'), 1) => with!(u8),
            (Some(b'B' | b'H' | b'I' | b'L' | b'Q'), 2) => with!(u16),
            (Some(b'B' | b'H' | b'I' | b'L' | b'Q'), 4) => with!(u32),
            (Some(b'B' | b'H' | b'I' | b'L' | b'Q'), 8) => with!(u64),
            _ => Err(pyo3::exceptions::PyTypeError::new_err(
                "the elements must be integers, float32 or float64, in the byte order of this machine",
            )),
        }
    }};
}
pub(crate) use reduction;

fn all_reduce<T: Number>(
    state: &State,
    py: Python<'_>,
    group: &mut RustGroup<'static>,
    room: &mut Room,
    how: Combine,
) -> PyResult<()> {
    let values = room.elements::<T>().ok_or_else(unaligned)?;
    let operation = group.all_reduce(values, move |one: T, other| one.combine(other, how));
    raised(wait(state, py, operation)?)
}

/// Why the memory of an array is not taken for its elements.
pub fn unaligned() -> PyErr {
    PyTypeError::new_err("the array is not aligned")
}

#[pymethods]
impl Group {
    /// The number of this member, from 0.
    #[getter]
    fn rank(&self) -> PyResult<u32> {
        let group = self.0.get()?.group.open()?;
        let own = group.borrow().own();
        Ok(own)
    }

    /// How many members there are.
    #[getter]
    fn size(&self) -> PyResult<u32> {
        let group = self.0.get()?.group.open()?;
        let size = group.borrow().size();
        Ok(size)
    }

    /// Returns when all members have called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let (state, group) = self.parts()?;
        raised(wait(&state, py, exclusive(&group)?.barrier())?)
    }

    /// Fills `buffer` at all members with what the root has in it.
    #[pyo3(signature = (buffer, root = 0))]
    fn broadcast(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, root: u32) -> PyResult<()> {
        let (state, group) = self.parts()?;
        let mut group = exclusive(&group)?;
        is_member(&group, root)?;
        let (mut room, _) = Room::of(buffer)?;
        let bytes = room.elements::<u8>().expect("bytes are aligned");
        raised(wait(&state, py, group.broadcast(root, bytes))?)
    }

    /// Combines the arrays of all members element by element, in place, by `sum`, `prod`, `min` or `max`.
    #[pyo3(signature = (array, op = "sum"))]
    fn all_reduce(&self, py: Python<'_>, array: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        let how = Combine::of(op)?;
        let (state, group) = self.parts()?;
        let group = &mut *exclusive(&group)?;
        let (mut room, format) = Room::of(array)?;
        reduction!(room, format, T => all_reduce::<T>(&state, py, group, &mut room, how))
    }

    /// What all members give, in their order, at the root; None at the others. Lengths may differ.
    #[pyo3(signature = (data, root = 0))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        data: Readable<'py>,
        root: u32,
    ) -> PyResult<Option<Vec<Bound<'py, PyBytes>>>> {
        let (state, group) = self.parts()?;
        let mut group = exclusive(&group)?;
        is_member(&group, root)?;
        let own = group.own();
        let parts = raised(wait(&state, py, group.gather(root, data.as_slice()))?)?;
        Ok((own == root).then(|| parts.iter().map(|part| PyBytes::new(py, part)).collect()))
    }

    /// What all members give, in their order. Lengths may differ.
    fn all_gather<'py>(&self, py: Python<'py>, data: Readable<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (state, group) = self.parts()?;
        let mut group = exclusive(&group)?;
        let parts = raised(wait(&state, py, group.all_gather_v(data.as_slice()))?)?;
        Ok(parts.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// Gives each member its part of `parts`, and returns what the members had for this one. Lengths may
    /// differ.
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Readable<'py>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (state, group) = self.parts()?;
        let mut group = exclusive(&group)?;
        check_parts(&group, parts.len())?;
        let parts: Vec<&[u8]> = parts.iter().map(Readable::as_slice).collect();
        let received = raised(wait(&state, py, group.all_to_all_v(&parts))?)?;
        Ok(received.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// Ends the use of the group.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.group.close();
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Group(rank={}, size={})", self.rank()?, self.size()?))
    }
}

pub fn check_parts(group: &RustGroup<'_>, parts: usize) -> PyResult<()> {
    if parts == group.size() as usize {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("give a part for each of the {} members", group.size())))
}

pub fn is_member(group: &RustGroup<'_>, root: u32) -> PyResult<()> {
    if root < group.size() {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("the root is one of the {} members", group.size())))
}

/// The group for one operation: another one may wait further down the stack, where a handler of signals runs.
pub fn exclusive<'a>(group: &'a RefCell<RustGroup<'static>>) -> PyResult<RefMut<'a, RustGroup<'static>>> {
    let group = group.try_borrow_mut();
    group.map_err(|_| ClosedError::new_err("an operation of this group is in flight; end it first"))
}
