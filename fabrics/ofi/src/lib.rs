//! libfabric, twice: packets for the packet protocols ([`datagram`], `basic+ofi` and `homa+ofi`) and whole
//! messages ([`messages`], the `ofi` transport), over one binding of its functions and endpoints
//! ([`libfabric`]).
//!
//! `docs/ofi.md` has the user's view.

pub mod datagram;
pub mod libfabric;
pub mod messages;

pub use libfabric::OfiError;
