//! One connection: the handshake that sets its lane up, step by step as the peer's messages come.

use core::time::Duration;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{LaneFault, LaneId};

use super::conductor::{Notice, Shared};
use super::half::Half;
use super::handshake::{COOKIE_BYTES, MESSAGE_BYTES_MAX, Message, Offer};
use super::joining::{Agreed, Joining};
use super::link::Link;
use super::manager::{Claim, Manager};
use super::pinning;
use super::place::Place;
use super::socket::{fault_of_call, send, send_bytes, start_to_connect, unusable};
use crate::cm::{CmId, Happening};
use crate::region::pinned_bytes;
use crate::sys;

/// How long a peer that connected to us may take for its call and for being ready.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// Where a connection stands.
pub enum Phase {
    /// We call; the network has not answered yet.
    Calling { place: Place, hello: Vec<u8> },
    /// We sent our offer to the driver with this cookie, and wait for its own.
    Offered(Half, [u8; COOKIE_BYTES]),
    /// The offers are exchanged, and rdma_cm connects the queue pairs.
    Joining(Box<Joining>),
    /// A peer called; its offer is yet to come.
    Called,
    /// We answered a call, and wait for rdma_cm to ask for the connection.
    Awaiting(Box<Agreed>),
    /// We answered a call, and wait for the peer to be ready.
    Answered(Arc<Link>, Vec<u8>),
    /// The lane is up.
    Up(Arc<Link>),
}

/// A connection to a peer, and the lane that it is for.
pub struct Connection {
    pub lane: LaneId,
    /// Whether we called, so that the driver waits for the outcome.
    pub ours: bool,
    pub stream: TcpStream,
    pub phase: Phase,
    /// What has been received and not been understood yet.
    inbox: Vec<u8>,
    /// When it must be up.
    pub deadline: Instant,
    /// What the card gave as the reason of its end, and until when the peer may give a better one.
    pub failing: Option<(LaneFault, Instant)>,
}

impl Connection {
    /// Calls a place.
    pub fn to(lane: LaneId, place: Place, hello: Vec<u8>, within: Duration) -> Result<Self, LaneFault> {
        let stream = start_to_connect(place)?;
        let phase = Phase::Calling { place, hello };
        let deadline = Instant::now() + within;
        Ok(Self { lane, ours: true, stream, phase, inbox: Vec::new(), deadline, failing: None })
    }

    /// A peer has called.
    pub fn from(lane: LaneId, stream: TcpStream) -> Self {
        let deadline = Instant::now() + CALL_WITHIN;
        Self { lane, ours: false, stream, phase: Phase::Called, inbox: Vec::new(), deadline, failing: None }
    }

    /// Whether its lane is not up yet.
    pub fn is_being_set_up(&self) -> bool {
        !matches!(self.phase, Phase::Up(_))
    }

