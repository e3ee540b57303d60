//! The `mpi` transport: calls and tagged messages over the Message Passing Interface, in the processes that
//! one launcher started together.
//!
//! Open MPI from version 3 on, and MPICH with everything that shares its binary interface (Intel MPI,
//! MVAPICH). The library is opened when the first endpoint is made, not linked, so that one program runs
//! under either launcher and where there is none; the launcher's variables decide which is opened. The
//! sessions, deadlines and limits of calls are those of the `library` transport of `farcall-transport`; this
//! crate makes a [`Library`](farcall_transport::Library) of MPI.
//!
//! What MPI can do here, and what it cannot:
//! - Endpoints of several threads use MPI at once, so it must offer `MPI_THREAD_MULTIPLE`; where it does not,
//!   there is no endpoint, unless with [`MpiThreads::Single`], which allows one at a time, and spares Open
//!   MPI's locks. Each has messages with a tag of its own, in a communicator that is farcall's own.
//! - A deadline or a cancelled call ends the call here. The message stays with MPI, which cannot give it up.
//! - A dead peer is noticed by its silence. Most launchers end all processes when one dies, before anybody is
//!   told; Open MPI's lets the others live with `--enable-recovery`. They then end without `MPI_Finalize`,
//!   which would wait for the dead one.
//! - MPI wakes nobody: an endpoint that blocks looks for messages after short naps.
//! - Processes that no launcher started together cannot reach each other; to try says so.
//!
//! Tagged messages are matched by the layer above, which sends many short ones as one message.
//!
//! Nothing is searched: of an endpoint's receives and of the sends to each peer only the oldest is asked
//! whether it is done, because MPI completes them about in order.

mod api;
mod library;
mod operations;
mod receives;

pub use api::{MpiThreads, presence};
pub use library::{Mpi, MpiConfig, MpiError};

/// MPI's declarations, for programs that measure MPI itself.
#[doc(hidden)]
pub mod sys {
    pub use crate::api::{Handle, MPI_SUCCESS, MpiStatus, Opened, opened, start_for_one_thread};
}
