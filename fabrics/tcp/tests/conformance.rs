//! TCP against the contract of libraries.

use farcall_tcp::{Tcp, TcpConfig};
use farcall_transport::library_conformance;

/// What makes two endpoints that listen at this address.
fn endpoints(ip: &'static str) -> Result<impl Fn() -> [Tcp; 2], String> {
    let bind: std::net::SocketAddr = (ip.parse::<std::net::IpAddr>().expect("an address"), 0).into();
    if std::net::TcpListener::bind::<std::net::SocketAddr>(bind).is_err() {
        return Err(format!("this machine has no {ip}"));
    }
    let config = TcpConfig { bind, payload_bytes_max: 1 << 20, ..TcpConfig::default() };
    Ok(move || [(); 2].map(|()| Tcp::listen(config.clone()).expect("a free port")))
}

library_conformance!(ipv4, || super::endpoints("127.0.0.1"));
library_conformance!(ipv6, || super::endpoints("::1"));
