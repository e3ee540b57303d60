//! Bytes that cross the border: received ones, read where they lie, and memory on loan.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::buffer::Readable;

/// An endpoint of another process that a session leads to.
#[pyclass(frozen, eq, hash, module = "farcall", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub farcall::Peer);

#[pymethods]
impl Peer {
    /// The rank of its process, as that says itself; None without one.
    #[getter]
    fn rank(&self) -> Option<u32> {
        Some(self.0.rank()).filter(|&rank| rank != u32::MAX)
    }

    /// The number of the endpoint within its process.
    #[getter]
    fn endpoint(&self) -> u32 {
        self.0.endpoint()
    }

    fn __repr__(&self) -> String {
        let [session, rank, endpoint] = self.0.to_numbers();
        match self.rank() {
            Some(_) => format!("Peer(rank={rank}, endpoint={endpoint}, session={session})"),
            None => format!("Peer(endpoint={endpoint}, session={session})"),
        }
    }
}

/// Received bytes, where they arrived: a long payload is in the sender's memory, which gets it back when the
/// last view of it is gone.
#[pyclass(frozen, module = "farcall", from_py_object)]
#[derive(Clone)]
pub struct Payload(pub farcall::Payload);

impl Payload {
    /// Shows `bytes` of an object through the buffer protocol, for reading.
    unsafe fn fill(
        object: *mut ffi::PyObject,
        bytes: &[u8],
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the view is Python's, and keeps the object; the bytes stay where they are as long as that
        // lives.
        let failed = unsafe {
            let start = bytes.as_ptr().cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, object, start, bytes.len() as isize, 1, flags)
        };
        if failed == 0 { Ok(()) } else { Err(PyBufferError::new_err("received bytes cannot be written to")) }
    }
}

#[pymethods]
impl Payload {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }

    /// A copy, as bytes.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.__bytes__(py)
    }

    /// A byte; of a slice a view.
    fn __getitem__<'py>(slf: Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if index.is_instance_of::<PySlice>() {
            return PyMemoryView::from(&slf)?.get_item(index);
        }
        let (index, bytes) = (index.extract::<isize>()?, &slf.get().0);
        let place = if index < 0 { index.checked_add_unsigned(bytes.len()) } else { Some(index) };
        let byte = place.and_then(|place| bytes.get(usize::try_from(place).ok()?));
        let byte = byte.ok_or_else(|| PyIndexError::new_err("the payload is shorter"))?;
        Ok(byte.into_pyobject(slf.py())?.into_any())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        Readable::extract_bound(other).is_ok_and(|other| other.as_slice() == &*self.0)
    }

    fn __repr__(&self) -> String {
        format!("Payload({} bytes)", self.0.len())
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the payload is in the object and never changes.
        unsafe { Self::fill(slf.as_ptr(), &slf.get().0, view, flags) }
    }
}

/// A received message.
#[pyclass(frozen, module = "farcall")]
pub struct Message {
    /// Its sender.
    #[pyo3(get)]
    pub peer: Peer,
    /// Its tag.
    #[pyo3(get)]
    pub tag: u32,
    /// Its bytes.
    #[pyo3(get)]
    pub payload: Payload,
}

#[pymethods]
impl Message {
    fn __len__(&self) -> usize {
        self.payload.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.payload.__bytes__(py)
    }

    fn __repr__(&self) -> String {
        format!("Message(tag={}, {} bytes)", self.tag, self.payload.0.len())
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the payload is in the object and never changes.
        unsafe { Payload::fill(slf.as_ptr(), &slf.get().payload.0, view, flags) }
    }
}

/// Memory of the fabric: written in place, through the buffer protocol, and sent without a copy.
#[pyclass(frozen, module = "farcall")]
pub struct Loan {
    /// `None` once it was sent.
    loan: Mutex<Option<farcall::Loan>>,
    /// Views of it that are open.
    views: AtomicUsize,
}

impl Loan {
    pub fn new(loan: farcall::Loan) -> Self {
        Self { loan: Mutex::new(Some(loan)), views: AtomicUsize::new(0) }
    }

    /// Takes the memory out, to be sent.
    pub fn take(&self) -> PyResult<farcall::Loan> {
        if self.views.load(Ordering::Relaxed) > 0 {
            return Err(PyBufferError::new_err("release the views of the loan before it is sent"));
        }
        let loan = self.loan.lock().unwrap_or_else(PoisonError::into_inner).take();
        loan.ok_or_else(|| PyBufferError::new_err("the loan was sent already; ask for another one"))
    }
}

#[pymethods]
impl Loan {
    fn __len__(&self) -> usize {
        self.loan.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |loan| loan.len())
    }

    fn __repr__(&self) -> String {
        format!("Loan({} bytes)", self.__len__())
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let mut guard = this.loan.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(loan) = guard.as_mut() else {
            return Err(PyBufferError::new_err("the loan was sent already; ask for another one"));
        };
        // SAFETY: the view is Python's, and keeps the object; the memory stays until the loan is taken, which
        // an open view prevents.
        let failed = unsafe {
            let (start, length) = (loan.as_mut_ptr().cast(), loan.len() as isize);
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 0, flags)
        };
        if failed != 0 {
            return Err(PyBufferError::new_err("this view of a loan is not possible"));
        }
        this.views.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, Ordering::Relaxed);
    }
}
