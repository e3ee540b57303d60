//! Commands about the server.

use core::fmt::Write;

use super::call::{Call, Done, Refusal, subcommand};
use super::connection::REDIS_VERSION;
use super::entry::Command;
use super::table::COMMANDS;
use crate::decimal;
use crate::resp::reply::Reply;
use crate::resp::{DATABASES, glob};
use crate::store::Eviction;

/// The subcommands of `COMMAND`.
pub const COMMAND_SUBCOMMANDS: &[&str] = &["count", "docs", "getkeys", "info", "list"];

/// The subcommands of `CONFIG`.
pub const CONFIG_SUBCOMMANDS: &[&str] = &["get", "resetstat", "set"];

pub fn command(call: &mut Call<'_>) -> Done {
    if call.args.len() == 1 {
        call.reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| info_of(call, Some(command)));
        return Ok(());
    }
    match subcommand(call, COMMAND_SUBCOMMANDS)? {
        ("count", 2) => call.reply.count(COMMANDS.len()),
        ("list", 2) => {
            call.reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| call.reply.bulk(command.name.as_bytes()));
        }
        ("info", count) => {
            call.reply.array(if count == 2 { COMMANDS.len() } else { count - 2 });
            named(call).into_iter().for_each(|command| info_of(call, command));
        }
        ("getkeys", 3..) => {
            let command = call.engine.lookup.find(call.args.at(2));
            let command = command.ok_or(Refusal::of("ERR Invalid command specified"))?;
            let asked = call.args.without(2);
            let keys: Vec<_> = command.keys_of(asked).collect();
            if keys.is_empty() {
                return Err(Refusal::of("ERR The command has no key arguments"));
            }
            call.reply.array(keys.len());
            keys.into_iter().for_each(|key| call.reply.bulk(key));
        }
        ("docs", _) => {
            let named: Vec<_> = named(call).into_iter().flatten().collect();
            call.reply.map(named.len());
            named.into_iter().for_each(|command| docs_of(call, command));
        }
        (name, _) => return Err(Refusal::arguments(&format!("command|{name}"))),
    }
    Ok(())
}

/// The commands that the arguments name; all of them without arguments.
fn named(call: &Call<'_>) -> Vec<Option<&'static Command>> {
    if call.args.len() == 2 {
        return COMMANDS.iter().map(Some).collect();
    }
    call.args.from(2).map(|name| call.engine.lookup.find(name)).collect()
}

fn info_of(call: &mut Call<'_>, command: Option<&Command>) {
    let reply = &mut *call.reply;
    let Some(command) = command else { return reply.null_array() };
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    let flags = command.flags();
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    keys_and_group_of(reply, command);
    reply.array(command.subcommands.len());
    for name in command.subcommands {
        reply.array(10);
        reply.bulk(format!("{}|{name}", command.name).as_bytes());
        reply.integer(command.arity.min(-2).into());
        reply.set(0);
        keys_and_group_of(reply, command);
        reply.array(0);
    }
}

/// Where a command, and each that it consists of, has its keys; its category; no tips and specifications.
fn keys_and_group_of(reply: &mut Reply, command: &Command) {
    let (first, last, step) = command.keys;
    [first, last, step].into_iter().for_each(|number| reply.integer(number.into()));
    reply.set(1);
    reply.simple(&format!("@{}", command.group));
    reply.array(0);
    reply.array(0);
}

fn docs_of(call: &mut Call<'_>, command: &Command) {
    let reply = &mut *call.reply;
    reply.bulk(command.name.as_bytes());
    reply.map(2);
    for (key, text) in [("summary", command.summary), ("group", command.group)] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

pub fn config(call: &mut Call<'_>) -> Done {
    match subcommand(call, CONFIG_SUBCOMMANDS)? {
        ("get", 3..) => {
            (2..call.args.len()).try_for_each(|number| call.pattern(number).map(drop))?;
            let patterns: Vec<_> = call.args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
            let is_wanted =
                |name: &str| patterns.iter().any(|pattern| glob::is_match(pattern, name.as_bytes()));
            let found: Vec<_> = parameters(call).into_iter().filter(|(name, _)| is_wanted(name)).collect();
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name.as_bytes());
                call.reply.bulk(value.as_bytes());
            }
        }
        ("set", 4) if call.is(2, "maxmemory-policy") => {
            let policy = core::str::from_utf8(call.args.at(3)).ok().and_then(policy_named);
            let policy = policy.ok_or_else(|| {
                let names = POLICIES.map(|(name, _)| name).join(", ");
                Refusal::new(format!(
                    "ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must \
                     be one of the following: {names}"
                ))
            })?;
            let seed = call.engine.draw();
            call.store().set_eviction(policy, seed);
            call.reply.ok();
        }
        ("set", 4) if call.is(2, "maxmemory") => set_limit(call)?,
        ("set", 4) if call.is(2, "maxmemory-clients") => {
            let bytes = memory_of(call.args.at(3)).and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.ok_or(Refusal::of(
                "ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a \
                 memory value",
            ))?;
            call.engine.clients_bytes_max = bytes;
            call.reply.ok();
        }
        ("set", 4..) => {
            let name = String::from_utf8_lossy(call.args.at(2)).into_owned();
            return Err(Refusal::new(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config; \
                 options of `farcall kv serve` set it"
            )));
        }
        ("resetstat", 2) => call.reply.ok(),
        (name, _) => return Err(Refusal::arguments(&format!("config|{name}"))),
    }
    Ok(())
}

