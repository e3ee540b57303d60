//! `farcall kv serve`: one shard of a store, and the daemon of its host.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{Bootstrap, Rendezvous, RendezvousError};
use farcall::said::{self, Kind, Level};
use farcall::{HostAccess, Node, TransportKind, host_access};
use farcall_base::{Address, explained};
use farcall_kv::daemon::{Daemon, NobodyObserves, listen_on_host};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::Store;
use farcall_kv::{Shard, SharedShard, TableGuard};
use serde_json::json;

use super::health::Health;
use super::place::{first_primary, join_as_shard, tell_transport, transport_of};
use super::{RANKS, SCHEMA, access, cluster, data, memory, primary, resp};
use crate::arguments::kv::{KvPlace, KvServe};
use crate::arguments::{check_settings_needed, load_settings};
use crate::failure::Failure;
use crate::notify;
use crate::output::Report;

/// What is said of places that are not free yet.
static WAITS: Kind = Kind::new(Level::Info, "waits for an address");
/// What is said of hosts whose processes reach the store by the network alone.
static NO_SLOTS: Kind = Kind::new(Level::Warning, "slots that could not be made");

/// Another shard is at the rendezvous or is not: the time for it to say so.
const MEET_WITHIN: Duration = Duration::from_millis(250);

/// How many leases a process that became the primary waits for its address: then another one may try.
const ADDRESS_LEASES: u32 = 8;

/// How long a process that has handed over sends what it has answered.
const LINGER: Duration = Duration::from_millis(50);

/// The time between two attempts at an address that another process has.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Under this key each shard publishes how many shards the store has.
const STORE_KEY: &str = "kv.store";

/// Serves until the process is ended.
pub fn run(serve: &KvServe) -> Result<(), Failure> {
    let place = &serve.place;
    if serve.shard >= serve.shards {
        let (shard, shards) = (serve.shard, serve.shards);
        return Err(Failure::Usage(format!(
            "--shard {shard} is not less than --shards {shards}; shards count from 0"
        )));
    }
    let mut settings = load_settings(&place.settings)?;
    said::heed(&settings);
    // A daemon receives none, so it would hold all that anybody sends.
    settings.peers.messages = false;
    memory::check(serve)?;
    if let Some(most) = serve.maxmemory
        && most.0 > serve.memory.0
    {
        return Err(Failure::Usage(format!(
            "--maxmemory {most} is more than --memory {}, of which it is a part",
            serve.memory
        )));
    }
    // The others have to look for shard 0 before they know.
    let transport = place.transport.or((serve.shard == 0).then_some(TransportKind::RING_SHM));
    if let Some(transport) = transport {
        access::check(&place.at, serve.allow, transport, &settings)?;
    }
    resp::check(serve)?;
    if let Some(transport) = transport {
        check_settings_needed(&place.settings, &[transport])?;
    }
    data::check_tables(serve)?;
    data::check_size(serve)?;
    // Before anything that may take long.
    let health = serve.health.as_deref().map(Health::listen).transpose()?;
    let store = Store::new(serve.memory.0).map_err(|error| Failure::Usage(format!("--memory: {error}")))?;
    let mut shard = Shard::new(store, serve.shard as u32, serve.shards as u32);
    let mut report = Report::open(place.json.as_ref())?;
    let replicated = primary::begin(serve, transport, &settings, &mut shard, &mut report)?;
    let found = match &replicated {
        Some(_) => None,
        None => data::open_tables(serve, &mut shard)?,
    };
    // What the log has is there again before it is limited.
    let store = shard.store_mut();
    store.set_eviction(serve.maxmemory_policy, std::process::id().into());
    if let Some(most) = serve.maxmemory {
        store.set_limit(most.0);
    }
    // Shard 0 is where everybody looks for the others, and others than it look where clients do.
    let mut found_at = place.clone();
    if serve.shard != 0
        && let Some(registry) = &place.registry
        && let Some(at) = first_primary(registry)?
    {
        found_at.at = at;
    }
    let place = &found_at;
    let patience = if replicated.is_some() { serve.lease * ADDRESS_LEASES } else { Duration::ZERO };
    let _rendezvous = (serve.shard == 0).then(|| bind(place, patience)).transpose()?;
    let bootstrap = join_as_shard(place, serve.shard as u32)?;
    agree(serve, place, &bootstrap)?;
    let access = host_access(&settings).map_err(|error| Failure::Usage(error.to_string()))?;
    let directory = Arc::clone(&bootstrap.directory);
    let node = Node::new(bootstrap, settings);
    let transport = match (serve.shard, transport) {
        (0, Some(transport)) => transport,
        _ => transport_of(&node, place, place.look_within())?,
    };
    access::check(&place.at, serve.allow, transport, node.settings())?;
    check_settings_needed(&place.settings, &[transport])?;
    let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
    if serve.shard == 0 {
        tell_transport(&node, transport)?;
    }
    let slots = listen(serve, place, &access);
    let of = (serve.shard as u32, serve.shards as u32);
    let (shared, doors);
    let mut daemon = if !resp::is_asked(serve) {
        doors = resp::Doors::default();
        Daemon::new(&endpoint, shard, of, slots)
    } else {
        let made = SharedShard::new(shard).map_err(|error| Failure::Run(explained(&error)))?;
        shared = Arc::new(made);
        let cluster = cluster::of(serve);
        doors = resp::start(serve, node.settings(), &shared, cluster.as_ref())?;
        if let Some(cluster) = cluster {
            cluster::meet(serve, cluster, &doors.resp, directory)?;
        }
        Daemon::sharing(&endpoint, &shared, of, slots)
    };
    if let Some(path) = node.settings().security.policy_file {
        daemon.guard_by(TableGuard::open(Path::new(path.as_str())).map_err(Failure::run)?);
    }
    let _life = replicated.map(|replicated| replicated.attach(&endpoint, &mut daemon)).transpose()?;
    daemon.wake_for_clients().map_err(|error| Failure::Run(explained(&error)))?;
    daemon.meet_present(MEET_WITHIN);
    let (number, shards, at) = (serve.shard, serve.shards, &place.at);
    match number {
        0 => report.line(format_args!("shard 0 of {shards} serves at {at} over {transport}"))?,
        _ => report
            .line(format_args!("shard {number} of {shards} of the store at {at} serves over {transport}"))?,
    }
    if let Some(found) = &found {
        data::tell(found, &mut report)?;
    }
    for at in &doors.resp {
        report.line(format_args!("Redis clients connect to {at}"))?;
    }
    for at in &doors.memcached {
        report.line(format_args!("memcached clients connect to {at}"))?;
    }
    if let Some((health, at)) = &health {
        // Whoever reads that it serves may ask at once.
        health.tell(daemon.hindrance());
        report.line(format_args!("probes are answered at http://{at}/healthz and /readyz"))?;
    }
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "serving",
        "shard": number,
        "shards": shards,
        "at": at.to_string(),
        "transport": transport.name(),
        "resp": doors.resp,
        "memcached": doors.memcached,
        "health": health.as_ref().map(|(_, at)| at),
    }))?;
    notify::ready();
    loop {
        daemon.turn_idle();
        if let Some((health, _)) = &health
            && health.is_asked()
        {
            health.tell(daemon.hindrance());
        }
        if daemon.is_handed_over() {
            linger(&mut daemon);
            return report.line(format_args!("shard {number} is handed over"));
        }
        if let Some(why) = daemon.replaced() {
            return Err(Failure::Run(format!(
                "this process is not the primary of shard {number} any more: {why}; start it again, and it \
                 waits for its turn"
            )));
        }
    }
}

