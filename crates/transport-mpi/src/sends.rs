//! Messages that MPI is sending: their memory has to stay until MPI says that it is done.

use core::ffi::c_int;
use std::collections::VecDeque;

use farcall_transport::Spares;

use crate::api::{Handle, MPI_SUCCESS, MpiStatus, Started};

/// One operation of MPI's and the memory that it uses.
pub struct Operation {
    request: Handle,
    /// Not touched while the operation lasts.
    pub memory: Vec<u8>,
}

/// Where an operation stands.
pub enum Progress {
    Pending(Operation),
    Done(Vec<u8>),
    Failed,
}

impl Operation {
    /// An operation that MPI has begun under the handle `request`, with `memory`.
    pub fn new(request: Handle, memory: Vec<u8>) -> Self {
        Self { request, memory }
    }

    /// Asks MPI whether it is done.
    #[inline]
    pub fn test(mut self, mpi: &Started) -> Progress {
        let (mut done, mut status): (c_int, _) = (0, MpiStatus::default());
        // SAFETY: the request is one that MPI gave and that has not ended.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe { (mpi.opened.functions.test)(&mut self.request, &mut done, &mut status) };
        match (code, done) {
            (MPI_SUCCESS, 0) => Progress::Pending(self),
            (MPI_SUCCESS, _) => Progress::Done(self.memory),
            _ => Progress::Failed,
        }
    }

    /// Gives the memory up to MPI for good, which may still use it.
    pub fn leak(self) {
        core::mem::forget(self.memory);
    }
}

/// The sends to one rank, oldest first.
#[derive(Default)]
pub struct Queue {
    pub rank: u32,
    pub operations: VecDeque<Operation>,
}

impl Queue {
    /// Takes what is done from the front; returns how much that was, and false when a send failed.
    pub fn settle(&mut self, mpi: &Started, spares: &mut Spares) -> (usize, bool) {
        let mut done = 0;
        while let Some(oldest) = self.operations.pop_front() {
            match oldest.test(mpi) {
                Progress::Pending(oldest) => {
                    self.operations.push_front(oldest);
                    break;
                }
                Progress::Done(memory) => spares.keep(memory),
                Progress::Failed => return (done, false),
            }
            done += 1;
        }
        (done, true)
    }
}
