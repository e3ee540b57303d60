//! `farcall registry`: where the processes of an open cluster find each other.

use farcall::bootstrap::{NAMES_VARIABLE, Rendezvous};
use serde_json::json;

use crate::arguments::Registry;
use crate::failure::Failure;
use crate::notify;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.registry.v1";

/// Serves until the process is ended. Members keep what they know meanwhile, and tell a registry that is
/// started again at the same place.
pub fn run(registry: &Registry) -> Result<(), Failure> {
    let mut report = Report::open(registry.json.as_ref())?;
    let (at, ranks) = (registry.listen.as_str(), registry.ranks.unwrap_or(0) as u32);
    let served = if ranks == 0 { Rendezvous::bind_open(at) } else { Rendezvous::bind(at, ranks) };
    let served = served.map_err(Failure::run)?;
    let address = served.address();
    report.line(format_args!("names are served at {address}"))?;
    report.line(format_args!("    for processes here: {NAMES_VARIABLE}={}", served.address_from_here()))?;
    if address.ip().is_unspecified() {
        let port = address.port();
        report.line(format_args!(
            "    for those of other machines: {NAMES_VARIABLE}=HOST:{port}, this machine's name or address"
        ))?;
    } else if address.ip().is_loopback() {
        report.line(format_args!("    other machines do not reach it; --listen 0.0.0.0:PORT lets them"))?;
    }
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "serving",
        "address": address.to_string(),
        "ranks": ranks,
    }))?;
    notify::ready();
    loop {
        std::thread::park();
    }
}