    /// When it must be looked at, whatever happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        let failing = self.failing.as_ref().map(|(_, until)| *until);
        self.is_being_set_up().then_some(self.deadline).into_iter().chain(failing).min()
    }

    /// Goes on as far as what has come allows.
    pub fn step(&mut self, shared: &Shared, welcome: &[u8]) -> Result<(), LaneFault> {
        if let Phase::Calling { .. } = self.phase {
            return self.make_offer(shared);
        }
        let ended = self.fill_inbox();
        let inbox = core::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while let Some((message, length)) = Message::decode(rest)? {
            self.take(shared, welcome, message)?;
            rest = &rest[length..];
        }
        self.inbox = rest.to_vec();
        ended
    }

    fn fill_inbox(&mut self) -> Result<(), LaneFault> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(LaneFault::PeerGone),
            Ok(count) => {
                self.inbox.extend(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(_) => Err(LaneFault::PeerGone),
        }
    }

    fn take(&mut self, shared: &Shared, welcome: &[u8], message: Message<'_>) -> Result<(), LaneFault> {
        // An error ends the connection; any other way out sets the next phase.
        let phase = core::mem::replace(&mut self.phase, Phase::Called);
        self.phase = match (phase, message) {
            (Phase::Called, Message::Call(cookie, offer)) => self.answer(shared, welcome, cookie, &offer)?,
            (Phase::Offered(half, cookie), Message::Answer(offer)) => match way(shared, &offer)? {
                None => {
                    let hello = offer.hello.to_vec();
                    let link = join(shared, half, &offer)?;
                    self.connected(shared, link, hello)
                }
                Some((manager, place)) => {
                    Phase::Joining(Box::new(Joining::start(manager, place, half, cookie, &offer)?))
                }
            },
            (Phase::Answered(link, hello), Message::Ready) => {
                shared.notify(Notice::Accepted(self.lane, Arc::clone(&link), hello));
                Phase::Up(link)
            }
            (phase, message) => {
                self.phase = phase;
                return Err(match message {
                    Message::Goodbye => LaneFault::PeerClosed,
                    Message::Stranger => LaneFault::NotThere,
                    Message::Refusal(why) => LaneFault::Unacceptable { why: format!("it refused us: {why}") },
                    _ => LaneFault::Corrupt { what: "a message of the handshake out of turn" },
                });
            }
        };
        Ok(())
    }

    /// rdma_cm reported something about the connection that it makes for us.
    pub fn joined(&mut self, shared: &Shared, what: Happening) -> Result<(), LaneFault> {
        let Phase::Joining(joining) = &self.phase else { return Ok(()) };
        if joining.step(shared, what)? {
            let Phase::Joining(joining) = core::mem::replace(&mut self.phase, Phase::Called) else {
                unreachable!("it was a moment ago")
            };
            let (link, hello) = joining.finish(shared)?;
            self.phase = self.connected(shared, link, hello);
        }
        Ok(())
    }

    /// Whether rdma_cm makes it by this identifier.
    pub fn joins_by(&self, about: *const sys::rdma_cm_id) -> bool {
        matches!(&self.phase, Phase::Joining(joining) if joining.id().is(about))
    }

    /// Whether it waits for this request of rdma_cm.
    pub fn awaits(&self, claim: &Claim) -> bool {
        matches!(&self.phase, Phase::Awaiting(agreed) if agreed.claim == *claim)
    }

    /// The request of rdma_cm that it waited for is here.
    pub fn accept(&mut self, shared: &Shared, id: CmId) -> Result<(), LaneFault> {
        let Phase::Awaiting(agreed) = core::mem::replace(&mut self.phase, Phase::Called) else {
            unreachable!("only what waits for a request gets one")
        };
        let (link, hello) = agreed.accept(shared, id)?;
        self.phase = Phase::Answered(link, hello);
        Ok(())
    }

    /// Our call has led to a lane.
    fn connected(&mut self, shared: &Shared, link: Arc<Link>, welcome: Vec<u8>) -> Phase {
        send(&mut self.stream, &Message::Ready);
        shared.notify(Notice::Connected(self.lane, Arc::clone(&link), welcome));
        Phase::Up(link)
    }

    /// The network answered our call: makes our side of the lane and offers it.
    fn make_offer(&mut self, shared: &Shared) -> Result<(), LaneFault> {
        let Phase::Calling { place, hello } = &self.phase else { unreachable!("only callers call") };
        match self.stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(fault_of_call(&error)),
        }
        let half = new_half(shared)?;
        let cookie = place.cookie;
        send(&mut self.stream, &Message::Call(cookie, half.offer(&shared.terms, hello)));
        self.phase = Phase::Offered(half, cookie);
        Ok(())
    }

    /// A peer called us: makes our side of the lane, connects it, and answers.
    fn answer(
        &mut self,
        shared: &Shared,
        welcome: &[u8],
        cookie: [u8; COOKIE_BYTES],
        offer: &Offer<'_>,
    ) -> Result<Phase, LaneFault> {
        if cookie != shared.terms.cookie {
            return Err(LaneFault::NotThere);
        }
        let by_manager = way(shared, offer)?.is_some();
        let half = new_half(shared)?;
        let answer = Message::Answer(half.offer(&shared.terms, welcome)).encode();
        let next = if by_manager {
            Phase::Awaiting(Box::new(Agreed::called(half, cookie, offer)))
        } else {
            Phase::Answered(join(shared, half, offer)?, offer.hello.to_vec())
        };
        send_bytes(&mut self.stream, &answer);
        Ok(next)
    }
}

fn new_half(shared: &Shared) -> Result<Half, LaneFault> {
    let terms = &shared.terms;
    Half::new(&terms.device, &terms.config, &terms.receives, &terms.channel).map_err(unusable)
}

fn join(shared: &Shared, half: Half, offer: &Offer<'_>) -> Result<Arc<Link>, LaneFault> {
    half.connect(&shared.terms, offer).map(Arc::new).map_err(unusable)
}

/// What connects the queue pairs, if the two sides fit together: rdma_cm, ours and the peer's, or we.
fn way<'a>(shared: &'a Shared, offer: &Offer<'_>) -> Result<Option<(&'a Manager, SocketAddr)>, LaneFault> {
    if offer.network != shared.terms.device.network {
        return Err(unusable("its port is on another kind of network"));
    }
    pinning::check(&shared.terms.config, pinned_bytes(), offer.memory.ring_bytes)?;
    match (&shared.terms.manager, offer.manager) {
        (None, None) => Ok(None),
        (Some(manager), Some(place)) => Ok(Some((manager, place))),
        _ => Err(unusable("only one of the two connects by rdma_cm; set verbs.connect alike")),
    }
}
