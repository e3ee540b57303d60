//! `farcall kv serve`: one shard of a store, and the daemon of its host.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{Bootstrap, Directory, Rendezvous, RendezvousError};
use farcall::parameters::Settings;
use farcall::said::{self, Kind, Level};
use farcall::{HostAccess, Node, TransportKind, host_access};
use farcall_base::{Address, explained};
use farcall_kv::daemon::{Daemon, NobodyObserves, listen_on_host};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::Store;
use farcall_kv::{Shard, SharedShard, TableGuard};

use super::health::Health;
use super::place::{first_primary, join_as_shard, tell_process, tell_transport, transport_of};
use super::serving::Serving;
use super::{RANKS, access, cluster, data, memory, primary, resp};
use crate::arguments::kv::{KvPlace, KvServe};
use crate::arguments::{check_settings_needed, load_set};
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
    let mut settings = load_set(&serve.place.settings)?;
    said::heed(&settings);
    // A daemon receives none, so it would hold all that anybody sends.
    settings.peers.messages = false;
    // The others have to look for shard 0 before they know.
    let transport = serve.place.transport.or((serve.shard == 0).then_some(TransportKind::RING_SHM));
    check(serve, transport, &settings)?;
    // Before anything that may take long.
    let health = serve.health.as_deref().map(Health::listen).transpose()?;
    let (mut shard, of) = (empty_shard(serve)?, (serve.shard as u32, serve.shards as u32));
    let mut report = Report::open(serve.place.json.as_ref())?;
    let replicated = primary::begin(serve, transport, &settings, &mut shard, &mut report)?;
    let found = match &replicated {
        Some(_) => None,
        None => data::open_tables(serve, &mut shard)?,
    };
    limit(serve, shard.store_mut());
    let place = &place_of_store(serve)?;
    let patience = if replicated.is_some() { serve.lease * ADDRESS_LEASES } else { Duration::ZERO };
    let _rendezvous = (serve.shard == 0).then(|| bind(place, patience)).transpose()?;
    let bootstrap = join_as_shard(place, serve.shard as u32)?;
    agree(serve, place, &bootstrap)?;
    let directory = Arc::clone(&bootstrap.directory);
    let access = host_access(&settings).map_err(|error| Failure::Usage(error.to_string()))?;
    let node = Node::new(bootstrap, settings);
    let transport = transport_for(serve, place, &node, transport)?;
    let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
    if serve.shard == 0 {
        tell_transport(&node, transport)?;
    }
    let slots = listen(serve, place, &access);
    let (shared, doors);
    let mut daemon = if resp::is_asked(serve) {
        shared = Arc::new(SharedShard::new(shard).map_err(|error| Failure::Run(explained(&error)))?);
        doors = open_doors(serve, &node, &shared, directory)?;
        Daemon::sharing(&endpoint, &shared, of, slots)
    } else {
        doors = resp::Doors::default();
        Daemon::new(&endpoint, shard, of, slots)
    };
    guard(&mut daemon, node.settings())?;
    let _life = replicated.map(|replicated| replicated.attach(&endpoint, &mut daemon)).transpose()?;
    daemon.wake_for_clients().map_err(|error| Failure::Run(explained(&error)))?;
    daemon.meet_present(MEET_WITHIN);
    Serving {
        serve,
        at: &place.at,
        transport,
        found: found.as_ref(),
        doors: &doors,
        health: health.as_ref(),
    }
    .tell(&mut daemon, &mut report)?;
    notify::ready();
    turn_until_replaced(&mut daemon, health.as_ref().map(|(health, _)| &**health), serve.shard, &mut report)
}

