//! UCX against the contract of libraries: with and without the ability to wake sleepers, and without error
//! handling, which is how version 1.13 uses shared memory.

use farcall_transport::{Presence, library_conformance};
use farcall_ucx::{Reach, Ucx, UcxConfig, presence};

/// What makes two workers, unless UCX is absent.
fn workers(may_sleep: bool, error_handling: bool) -> Result<impl Fn() -> [Ucx; 2], String> {
    if let Presence::Absent { why } = presence() {
        return Err(why);
    }
    let config = UcxConfig { payload_bytes_max: 1 << 20, may_sleep, error_handling, reach: Reach::Loopback };
    Ok(move || [(); 2].map(|()| Ucx::new(&config).expect("a worker")))
}

library_conformance!(polling, || super::workers(false, true));
library_conformance!(may_sleep, || super::workers(true, true));
library_conformance!(without_error_handling, || super::workers(false, false));
library_conformance!(without_error_handling_may_sleep, || super::workers(true, false));
