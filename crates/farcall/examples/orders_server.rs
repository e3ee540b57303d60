//! A service that any process may call, and as many servers of it as one likes.
//!
//! `farcall registry &` once, then `cargo run --example orders_server` and `--example orders_client`, each
//! any number of times; with `ORDERS_OVER=basic+udp` over UDP.

use std::error::Error;

use farcall::{Node, Service};

/// Answers with what it is sent.
const ECHO: Service = Service(1);

/// Serves until the process is ended.
pub fn main() -> Result<(), Box<dyn Error>> {
    let transport = std::env::var("ORDERS_OVER").unwrap_or_else(|_| "auto".into());
    let node = Node::open()?;
    let endpoint = node.endpoint(&transport)?;
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    let _listener = endpoint.listen("orders")?;
    endpoint.run_while(|| true);
    Ok(())
}
