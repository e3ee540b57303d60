//! Bare calls of farcall, to a thread that echoes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farcall::{Connection, Endpoint, Node, Peer, Service};

use super::PAYLOAD;
use crate::common::{LONG, endpoint_set};

const ECHO: Service = Service(1);

/// Under which it listens.
const NAME: &str = "echo";

/// A client and its server, over a transport.
pub struct Bare {
    endpoint: Endpoint,
    peer: Peer,
    is_over: Arc<AtomicBool>,
    node: Node,
    transport: &'static str,
    parameter: Option<String>,
}

impl Bare {
    /// With a parameter for both sides, if any: `group.name=value`.
    pub fn over(transport: &'static str, parameter: Option<&str>) -> Self {
        let node = Node::serving_names("127.0.0.1:0").expect("a free port");
        let registry = node.registry_address().expect("it serves names").to_string();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let parameter = parameter.map(str::to_owned);
        let of_server = parameter.clone();
        std::thread::spawn(move || {
            let node = Node::open_at(&registry).expect("it is there");
            let endpoint = endpoint_set(&node, transport, of_server.as_deref());
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            let _listener = endpoint.listen(NAME).expect("a free name");
            endpoint.run_while(|| !ends.load(Ordering::Relaxed));
        });
        let endpoint = endpoint_set(&node, transport, parameter.as_deref());
        let connection = endpoint.connect(NAME).expect("a name");
        let peer = connection.wait(LONG).expect("it listens");
        drop(connection);
        Self { endpoint, peer, is_over, node, transport, parameter }
    }

    /// One call.
    pub fn call(&self) {
        call(&self.endpoint, self.peer);
    }

    /// Clients that have no connection yet.
    pub fn newcomers(&self, count: usize) -> Vec<Endpoint> {
        (0..count).map(|_| endpoint_set(&self.node, self.transport, self.parameter.as_deref())).collect()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Where a newcomer finds the server: known when this returns, so that connecting does not wait for names.
pub fn found(newcomer: &Endpoint) -> Connection<'_> {
    let connection = newcomer.connect(NAME).expect("a name");
    while connection.servers().is_empty() {
        std::thread::yield_now();
    }
    connection
}

/// Connects, and makes the first call.
pub fn first_call(newcomer: &Endpoint, connection: &Connection<'_>) {
    call(newcomer, connection.wait(LONG).expect("it listens"));
}

fn call(endpoint: &Endpoint, peer: Peer) {
    endpoint.call(peer, ECHO, &PAYLOAD).wait().expect("an answer");
}
