//! Which server has a key, for clients of Redis Cluster: `CLUSTER`, and the errors that send them there.

use core::fmt::Write;

use super::call::{Call, Done, Refusal, subcommand};
use super::entry::Command;
use super::long::{Long, SlotKeys};
use crate::Shard;
use crate::placement::{SlotMap, SlotRange};
use crate::resp::Cluster;
use crate::resp::parse::Args;
use crate::wire::{HASH_SLOTS, hash_slot};

/// The subcommands of `CLUSTER`.
pub const SUBCOMMANDS: &[&str] = &["countkeysinslot", "info", "keyslot", "myid", "nodes", "shards", "slots"];

/// A store of one shard is no cluster.
const DISABLED: Refusal = Refusal::of("ERR This instance has cluster support disabled");

/// Refuses a command whose keys are not all in one hash slot of this server.
pub fn check(cluster: &Cluster, shard: &Shard, command: &Command, args: Args<'_>) -> Done {
    let mut slots = command.keys_of(args).map(hash_slot);
    let Some(slot) = slots.next() else { return Ok(()) };
    if slots.any(|other| other != slot) {
        return Err(Refusal::of("CROSSSLOT Keys in request don't hash to the same slot"));
    }
    check_slot(cluster, shard, slot)
}

/// Refuses a hash slot that another server has. What nobody has for a moment waits.
pub fn check_slot(cluster: &Cluster, shard: &Shard, slot: u32) -> Done {
    let owner = shard.owner(slot);
    if owner == cluster.own() || shard.is_frozen(slot) {
        return Ok(());
    }
    match cluster.place(owner) {
        Some(place) => Err(Refusal::new(format!("MOVED {slot} {place}"))),
        None => Err(Refusal::of("CLUSTERDOWN Hash slot not served")),
    }
}

pub fn cluster(call: &mut Call<'_>) -> Done {
    let asked = subcommand(call, SUBCOMMANDS)?;
    let Some(cluster) = call.engine.cluster.clone() else { return Err(DISABLED) };
    match asked {
        ("keyslot", 3) => call.reply.integer(hash_slot(call.args.at(2)).into()),
        ("myid", 2) => call.reply.bulk(cluster.id(cluster.own()).as_bytes()),
        ("info", 2) => call.reply.verbatim(&info(&cluster, &call.shard.map())),
        ("nodes", 2) => call.reply.verbatim(&nodes(&cluster, &call.shard.map())),
        ("slots", 2) => slots(call, &cluster),
        ("shards", 2) => shards(call, &cluster),
        ("countkeysinslot", 3) => return count_keys(call),
        (name, _) => return Err(Refusal::arguments(&format!("cluster|{name}"))),
    }
    Ok(())
}

/// `READONLY`, `READWRITE`, `ASKING`: there are no replicas, and no slot is on its way.
pub fn accept(call: &mut Call<'_>) -> Done {
    if call.engine.cluster.is_none() {
        return Err(DISABLED);
    }
    call.reply.ok();
    Ok(())
}

/// Shards whose server is known.
fn known(cluster: &Cluster) -> impl Iterator<Item = (u32, crate::resp::ServerPlace)> {
    (0..cluster.shards()).filter_map(|shard| Some((shard, cluster.place(shard)?)))
}

/// The ranges of a shard.
fn ranges(map: &SlotMap, shard: u32) -> Vec<SlotRange> {
    map.ranges().into_iter().filter(|(_, owner)| *owner == shard).map(|(range, _)| range).collect()
}

fn info(cluster: &Cluster, map: &SlotMap) -> String {
    let shards = known(cluster).count() as u32;
    let served: u32 = known(cluster).map(|(shard, _)| slot_count(map, shard)).sum();
    let state = if served == HASH_SLOTS { "ok" } else { "fail" };
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{HASH_SLOTS}\r\n\
         cluster_slots_ok:{served}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{}\r\n\
         cluster_known_nodes:{shards}\r\ncluster_size:{}\r\ncluster_current_epoch:{epoch}\r\n\
         cluster_my_epoch:{epoch}\r\n",
        HASH_SLOTS - served,
        cluster.shards(),
        epoch = map.version() + 1,
    )
}

fn slot_count(map: &SlotMap, shard: u32) -> u32 {
    ranges(map, shard).iter().map(|range| range.last - range.first + 1).sum()
}

fn nodes(cluster: &Cluster, map: &SlotMap) -> String {
    let mut text = String::new();
    for (shard, place) in known(cluster) {
        let slots: String = ranges(map, shard).iter().map(shown).collect();
        let myself = if shard == cluster.own() { "myself," } else { "" };
        let id = cluster.id(shard);
        // No other port: servers do not speak to each other by Redis's protocol.
        let _never_fails = writeln!(text, "{id} {place}@0 {myself}master - 0 0 1 connected{slots}");
    }
    text
}

/// A range as a line of nodes has it.
fn shown(range: &SlotRange) -> String {
    match range {
        SlotRange { first, last } if first == last => format!(" {first}"),
        range => format!(" {range}"),
    }
}

fn slots(call: &mut Call<'_>, cluster: &Cluster) {
    let map = call.shard.map();
    let served =
        map.ranges().into_iter().filter_map(|(range, shard)| Some((range, shard, cluster.place(shard)?)));
    let served: Vec<_> = served.collect();
    call.reply.array(served.len());
    for (SlotRange { first, last }, shard, place) in served {
        call.reply.array(3);
        call.reply.integer(first.into());
        call.reply.integer(last.into());
        call.reply.array(4);
        call.reply.bulk(place.host.as_bytes());
        call.reply.integer(place.port.into());
        call.reply.bulk(cluster.id(shard).as_bytes());
        call.reply.array(0);
    }
}

fn shards(call: &mut Call<'_>, cluster: &Cluster) {
    let known: Vec<_> = known(cluster).collect();
    call.reply.array(known.len());
    for (shard, place) in known {
        let ranges = ranges(&call.shard.map(), shard);
        call.reply.map(2);
        call.reply.bulk(b"slots");
        call.reply.array(2 * ranges.len());
        for SlotRange { first, last } in ranges {
            call.reply.integer(first.into());
            call.reply.integer(last.into());
        }
        call.reply.bulk(b"nodes");
        call.reply.array(1);
        let texts = [
            ("id", cluster.id(shard)),
            ("ip", place.host.clone()),
            ("endpoint", place.host),
            ("role", "master".to_owned()),
            ("health", "online".to_owned()),
        ];
        call.reply.map(texts.len() + 2);
        for (key, text) in texts {
            call.reply.bulk(key.as_bytes());
            call.reply.bulk(text.as_bytes());
        }
        for (key, number) in [("port", place.port.into()), ("replication-offset", 0)] {
            call.reply.bulk(key.as_bytes());
            call.reply.integer(number);
        }
    }
}

fn count_keys(call: &mut Call<'_>) -> Done {
    let slot = call.integer(2)?;
    let slot = u32::try_from(slot).ok().filter(|slot| *slot < HASH_SLOTS);
    let slot = slot.ok_or(Refusal::of("ERR Invalid or out of range slot"))?;
    let keys = SlotKeys::new(call.table(), slot, call.reply.len());
    call.session.long = Some(Box::new(Long::SlotKeys(keys)));
    Ok(())
}
