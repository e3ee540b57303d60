//! Two processes on two cores: one serves, the other calls in three ways.
//!
//! `cargo run --release --example hello`; with `basic+udp` as its argument the same over UDP.

use std::error::Error;
use std::time::Duration;

use farcall::{Event, Node, Service};

const ECHO: Service = Service(1);

fn main() -> Result<(), Box<dyn Error>> {
    let transport = std::env::args().nth(1).unwrap_or_else(|| "ring+shm".into());
    let node = Node::local(2)?; // the first process starts the second, which arrives here too
    let endpoint = node.endpoint(&transport)?;
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    if node.rank() == 1 {
        endpoint.run_while(|| true); // until the first process ends
    }

    let peer = endpoint.peer(1)?;
    let answer = endpoint.call(peer, ECHO, b"waited for").within(Duration::from_secs(5)).wait()?;
    println!("{}", String::from_utf8_lossy(&answer));

    let answer = endpoint.block_on(async { endpoint.call(peer, ECHO, b"awaited").await })?;
    println!("{}", String::from_utf8_lossy(&answer));

    let mut page = endpoint.loan(1 << 20)?; // memory that the peer reads in place
    page.fill(7);
    endpoint.call(peer, ECHO, page).post(42)?;
    let mut done = false;
    while !done {
        endpoint.poll_idle(|_, event| {
            if let Event::Completed { token, outcome: Ok(answer) } = event {
                println!("event {token}: {} bytes, not copied on the way there", answer.len());
                done = true;
            }
        });
    }
    Ok(())
}
