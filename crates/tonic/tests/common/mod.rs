//! A service of tonic at an endpoint, and a channel to it, over each transport.
//!
//! What tonic generates is committed, so that no build needs its generator: `tonic-prost-build` made it from
//! the files of `tests/proto`, as `protox` reads them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use farcall::Node;
use farcall_tonic::{Channel, Server};

/// Generous: reached only when something hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// Over shared memory, over packets, and over messages of a library.
pub const TRANSPORTS: [&str; 3] = ["ring+shm", "basic+udp", "tcp"];

/// What tonic generates from `tests/proto/helloworld.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod helloworld {
    include!("../generated/helloworld.rs");
}

/// What tonic generates from `tests/proto/routeguide.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod routeguide {
    include!("../generated/routeguide.rs");
}

/// A server and a channel to it; what they need lives as long as this.
pub struct Pair {
    pub channel: Channel,
    pub server: Server,
    _listener: farcall::Listener,
    _node: Node,
}

/// Serves `service` over a transport.
pub fn serve(transport: &str, service: impl farcall_tonic::Served) -> Pair {
    let node = Node::serving_names("127.0.0.1:0").expect("a free port");
    let endpoint = node.endpoint(transport).expect("it is there");
    let listener = endpoint.listen("grpc").expect("a free name");
    let server = Server::start(endpoint, service).expect("a thread");
    let endpoint = node.endpoint(transport).expect("it is there");
    let channel = Channel::connect(endpoint, "grpc", LONG).expect("it listens");
    Pair { channel, server, _listener: listener, _node: node }
}

/// Runs a test over each transport, in a runtime of its own.
pub fn over_each<F: Future<Output = ()>>(test: impl Fn(&'static str) -> F) {
    for transport in TRANSPORTS {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let test = async { tokio::time::timeout(LONG, test(transport)).await };
        runtime.expect("threads").block_on(test).unwrap_or_else(|_| panic!("{transport}: it hangs"));
    }
}
