//! The protocol of replication as models, all of whose states are looked at: epochs, fences and records in
//! one, leases in another, moves of hash slots in a third, shards that others take over in parts in a fourth.
//! Each rule is left out once, to see that what it is
//! there for is lost then.
//!
//! The models say what is decided and leave out how: contents are sets of writes, and a message is lost, late
//! or both. What ships is held against the same rules, history by history, in `tools/swarm/src/failover`.

mod leases;
mod moves;
mod replicas;
mod spreads;

use stateright::{Checker, Model};

/// Looks at all states; says how many there are, and which properties do not hold.
fn explored<M>(model: M) -> (usize, Vec<&'static str>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + core::fmt::Debug + core::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + core::fmt::Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    let mut failed: Vec<_> = checker.discoveries().into_keys().collect();
    failed.sort_unstable();
    (checker.unique_state_count(), failed)
}
