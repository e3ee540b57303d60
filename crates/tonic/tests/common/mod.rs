//! A service of tonic at an endpoint, and a channel to it, over each transport.
//!
//! What tonic generates is committed, so that no build needs its generator: `tonic-prost-build` made it from
//! the files of `tests/proto`, as `protox` reads them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use farcall::{Endpoint, Node};
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
    pub listener: farcall::Listener,
    _node: Node,
}

/// Serves `service` over a transport.
pub fn serve(transport: &str, service: impl farcall_tonic::Served) -> Pair {
    serve_with(transport, service, [None, None])
}

/// As [`serve`], with a parameter of the transport for the server and one for the client: `name=value`.
pub fn serve_with(
    transport: &str,
    service: impl farcall_tonic::Served,
    parameters: [Option<&str>; 2],
) -> Pair {
    let protocol = transport.split('+').next().expect("a part");
    let of_transport = |parameter: &str| format!("{protocol}.{parameter}");
    let [of_server, of_client] = parameters.map(|parameter| parameter.map(of_transport));
    serve_set(transport, service, [of_server.as_deref(), of_client.as_deref()])
}

/// As [`serve`], with any parameter for the server and one for the client: `group.name=value`.
pub fn serve_set(
    transport: &str,
    service: impl farcall_tonic::Served,
    [of_server, of_client]: [Option<&str>; 2],
) -> Pair {
    let node = Node::serving_names("127.0.0.1:0").expect("a free port");
    let endpoint = endpoint_set(&node, transport, of_server);
    let listener = endpoint.listen("grpc").expect("a free name");
    let server = Server::start(endpoint, service).expect("a thread");
    let endpoint = endpoint_set(&node, transport, of_client);
    let channel = Channel::connect(endpoint, "grpc", LONG).expect("it listens");
    Pair { channel, server, listener, _node: node }
}

/// An endpoint with a parameter of its own: `group.name=value`.
pub fn endpoint_set(node: &Node, transport: &str, parameter: Option<&str>) -> Endpoint {
    let mut settings = node.settings().clone();
    if let Some(parameter) = parameter {
        settings.assign(parameter).expect("a parameter");
    }
    node.endpoint_with(transport.parse().expect("a transport"), &settings).expect("it is there")
}

/// Runs a test over each transport, in a runtime of its own.
pub fn over_each<F: Future<Output = ()>>(test: impl Fn(&'static str) -> F) {
    for transport in TRANSPORTS {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let test = async { tokio::time::timeout(LONG, test(transport)).await };
        runtime.expect("threads").block_on(test).unwrap_or_else(|_| panic!("{transport}: it hangs"));
    }
}
