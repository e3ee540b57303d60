//! The Redis protocol in front of a shard: RESP2 and RESP3, over TCP, TLS and Unix sockets.
//!
//! A [`Front`] is a thread with sockets, of which some may be for memcached clients. It takes requests apart,
//! runs them on the shard of this process, which it shares with the daemon, and sends the replies. Database 0
//! is the table `default`, number n the table `dbn`, so that what one client writes through a slot another
//! one reads through a socket.

mod ahead;
mod clients;
mod cluster;
mod command;
mod connection;
mod front;
mod fuzz;
mod glob;
mod held;
mod input;
mod listener;
mod parse;
mod reading;
mod reply;
mod running;
mod session;
mod socket;
mod spares;
mod words;

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use cluster::{Cluster, ServerPlace};
pub(crate) use command::Engine;
pub use command::policy_named;
pub(crate) use connection::{Connection, UNREAD_BYTES_MAX};
pub use farcall_tcp::ServerFiles;
pub use front::{Front, Stopper};
#[doc(hidden)]
pub use fuzz::fuzz_resp;
use listener::TLS_PREFIX;
pub use listener::{ListenError, NoPlace, Place};
pub(crate) use session::Session;

/// How many databases a client can select.
pub const DATABASES: usize = 16;

/// How long a client may leave its replies unread unless told otherwise.
pub const UNREAD_FOR_MAX: Duration = Duration::from_secs(60);

/// How a front serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What clients must say first, if anything.
    pub password: Option<String>,
    /// Clients at a time.
    pub clients_max: usize,
    /// How long a client may have more replies than fit and read none of them; then it is sent away.
    pub unread_for_max: Duration,
    /// What is shown to clients that speak TLS; needed where they connect.
    pub tls: Option<ServerFiles>,
    /// Whether every user of this machine may connect to Unix sockets.
    pub is_for_all: bool,
    /// The policy that says what clients may do; without one they may do everything.
    pub policy: Option<PathBuf>,
    /// Where memcached clients connect. They say no password.
    pub memcached: Vec<Place>,
    /// Memory that all clients may take together beside the store, in bytes; 0 is no limit.
    pub clients_bytes_max: usize,
    /// The longest string, up to [`LONG_BYTES_MAX`](crate::store::LONG_BYTES_MAX).
    pub value_bytes_max: usize,
    /// The servers of the other shards, if there are any.
    pub cluster: Option<Arc<Cluster>>,
}

/// Memory that all clients may take together unless it is said otherwise: that of a few of the longest
/// requests and replies.
const CLIENTS_BYTES_MAX: usize = 1 << 30;

impl Default for Options {
    fn default() -> Self {
        Self {
            password: None,
            clients_max: 10_000,
            unread_for_max: UNREAD_FOR_MAX,
            tls: None,
            is_for_all: false,
            policy: None,
            memcached: Vec::new(),
            clients_bytes_max: CLIENTS_BYTES_MAX,
            value_bytes_max: crate::store::LONG_BYTES_MAX,
            cluster: None,
        }
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
