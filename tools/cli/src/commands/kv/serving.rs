//! What a shard says once it serves: lines for people, and an object for programs.

use std::sync::Arc;

use farcall::TransportKind;
use farcall::bootstrap::HostPort;
use farcall_kv::daemon::Daemon;
use serde_json::json;

use super::SCHEMA;
use super::data::{self, Found};
use super::health::Health;
use super::resp::Doors;
use crate::arguments::kv::KvServe;
use crate::failure::Failure;
use crate::output::Report;

/// A shard that serves from now on.
pub struct Serving<'a> {
    pub serve: &'a KvServe,
    pub at: &'a HostPort,
    pub transport: TransportKind,
    /// What its log had.
    pub found: Option<&'a Found>,
    pub doors: &'a Doors,
    pub health: Option<&'a (Arc<Health>, String)>,
}

impl Serving<'_> {
    pub fn tell(&self, daemon: &mut Daemon<'_>, report: &mut Report) -> Result<(), Failure> {
        let Self { at, transport, doors, .. } = self;
        let (shard, shards) = (self.serve.shard, self.serve.shards);
        match shard {
            0 => report.line(format_args!("shard 0 of {shards} serves at {at} over {transport}"))?,
            _ => report.line(format_args!(
                "shard {shard} of {shards} of the store at {at} serves over {transport}"
            ))?,
        }
        if let Some(found) = self.found {
            data::tell(found, report)?;
        }
        for at in &doors.resp {
            report.line(format_args!("Redis clients connect to {at}"))?;
        }
        for at in &doors.memcached {
            report.line(format_args!("memcached clients connect to {at}"))?;
        }
        if let Some((health, at)) = self.health {
            // Whoever reads that it serves may ask at once.
            health.tell(daemon.hindrance(), daemon.is_registry_silent());
            report.line(format_args!("probes are answered at http://{at}/healthz and /readyz"))?;
        }
        report.object(&json!({
            "schema": SCHEMA,
            "kind": "serving",
            "shard": shard,
            "shards": shards,
            "at": at.to_string(),
            "transport": transport.name(),
            "resp": doors.resp,
            "memcached": doors.memcached,
            "health": self.health.map(|(_, at)| at),
        }))
    }
}
