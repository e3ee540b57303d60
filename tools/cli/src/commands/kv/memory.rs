//! What a shard or a backup takes of the memory that the control group of its process may have: beyond it the
//! kernel would kill the process once it is full, and everything would be lost.

use farcall_lab::groups::ControlGroups;
use farcall_lab::units::Size;

use super::data;
use crate::arguments::kv::KvServe;
use crate::failure::Failure;

/// What a daemon takes beside its objects and their index: the program, rings, and slots of its clients.
const BESIDE_BYTES: u64 = 24 << 20;

/// Refuses a store for which there is too little memory.
pub fn check(serve: &KvServe) -> Result<(), Failure> {
    let Some(most) = ControlGroups::of_this_process().memory_bytes_max() else { return Ok(()) };
    match too_much(serve.memory.0 as u64, data::log_bytes_in_memory(serve)?, most) {
        None => Ok(()),
        Some(sentence) => Err(Failure::Usage(sentence)),
    }
}

/// Why objects and a log in memory do not fit into this many bytes, if they do not.
fn too_much(objects: u64, log: u64, most: u64) -> Option<String> {
    let left = most.saturating_sub(BESIDE_BYTES);
    if objects + log <= left {
        return None;
    }
    let [shown, of_log, most, left] = [objects, log, most, left].map(|bytes| bytes >> 20);
    Some(if log == 0 {
        format!(
            "--memory of {shown} MB is too much for the {most} MB that the control group of this process may have; \
             give at most {left}M, or raise memory.max"
        )
    } else {
        format!(
            "--memory of {shown} MB, and a log in memory of {of_log} MB, are too much for the {most} MB that \
             the control group of this process may have; give at most {left}M together by --memory and \
             --data-size, or raise memory.max"
        )
    })
}

/// What replicas of other shards may take beside a store; `None` if nothing bounds it.
pub fn left_beside(serve: &KvServe) -> Result<Option<u64>, Failure> {
    let taken = serve.memory.0 as u64 + data::log_bytes_in_memory(serve)?;
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

    #[test]
    fn a_log_in_memory_counts_as_objects_do() {
        const MB: u64 = 1 << 20;
        assert_eq!(too_much(100 * MB, 0, 124 * MB), None);
        assert_eq!(too_much(20 * MB, 80 * MB, 124 * MB), None);
        let objects = too_much(101 * MB, 0, 124 * MB).expect("it is one too many");
        assert!(objects.contains("--memory of 101 MB") && objects.contains("at most 100M, or"), "{objects}");
        let log = too_much(20 * MB, 81 * MB, 124 * MB).expect("it is one too many");
        assert!(log.contains("a log in memory of 81 MB") && log.contains("--data-size"), "{log}");
    }
}
