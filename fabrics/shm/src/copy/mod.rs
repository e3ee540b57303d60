//! How bytes get from one core to another: by which stores, what is prefetched, and what a waiting peer is
//! told meanwhile. Nothing above the driver knows of it.

mod choice;
mod nontemporal;
mod payload;
pub mod prefetch;
pub mod progress;
pub mod spare;
mod stream;

pub use payload::PayloadCopier;
pub use stream::StreamCopier;