/// Sets what objects may take. 0 is all of the memory.
fn set_limit(call: &mut Call<'_>) -> Done {
    let memory = call.shard.store().statistics().memory_bytes;
    let refused = |why: &str| {
        Refusal::new(format!("ERR CONFIG SET failed (possibly related to argument 'maxmemory') - {why}"))
    };
    let bytes = memory_of(call.args.at(3)).ok_or_else(|| refused("argument must be a memory value"))?;
    if bytes > memory as u64 {
        return Err(refused(&format!("the store has {memory} bytes of memory; its --memory says how many")));
    }
    call.store().set_limit(if bytes == 0 { memory } else { bytes as usize });
    call.reply.ok();
    Ok(())
}

/// A number of bytes as Redis writes it: in bytes, or with a unit of thousands (`k`, `m`, `g`) or of 1024
/// (`kb`, `mb`, `gb`).
fn memory_of(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    decimal::parse(digits.as_bytes()).and_then(|number| u64::try_from(number).ok())?.checked_mul(unit)
}

/// Policies by Redis's names.
const POLICIES: [(&str, Eviction); 5] = [
    ("noeviction", Eviction::Never),
    ("allkeys-lru", Eviction::LeastRecent),
    ("allkeys-lfu", Eviction::LeastFrequent),
    ("allkeys-random", Eviction::Random),
    ("volatile-ttl", Eviction::FirstToExpire),
];

/// The policy of a name of Redis's, if we have it.
pub fn policy_named(name: &str) -> Option<Eviction> {
    POLICIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, policy)| *policy)
}

fn policy_name(policy: Eviction) -> &'static str {
    POLICIES.iter().find(|(_, known)| *known == policy).map_or("", |(name, _)| name)
}

/// What is configured, in Redis's words.
fn parameters(call: &mut Call<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("appendonly", if call.shard.log_level().is_flushed() { "yes" } else { "no" }.to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxclients", call.engine.clients_max.to_string()),
        ("maxmemory", call.shard.store().limit_bytes().to_string()),
        ("maxmemory-clients", call.engine.clients_bytes_max.to_string()),
        ("maxmemory-policy", policy_name(call.shard.store().eviction()).to_owned()),
        ("port", call.engine.port.to_string()),
        ("proto-max-bulk-len", call.engine.value_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ]
}

pub fn info(call: &mut Call<'_>) -> Done {
    let wanted: Vec<_> = call.args.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let everything = wanted.is_empty()
        || wanted.iter().any(|name| matches!(name.as_slice(), b"all" | b"default" | b"everything"));
    let mut text = String::new();
    for (name, section) in SECTIONS {
        if everything || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes())) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _never_fails = write!(text, "# {name}\r\n");
            for (key, value) in section(call) {
                let _never_fails = write!(text, "{key}:{value}\r\n");
            }
        }
    }
    call.reply.verbatim(&text);
    Ok(())
}

