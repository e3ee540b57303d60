//! Remote calls and tagged messages between the processes of a cluster, in about the time that the hardware
//! needs.
//!
//! A process is a [`Node`]; each of its threads that sends or receives has an [`Endpoint`] over a transport
//! that is chosen by name at run time. An endpoint serves requests with handlers and makes calls that
//! complete as futures, callbacks or polled events. Every call has a deadline and completes exactly once.
//!
//! # A service
//!
//! Servers listen under a name, clients connect to it. Here both are threads of one process; as two programs,
//! on one machine or several, they are the same lines with [`Node::open`].
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//!
//! use farcall::{Node, Service};
//!
//! const ECHO: Service = Service(1);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let serving = Node::serving_names("127.0.0.1:0")?; // also the registry of names
//! let registry = serving.registry_address().expect("it serves one").to_string();
//! let is_over = AtomicBool::new(false);
//! std::thread::scope(|threads| {
//!     let (serving, is_over) = (&serving, &is_over);
//!     threads.spawn(move || {
//!         let endpoint = serving.endpoint("ring+shm").expect("shared memory"); // one for each thread
//!         endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
//!         let _listed = endpoint.listen("orders").expect("the registry is there");
//!         endpoint.run_while(|| !is_over.load(Ordering::Relaxed));
//!     });
//!     let client = || -> Result<(), Box<dyn std::error::Error>> {
//!         let node = Node::open_at(&registry)?;
//!         let endpoint = node.endpoint("ring+shm")?;
//!         let orders = endpoint.connect("orders")?;
//!         let response = orders.call(ECHO, b"hello").within(Duration::from_secs(10)).wait()?;
//!         assert_eq!(&response[..], b"hello"); // read where it arrived
//!         Ok(())
//!     };
//!     let outcome = client();
//!     is_over.store(true, Ordering::Relaxed);
//!     outcome
//! })
//! # }
//! ```
//!
//! # Three ways to complete
//!
//! By one mechanism, exactly once; the endpoint's thread polls:
//!
//! ```no_run
//! # use farcall::{Endpoint, Event, Peer, Service};
//! # const ECHO: Service = Service(1);
//! # fn three(endpoint: &Endpoint, peer: Peer) -> Result<(), Box<dyn std::error::Error>> {
//! let response = endpoint.call(peer, ECHO, b"future").wait()?; // or .await within `block_on`
//! endpoint.call(peer, ECHO, b"callback").then(|_, outcome| println!("{}", outcome.is_ok()))?;
//! endpoint.call(peer, ECHO, b"event").post(42)?;
//! let mut is_done = false;
//! while !is_done {
//!     endpoint.poll(|_, event| is_done |= matches!(event, Event::Completed { token: 42, .. }));
//! }
//! # drop(response);
//! # Ok(())
//! # }
//! ```
//!
//! # Tagged messages
//!
//! Where no response is needed; both ends complete like calls, and arrive in order for each sender and tag:
//!
//! ```no_run
//! # use farcall::{AnySource, AnyTag, Endpoint, Peer, Tag};
//! # fn messages(endpoint: &Endpoint, peer: Peer) -> Result<(), Box<dyn std::error::Error>> {
//! endpoint.send(peer, Tag(7), b"a message").wait()?;
//! let message = endpoint.receive(AnySource, AnyTag).wait()?;
//! println!("{} bytes", message.len());
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | to | look at |
//! |---|---|
//! | start processes, with ranks or without | [`Node`], [`bootstrap`] |
//! | call, serve, send, receive, poll, lend memory | [`Endpoint`] |
//! | call from many threads, from tokio | [`Client`] |
//! | serve slow requests; answer later | [`Endpoint::serve_blocking`], [`Reply::defer`] |
//! | connect to names, leave without a loss | [`Endpoint::connect`], [`Endpoint::listen`], [`Listener::leave`] |
//! | choose a transport, see which was taken | [`TransportKind`], [`Endpoint::way`] |
//! | read what a process counts | [`CounterFile`], [`CounterReader`] |
//! | learn who calls, decide who may | [`Reply::principal`], [`policy`] |
//! | hand the context of a trace on, keep the slowest calls | [`spans`] |
//! | tune | [`parameters`] |
//! | run clusters that you do not have | [`simulated`] |

mod blocking;
pub mod bootstrap;
mod client;
mod connect;
mod endpoint;
mod executor;
mod life;
mod names;
mod node;
pub mod parameters;
#[cfg(test)]
#[path = "../../../tools/cli/tests/common/places.rs"]
mod places;
pub mod policy;
pub mod said;
mod serving_threads;
pub mod simulated;
pub mod spans;
mod transports;
#[cfg(feature = "typed")]
pub mod typed;

pub use blocking::{BLOCKING_REQUESTS_MAX, TakenRequest};
pub use client::{
    CLIENT_CALLS_MAX, CLIENT_IDLE_CONNECTIONS_MAX, Client, ClientCall, ClientConnection, ClientError,
    ClientJob, ClientPending, ClientPort,
};
pub use connect::ConnectError;
pub use endpoint::{
    Answer, AnySource, AnyTag, Call, CallError, Cancellation, Context, ContextCall, ContextReceive,
    ContextSend, Deferred, Endpoint, EndpointCounters, EndpointTrace, Event, Message, OPERATIONS_MAX,
    Operation, OrRefused, Outcome, Peer, Pending, REASON_BYTES_MAX, Reason, ReceiveError, ReceiveMessage,
    ReceiveOutcome, Received, Receiving, Reply, Request, Response, SendError, SendMessage, Sending,
    SourceChoice, TagChoice, TracedPeer, WaitSet,
};
pub use executor::Executor;
pub use farcall_base::Instant;
pub use farcall_driver::trace::TraceRecord;
pub use farcall_driver::{
    CounterFile, CounterReadError, CounterReader, CounterSnapshot, FileError, GroupSnapshot, KeyFileError,
    Loan, LoanError, Snapshot, clock::Clock,
};
pub use farcall_shm::access::{Access as HostAccess, NoSuchRule};
pub use farcall_transport::trace;
pub use farcall_transport::{
    CallRefused, DownReason, Holdings, NotTaken, Outgoing, Payload, SendRefused, Service, Tag, Taken,
    TransportLimits,
};
pub use farcall_verbs::{CmReach, DeviceReport, PortReport, devices as rdma_devices, rdma_cm_reach};
pub use names::{
    Balance, Compared, Connection, Drained, ETCD_SCHEME, EtcdError, EtcdPlace, EtcdValue, EtcdValues,
    ListenError, Listener, NamedCall, NamedCallError, NoServer, TargetError, WatchError, WrittenDown,
    WrittenDownError,
};
pub use node::{EndpointError, Node, NodeError};
pub use serving_threads::{SERVER_THREADS_MAX, ServeError, ServerThreads};
pub use transports::{
    Fabric, LibraryKind, Presence, Protocol, TransportKind, UnknownTransport, Ways, create_identity_file,
    create_key_file, host_access, names_of_keys, public_key_of,
};

/// Compiles, and where it can runs, what the README and the tutorial show.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/tutorial/service.md")]
    struct Service;
    #[doc = include_str!("../../../docs/tutorial/cluster.md")]
    struct Cluster;
    #[doc = include_str!("../../../docs/clusters.md")]
    struct Clusters;
}
