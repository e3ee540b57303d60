//! `farcall kv backup`: replicas of the logs of shards.

use farcall::Node;
use farcall::bootstrap::{Bootstrap, Rendezvous};
use farcall_kv::replicated::{BACKUP_NAME, Backups, OpenRegistry};
use farcall_replica::{Backup, BackupEntry, FolderShelf};
use serde_json::json;

use super::serve::cannot_listen;
use super::{LOOK_WITHIN, RANKS, SCHEMA, access};
use crate::arguments::kv::KvBackup;
use crate::arguments::load_settings;
use crate::failure::Failure;
use crate::output::Report;

/// Serves until the process is ended.
pub fn run(backup: &KvBackup) -> Result<(), Failure> {
    let mut settings = load_settings(&backup.settings)?;
    // A backup receives none, so it would hold all that anybody sends.
    settings.peers.messages = false;
    access::check(&backup.at, backup.allow, backup.transport, &settings)?;
    let mut report = Report::open(backup.json.as_ref())?;
    let shelf = FolderShelf::new(backup.data.as_deref()).map_err(Failure::run)?;
    let mut backups = Backups::new(Backup::open(Box::new(shelf)).map_err(Failure::run)?);
    let at = backup.at.to_string();
    // Every shard of a store comes with its number as its rank.
    let rendezvous =
        Rendezvous::bind(at.as_str(), RANKS).map_err(|error| cannot_listen("a backup", &error))?;
    let bootstrap = Bootstrap::join(&backup.at, 0, RANKS, LOOK_WITHIN).map_err(Failure::run)?;
    let node = Node::new(bootstrap, settings);
    let endpoint = node.endpoint(backup.transport.name()).map_err(Failure::run)?;
    let _listener = endpoint.listen(BACKUP_NAME).map_err(Failure::run)?;
    let entry = BackupEntry {
        at: format!("{at}/{BACKUP_NAME}"),
        domain: backup.domain.clone().unwrap_or_else(|| at.clone()),
        has_disk: backup.data.is_some(),
    };
    let place = backup.registry.as_ref().expect("the grammar asks for it");
    let registry = OpenRegistry::open(place).map_err(Failure::run)?;
    registry.announce(&entry).map_err(Failure::run)?;
    let (replicas, transport) = (backups.replicas(), backup.transport);
    report.line(format_args!("backup at {at} over {transport}, {replicas} replicas"))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "backup",
        "at": at,
        "transport": transport.name(),
        "replicas": replicas,
        "domain": entry.domain,
    }))?;
    // An entry in etcd lasts as long as its registry.
    let _kept = (rendezvous, registry);
    loop {
        endpoint.stay_awake(backups.is_working());
        endpoint.poll_requests_idle(|request, reply| backups.handle(&request, reply), |_, _| ());
        backups.turn(&endpoint);
    }
}
