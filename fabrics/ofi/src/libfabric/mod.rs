//! libfabric: its functions, found when they are first needed, and one endpoint with all that it takes.
//!
//! What the `ofi` transport (reliable tagged messages) and the `ofi` driver (datagrams) have in common is
//! here: the choice among what libfabric [`offers`], the endpoint with its queue of completions, and the
//! calls to send and receive. Neither messages nor packets of farcall are known here.
//!
//! The library is opened, not linked: one program runs where it is installed and where it is not. Most of its
//! interface is no functions but tables that its objects point to (`fi_tsend` is an inline function over such
//! a table), so only six symbols are looked up, each in the version of the binary interface that [`types`]
//! describes; newer libraries keep those versions. A test compares layouts and constants with the C headers
//! where these are installed.

mod api;
mod endpoint;
mod error;
mod offers;
mod operations;
mod place;
mod retirement;
pub mod types;

pub use api::{api, version};
pub(crate) use endpoint::Form;
pub use endpoint::{Endpoint, EndpointConfig};
pub use error::OfiError;
pub use offers::{Offer, Wanted, found, offers, provider_names};
pub use operations::{Completion, Context, Posted};
pub use place::{Kind, Place, fuzz_place};
