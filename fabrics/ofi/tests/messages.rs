//! libfabric against the contract of libraries, over the providers that every machine has.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_ofi::messages::{Ofi, OfiConfig, presence};
use farcall_transport::{Presence, library_conformance};

/// What makes two endpoints, unless libfabric or the provider is absent.
fn endpoints(provider: &str, may_sleep: bool) -> Result<impl Fn() -> [Ofi; 2], String> {
    if let Presence::Absent { why } = presence() {
        return Err(why);
    }
    let provider = provider.to_owned();
    let make = move || {
        static DRAWN: AtomicU64 = AtomicU64::new(1);
        Ofi::new(&OfiConfig {
            provider: Some(provider.clone()),
            local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            payload_bytes_max: 1 << 20,
            eager_bytes: 8 << 10,
            inject_bytes: 1 << 10,
            tx_depth: 64,
            rx_depth: 64,
            may_sleep,
            drawn: DRAWN.fetch_add(1, Ordering::Relaxed),
        })
    };
    make().map_err(|error| error.to_string())?;
    Ok(move || [(); 2].map(|()| make().expect("an endpoint")))
}

library_conformance!(tcp, || super::endpoints("tcp", false));
library_conformance!(tcp_may_sleep, || super::endpoints("tcp", true));
library_conformance!(net, || super::endpoints("net", false));
library_conformance!(shm, || super::endpoints("shm", false));
