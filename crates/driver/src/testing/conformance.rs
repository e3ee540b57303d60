//! What every driver must do, as test functions that any driver can be put through.
//!
//! [`datagram`] and [`lane`] hold the cases of the two seams;
//! [`datagram_conformance!`](crate::datagram_conformance) and [`lane_conformance!`](crate::lane_conformance)
//! turn all of them into tests of one implementation. A driver is given by a factory: `factory(count)` makes
//! `count` drivers that can reach each other, on a fabric that does not lose packets while it is not
//! overloaded.

pub mod datagram;
mod headers;
pub mod lane;

use std::time::{Duration, Instant};

pub use headers::agree_with_headers;

/// How long a case waits for what must happen before it fails. Nothing measures this: it only ends a hanging
/// test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries until there is a result.
///
/// # Panics
/// When there is none for two minutes; `what` says what did not happen.
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(Instant::now() < deadline, "did not happen within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

/// What drivers need that are always there.
pub fn nothing_needed() -> Result<(), &'static str> {
    Ok(())
}

/// Makes `N` drivers.
fn made<D, const N: usize>(make: impl Fn(usize) -> Vec<D>) -> [D; N] {
    make(N)
        .try_into()
        .unwrap_or_else(|drivers: Vec<D>| panic!("asked for {N} drivers, got {}", drivers.len()))
}

/// Whether one of `descriptors` becomes readable.
fn becomes_readable(descriptors: &[std::os::fd::RawFd]) -> bool {
    let mut polled: Vec<libc::pollfd> =
        descriptors.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout_ms = i32::try_from(PATIENCE.as_millis()).expect("patience is short");
    // SAFETY: the kernel reads and writes exactly the entries of the vector.
    #[expect(unsafe_code, reason = "descriptors of drivers are plain numbers")]
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    ready > 0
}
