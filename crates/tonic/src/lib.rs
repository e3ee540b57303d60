//! gRPC over farcall: clients and servers that tonic generates from a `.proto` run over a farcall session
//! instead of a connection of HTTP/2.
//!
//! A [`Channel`] takes the place of tonic's in a generated client, and a [`Server`] serves a generated
//! service, or tonic's `Routes` of several; tonic's own server can serve the same ones at the same time.
//! Unary calls and all kinds of streaming, metadata, status, deadlines and cancellation are carried; there is
//! no HTTP/2. Its page is `docs/grpc.md`.
//!
//! ```no_run
//! # use std::time::Duration;
//! # type Outcome = Result<(), Box<dyn std::error::Error>>;
//! # fn program(node: &farcall::Node, routes: tonic::service::Routes) -> Outcome {
//! // Where it serves, in a runtime of tokio:
//! let endpoint = node.endpoint("auto")?;
//! let _listener = endpoint.listen("greeter")?;
//! let _server = farcall_tonic::Server::start(endpoint, routes.prepare())?;
//!
//! // Where it is called; the channel is for `GreeterClient::new`:
//! let endpoint = node.endpoint("auto")?;
//! let _channel = farcall_tonic::Channel::connect(endpoint, "greeter", Duration::from_secs(5))?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cancels;
mod channel;
mod exchanges;
mod headers;
mod pieces;
mod pulled;
mod pushing;
mod server;
mod status;
mod traced;
mod wire;

pub use channel::{Channel, ConnectError};
pub use server::{Served, Server};

use farcall::Service;

/// The service that carries gRPC, unless a program chooses another one.
pub const GRPC: Service = Service(2048);
