//! farcall for Python: the native half of the package `farcall`.
//!
//! What a program sees is in `python/farcall`; here is what must be fast or needs the library. A poll only
//! gathers: requests, and the ends of operations. Handlers and futures of Python run between polls, with the
//! lock of the interpreter, so that they may use the endpoint, and a poll of a thread that waits holds no
//! lock. Its page is `docs/python.md`.

#![allow(
    unsafe_code,
    reason = "objects that belong to one thread, memory that Python lends; each with its proof"
)]

mod borrowing;
mod buffer;
mod connection;
mod endpoint;
mod errors;
mod group;
mod group_tasks;
mod node;
mod numbers;
mod owned;
mod payload;
mod principal;
mod request;
mod slots;
mod state;
mod store;
mod tasks;
mod tracing;
mod waiting;

use pyo3::prelude::*;

/// The native half of the package `farcall`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<connection::Listener>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<group_tasks::GroupTasks>()?;
    module.add_class::<node::Node>()?;
    module.add_class::<payload::Loan>()?;
    module.add_class::<payload::Message>()?;
    module.add_class::<payload::Payload>()?;
    module.add_class::<payload::Peer>()?;
    module.add_class::<principal::Principal>()?;
    module.add_class::<request::Deferred>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<slots::Slots>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<tracing::SpanRecorder>()?;
    module.add_class::<tracing::TraceContext>()?;
    module.add_function(wrap_pyfunction!(buffer::fill, module)?)?;
    module.add_function(wrap_pyfunction!(node::counters, module)?)?;
    module.add_function(wrap_pyfunction!(owned::forked, module)?)?;
    module.add_function(wrap_pyfunction!(slots::table_number, module)?)?;
    Ok(())
}
