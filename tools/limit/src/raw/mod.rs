//! Tagged messages of other libraries, with as little around them as a program can have: what farcall's are
//! held against.
//!
//! A number of slots, each with memory of its own and at most one operation in flight. The tag of a slot's
//! messages is its number.

mod mpi;
mod ucx;

pub use mpi::{MpiCompletion, RawMpi};
pub use ucx::{RawUcx, UcxCompletion};

/// The slots of a conversation between two sides, over a library.
pub trait RawSlots {
    /// The memory of a slot that is idle.
    ///
    /// # Panics
    /// When something is in flight there.
    fn memory(&mut self, slot: usize) -> &mut [u8];

    /// Sends what is in a slot's memory.
    ///
    /// # Panics
    /// When something is in flight there, there is no peer, or the library refuses.
    fn send(&mut self, slot: usize);

    /// Receives into a slot's memory.
    ///
    /// # Panics
    /// When something is in flight there, or the library refuses.
    fn receive(&mut self, slot: usize);

    /// The next slot that has completed, if there is one; lets the library work when it must. Over MPI all
    /// slots must have been used once before.
    fn next_complete(&mut self) -> Option<usize>;

    /// Lets the library work.
    fn progress(&mut self);
}
