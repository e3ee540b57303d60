//! Memory of Python that is sent or filled.

use farcall::Outgoing;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::group::unaligned;
use crate::payload::{Loan, Message, Payload};

/// What is sent: bytes, whatever has the buffer protocol, a payload that is passed on, or a loan.
pub enum Data<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyUntypedBuffer),
    Payload(farcall::Payload),
    Loan(Bound<'py, Loan>),
}

impl<'py> Data<'py> {
    /// The data that an object is.
    pub fn extract_bound(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        if let Ok(payload) = object.cast::<Payload>() {
            return Ok(Self::Payload(payload.get().0.clone()));
        }
        if let Ok(message) = object.cast::<Message>() {
            return Ok(Self::Payload(message.get().payload.0.clone()));
        }
        if let Ok(loan) = object.cast::<Loan>() {
            return Ok(Self::Loan(loan.clone()));
        }
        contiguous(object).map(Self::Buffer)
    }

    /// The bytes; a loan is given away whole.
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Payload(payload) => payload,
            // SAFETY: the buffer is contiguous and stays where it is until it is released. The caller holds
            // Python's lock; another thread that writes to it without the lock sends what it wrote.
            Self::Buffer(buffer) => unsafe { slice(buffer) },
            Self::Loan(_) => &[],
        }
    }

    /// The payload as the library takes it; a loan is gone then.
    pub fn outgoing(&self) -> PyResult<Outgoing<'_>> {
        Ok(match self {
            Self::Loan(loan) => loan.get().take()?.into(),
            Self::Payload(payload) => payload.clone().into(),
            Self::Bytes(_) | Self::Buffer(_) => self.as_slice().into(),
        })
    }
}

impl<'py> FromPyObject<'_, 'py> for Data<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Self::extract_bound(&object)
    }
}

/// What is copied, and stays with its owner: as [`Data`], and of a loan the bytes that were written to it.
pub struct Readable<'py>(Data<'py>);

impl<'py> Readable<'py> {
    /// The bytes that an object has.
    pub fn extract_bound(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        match Data::extract_bound(object)? {
            Data::Loan(loan) => contiguous(&loan).map(Data::Buffer).map(Self),
            data => Ok(Self(data)),
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl<'py> FromPyObject<'_, 'py> for Readable<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Self::extract_bound(&object)
    }
}

fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object).or_else(|error| flat(object).map_err(|_| error));
    let buffer = buffer.map_err(|error| {
        let name = object.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
        // What has the protocol and cannot use it, such as an array of dates, says why.
        let why = match error.is_instance_of::<PyTypeError>(object.py()) {
            true => String::new(),
            false => format!(": {}", error.value(object.py())),
        };
        let sentence =
            format!("bytes are needed, or an object with the buffer protocol, and not {name}{why}");
        PyTypeError::new_err(sentence)
    })?;
    if has_pointers(buffer.format().to_bytes()) {
        return Err(PyTypeError::new_err(
            "the elements are pointers, which mean nothing elsewhere; send what they point to",
        ));
    }
    if buffer.is_c_contiguous() {
        Ok(buffer)
    } else {
        Err(PyBufferError::new_err("the buffer is not contiguous; send a contiguous copy of it"))
    }
}

/// The memory of an object that gives no strides, such as an array of ctypes, or is a single element, such as
/// an array of numpy without a dimension: as Python's own view of it, of one dimension.
fn flat(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let view = PyMemoryView::from(object)?;
    if view.getattr("ndim")?.extract::<usize>()? > 0 {
        return PyUntypedBuffer::get(&view);
    }
    let bytes = view.call_method1("cast", ("B",))?;
    PyUntypedBuffer::get(&bytes.call_method1("cast", (view.getattr("format")?,))?)
}

/// Whether a format of the module `struct` has objects, pointers or functions in it. Names of members are
/// between colons.
fn has_pointers(format: &[u8]) -> bool {
    let outside_of_names = format.split(|&letter| letter == b':').step_by(2);
    outside_of_names.flatten().any(|letter| matches!(letter, b'O' | b'P' | b'&' | b'X'))
}

/// Copies the result of an operation to the memory that it is for, which is as long as it was when that
/// began.
#[pyfunction]
pub fn fill(buffer: &Bound<'_, PyAny>, data: Readable<'_>) -> PyResult<()> {
    let (mut room, _) = Room::of(buffer)?;
    let (place, data) = (room.elements::<u8>().expect("bytes are aligned"), data.as_slice());
    if place.len() != data.len() {
        return Err(PyBufferError::new_err(
            "the buffer has changed its length while the operation was in flight",
        ));
    }
    place.copy_from_slice(data);
    Ok(())
}

/// # Safety
/// The buffer is contiguous, and outlives the slice.
unsafe fn slice<'a>(buffer: &PyUntypedBuffer) -> &'a [u8] {
    match buffer.len_bytes() {
        0 => &[],
        // SAFETY: as promised; Python says how long it is.
        length => unsafe { core::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), length) },
    }
}

/// Memory of Python that is written to while it is held.
pub struct Room(PyUntypedBuffer);

impl Room {
    /// The memory, and the type of its elements as one letter of the module `struct`, `None` for another one.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<(Self, Option<u8>)> {
        let buffer = contiguous(object)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only, and the result is written to it"));
        }
        let format = match buffer.format().to_bytes() {
            [b'@' | b'=' | b'<', letter] | [letter] => Some(*letter),
            _ => None,
        };
        Ok((Self(buffer), format))
    }

    /// The length of an element in bytes.
    pub fn item_bytes(&self) -> usize {
        self.0.item_size()
    }

    /// A copy of the elements.
    pub fn copied<T: farcall_collective::Element>(mut self) -> PyResult<Vec<T>> {
        self.elements().map(|elements| elements.to_vec()).ok_or_else(unaligned)
    }

    /// The memory as elements; `None` if it is not aligned for them, or has a part of one.
    pub fn elements<T: farcall_collective::Element>(&mut self) -> Option<&mut [T]> {
        let start = self.0.buf_ptr().cast::<T>();
        let bytes = self.0.len_bytes();
        if bytes == 0 {
            return Some(&mut []);
        }
        if !start.is_aligned() || !bytes.is_multiple_of(size_of::<T>()) {
            return None;
        }
        // SAFETY: it is aligned, contiguous and writable, numbers have no invalid bits, and the buffer is
        // held: nothing moves or frees it. That no other thread uses it meanwhile is the program's to see to,
        // as with numpy's own functions that release the lock.
        Some(unsafe { core::slice::from_raw_parts_mut(start, bytes / size_of::<T>()) })
    }
}
