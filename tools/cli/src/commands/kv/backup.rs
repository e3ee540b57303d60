//! `farcall kv backup`: replicas of the logs of shards.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::said::{Kind, Level};
use farcall::{Endpoint, Listener, Node, TransportKind};
use farcall_kv::replicated::{BACKUP_NAME, Backups, OpenRegistry, RegistryPlace};
use farcall_replica::{Backup, BackupEntry, FolderShelf, Registry};
use serde_json::json;

use super::serve::cannot_listen;
use super::{LOOK_WITHIN, RANKS, SCHEMA, access, data, memory};
use crate::arguments::kv::{AllowArgument, KvBackup};
use crate::arguments::load_set;
use crate::failure::Failure;
use crate::output::Report;

/// What is said of backups that no primary finds yet.
static WAITS: Kind = Kind::new(Level::Info, "waits of a backup to be announced");

/// Announces a backup where primaries look for it, and says so if that takes until the registry answers.
fn announce(registry: &mut OpenRegistry, entry: &BackupEntry) -> Result<(), Failure> {
    registry.announce(entry).map_err(Failure::run)?;
    if let Err(silent) = registry.backups() {
        WAITS.say(format_args!("{silent}; no primary finds this backup before it does"));
    }
    Ok(())
}

/// What a backup is to be, and where.
pub struct BackupPlan {
    /// Where it listens for primaries: nobody else's address, so that it is found as long as it lives.
    pub at: HostPort,
    /// The option that says so.
    pub option: &'static str,
    /// Its folder; without one it has replicas in memory only.
    pub data: Option<PathBuf>,
    /// What replicas in memory may take together, if that is bounded.
    pub memory: Option<u64>,
    /// What it may be lost with.
    pub domain: String,
    pub registry: RegistryPlace,
    pub transport: TransportKind,
    pub allow: AllowArgument,
    pub settings: Settings,
}

/// A backup that is announced.
struct Serving {
    endpoint: Endpoint,
    backups: Backups,
    _listener: Listener,
    _rendezvous: Rendezvous,
    /// An entry in etcd lasts as long as its registry.
    _registry: OpenRegistry,
}

impl Serving {
    fn begin(plan: BackupPlan) -> Result<Self, Failure> {
        let BackupPlan { at, option, data: folder, memory, domain, registry, transport, .. } = plan;
        let (allow, mut settings) = (plan.allow, plan.settings);
        if let Some(folder) = &folder {
            data::warn_of_memory(folder);
        }
        // A backup receives none, so it would hold all that anybody sends.
        settings.peers.messages = false;
        access::check((option, &at), allow, transport, &settings)?;
        let mut shelf = FolderShelf::new(folder.as_deref()).map_err(Failure::run)?;
        if let Some(bytes) = memory {
            shelf = shelf.within(bytes);
        }
        let backups = Backups::new(Backup::open(Box::new(shelf)).map_err(Failure::run)?);
        // Every shard of a store comes with its number as its rank.
        let rendezvous = Rendezvous::bind(at.to_string().as_str(), RANKS)
            .map_err(|error| cannot_listen("a backup", &error))?;
        let bootstrap = Bootstrap::join(&at, 0, RANKS, LOOK_WITHIN).map_err(Failure::run)?;
        let node = Node::new(bootstrap, settings);
        let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
        let listener = endpoint.listen(BACKUP_NAME).map_err(Failure::run)?;
        let entry = BackupEntry { at: format!("{at}/{BACKUP_NAME}"), domain, has_disk: folder.is_some() };
        let mut registry = OpenRegistry::open(&registry).map_err(Failure::run)?;
        announce(&mut registry, &entry)?;
        Ok(Self { endpoint, backups, _listener: listener, _rendezvous: rendezvous, _registry: registry })
    }

    /// Serves until the process is ended.
    fn serve(mut self) -> ! {
        let Self { endpoint, backups, .. } = &mut self;
        loop {
            endpoint.stay_awake(backups.is_working());
            endpoint.poll_requests_idle(|request, reply| backups.handle(&request, reply), |_, _| ());
            backups.turn(endpoint);
        }
    }
}

/// Serves until the process is ended.
pub fn run(backup: &KvBackup) -> Result<(), Failure> {
    let settings = load_set(&backup.settings)?;
    let mut report = Report::open(backup.json.as_ref())?;
    let at = backup.at.to_string();
    let domain = backup.domain.clone().unwrap_or_else(|| at.clone());
    let serving = Serving::begin(BackupPlan {
        at: backup.at.clone(),
        option: "--at",
        data: backup.data.clone(),
        memory: memory::for_replicas(backup.memory),
        domain: domain.clone(),
        registry: backup.registry.clone().expect("the grammar asks for it"),
        transport: backup.transport,
        allow: backup.allow,
        settings,
    })?;
    let (replicas, transport) = (serving.backups.replicas(), backup.transport);
    report.line(format_args!("backup at {at} over {transport}, {replicas} replicas"))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "backup",
        "at": at,
        "transport": transport.name(),
        "replicas": replicas,
        "domain": domain,
    }))?;
    serving.serve()
}

/// Is a backup beside whatever else this process does, in a thread of its own, until it ends.
pub fn start_beside(plan: BackupPlan) -> Result<(), Failure> {
    let (told, begun) = channel();
    let serve = move || match Serving::begin(plan) {
        Ok(serving) => {
            // Whoever has started it waits for this.
            let _ = told.send(Ok(()));
            serving.serve()
        }
        Err(failure) => _ = told.send(Err(failure)),
    };
    thread::Builder::new().name("farcall-backup".to_owned()).spawn(serve).map_err(Failure::run)?;
    begun.recv().map_err(|_| Failure::Run("the thread of the backup has ended".to_owned()))?
}