type Lines = Vec<(String, String)>;
type Section = (&'static str, fn(&mut Call<'_>) -> Lines);

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

fn lines<const N: usize>(lines: [(&str, String); N]) -> Lines {
    lines.map(|(key, value)| (key.to_owned(), value)).into()
}

fn server(call: &mut Call<'_>) -> Lines {
    let uptime = call.engine.started.elapsed().as_secs();
    lines([
        ("redis_version", REDIS_VERSION.to_owned()),
        ("farcall_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis_mode", if call.engine.cluster.is_some() { "cluster" } else { "standalone" }.to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("multiplexing_api", "epoll".to_owned()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", call.engine.port.to_string()),
        ("uptime_in_seconds", uptime.to_string()),
        ("uptime_in_days", (uptime / 86_400).to_string()),
    ])
}

fn clients(call: &mut Call<'_>) -> Lines {
    lines([
        ("connected_clients", call.engine.clients.count().to_string()),
        ("maxclients", call.engine.clients_max.to_string()),
        ("blocked_clients", call.engine.waiting.clients().to_string()),
    ])
}

fn memory(call: &mut Call<'_>) -> Lines {
    let store = call.shard.store().statistics();
    let others: usize = call.engine.clients.all().map(|(_, client)| client.memory_bytes()).sum();
    let clients = others + call.session.memory_bytes() + call.reply.len();
    lines([
        ("used_memory", call.shard.store().taken_bytes().to_string()),
        ("used_memory_rss", store.used_bytes.to_string()),
        ("farcall_expiring_objects", call.shard.store().expiring().to_string()),
        ("used_memory_dataset", store.live_bytes.to_string()),
        ("mem_clients_normal", clients.to_string()),
        ("maxmemory", call.shard.store().limit_bytes().to_string()),
        ("maxmemory_policy", policy_name(call.shard.store().eviction()).to_owned()),
    ])
}

fn persistence(call: &mut Call<'_>) -> Lines {
    super::persistence::persistence(call.shard, call.table(), &call.engine.tables)
}

fn stats(call: &mut Call<'_>) -> Lines {
    let counters = &call.engine.counters;
    lines([
        ("total_connections_received", counters.connected.get().to_string()),
        ("total_commands_processed", counters.commands.get().to_string()),
        ("rejected_connections", counters.refused.get().to_string()),
        ("evicted_clients", counters.evicted.get().to_string()),
        ("evicted_keys", call.shard.store().evicted().to_string()),
        ("expired_keys", counters.expired.get().to_string()),
        ("total_error_replies", counters.errors.get().to_string()),
    ])
}

fn replication(call: &mut Call<'_>) -> Lines {
    super::persistence::replication(call.shard)
}

fn cluster(call: &mut Call<'_>) -> Lines {
    lines([("cluster_enabled", u8::from(call.engine.cluster.is_some()).to_string())])
}

fn keyspace(call: &mut Call<'_>) -> Lines {
    let objects =
        |database: usize| (database, call.shard.store().table_objects(call.engine.tables[database]));
    let databases: Vec<_> = (0..DATABASES).map(objects).filter(|(_, objects)| *objects > 0).collect();
    let lines = databases.into_iter();
    lines.map(|(database, objects)| (format!("db{database}"), format!("keys={objects}"))).collect()
}

pub fn time(call: &mut Call<'_>) -> Done {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    call.reply.array(2);
    call.reply.bulk(since.as_secs().to_string().as_bytes());
    call.reply.bulk(since.subsec_micros().to_string().as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1000000", Some(1_000_000)),
            ("1k", Some(1000)),
            ("2KB", Some(2048)),
            ("3mb", Some(3 << 20)),
            ("1G", Some(1_000_000_000)),
            ("1gb", Some(1 << 30)),
            ("", None),
            ("mb", None),
            ("-1", None),
            ("1tb", None),
            ("9223372036854775807gb", None),
        ] {
            assert_eq!(memory_of(text.as_bytes()), bytes, "{text}");
        }
    }
}
