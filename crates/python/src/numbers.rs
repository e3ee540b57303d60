//! Numbers that programs give: services, tags and times, whose ranges are said where they are left.

use core::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A number of seconds as a time.
pub fn seconds(number: Option<f64>) -> PyResult<Option<Duration>> {
    let time = |number| {
        Duration::try_from_secs_f64(number)
            .map_err(|_| PyValueError::new_err("a timeout is a finite number of seconds, 0 or more"))
    };
    number.map(time).transpose()
}

/// The number of a service.
pub struct ServiceNumber(pub u16);

/// A tag.
pub struct TagNumber(pub u32);

fn number<T: for<'a> TryFrom<u64>>(object: Borrowed<'_, '_, PyAny>, what: &str, most: u64) -> PyResult<T> {
    let outside = || PyOverflowError::new_err(format!("a {what} is a number of 0 to {most}"));
    match object.extract::<u64>() {
        Ok(number) if number <= most => T::try_from(number).map_err(|_| outside()),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Err(error),
        _ => Err(outside()),
    }
}

impl<'py> FromPyObject<'_, 'py> for ServiceNumber {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        number(object, "service", u16::MAX.into()).map(Self)
    }
}

impl<'py> FromPyObject<'_, 'py> for TagNumber {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        number(object, "tag", u32::MAX.into()).map(Self)
    }
}