/// Refuses what cannot be served, before anything is made.
fn check(serve: &KvServe, transport: Option<TransportKind>, settings: &Settings) -> Result<(), Failure> {
    if serve.shard >= serve.shards {
        let (shard, shards) = (serve.shard, serve.shards);
        return Err(Failure::Usage(format!(
            "--shard {shard} is not less than --shards {shards}; shards count from 0"
        )));
    }
    memory::check(serve)?;
    if let Some(most) = serve.maxmemory
        && most.0 > serve.memory.0
    {
        return Err(Failure::Usage(format!(
            "--maxmemory {most} is more than --memory {}, of which it is a part",
            serve.memory
        )));
    }
    if let Some(transport) = transport {
        access::check(("--at", &serve.place.at), serve.allow, transport, settings)?;
    }
    if let Some(at) = &serve.backup {
        access::check_address("--backup", &at.to_string(), serve.allow)?;
    }
    if let Some(at) = &serve.health {
        access::check_probes("--health", at, serve.allow)?;
    }
    resp::check(serve)?;
    if let Some(transport) = transport {
        check_settings_needed(&serve.place.settings, &[transport])?;
    }
    data::check_tables(serve)?;
    data::check_size(serve)
}

fn empty_shard(serve: &KvServe) -> Result<Shard, Failure> {
    let store = Store::new(serve.memory.0).map_err(|error| Failure::Usage(format!("--memory: {error}")))?;
    Ok(Shard::new(store, serve.shard as u32, serve.shards as u32))
}

/// Limits a store that has what its log had: that is there again whatever the limit is.
fn limit(serve: &KvServe, store: &mut Store) {
    store.set_eviction(serve.maxmemory_policy, std::process::id().into());
    if let Some(most) = serve.maxmemory {
        store.set_limit(most.0);
    }
}

/// Shard 0 is where everybody looks for the others, and others than it look where clients do.
fn place_of_store(serve: &KvServe) -> Result<KvPlace, Failure> {
    let mut place = serve.place.clone();
    if serve.shard != 0
        && let Some(registry) = &serve.place.registry
        && let Some(at) = first_primary(registry)?
    {
        place.at = at;
    }
    Ok(place)
}

/// The transport of this shard: what shard 0 says, for the others.
fn transport_for(
    serve: &KvServe,
    place: &KvPlace,
    node: &Node,
    asked: Option<TransportKind>,
) -> Result<TransportKind, Failure> {
    let transport = match (serve.shard, asked) {
        (0, Some(transport)) => transport,
        _ => transport_of(node, place, place.look_within())?,
    };
    access::check(("--at", &place.at), serve.allow, transport, node.settings())?;
    check_settings_needed(&place.settings, &[transport])?;
    Ok(transport)
}

/// Lets clients of other protocols in, and says to the other shards where this one's are.
fn open_doors(
    serve: &KvServe,
    node: &Node,
    shared: &Arc<SharedShard>,
    directory: Arc<Directory>,
) -> Result<resp::Doors, Failure> {
    let cluster = cluster::of(serve);
    let doors = resp::start(serve, node.settings(), shared, cluster.as_ref())?;
    if let Some(cluster) = cluster {
        cluster::meet(serve, cluster, &doors.resp, directory)?;
    }
    Ok(doors)
}

/// Holds clients to the policy file, if there is one.
fn guard(daemon: &mut Daemon<'_>, settings: &Settings) -> Result<(), Failure> {
    if let Some(path) = settings.security.policy_file {
        daemon.guard_by(TableGuard::open(Path::new(path.as_str())).map_err(Failure::run)?);
    }
    Ok(())
}

/// Serves until another process has the shard: one that it was handed over to, or one that took it.
fn turn_until_replaced(
    daemon: &mut Daemon<'_>,
    health: Option<&Health>,
    shard: u64,
    report: &mut Report,
) -> Result<(), Failure> {
    loop {
        daemon.turn_idle();
        if let Some(health) = health
            && health.is_asked()
        {
            health.tell(daemon.hindrance(), daemon.is_registry_silent());
        }
        if daemon.is_handed_over() {
            linger(daemon);
            return report.line(format_args!("shard {shard} is handed over"));
        }
        if let Some(why) = daemon.replaced() {
            return Err(Failure::Run(format!(
                "this process is not the primary of shard {shard} any more: {why}; start it again, and it \
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
    // Whoever finds the other key finds this one as well.
    tell_process(directory)?;
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
