//! What the server says of itself.

use super::call::Call;
use crate::VALUE_BYTES_MAX;
use crate::store::Eviction;

/// The version of memcached whose protocol this is, in front of ours: clients look for three numbers.
const VERSION: &str = concat!("1.6.18-farcall-", env!("CARGO_PKG_VERSION"));

pub fn version(call: &mut Call<'_>) {
    call.line(&format!("VERSION {VERSION}"));
}

/// `stats`, and those of its groups that mean something here.
pub fn statistics(call: &mut Call<'_>, group: Option<&[u8]>) {
    let lines = match group {
        None => general(call),
        Some(b"settings") => settings(call),
        // There are no slabs.
        Some(b"items" | b"slabs") => Vec::new(),
        Some(_) => return call.line("ERROR"),
    };
    for (name, value) in lines {
        call.line(&format!("STAT {name} {value}"));
    }
    call.line("END");
}

type Lines = Vec<(&'static str, String)>;

fn general(call: &mut Call<'_>) -> Lines {
    let counters = &call.engine.memcached.counters;
    let (gets, hits) = (counters.gets.get(), counters.hits.get());
    vec![
        ("pid", std::process::id().to_string()),
        ("uptime", call.engine.memcached.started.elapsed().as_secs().to_string()),
        ("time", (call.shard.store().clock() / 1000).to_string()),
        ("version", VERSION.to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("curr_connections", call.engine.clients.count().to_string()),
        ("total_connections", call.engine.counters.connected.get().to_string()),
        ("rejected_connections", call.engine.counters.refused.get().to_string()),
        ("cmd_get", gets.to_string()),
        ("cmd_set", counters.writes.get().to_string()),
        ("cmd_flush", counters.flushes.get().to_string()),
        ("cmd_touch", counters.touches.get().to_string()),
        ("get_hits", hits.to_string()),
        ("get_misses", gets.saturating_sub(hits).to_string()),
        ("curr_items", call.shard.store().table_objects(call.engine.memcached.table).to_string()),
        ("bytes", call.shard.store().taken_bytes().to_string()),
        ("limit_maxbytes", call.shard.store().limit_bytes().to_string()),
        ("evictions", call.shard.store().evicted().to_string()),
        ("threads", "1".to_owned()),
    ]
}

fn settings(call: &mut Call<'_>) -> Lines {
    let evicts = call.shard.store().eviction() != Eviction::Never;
    vec![
        ("maxbytes", call.shard.store().limit_bytes().to_string()),
        ("maxconns", call.engine.clients_max().to_string()),
        ("evictions", if evicts { "on" } else { "off" }.to_owned()),
        ("item_size_max", VALUE_BYTES_MAX.to_string()),
        ("cas_enabled", "yes".to_owned()),
        ("flush_enabled", "yes".to_owned()),
    ]
}
