//! Remote calls and tagged messages between the processes of a cluster, in about the time that the hardware
//! needs.
//!
//! A process is a [`Node`]; each of its threads that sends or receives has an [`Endpoint`] over a transport
//! that is chosen by name at run time. An endpoint serves requests with handlers and makes calls that
//! complete as futures, callbacks or polled events. Every call has a deadline and completes exactly once.

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
pub mod simulated;
mod transports;
#[cfg(feature = "typed")]
pub mod typed;

pub use blocking::{BLOCKING_REQUESTS_MAX, TakenRequest};
pub use client::{
    CLIENT_CALLS_MAX, Client, ClientCall, ClientConnection, ClientError, ClientJob, ClientPending, ClientPort,
};
pub use connect::ConnectError;
pub use endpoint::{
    Answer, AnySource, AnyTag, Call, CallError, Cancellation, Context, ContextCall, ContextReceive,
    ContextSend, Deferred, Endpoint, EndpointCounters, EndpointTrace, Event, Message, OPERATIONS_MAX,
    Operation, OrRefused, Outcome, Peer, Pending, ReceiveError, ReceiveMessage, ReceiveOutcome, Received,
    Receiving, Reply, Request, Response, SendError, SendMessage, Sending, SourceChoice, TagChoice,
    TracedPeer, WaitSet,
};
pub use executor::Executor;
pub use farcall_base::Instant;
pub use farcall_driver::trace::TraceRecord;
pub use farcall_driver::{
    CounterFile, CounterReadError, CounterReader, CounterSnapshot, GroupSnapshot, KeyFileError, Loan, LoanError,
    Snapshot,
    clock::Clock,
};
pub use farcall_shm::access::{Access as HostAccess, NoSuchRule};
pub use farcall_transport::trace;
pub use farcall_transport::{
    CallRefused, DownReason, Holdings, NotTaken, Outgoing, Payload, SendRefused, Service, Tag, Taken,
    TransportLimits,
};
pub use farcall_verbs::{CmReach, DeviceReport, PortReport, devices as rdma_devices, rdma_cm_reach};
pub use names::{
    Balance, Compared, Connection, Drained, ListenError, Listener, NamedCall, NamedCallError, NoServer,
    TargetError, WatchError, WrittenDown, WrittenDownError,
};
pub use node::{EndpointError, Node, NodeError};
pub use transports::{
    Fabric, LibraryKind, Presence, Protocol, TransportKind, UnknownTransport, Ways, create_key_file,
    host_access, names_of_keys,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
