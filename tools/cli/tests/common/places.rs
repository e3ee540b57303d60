//! Places of loopback where nothing listens, for programs that are told where to listen.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// No connection is given one of these as its own port: they are below the range that the kernel takes those
/// from. A port that it chose itself for a listener may be a connection's once that listener is closed.
const FIRST: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A port where nothing listens: another one each time.
pub fn free_port() -> u16 {
    static LOOKED_AT: AtomicU16 = AtomicU16::new(0);
    // Tests in other processes start elsewhere.
    let begun = (std::process::id() % u32::from(PORTS)) as u16;
    let mut looked_at = (0..PORTS).map(|_| {
        let step = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        FIRST + ((u32::from(begun) + u32::from(step)) % u32::from(PORTS)) as u16
    });
    looked_at.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a free port")
}

/// The address of such a port.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}
