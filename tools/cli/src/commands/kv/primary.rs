//! A shard whose tables are replicated: it becomes the primary before it serves.

use core::time::Duration;
use std::thread;

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::said;
use farcall::{Endpoint, Node, TransportKind};
use farcall_kv::Shard;
use farcall_kv::daemon::Daemon;
use farcall_kv::durable::Level;
use farcall_kv::placement::{Keeper, KeeperError, settle};
use farcall_kv::replicated::{
    OpenRegistry, Primary, PrimaryPlan, RegistryPlace, Replicator, TakeoverTimes, Waits, WayToBackups,
};
use farcall_replica::Life;
use serde_json::json;

use super::backup::{self, BackupPlan};
use super::place::{name_of_primary, primary_in_words};
use super::{SCHEMA, data, memory, spread};
use crate::arguments::kv::KvServe;
use crate::failure::Failure;
use crate::output::Report;

/// What is said of processes that are not the primary yet.
static WAITS: said::Kind = said::Kind::new(said::Level::Info, "waits of a shard to become the primary");

/// How long a registry that does not answer is left alone.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A shard that is the primary, and does not serve yet.
pub struct Replicated<'a> {
    serve: &'a KvServe,
    primary: Primary,
    /// Knows the map of hash slots, if there are several shards.
    map_keeper: Option<Keeper>,
    /// How threads of this process reach backups.
    way: WayToBackups,
}

/// What must stay as long as the shard serves.
pub struct Attached {
    _life: Option<Life>,
}

/// Becomes the primary of a shard, if it has a registry, and creates its tables.
pub fn begin<'a>(
    serve: &'a KvServe,
    transport: Option<TransportKind>,
    settings: &Settings,
    shard: &mut Shard,
    report: &mut Report,
) -> Result<Option<Replicated<'a>>, Failure> {
    let level = data::tables(serve).fold(Level::Memory, |level, table| level.and(table.level));
    let Some(registry) = &serve.place.registry else {
        if level.replicas() == 0 {
            return Ok(None);
        }
        return Err(Failure::Usage(format!(
            "a table is to be {level}, which takes a registry of its replicas: give --registry file:DIR or etcd://HOST:PORT"
        )));
    };
    if level.replicas() == 0 {
        return Err(Failure::Usage(
            "--registry is for tables that are replicated: give one a level such as replicated=2, or leave it out"
                .to_owned(),
        ));
    }
    if level.is_flushed() && serve.data.is_none() {
        return Err(Failure::Usage(format!(
            "a table is to be {level}, which takes a directory for its log: give --data DIR"
        )));
    }
    if let Some(folder) = &serve.data {
        data::take_folder(folder)?;
        if level.is_flushed() {
            data::warn_of_memory(folder);
        }
    }
    spread::check(serve)?;
    let at = name_of_primary(&serve.place.at, serve.shard);
    let plan = PrimaryPlan {
        registry: registry.clone(),
        data: serve.data.clone(),
        domain: domain(serve),
        at,
        of: (serve.shard as u32, serve.shards as u32),
        lease: serve.lease,
        level,
        log_bytes_max: data::log_bytes_max(serve)?,
    };
    // The store's own cluster begins when this process is the primary: until then another one may serve
    // there.
    let node = Node::new(Bootstrap::nowhere().map_err(Failure::run)?, settings.clone());
    let transport = transport.unwrap_or(TransportKind::RING_SHM);
    let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
    let (place, of_way) = (registry.clone(), settings.clone());
    let way = WayToBackups { registry: place, settings: of_way, transport, within: serve.lease };
    let tell = |waits: Waits| match waits {
        Waits::Lease(primary) => {
            let (shard, primary) = (serve.shard, primary_in_words(&primary));
            WAITS.say(format_args!("{primary} is the primary of shard {shard}; waiting for its end"));
        }
        Waits::Replica(why) => WAITS.say(format_args!("{why}; waiting for one of them")),
        Waits::Registry(why) => WAITS.say(format_args!("{why}; waiting for it")),
        Waits::Instead(why) => WAITS.say(format_args!(
            "the log here is of no use: {why}; reading a replica instead, which has every acknowledged write"
        )),
    };
    if let Some(at) = &serve.backup {
        // Before this process waits for anybody: others may need what it has.
        backup::start_beside(BackupPlan {
            at: at.clone(),
            option: "--backup",
            data: serve.data.as_ref().map(|folder| folder.join("replicas")),
            memory: memory::left_beside(serve)?,
            domain: domain(serve),
            registry: registry.clone(),
            transport,
            allow: serve.allow,
            settings: settings.clone(),
        })?;
    }
    let primary = Primary::begin(&plan, shard, &endpoint, tell).map_err(Failure::run)?;
    // Before any door is open.
    let map_keeper = if serve.shards > 1 { Some(map_keeper(serve, registry, shard)?) } else { None };
    data::create_tables(serve, shard)?;
    tell_recovered(serve, &primary, report)?;
    Ok(Some(Replicated { serve, primary, map_keeper, way }))
}

