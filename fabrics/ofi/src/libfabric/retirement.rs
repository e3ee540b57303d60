//! Endpoints in shared memory that have ended, until the last of the process has.
//!
//! In libfabric's `shm` provider two endpoints of one process use each other's memory in place, and each
//! keeps doing so after the other was closed: a survivor that goes on crashes (seen with 1.17). So none is
//! closed before all have ended. Nobody reads their completions meanwhile, and libfabric touches the memory
//! of operations only when somebody does.

use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::libfabric::endpoint::close;
use crate::libfabric::types::fid;

/// The objects of one endpoint, in the order in which they are closed.
pub struct Objects(pub [NonNull<fid>; 5]);

// SAFETY: whoever has them uses them, one thread at a time.
#[expect(unsafe_code, reason = "libfabric's objects are pointers")]
unsafe impl Send for Objects {}

struct Generation {
    living: usize,
    ended: Vec<Objects>,
}

static GENERATION: Mutex<Generation> = Mutex::new(Generation { living: 0, ended: Vec::new() });

/// Counts an endpoint that has been opened.
pub fn enter() {
    GENERATION.lock().unwrap_or_else(PoisonError::into_inner).living += 1;
}

/// Takes the objects of an endpoint that has ended, and closes all if it was the last.
pub fn retire(objects: Objects) {
    let mut generation = GENERATION.lock().unwrap_or_else(PoisonError::into_inner);
    generation.living -= 1;
    generation.ended.push(objects);
    if generation.living == 0 {
        generation.ended.drain(..).flat_map(|objects| objects.0).for_each(close);
    }
}
