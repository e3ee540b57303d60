//! A handle for many threads and async runtimes.
//!
//! An [`Endpoint`] belongs to one thread. A [`Client`] is for everything else: it can be cloned, sent and
//! shared, its futures are `Send`, need no poller, and end at their deadlines. The thread that owns the
//! endpoint, which farcall starts or the program brings, takes requests out of a bounded queue and hands
//! their ends to whoever waits. What that costs is in `docs/clients.md`; where it is too much, use an
//! endpoint for each thread.

mod call;
mod connections;
mod error;
mod job;
mod port;
mod queue;
mod slot;
mod watch;

use core::fmt;
use std::io;
use std::sync::Arc;

use farcall_transport::{Outgoing, Payload, Service};

pub use call::{ClientCall, ClientPending};
pub use connections::CLIENT_IDLE_CONNECTIONS_MAX;
pub use error::ClientError;
pub use job::ClientJob;
pub use port::ClientPort;
use queue::Shared;

use crate::endpoint::{Endpoint, OPERATIONS_MAX, Peer};

/// Operations that a client has in flight at most, unless it is told otherwise; half of what an endpoint can
/// have.
pub const CLIENT_CALLS_MAX: usize = OPERATIONS_MAX / 2;

/// How a call of a client ends.
type CallResult = Result<Payload, ClientError>;

/// Makes calls from any thread and any async runtime, over an endpoint that one thread owns.
///
/// Clones are handles of the same client. When the last one and the last of its futures is dropped, the
/// thread that [`Client::start`] started ends, and its endpoint with it.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// What clones and futures of a client hold: with the last one the client stops.
struct Handle(Arc<Shared>);

impl Handle {
    fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Client {
    /// Gives the endpoint to a thread of its own. Its handlers go on serving there, and what waits in it is
    /// taken along.
    ///
    /// The thread polls and idles as the endpoint's settings say (`endpoint.idle`, `endpoint.spin_time`). A
    /// handler that panics ends it, and with it the client.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(endpoint: Endpoint) -> io::Result<Self> {
        Self::start_with(endpoint, CLIENT_CALLS_MAX)
    }

    /// As [`Client::start`], with at most `calls_max` operations in flight, queued ones included.
    pub fn start_with(endpoint: Endpoint, calls_max: usize) -> io::Result<Self> {
        let shared = Shared::new(&endpoint, calls_max);
        let (client, thread_shared) = (Self::of(Arc::clone(&shared)), shared);
        std::thread::Builder::new().name("farcall-client".into()).spawn(move || {
            let endpoint = endpoint;
            let mut port = ClientPort::new(&endpoint, thread_shared);
            while !port.is_stopping() {
                port.turn();
            }
        })?;
        Ok(client)
    }

    /// A client of an endpoint that the program polls itself, with at most `calls_max` operations in flight;
    /// see [`ClientPort`].
    pub fn over(endpoint: &Endpoint, calls_max: usize) -> (Self, ClientPort<'_>) {
        let shared = Shared::new(endpoint, calls_max);
        (Self::of(Arc::clone(&shared)), ClientPort::new(endpoint, shared))
    }

    fn of(shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle(shared)) }
    }

    /// Prepares a call over a session of the endpoint; see [`ClientCall`] for the ways to make it.
    ///
    /// Borrowed bytes are copied now. A vector, a payload or a loan is passed on without a copy.
    pub fn call<'p>(&self, peer: Peer, service: Service, payload: impl Into<Outgoing<'p>>) -> ClientCall {
        ClientCall::to_peer(Arc::clone(&self.handle), peer, service, payload.into().into_owned())
    }

    /// The servers of a name, or what else [`Endpoint::connect`] takes. Whether it can be looked up is for
    /// the calls to say.
    pub fn connect(&self, target: &str) -> ClientConnection {
        ClientConnection { handle: Arc::clone(&self.handle), name: target.into() }
    }

    /// Ends the client: operations that have not ended do so as [`ClientError::Stopped`], as do later ones.
    /// The thread of [`Client::start`] ends, when the handler or task that it runs at the moment has
    /// returned.
    pub fn stop(&self) {
        self.handle.shared().stop();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// A name, and the servers behind it, for any thread; clones lead to the same.
///
/// What its client knows of the servers it forgets a minute after the last call, and sooner when no call uses
/// more than [`CLIENT_IDLE_CONNECTIONS_MAX`] of its names; the next call begins with a look-up.
///
/// Every call goes to a server that is there when it begins, as those of a [`Connection`](crate::Connection).
#[derive(Clone)]
pub struct ClientConnection {
    handle: Arc<Handle>,
    name: Arc<str>,
}

impl ClientConnection {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Prepares a call to one of the servers; it goes to another one only when it certainly did not run.
    pub fn call<'p>(&self, service: Service, payload: impl Into<Outgoing<'p>>) -> ClientCall {
        let (handle, name) = (Arc::clone(&self.handle), Arc::clone(&self.name));
        ClientCall::to_name(handle, name, service, payload.into().into_owned())
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientConnection({})", self.name)
    }
}
