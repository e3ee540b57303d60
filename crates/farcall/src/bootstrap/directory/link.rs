//! A member's connection to the registry: opened, greeted, and read message by message.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall_driver::KeyFileError;
use farcall_protocol::keys::{Keyring, SEALED_BYTES, StreamOpener, StreamOpening, StreamSealing};

use super::super::fields::Malformed;
use super::super::hosts::HostPort;
use super::super::limits::FRAME_BYTES_MAX;
use super::super::messages::{Answer, Ask, Join};
use super::super::refusal::Refusal;
use super::super::stream::{self, keep_alive};
use super::backoff::Backoff;
use super::error::JoinError;

/// The longest that one attempt to connect takes; after it the address is tried again.
pub(super) const ATTEMPT_MAX: Duration = Duration::from_secs(1);

/// The longest that a message waits for room in the socket; a rendezvous that does not read has stopped.
const SEND_MAX: Duration = Duration::from_secs(1);

/// The longest that a message takes to arrive once it has begun; a registry that stops within one is lost.
pub(super) const MESSAGE_MAX: Duration = Duration::from_secs(2);

/// Why no connection was made.
#[derive(Debug)]
pub(super) enum LinkError {
    /// Another attempt may succeed.
    Unreachable(String),
    /// No attempt will.
    Refused(Refusal),
    /// Nor will one here: this machine does not even reach itself.
    NoLoopback,
    /// Nor without the cluster key that the environment names.
    Key(KeyFileError),
}

/// A connection, sealed with keys of its own where the cluster has a key.
pub(super) struct Link {
    stream: TcpStream,
    keys: Option<Keys>,
}

/// Those that write and the one that reads have a side each.
#[derive(Clone)]
struct Keys {
    sealing: Arc<Mutex<StreamSealing>>,
    opening: Arc<Mutex<StreamOpening>>,
}

impl Link {
    /// The same connection, for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, keys: self.keys.clone() })
    }

    /// The socket.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

/// A connection that has just joined.
pub(super) struct Opened {
    pub(super) link: Link,
    /// Whether other machines reach the registry.
    pub(super) beyond_machine: bool,
}

/// Tries all addresses of the registry, again and again until the time is over.
pub(super) fn reach(address: &HostPort, join: &Join, within: Duration) -> Result<Opened, JoinError> {
    let deadline = super::deadline_after(within);
    let mut backoff = Backoff::default();
    loop {
        let failure = match try_addresses(address, join, deadline) {
            Ok(opened) => return Ok(opened),
            Err(LinkError::Refused(refusal)) if !refusal.passes() => return Err(JoinError::Refused(refusal)),
            Err(failure) => failure,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || matches!(failure, LinkError::NoLoopback | LinkError::Key(_)) {
            return Err(match failure {
                LinkError::Key(error) => JoinError::Key(error),
                LinkError::Refused(refusal) => JoinError::Refused(refusal),
                LinkError::NoLoopback => JoinError::NoLoopback { address: address.to_string() },
                LinkError::Unreachable(reason) => {
                    JoinError::Unreachable { address: address.to_string(), within, reason }
                }
            });
        }
        std::thread::sleep(backoff.next_pause().min(left));
    }
}

/// Tries each address of the registry once.
pub(super) fn try_addresses(address: &HostPort, join: &Join, deadline: Instant) -> Result<Opened, LinkError> {
    let addresses = address.look_up().map_err(|error| LinkError::Unreachable(error.to_string()))?;
    let mut outcome = Err(LinkError::Unreachable("the host has no address".to_owned()));
    for address in addresses {
        outcome = open(address, join, deadline);
        if !matches!(outcome, Err(LinkError::Unreachable(_))) {
            break;
        }
    }
    outcome
}

/// Connects and joins, in at most [`ATTEMPT_MAX`] for each of the two and not beyond `deadline`.
fn open(address: SocketAddr, join: &Join, deadline: Instant) -> Result<Opened, LinkError> {
    let unreachable = |error: io::Error| LinkError::Unreachable(describe(&error));
    let connected = TcpStream::connect_timeout(&address, attempt_time(deadline));
    let stream = connected.map_err(|error| match error.kind() {
        io::ErrorKind::NetworkUnreachable if address.ip().is_loopback() => LinkError::NoLoopback,
        _ => unreachable(error),
    })?;
    let ring = stream::ring_of_environment().map_err(LinkError::Key)?;
    prepare(&stream).map_err(unreachable)?;
    let link = match ring {
        Some(ring) => agree(stream, &ring, deadline)?,
        None => Link { stream, keys: None },
    };
    match greet(&link, join, deadline).map_err(unreachable)? {
        Answer::Welcome { beyond_machine } => Ok(Opened { link, beyond_machine }),
        Answer::Refused(refusal) => Err(LinkError::Refused(refusal)),
        _ => Err(LinkError::Unreachable(NOT_A_RENDEZVOUS.to_owned())),
    }
}

/// Sends one message. After an error the connection is of no more use.
pub(super) fn send(link: &Link, ask: &Ask) -> io::Result<()> {
    let frame = ask.to_frame();
    match &link.keys {
        None => (&link.stream).write_all(&frame),
        // Frames leave in the order in which they were sealed.
        Some(keys) => {
            let mut sealing = keys.sealing.lock().unwrap_or_else(PoisonError::into_inner);
            send_frame(&link.stream, &sealing.seal(&frame[4..]))
        }
    }
}

fn send_frame(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&[&(bytes.len() as u32).to_le_bytes(), bytes].concat())
}

