//! What crosses the border: pointers, texts, times, errors; and panics, which do not.

use core::ffi::{CStr, c_char, c_void};
use core::time::Duration;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::FARCALL_DEFAULT_TIMEOUT;
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_OK, FARCALL_PANICKED};

/// Bytes of an error's text, with the zero at its end.
pub const FARCALL_ERROR_TEXT_BYTES: usize = 512;

/// What went wrong, in one sentence that says what to do. The caller's memory; begin with
/// `FARCALL_ERROR_INIT`.
#[repr(C)]
pub struct ErrorText {
    /// `sizeof(farcall_error_t)`.
    pub size: usize,
    /// What the function returned.
    pub status: Status,
    /// The sentence, cut to fit, with a zero at its end. Written when the function fails.
    pub text: [c_char; FARCALL_ERROR_TEXT_BYTES],
}

/// A failure with its sentence.
pub struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub fn new(status: Status, error: impl Display) -> Self {
        Self { status, text: error.to_string() }
    }

    pub fn argument(what: &str) -> Self {
        Self::new(FARCALL_INVALID_ARGUMENT, what)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::new(status, status.text().to_string_lossy())
    }
}

/// Runs what a function does; a panic becomes a status.
#[inline]
pub fn guarded(body: impl FnOnce() -> Result<(), Status>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => FARCALL_OK,
        Ok(Err(status)) => status,
        Err(_) => FARCALL_PANICKED,
    }
}

/// As [`guarded`], and writes the sentence of a failure.
///
/// # Safety
/// `error` is null or points to an error whose `size` says how much of it there is.
pub unsafe fn reported(error: *mut ErrorText, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return FARCALL_OK,
        Ok(Err(failure)) => failure,
        Err(_) => FARCALL_PANICKED.into(),
    };
    // SAFETY: as promised; an error of another version of the header is left alone.
    if let Some(error) = unsafe { error.as_mut() }
        && error.size == size_of::<ErrorText>()
    {
        error.status = failure.status;
        let text = cut(&failure.text, FARCALL_ERROR_TEXT_BYTES - 1).bytes().filter(|&byte| byte != 0);
        error.text.fill(0);
        error.text.iter_mut().zip(text).for_each(|(place, byte)| *place = byte as c_char);
    }
    failure.status
}

/// The longest beginning of a text that is no longer than this.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text of C.
///
/// # Safety
/// `text` is null or ends with a zero.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::argument(&format!("{what} is null")));
    }
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(&format!("{what} is not UTF-8")))
}

/// The texts of a list that ends with a null; none for a list that is null.
///
/// # Safety
/// `list` is null or ends with a null, and each of its texts ends with a zero.
pub unsafe fn texts<'a>(list: *const *const c_char, what: &str) -> Result<Vec<&'a str>, Failure> {
    let mut found = Vec::new();
    if list.is_null() {
        return Ok(found);
    }
    loop {
        // SAFETY: the list goes on until its null.
        let next = unsafe { *list.add(found.len()) };
        if next.is_null() {
            return Ok(found);
        }
        // SAFETY: as promised.
        found.push(unsafe { text(next, what)? });
    }
}

/// Bytes of C. Null is allowed where there are none.
///
/// # Safety
/// `data` points to `length` bytes that stay as they are.
#[inline]
pub unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Status> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() || length > isize::MAX as usize {
        return Err(FARCALL_INVALID_ARGUMENT);
    }
    // SAFETY: as promised.
    Ok(unsafe { core::slice::from_raw_parts(data.cast(), length) })
}

/// Memory of C that is written to.
///
/// # Safety
/// `data` points to `length` bytes that nothing else uses.
#[inline]
pub unsafe fn bytes_mut<'a>(data: *mut c_void, length: usize) -> Result<&'a mut [u8], Status> {
    if length == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || length > isize::MAX as usize {
        return Err(FARCALL_INVALID_ARGUMENT);
    }
    // SAFETY: as promised.
    Ok(unsafe { core::slice::from_raw_parts_mut(data.cast(), length) })
}

/// Writes a result, unless the caller does not want it.
///
/// # Safety
/// `to` is null or may be written to.
#[inline]
pub unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as promised.
        unsafe { to.write(value) }
    }
}

/// A timeout; `None` is the endpoint's.
#[inline]
pub fn timeout(nanos: u64) -> Option<Duration> {
    (nanos != FARCALL_DEFAULT_TIMEOUT).then(|| Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_between_characters_and_ends_with_a_zero() {
        let mut error = ErrorText {
            size: size_of::<ErrorText>(),
            status: FARCALL_OK,
            text: [1; FARCALL_ERROR_TEXT_BYTES],
        };
        let long = "é".repeat(FARCALL_ERROR_TEXT_BYTES);
        // SAFETY: the error is ours.
        let status = unsafe { reported(&raw mut error, || Err(Failure::argument(&long))) };
        assert_eq!(status, FARCALL_INVALID_ARGUMENT);
        // SAFETY: it was filled with zeros first.
        let text = unsafe { CStr::from_ptr(error.text.as_ptr()) };
        assert_eq!(text.to_str().map(str::len), Ok(FARCALL_ERROR_TEXT_BYTES - 2));
    }

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(guarded(|| panic!("a test panics")), FARCALL_PANICKED);
    }
}
