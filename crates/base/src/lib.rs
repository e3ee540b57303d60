//! What every part of farcall has in common: points in time, identities, addresses, and numbers drawn at
//! random.
//!
//! Nothing here reads a clock or a source of entropy: values come in as arguments, so that the same code runs
//! on a real machine and, with virtual time, inside a simulation.
#![forbid(unsafe_code)]

mod address;
pub mod canary;
mod cluster_key;
mod entropy;
mod exhausted;
mod identity;
mod instant;
mod named;
mod numbers;
mod principal;
mod random;
mod sip;
mod socket_format;
mod static_key;
mod text;

pub use address::{ADDRESS_BYTES_MAX, Address, AddressError};
pub use cluster_key::ClusterKey;
pub use entropy::Entropy;
pub use exhausted::explained;
pub use identity::{Identity, NO_RANK};
pub use instant::Instant;
pub use numbers::SessionNumbers;
pub use principal::{KeyName, NoKeyName, Principal};
pub use random::{Random, seed_of_stream};
pub use sip::{SipKey, SipPrefix};
pub use socket_format::{SocketFormat, host_number};
pub use static_key::{PrivateKey, PublicKey};
pub use text::{is_printable, printable, printable_lines};