/// Waits for the next message, for so long at most. After an error the connection is of no more use.
pub(super) fn receive(link: &Link, within: Duration) -> io::Result<Answer> {
    let frame = receive_frame(&link.stream, within)?;
    let opened = match &link.keys {
        None => frame,
        Some(keys) => {
            let mut opening = keys.opening.lock().unwrap_or_else(PoisonError::into_inner);
            opening.open(&frame).ok_or_else(invalid)?
        }
    };
    Answer::decode(&opened).map_err(|Malformed(_)| invalid())
}

fn receive_frame(stream: &TcpStream, within: Duration) -> io::Result<Vec<u8>> {
    let mut stream = Until { stream, deadline: Instant::now() + within };
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX + SEALED_BYTES {
        return Err(invalid());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Agrees on keys with a registry that has the same cluster key.
fn agree(stream: TcpStream, ring: &Keyring, deadline: Instant) -> Result<Link, LinkError> {
    let opener = StreamOpener::new(ring, &mut stream::entropy());
    let answered = send_frame(&stream, &opener.hello())
        .and_then(|()| receive_frame(&stream, attempt_time(deadline)))
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                LinkError::Unreachable(WITHOUT_KEY.to_owned())
            }
            _ => LinkError::Unreachable(describe(&error)),
        })?;
    match opener.finish(&answered) {
        Some((sealing, opening)) => {
            let keys =
                Keys { sealing: Arc::new(Mutex::new(sealing)), opening: Arc::new(Mutex::new(opening)) };
            Ok(Link { stream, keys: Some(keys) })
        }
        None => Err(match Answer::decode(&answered) {
            Ok(Answer::Refused(refusal)) => LinkError::Refused(refusal),
            _ => LinkError::Unreachable(NOT_A_RENDEZVOUS.to_owned()),
        }),
    }
}

/// A connection that is read until a point in time, however few bytes come at a time.
struct Until<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A limit below a microsecond would mean none to the system.
        self.stream.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
        self.stream.read(into)
    }
}

const NOT_A_RENDEZVOUS: &str = "what listens there is no rendezvous";

const WITHOUT_KEY: &str =
    "what listens there has no cluster key and this process has one: give both the same security.key_file";

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keep_alive(stream)?;
    stream.set_write_timeout(Some(SEND_MAX))
}

fn greet(link: &Link, join: &Join, deadline: Instant) -> io::Result<Answer> {
    send(link, &Ask::Join(join.clone()))?;
    receive(link, attempt_time(deadline))
}

/// A time limit of zero would mean none to the system.
fn attempt_time(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), ATTEMPT_MAX)
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, NOT_A_RENDEZVOUS)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".to_owned(),
        io::ErrorKind::UnexpectedEof => "the connection was closed before an answer".to_owned(),
        _ => error.to_string(),
    }
}
