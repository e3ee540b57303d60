//! One connection: its socket, what waits for it and what has come of it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as WallTime};

use farcall_base::{Address, Principal};
use farcall_transport::{Outgoing, Spares, split_composed};

use crate::config::{TcpConfig, TcpCounters};

use crate::frame::{FrameFault, PIECE_BYTES_MAX, PREAMBLE, WHOLE_BYTES_MAX, WHOLE_PAYLOAD_BYTES_MAX};
use crate::inbound::{Inbound, Intake};
use crate::outbound::{Flushed, Held, Outbound};
use crate::secured::{Came, Session, SessionFault};
use crate::socket::Stream;

/// The most bytes that one read brings beside what has a place of its own.
pub const READ_BYTES: usize = 64 << 10;

/// Behind a piece that is read to where it belongs so much is read on: what is there has to be copied.
const BEHIND_PLACE_BYTES: usize = 4 << 10;

/// Who opened a connection, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This side, to reach an address.
    Dialed(Address),
    /// The other side; it has not said who it is.
    Stranger,
    /// The other side, and a session leads over it.
    Guest,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In use, also when the other side has not accepted it yet.
    Open,
    /// Given up here: what waits still leaves, what comes is not looked at, until then at the latest.
    Ending { until: WallTime, has_shut: bool },
    /// Over; its number is kept until it is forgotten.
    Lost,
}

/// What a look at a connection found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// Bytes, so many.
    Something(usize),
    /// The other side sends no more.
    End,
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameFault),
    #[error(transparent)]
    Secure(#[from] SessionFault),
}

impl Broken {
    /// What the user of this side is told; nothing where the end of a connection says all.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::System(_) => None,
            Self::Frame(fault) => Some(fault.to_string()),
            Self::Secure(fault) => Some(fault.to_string()),
        }
    }
}

/// One connection.
pub struct Connection {
    pub stream: Stream,
    /// What is between frames and socket, unless they are sent as they are.
    secure: Option<Box<Session>>,
    pub peer: SocketAddr,
    pub origin: Origin,
    pub phase: Phase,
    pub outbound: Outbound,
    pub inbound: Inbound,
    /// Whether the kernel had no room for all that waits.
    pub is_blocked: bool,
    /// Whether it is among those that have something to send.
    pub is_listed: bool,
    /// Whether the poller watches it for room.
    pub is_room_watched: bool,
    /// Whether a stranger's first message was taken. What comes behind that is read when it is known, so that
    /// nobody can have more than one read of it kept.
    pub has_introduced: bool,
    /// Whether anything has left, which proves that the other side accepted it.
    pub is_proven: bool,
}

impl Connection {
    /// Who is at the other end, as far as that is proven.
    pub fn principal(&self) -> Principal {
        self.secure.as_ref().map_or(Principal::Unproven, |session| session.principal())
    }

    pub fn new(
        stream: Stream,
        peer: SocketAddr,
        origin: Origin,
        secure: Option<Session>,
        config: &TcpConfig,
    ) -> Self {
        let mut outbound = Outbound::new(config.piece_bytes.clamp(1, PIECE_BYTES_MAX));
        outbound.put_raw(&PREAMBLE);
        Self {
            stream,
            secure: secure.map(Box::new),
            peer,
            is_proven: !matches!(origin, Origin::Dialed(_)),
            origin,
            phase: Phase::Open,
            outbound,
            inbound: Inbound::default(),
            is_blocked: false,
            is_listed: false,
            is_room_watched: false,
            has_introduced: false,
        }
    }

    /// Queues a message. A long one leaves at once as far as it can, so that nothing more of it than needed
    /// is copied.
    #[inline]
    pub fn send(
        &mut self,
        head: &[u8],
        payload: Outgoing<'_>,
        spares: &mut Spares,
        counters: &TcpCounters,
    ) -> Result<(), Broken> {
        let total = payload.len();
        if total <= WHOLE_PAYLOAD_BYTES_MAX {
            self.outbound.put_whole(head, payload.as_slice());
            return Ok(());
        }
        counters.messages_in_pieces.increment();
        match payload.into_slice() {
            Ok(lent) => {
                self.outbound.put_long(head, total, Held::Lent);
                let flushed = if self.is_blocked { Ok(()) } else { self.flush(lent, spares, counters) };
                self.outbound.keep_lent(lent, spares);
                flushed
            }
            Err(owned) => {
                self.outbound.put_long(head, total, owned.into());
                Ok(())
            }
        }
    }

    /// Sends what the kernel takes.
    #[inline]
    pub fn flush(&mut self, lent: &[u8], spares: &mut Spares, counters: &TcpCounters) -> Result<(), Broken> {
        let before = self.outbound.queued_bytes();
        let flushed = match &mut self.secure {
            None => self.outbound.flush(&mut self.stream, lent, spares)?,
            Some(_) => self.flush_secured(lent, spares)?,
        };
        let sent = before - self.outbound.queued_bytes();
        if sent > 0 {
            counters.send_calls.increment();
            counters.bytes_sent.add(sent as u64);
            if !self.is_proven {
                self.prove()?;
            }
        }
        self.is_blocked = flushed == Flushed::Blocked;
        if self.is_blocked && !self.waits_for_handshake() {
            counters.send_blocked.increment();
        }
        Ok(())
    }

