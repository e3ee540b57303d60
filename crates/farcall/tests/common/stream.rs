//! Two endpoints of one thread, connected by rings: nothing happens but what the test does, in its order.

use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Peer, TransportKind};

pub struct Stream {
    pub sender: Endpoint,
    pub receiver: Endpoint,
    /// The receiver, as the sender knows it.
    pub to: Peer,
    /// The sender, as the receiver knows it.
    pub from: Peer,
}

impl Stream {
    pub fn with(settings: &Settings) -> Self {
        let node = Node::alone().expect("this process");
        let endpoint = || node.endpoint_with(TransportKind::RingShm, settings).expect("an endpoint");
        let (sender, receiver) = (endpoint(), endpoint());
        let to = sender.peer_endpoint(0, 1).expect("it is there");
        let from = receiver.peer_endpoint(0, 0).expect("it is there");
        sender.wait_for(to).expect("up");
        receiver.wait_for(from).expect("up");
        Self { sender, receiver, to, from }
    }
}
