//! Places of loopback where nothing listens, for programs that are told where to listen.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// No connection is given one of these as its own port: they are below the range that the kernel takes those
/// from. A port that it chose itself for a listener may be a connection's once that listener is closed.
const FIRST: u16 = 20_000;
const PORTS: u32 = 12_000;

/// Between the ports that one process looks at, one after the other, and between the first ones of two
/// processes: so that tests which run side by side do not take a port that another one has just left.
const APART: u32 = 331;
const PROCESSES_APART: u32 = 37;

/// A port where nothing listens: another one each time.
pub fn free_port() -> u16 {
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    let begun = std::process::id().wrapping_mul(PROCESSES_APART) % PORTS;
    let mut looked_at = (0..PORTS).map(|_| {
        let step = LOOKED_AT.fetch_add(1, Ordering::Relaxed) % PORTS;
        FIRST + ((begun + step * APART) % PORTS) as u16
    });
    looked_at.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a free port")
}

/// The address of such a port.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}
