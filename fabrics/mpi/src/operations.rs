//! Operations that MPI has begun: their memory has to stay until MPI says that it is done.

use core::ffi::{c_int, c_void};
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
    /// The memory, and how many of its bytes a receive has got.
    Done(Vec<u8>, MpiStatus),
    Failed,
}

impl Operation {
    /// Begins to send `memory` to a rank under a tag; `None` when MPI refuses.
    #[inline]
    pub fn send(mpi: &Started, on: Handle, (rank, tag): (u32, c_int), memory: Vec<u8>) -> Option<Self> {
        let (start, length) = (memory.as_ptr().cast(), memory.len() as c_int);
        let mut request = 0;
        // SAFETY: the memory holds `length` bytes and is kept, untouched, in the operation.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe {
            let isend = mpi.opened.functions.isend;
            isend(start, length, mpi.opened.byte, rank as c_int, tag, on, &mut request)
        };
        (code == MPI_SUCCESS).then_some(Self { request, memory })
    }

    /// Begins to receive into all of `memory`; from anybody unless a rank is named.
    #[inline]
    pub fn receive(
        mpi: &Started,
        on: Handle,
        (from, tag): (Option<u32>, c_int),
        mut memory: Vec<u8>,
    ) -> Option<Self> {
        let (start, length): (*mut c_void, _) = (memory.as_mut_ptr().cast(), memory.len() as c_int);
        let from = from.map_or(mpi.opened.any_source, |rank| rank as c_int);
        let mut request = 0;
        // SAFETY: the memory has room for `length` bytes and is kept, untouched, in the operation.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe {
            let irecv = mpi.opened.functions.irecv;
            irecv(start, length, mpi.opened.byte, from, tag, on, &mut request)
        };
        (code == MPI_SUCCESS).then_some(Self { request, memory })
    }

    /// Asks MPI whether it is done; MPI works if it is not.
    #[inline]
    pub fn test(mut self, mpi: &Started) -> Progress {
        let (mut done, mut status): (c_int, _) = (0, MpiStatus::default());
        // SAFETY: the request is one that MPI gave and that has not ended.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe { (mpi.opened.functions.test)(&mut self.request, &mut done, &mut status) };
        match (code, done) {
            (MPI_SUCCESS, 0) => Progress::Pending(self),
            (MPI_SUCCESS, _) => Progress::Done(self.memory, status),
            _ => Progress::Failed,
        }
    }

    /// Takes a receive back that nothing has come for; one that MPI does not give back at once is given up
    /// with its memory.
    pub fn withdraw(mut self, mpi: &Started) {
        // SAFETY: the request is one that MPI gave and that has not ended.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe { (mpi.opened.functions.cancel)(&mut self.request) };
        match (code, self.test(mpi)) {
            (_, Progress::Pending(operation)) => operation.leak(),
            (_, Progress::Done(..) | Progress::Failed) => {}
        }
    }

    /// Gives the memory up to MPI for good, which may still use it.
    pub fn leak(self) {
        core::mem::forget(self.memory);
    }
}

/// How many bytes a receive has got.
#[inline]
pub fn received_bytes(mpi: &Started, status: &MpiStatus) -> usize {
    let mut count = 0;
    // SAFETY: the status is that of a receive that is done.
    #[expect(unsafe_code, reason = "a call of MPI")]
    let code = unsafe { (mpi.opened.functions.get_count)(status, mpi.opened.byte, &mut count) };
    if code == MPI_SUCCESS { usize::try_from(count).unwrap_or(0) } else { 0 }
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
                Progress::Done(memory, _) => spares.keep(memory),
                Progress::Failed => return (done, false),
            }
            done += 1;
        }
        (done, true)
    }
}