/// What the process may be lost with.
fn domain(serve: &KvServe) -> String {
    serve.domain.clone().unwrap_or_else(|| format!("{}/{}", serve.place.at, serve.shard))
}

fn tell_recovered(serve: &KvServe, primary: &Primary, report: &mut Report) -> Result<(), Failure> {
    let Primary { mirror, recovered, read_from, times, .. } = primary;
    let record = mirror.status().record;
    let from = match read_from {
        Some(place) => format!("the replica at {}", place.backup),
        None => "here".to_owned(),
    };
    let shard = serve.shard;
    let TakeoverTimes { wait, fetch, replay } = *times;
    let seconds = [wait, fetch, replay].map(|time| time.as_secs_f64());
    report.line(format_args!(
        "primary of shard {shard} since epoch {}, {} objects of durable tables from {from}, after {:.3} s: {:.3} s waiting for \
         its turn, {:.3} s reading a replica, {:.3} s replaying the log",
        record.epoch,
        recovered.objects,
        seconds.iter().sum::<f64>(),
        seconds[0],
        seconds[1],
        seconds[2],
    ))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "primary",
        "shard": shard,
        "epoch": record.epoch,
        "objects": recovered.objects,
        "from": from,
        "wait_us": wait.as_micros() as u64,
        "fetch_us": fetch.as_micros() as u64,
        "replay_us": replay.as_micros() as u64,
    }))
}

impl Replicated<'_> {
    /// Lets a daemon carry the messages to the backups.
    pub fn attach<'e>(self, endpoint: &'e Endpoint, daemon: &mut Daemon<'e>) -> Result<Attached, Failure> {
        let Self { serve, primary, map_keeper, way } = self;
        let Primary { mirror, keeper, life, times, .. } = primary;
        let worker = keeper.hand_to(&mirror).map_err(Failure::run)?;
        daemon.replicate(Replicator::new(endpoint, mirror, worker, serve.lease, &times));
        if let Some(keeper) = map_keeper {
            daemon.follow_map(keeper);
            spread::start(serve, &way)?;
            daemon.take_parts(way);
        }
        Ok(Attached { _life: life })
    }
}

/// Ends the moves of hash slots that the last primary of this shard began, and follows the map from there.
/// Until then nobody is answered.
fn map_keeper(serve: &KvServe, registry: &RegistryPlace, shard: &mut Shard) -> Result<Keeper, Failure> {
    let mut registry = OpenRegistry::open(registry).map_err(Failure::run)?;
    let of = (serve.shard as u32, serve.shards as u32);
    let map = loop {
        match settle(&mut registry, of) {
            Err(KeeperError::Registry(error)) if registry.may_come_back() => {
                WAITS.say(format_args!("{error}; waiting for it"));
                thread::sleep(ASK_AGAIN_AFTER);
            }
            settled => break settled.map_err(Failure::run)?,
        }
    };
    shard.adopt(&map);
    Keeper::start(Box::new(registry), &map).map_err(Failure::run)
}
