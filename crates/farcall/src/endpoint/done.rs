//! Which operations of futures are done.
//!
//! It is a copy of what the slab knows, outside of the core that is borrowed during polls: who walks over a thousand futures to
//! see which are complete reads a byte for each, and neither borrows anything nor loads the slab's lines.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use farcall_transport::CallId;

use super::operations::OPERATIONS_MAX;

/// By slot. Shared by an endpoint and its core, which are on the same thread.
#[derive(Clone)]
pub struct Done(Arc<[AtomicBool; OPERATIONS_MAX]>);

impl Done {
    /// None is done.
    pub fn new() -> Self {
        Self(Arc::new([const { AtomicBool::new(false) }; OPERATIONS_MAX]))
    }

    /// Whether the result of the operation is there for its future.
    #[inline]
    pub fn has(&self, operation: CallId) -> bool {
        self.place(operation).load(Relaxed)
    }

    #[inline]
    pub fn set(&self, operation: CallId, is_done: bool) {
        self.place(operation).store(is_done, Relaxed);
    }

    #[inline]
    fn place(&self, operation: CallId) -> &AtomicBool {
        &self.0[usize::from(operation.0 as u16)]
    }
}