    /// As [`Connection::flush`], through TLS, which takes some ahead of the kernel.
    fn flush_secured(&mut self, lent: &[u8], spares: &mut Spares) -> Result<Flushed, Broken> {
        let Some(session) = &mut self.secure else { return Ok(Flushed::Blocked) };
        loop {
            session.push(&mut self.stream)?;
            let before = self.outbound.queued_bytes();
            let flushed = self.outbound.flush(&mut session.writer(&mut self.stream), lent, spares)?;
            if session.wants_write() {
                return Ok(Flushed::Blocked);
            }
            // The kernel has all that TLS took: there is room for more, unless nothing may leave.
            if flushed != Flushed::Blocked || self.outbound.queued_bytes() == before {
                return Ok(flushed);
            }
        }
    }

    /// Whether nothing leaves before something came: the sides do not know each other yet, and this one has
    /// said what it can.
    pub fn waits_for_handshake(&self) -> bool {
        self.secure.as_ref().is_some_and(|session| session.is_handshaking() && !session.wants_write())
    }

    /// Says that nothing more comes.
    pub fn shut(&mut self) {
        if let Some(session) = &mut self.secure {
            session.close(&mut self.stream);
        }
        let _ = rustix::net::shutdown(self.stream.file(), rustix::net::Shutdown::Write);
    }

    fn prove(&mut self) -> Result<(), Broken> {
        self.is_proven = true;
        if self.stream.is_own_peer() {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }
        Ok(())
    }

    /// Takes in what has come, with one system call.
    #[inline]
    pub fn receive(&mut self, buffer: &mut Arc<Vec<u8>>, intake: &mut Intake<'_>) -> Result<Found, Broken> {
        if self.secure.is_some() {
            return self.receive_secured(buffer, intake);
        }
        let bytes = Arc::get_mut(buffer).expect("nobody else reads the buffer");
        let (taken, begin, end) = match self.inbound.place() {
            Some(place) => {
                let place_bytes = place.len();
                let Some(count) = self.stream.read_both(place, &mut bytes[..BEHIND_PLACE_BYTES])? else {
                    return Ok(Found::Nothing);
                };
                let placed = count.min(place_bytes);
                // SAFETY: the kernel wrote as many bytes to the place.
                #[expect(unsafe_code, reason = "memory that the kernel wrote")]
                unsafe {
                    self.inbound.wrote_to_place(placed, intake);
                }
                (count, 0, count - placed)
            }
            None => {
                let fragment = self.inbound.fragment().len();
                bytes[..fragment].copy_from_slice(self.inbound.fragment());
                let Some(count) = self.stream.read(&mut bytes[fragment..fragment + READ_BYTES])? else {
                    return Ok(Found::Nothing);
                };
                (count, 0, fragment + count)
            }
        };
        if taken == 0 {
            return Ok(Found::End);
        }
        if end > begin {
            self.inbound.take_in(buffer, begin, end, intake)?;
        }
        Ok(Found::Something(taken))
    }

    /// As [`Connection::receive`], through TLS.
    fn receive_secured(
        &mut self,
        buffer: &mut Arc<Vec<u8>>,
        intake: &mut Intake<'_>,
    ) -> Result<Found, Broken> {
        let Some(session) = &mut self.secure else { return Ok(Found::Nothing) };
        let bytes = Arc::get_mut(buffer).expect("nobody else reads the buffer");
        let fragment = self.inbound.fragment().len();
        bytes[..fragment].copy_from_slice(self.inbound.fragment());
        match session.read(&mut self.stream, &mut bytes[fragment..])? {
            Came::Nothing => Ok(Found::Nothing),
            Came::End => Ok(Found::End),
            Came::Frames(0) => Ok(Found::Something(0)),
            Came::Frames(count) => {
                self.inbound.take_in(buffer, 0, fragment + count, intake)?;
                Ok(Found::Something(count))
            }
        }
    }

    /// Queues a composed message.
    #[inline]
    pub fn send_composed(
        &mut self,
        message: &[u8],
        spares: &mut Spares,
        counters: &TcpCounters,
    ) -> Result<(), Broken> {
        if message.len() <= WHOLE_BYTES_MAX {
            self.outbound.put_composed(message);
            return Ok(());
        }
        let (head, payload) = split_composed(message).expect("it was composed");
        self.send(head, Outgoing::Slice(payload), spares, counters)
    }

    /// Looks at what was read and left when nothing was known of the other side.
    pub fn resume(&mut self, buffer: &mut Arc<Vec<u8>>, intake: &mut Intake<'_>) -> Result<(), Broken> {
        let bytes = Arc::get_mut(buffer).expect("nobody else reads the buffer");
        let fragment = self.inbound.fragment().len();
        bytes[..fragment].copy_from_slice(self.inbound.fragment());
        Ok(self.inbound.take_in(buffer, 0, fragment, intake)?)
    }

    /// What waits may leave for so long without progress, then it ends.
    pub fn begin_to_end(&mut self, linger: Duration) {
        self.phase = Phase::Ending { until: WallTime::now() + linger, has_shut: false };
    }
}
