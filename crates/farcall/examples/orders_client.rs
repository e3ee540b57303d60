//! A client of `orders_server`: it may start before the servers, and they may come and go.

use std::error::Error;

use farcall::{Balance, Node, Service};

/// Answers with what it is sent.
const ECHO: Service = Service(1);

/// Three calls, to whichever servers are there.
pub fn main() -> Result<(), Box<dyn Error>> {
    let transport = std::env::var("ORDERS_OVER").unwrap_or_else(|_| "auto".into());
    let node = Node::open()?;
    let endpoint = node.endpoint(&transport)?;
    let orders = endpoint.connect("orders")?.balanced_by(Balance::TwoChoices);
    for order in 1..=3 {
        let answer = orders.call(ECHO, format!("order {order}").as_bytes()).wait()?;
        println!("{}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}
