//! What a shard or a backup takes of the memory that the control group of its process may have: beyond it the
//! kernel would kill the process once it is full, and everything would be lost.

use farcall_lab::groups::ControlGroups;
use farcall_lab::units::Size;

use super::{data, resp};
use crate::arguments::kv::KvServe;
use crate::failure::Failure;

/// What a daemon takes beside its objects and their index: the program, rings, and slots of its clients.
const BESIDE_BYTES: u64 = 24 << 20;

/// What clients of Redis and memcached may take together unless it is said otherwise, where there is as much.
const CLIENTS_BYTES: u64 = 1 << 30;

/// What they need at least, for requests and replies that are not long.
const CLIENTS_BYTES_MIN: u64 = 8 << 20;

/// What a shard takes, in bytes.
#[derive(Clone, Copy, Default)]
struct Taken {
    objects: u64,
    /// A log in memory.
    log: u64,
    /// What clients may take at least.
    clients: u64,
}

impl Taken {
    fn by(serve: &KvServe) -> Result<Self, Failure> {
        let clients = match serve.doors.maxmemory_clients {
            _ if !resp::is_asked(serve) => 0,
            Some(Size(given)) if given > 0 => given as u64,
            _ => CLIENTS_BYTES_MIN,
        };
        Ok(Self { objects: serve.memory.0 as u64, log: data::log_bytes_in_memory(serve)?, clients })
    }

    /// Why it does not fit into this many bytes, if it does not.
    fn too_much(self, most: u64) -> Option<String> {
        let Self { objects, log, clients } = self;
        let left = most.saturating_sub(BESIDE_BYTES);
        if objects.saturating_add(log).saturating_add(clients) <= left {
            return None;
        }
        let shown = |bytes: u64| bytes >> 20;
        let (mut parts, mut options) = (format!("--memory of {} MB", shown(objects)), vec!["--memory"]);
        if log > 0 {
            parts += &format!(", and a log in memory of {} MB", shown(log));
            options.push("--data-size");
        }
        if clients > 0 {
            parts += &format!(", and clients of Redis and memcached of {} MB", shown(clients));
            options.push("--maxmemory-clients");
        }
        let (are, together) = match &*options {
            [_] => (" is", String::new()),
            _ => (", are", format!(" together by {}", options.join(" and "))),
        };
        Some(format!(
            "{parts}{are} too much for the {} MB that the control group of this process may have; give at most \
             {}M{together}, or raise memory.max",
            shown(most),
            shown(left)
        ))
    }
}

/// Refuses a store for which there is too little memory.
pub fn check(serve: &KvServe) -> Result<(), Failure> {
    let Some(most) = ControlGroups::of_this_process().memory_bytes_max() else { return Ok(()) };
    match Taken::by(serve)?.too_much(most) {
        None => Ok(()),
        Some(sentence) => Err(Failure::Usage(sentence)),
    }
}

/// What clients of Redis and memcached may take together; 0 is no limit.
pub fn for_clients(serve: &KvServe) -> Result<u64, Failure> {
    if let Some(given) = serve.doors.maxmemory_clients {
        return Ok(given.0 as u64);
    }
    let Taken { objects, log, .. } = Taken::by(serve)?;
    let left = left().map(|left| left.saturating_sub(objects + log));
    Ok(share_of_clients(left, serve.backup.is_some()))
}

/// What clients may take of what is left beside the store, if that is bounded; replicas of other shards get
/// as much.
fn share_of_clients(left: Option<u64>, has_replicas: bool) -> u64 {
    let left = left.unwrap_or(u64::MAX);
    let share = if has_replicas { left / 2 } else { left };
    share.clamp(CLIENTS_BYTES_MIN, CLIENTS_BYTES)
}

/// What replicas of other shards may take beside a store and its clients; `None` if nothing bounds it.
pub fn left_beside(serve: &KvServe) -> Result<Option<u64>, Failure> {
    let Taken { objects, log, .. } = Taken::by(serve)?;
    let clients = if resp::is_asked(serve) { for_clients(serve)? } else { 0 };
    let taken = objects.saturating_add(log).saturating_add(clients);
    Ok(left().map(|left| left.saturating_sub(taken)))
}

/// What replicas in memory may take: what was given, or else what there is.
pub fn for_replicas(given: Option<Size>) -> Option<u64> {
    given.map(|size| size.0 as u64).or_else(left)
}

fn left() -> Option<u64> {
    let most = ControlGroups::of_this_process().memory_bytes_max();
    most.map(|most| most.saturating_sub(BESIDE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn a_log_in_memory_and_clients_count_as_objects_do() {
        let too_much = |objects, log, clients| {
            let taken = Taken { objects: objects * MB, log: log * MB, clients: clients * MB };
            taken.too_much(124 * MB)
        };
        assert_eq!(too_much(100, 0, 0), None);
        assert_eq!(too_much(20, 80, 0), None);
        assert_eq!(too_much(20, 60, 20), None);
        let objects = too_much(101, 0, 0).expect("it is one too many");
        assert!(
            objects.contains("--memory of 101 MB is") && objects.contains("at most 100M, or"),
            "{objects}"
        );
        let log = too_much(20, 81, 0).expect("it is one too many");
        assert!(log.contains("a log in memory of 81 MB") && log.contains("--data-size"), "{log}");
        let clients = too_much(20, 0, 81).expect("it is one too many");
        assert!(
            clients.contains("clients of Redis and memcached of 81 MB, are too much")
                && clients.contains("at most 100M together by --memory and --maxmemory-clients, or"),
            "{clients}"
        );
    }

    #[test]
    fn clients_may_take_what_the_store_and_replicas_leave() {
        let rows = [
            (None, false, CLIENTS_BYTES),
            (None, true, CLIENTS_BYTES),
            (Some(CLIENTS_BYTES + MB), false, CLIENTS_BYTES),
            (Some(300 * MB), false, 300 * MB),
            (Some(300 * MB), true, 150 * MB),
            (Some(0), false, CLIENTS_BYTES_MIN),
        ];
        for (left, has_replicas, expected) in rows {
            assert_eq!(share_of_clients(left, has_replicas), expected, "{left:?}");
        }
    }
}
