//! The tunables of the whole stack, each declared once.
//!
//! `table.rs` is the one place where a parameter is declared: its name, type, range, default, scope and a
//! line of documentation. From that line come the typed field of [`Settings`], the command line
//! (`--set ring.ring_bytes=1M`), the environment (`FARCALL_RING_RING_BYTES=1M`), the configuration file
//! (`[ring]` `ring_bytes = "1M"`), the listing that [`PARAMETERS`] gives, and the space that a tuner may
//! search. Text is checked once, here; a holder of a [`Settings`] holds valid values.

mod choice;
mod declare;
mod domain;
mod error;
mod load;
mod name;
pub mod nearest;
mod parameter;
pub mod quantity;
mod sizes;
mod table;
mod value;

pub use choice::Choice;
pub use domain::{Domain, Invalid, Kind};
pub use error::{Origin, SettingsError};
pub use load::{CONFIG_VARIABLE, Sources, stray_variables};
pub use name::{Name, Text};
pub use parameter::{Parameter, Scope};
pub use sizes::Sizes;
pub use table::{
    BasicSettings, ConnectBy, EndpointSettings, FaultSettings, HomaSettings, Idle, LogLevel, LogSettings,
    MpiThreads, PARAMETERS, PeersSettings, RingSettings, Settings, ShmSettings, ShmTrust, UdpSettings,
    VerbsSettings,
};
pub use value::Value;

#[cfg(test)]
mod tests;
