//! The life of a rank's process.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use farcall::{Clock, Node};
use farcall_kv::daemon::{Daemon, NobodyObserves};
use farcall_kv::slots::{SHORT_BYTES_MAX, SlotLayout, SlotServer};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::shard_of;
use farcall_kv::{Shard, Value};

use super::control::{Control, Step};
use super::observer::PhaseTimes;
use super::pattern::name;
use super::report::{DaemonReport, DaemonRun};
use super::{BenchKv, Job, TABLE, VALUE_BYTES};
use crate::explain::trace::HostTrace;
use crate::run::exchange::OwnCounters;

/// Turns by which the cost of an empty one is measured. Clients are first let in later.
const EMPTY_TURNS: u32 = 4000;

/// Serves all runs.
pub(super) fn serve(job: &Job, node: Arc<Node>, within: Duration) -> Result<DaemonReport, String> {
    let bench = &job.bench;
    let rank = node.rank() as usize;
    let endpoint = node.endpoint(&bench.transport).map_err(|error| error.to_string())?;
    let layout = SlotLayout {
        slots: bench.queue_depth,
        request_bytes: SHORT_BYTES_MAX,
        response_bytes: SHORT_BYTES_MAX,
    };
    let slots = SlotServer::bind(&job.slots_name(rank), layout, bench.clients)
        .map_err(|error| format!("cannot listen for clients: {error}"))?;
    let shards = (rank as u32, bench.ranks as u32);
    let shard = filled_shard(bench, shards)?;
    let mut daemon = Daemon::new(&endpoint, shard, shards, slots);
    daemon.meet_all().map_err(|error| error.to_string())?;
    let empty_turn_nanos = time_empty_turns(&mut daemon);
    let control = Control::start(node, bench.runs, within)?;
    let mut runs = Vec::with_capacity(bench.runs);
    let mut times = PhaseTimes::new();
    let mut before = OwnCounters::read();
    while !control.is_over() {
        let busy_before = busy(&daemon);
        daemon.turn(&mut times);
        match control.asked() {
            None => {}
            Some(Step::Begin) => {
                before = OwnCounters::read();
                // The calls of the run before have been read.
                endpoint.tracer().clear();
                endpoint.tracer().switch(bench.trace);
                times.begin();
                control.took();
            }
            Some(Step::End) => {
                let phases = times.end();
                let counters: BTreeMap<String, u64> = OwnCounters::read().since(&before);
                runs.push(DaemonRun { counters, phases, trace: HostTrace::end(rank as u32, &endpoint) });
                control.took();
            }
        }
        if job.shares_cores && busy(&daemon) == busy_before {
            times.let_others_run();
        }
    }
    control.end()?;
    Ok(DaemonReport { rank, empty_turn_nanos, runs })
}

/// A number that changes when a turn found something.
fn busy(daemon: &Daemon<'_>) -> u64 {
    let counters = daemon.counters();
    counters.slot_requests.get() + counters.incoming.get() + counters.responses.get()
}

fn filled_shard(bench: &BenchKv, (own, shards): (u32, u32)) -> Result<Shard, String> {
    let keys = bench.keys * u64::from(shards);
    let memory = MEMORY_BYTES_MIN * 2 + keys as usize * 256;
    let mut store = Store::new(memory).map_err(|error| error.to_string())?;
    store.create_table(TABLE).map_err(|error| error.to_string())?;
    let value = Value::new(&[1; VALUE_BYTES]).expect("the value is short");
    for key in 0..keys {
        let key = key.to_le_bytes();
        if shard_of(name(&key), shards) == own {
            store.put(name(&key), value, Condition::Always).map_err(|error| error.to_string())?;
        }
    }
    Ok(Shard::new(store, own, shards))
}

fn time_empty_turns(daemon: &mut Daemon<'_>) -> f64 {
    let clock = Clock::new();
    let begun = clock.now();
    for _ in 0..EMPTY_TURNS {
        daemon.turn(&mut NobodyObserves);
    }
    (clock.now() - begun).as_nanos() as f64 / f64::from(EMPTY_TURNS)
}
