//! MPI against the contract of libraries: both instances are endpoints of this process, which no launcher started.

use farcall_transport::{Presence, library_conformance};
use farcall_transport_mpi::{Mpi, MpiConfig, presence};

/// What makes two endpoints, unless there is no MPI.
fn endpoints() -> Result<impl Fn() -> [Mpi; 2], String> {
    if let Presence::Absent { why } = presence() {
        return Err(why);
    }
    let config = MpiConfig { payload_bytes_max: 1 << 20, drawn: 7 };
    Ok(move || [(); 2].map(|()| Mpi::new(&config).expect("an endpoint")))
}

library_conformance!(one_process, super::endpoints);
