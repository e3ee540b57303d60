//! Tagged messages of MPI itself. MPI matches, and a slot that has completed is found in one of the ways that
//! MPI has.

use core::ffi::c_int;

use farcall_mpi::MpiError;
use farcall_mpi::sys::{Handle, MPI_SUCCESS, MpiStatus, Opened, opened, start_for_one_thread};

use super::RawSlots;

/// The completions after which MPI gets a turn of its own.
///
/// What completes requests lets MPI work only when it finds none that is complete. While it always finds one,
/// a send that waits for room waits on, and others overtake it. Open MPI 4.1 numbers the messages to a rank
/// with 16 bits: when this many of them are ahead that the numbers come round, it takes a wrong one for the
/// next, and messages with one tag change places.
const COMPLETIONS_PER_TURN: u32 = 4096;

/// How slots that have completed are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiCompletion {
    /// `MPI_Waitany` on all, which blocks.
    WaitAny,
    /// `MPI_Testany` on all.
    TestAny,
    /// `MPI_Test` on each in turn.
    Test,
}

/// MPI for one thread, and the slots of a conversation with the only other rank.
pub struct RawMpi {
    opened: &'static Opened,
    peer: c_int,
    memory: Vec<Box<[u8]>>,
    in_flight: Vec<bool>,
    /// An array of requests as MPI has them, in words or halves of words; all 0 in the beginning.
    requests: Vec<Handle>,
    completion: MpiCompletion,
    /// Where the next look at all slots goes on.
    next: usize,
    /// Completions since MPI had its last turn.
    completions: u32,
}

impl RawMpi {
    /// Starts MPI, with this many slots of this many bytes. Once in a process, without other instances, in a
    /// launch of two.
    pub fn new(slots: usize, bytes: usize, completion: MpiCompletion) -> Result<Self, MpiError> {
        let opened = opened().map_err(|why| MpiError::Unusable { why })?;
        let rank =
            start_for_one_thread(opened).map_err(|_| MpiError::Unusable { why: "MPI does not start" })?;
        Ok(Self {
            opened,
            peer: 1 - rank,
            memory: (0..slots).map(|_| vec![0; bytes].into()).collect(),
            in_flight: vec![false; slots],
            requests: vec![0; slots],
            completion,
            next: 0,
            completions: 0,
        })
    }

    /// The place of a slot's request.
    #[inline]
    fn request(&mut self, slot: usize) -> *mut Handle {
        assert!(slot < self.requests.len(), "there is such a slot");
        self.requests.as_mut_ptr().wrapping_byte_add(slot * self.opened.handle_bytes)
    }

    fn any(&mut self) -> Option<usize> {
        let functions = &self.opened.functions;
        let (count, requests) = (self.in_flight.len() as c_int, self.requests.as_mut_ptr());
        let (mut slot, mut found, mut status) = (-1, 1, MpiStatus::default());
        // SAFETY: the array has that many requests, those of idle slots being what MPI left there.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe {
            match self.completion {
                MpiCompletion::WaitAny => (functions.waitany)(count, requests, &mut slot, &mut status),
                _ => (functions.testany)(count, requests, &mut slot, &mut found, &mut status),
            }
        };
        assert_eq!(code, MPI_SUCCESS, "MPI completes what it has begun");
        // Negative when none is in flight.
        if found == 0 { None } else { usize::try_from(slot).ok() }
    }

    fn test(&mut self) -> Option<usize> {
        let (slots, next) = (self.in_flight.len(), self.next);
        for slot in (0..slots).map(|ahead| (next + ahead) % slots) {
            if !self.in_flight[slot] {
                continue;
            }
            let (request, mut done, mut status) = (self.request(slot), 0, MpiStatus::default());
            // SAFETY: the request is one that MPI gave and that has not ended.
            #[expect(unsafe_code, reason = "a call of MPI")]
            let code = unsafe { (self.opened.functions.test)(request, &mut done, &mut status) };
            assert_eq!(code, MPI_SUCCESS, "MPI completes what it has begun");
            if done != 0 {
                return Some(slot);
            }
        }
        None
    }
}

impl RawSlots for RawMpi {
    #[inline]
    fn memory(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.in_flight[slot], "MPI uses this memory");
        &mut self.memory[slot]
    }

    #[inline]
    fn send(&mut self, slot: usize) {
        let (memory, length) = (self.memory(slot).as_ptr(), self.memory(slot).len());
        let request = self.request(slot);
        let (opened, isend) = (self.opened, self.opened.functions.isend);
        // SAFETY: the memory stays where it is and is not touched while the slot is in flight; the request
        // has a place of its own in the array.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe {
            let (length, tag) = (length as c_int, slot as c_int);
            isend(memory.cast(), length, opened.byte, self.peer, tag, opened.world, request)
        };
        assert_eq!(code, MPI_SUCCESS, "MPI refuses a message");
        self.in_flight[slot] = true;
    }

    #[inline]
    fn receive(&mut self, slot: usize) {
        let (memory, length) = (self.memory(slot).as_mut_ptr(), self.memory(slot).len());
        let request = self.request(slot);
        let (opened, irecv) = (self.opened, self.opened.functions.irecv);
        // SAFETY: as in `send`.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code = unsafe {
            let (length, tag) = (length as c_int, slot as c_int);
            irecv(memory.cast(), length, opened.byte, self.peer, tag, opened.world, request)
        };
        assert_eq!(code, MPI_SUCCESS, "MPI refuses a receive");
        self.in_flight[slot] = true;
    }

    #[inline]
    fn next_complete(&mut self) -> Option<usize> {
        let slot = match self.completion {
            MpiCompletion::WaitAny | MpiCompletion::TestAny => self.any(),
            MpiCompletion::Test => self.test(),
        }?;
        self.in_flight[slot] = false;
        self.next = slot + 1;
        self.completions += 1;
        if self.completions == COMPLETIONS_PER_TURN {
            self.completions = 0;
            self.progress();
        }
        Some(slot)
    }

    /// By asking for a message that nobody sends.
    fn progress(&mut self) {
        let (mut found, mut message, mut status) = (0, 0, MpiStatus::default());
        let nobodys = self.in_flight.len() as c_int;
        let (opened, improbe) = (self.opened, self.opened.functions.improbe);
        // SAFETY: MPI runs, and writes where it is told to during the call.
        #[expect(unsafe_code, reason = "a call of MPI")]
        let code =
            unsafe { improbe(self.peer, nobodys, opened.world, &mut found, &mut message, &mut status) };
        assert!(code == MPI_SUCCESS && found == 0, "MPI looks for what is not there");
    }
}

/// Gives memory that MPI still uses up for good.
impl Drop for RawMpi {
    fn drop(&mut self) {
        if self.in_flight.contains(&true) {
            core::mem::forget(core::mem::take(&mut self.memory));
            core::mem::forget(core::mem::take(&mut self.requests));
        }
    }
}
