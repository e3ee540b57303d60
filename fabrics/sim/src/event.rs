//! What can happen on the simulated fabric.

/// One event. Packets, hosts and ports are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The doorbell of a host, in one of its lives, reached its NIC: the next `count` packets of its send
    /// queue may go.
    Doorbell { host: u32, incarnation: u32, count: u32 },
    /// A packet of a lane, sent in that life of its host, reached the NIC with a doorbell of its own.
    Posted { packet: u32, incarnation: u32 },
    /// The last bit of a packet reached the first switch, which has decided where it goes.
    Ingress { packet: u32 },
    /// As [`Event::Ingress`], of a packet that a fault held up.
    LateIngress { packet: u32 },
    /// A packet reached the queue of a later output port.
    Hop { packet: u32, port: u32 },
    /// An output port has sent its packet and takes the next.
    PortFree { port: u32 },
    /// The last bit of a packet reached the NIC of the receiving machine.
    NicArrival { packet: u32 },
    /// A packet is in the receiving host's memory.
    Deliver { packet: u32 },
    /// The call for a lane has been in flight for as long as it may.
    ConnectTimeout { connection: u32 },
    /// The host at this end of a lane notices that the other one has crashed.
    PeerLost { connection: u32, side: u8 },
}
