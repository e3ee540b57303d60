//! Two endpoints of one thread: nothing happens but what the test does, in its order.

use farcall::parameters::Settings;
use farcall::{Endpoint, Message, Node, Peer, ReceiveError, Receiving, Tag, TransportKind};

/// What the first message says.
const GREETING: Tag = Tag(u32::MAX);

pub struct Stream {
    pub sender: Endpoint,
    pub receiver: Endpoint,
    /// The receiver, as the sender knows it.
    pub to: Peer,
    /// The sender, as the receiver knows it.
    pub from: Peer,
}

impl Stream {
    /// Over rings.
    pub fn with(settings: &Settings) -> Self {
        let stream = Self::begin(TransportKind::RING_SHM, settings);
        stream.sender.wait_for(stream.to).expect("up");
        stream.receiver.wait_for(stream.from).expect("up");
        stream
    }

    /// Over any transport: both must work for a session to come up.
    pub fn over(kind: TransportKind, settings: &Settings) -> Self {
        let stream = Self::begin(kind, settings);
        let greeting = stream.receiver.receive(stream.from, GREETING).start().expect("room");
        drop(stream.sender.send(stream.to, GREETING, b"").start().expect("room"));
        stream.receive(greeting).expect("a message");
        stream
    }

    fn begin(kind: TransportKind, settings: &Settings) -> Self {
        let node = Node::alone().expect("this process");
        let endpoint = || node.endpoint_with(kind, settings).expect("an endpoint");
        let (sender, receiver) = (endpoint(), endpoint());
        let to = sender.peer_endpoint(0, 1).expect("it is there");
        let from = receiver.peer_endpoint(0, 0).expect("it is there");
        Self { sender, receiver, to, from }
    }

    /// Both work until a receive has ended.
    pub fn receive<'e>(&self, receive: Receiving<'e>) -> Result<Message<'e>, ReceiveError> {
        self.receiver.run_while(|| {
            self.sender.poll(|_, _| {});
            !receive.is_complete()
        });
        receive.wait()
    }
}