/// Sends what was answered last.
fn linger(daemon: &mut Daemon<'_>) {
    let begun = Instant::now();
    while begun.elapsed() < LINGER {
        daemon.turn(&mut NobodyObserves);
    }
}

/// Makes sure that this shard is of the same store as shard 0: which shard has an object follows from how
/// many there are.
fn agree(serve: &KvServe, place: &KvPlace, bootstrap: &Bootstrap) -> Result<(), Failure> {
    let own = serve.shards.to_string();
    let directory = &bootstrap.directory;
    if serve.shard != 0 {
        let (first, _) = directory.resolve(0, STORE_KEY, place.look_within()).map_err(Failure::run)?;
        let first = String::from_utf8_lossy(first.as_bytes());
        if first != own {
            let (shard, at) = (serve.shard, &place.at);
            return Err(Failure::Usage(format!(
                "shard 0 at {at} is one of {first}, and shard {shard} would be one of {own}; give all shards \
                 the same --shards"
            )));
        }
    }
    let own = Address::new(own).map_err(Failure::run)?;
    directory.publish(STORE_KEY, own).map_err(Failure::run)
}

/// Listens where everybody looks for the store. The primary before may hold the address for a while, if it
/// stands still: until it notices that it was replaced, and ends.
fn bind(place: &KvPlace, patience: Duration) -> Result<Rendezvous, Failure> {
    let (at, begun) = (place.at.to_string(), Instant::now());
    let mut is_told = false;
    loop {
        match Rendezvous::bind(at.as_str(), RANKS) {
            Ok(rendezvous) => return Ok(rendezvous),
            Err(error) if begun.elapsed() >= patience => return Err(cannot_listen("a store", &error)),
            Err(_) if !is_told => {
                is_told = true;
                WAITS.say(format_args!("another process has {at}; waiting until it ends"));
            }
            Err(_) => {}
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// The sentence for a place at which something cannot be served.
pub fn cannot_listen(what: &str, error: &RendezvousError) -> Failure {
    match error {
        RendezvousError::Listen { address, reason } => Failure::Run(format!(
            "cannot serve {what} at {address}: {reason}; choose an address of this machine with a free port"
        )),
        error => Failure::run(error),
    }
}

/// Listens for the processes of this host. Where that cannot be, by somebody's intent or not, the shard is
/// there for the network all the same.
fn listen(serve: &KvServe, place: &KvPlace, access: &HostAccess) -> SlotServer {
    let bytes = serve.slot_bytes.0;
    let layout =
        SlotLayout { slots: serve.queue_depth as usize, request_bytes: bytes, response_bytes: bytes };
    let bound = listen_on_host(&place.name_on_host(), access, layout, serve.clients as usize);
    bound.unwrap_or_else(|error| {
        NO_SLOTS.say(format_args!(
            "no slots for processes of this host, only the network: {}",
            explained(&error)
        ));
        SlotServer::none(layout)
    })
}
