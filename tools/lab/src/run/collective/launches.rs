//! Several launches of a cluster, each new from the ground up, that operations are shared among.
//!
//! What differs between launches, such as where memory lies or which numbers are drawn, does not show within
//! one. Ways to push chunks are compared launch by launch: with the same seed, and so on the same placement
//! and with the same chances, one after the other.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use farcall::TransportKind;
use farcall::parameters::{FaultSettings, Settings};
use farcall::simulated::Profile;

use super::processes::{self, ProcessesError};
use super::simulated::{self, SimulatedError};
use super::threads::{self, ThreadsError};
use super::{CollectivePlan, OperationTime};
use crate::explain::trace::HostTrace;
use crate::run::Heard;
use crate::run::beside;
use crate::run::losses::Losses;
use crate::run::schedule::FaultSchedule;
use crate::run::simulation::{SimulatedFabric, SimulatedRun};
use crate::run::world::World;

/// Where ranks live.
#[derive(Clone)]
pub enum Place {
    /// On hosts of a simulated fabric. Launches are simulated at once, on all cores.
    Simulated(Box<Profile>),
    /// In threads of this process.
    Threads,
    /// In processes of their own, on this machine or at the ranks of a launcher.
    Processes(Option<Arc<World>>),
}

/// What ranks reach each other with.
#[derive(Clone, Debug)]
pub struct Means {
    /// The transport.
    pub transport: TransportKind,
    /// Its settings.
    pub settings: Settings,
    /// The assignments that led to those, for other processes.
    pub assignments: Vec<String>,
    /// What goes wrong when in each simulated launch, if anything does.
    pub schedule: Option<Arc<FaultSchedule>>,
    /// Whether the counters of first launches are to be known: on a simulated fabric these are alone then.
    pub counts: bool,
}

/// What came of one launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What fell meanwhile. Of several simulations at once it is not known what each sent again.
    pub losses: Losses,
    /// What happened on the fabric, if it was simulated.
    pub simulated: Option<SimulatedRun>,
    /// What the endpoints recorded, when chunks were traced.
    pub traces: Vec<HostTrace>,
}

/// Why there is no launch.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Of a simulated cluster.
    #[error(transparent)]
    Simulated(#[from] SimulatedError),
    /// Of threads.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// Of processes.
    #[error(transparent)]
    Processes(#[from] ProcessesError),
}

/// Shares the operations of each plan among `launches` launches; returns the launches of each plan. The n-th
/// launches of all plans have the same seed. `heard` is told which part of all of them is done.
pub fn run(
    plans: &[CollectivePlan],
    launches: u32,
    place: &Place,
    means: &Means,
    heard: &Heard<'_>,
) -> Result<Vec<Vec<Launch>>, LaunchError> {
    let of_launch = |launch| plans.iter().map(move |plan| part_of(plan, launch, launches));
    let jobs: Vec<(usize, CollectivePlan)> = (0..launches).flat_map(of_launch).enumerate().collect();
    let parts = Mutex::new(vec![0.0; jobs.len()]);
    let has_done = |job: usize, part: f64| {
        let mut parts = parts.lock().expect("no other worker panicked");
        parts[job] = part;
        heard(parts.iter().sum::<f64>() / parts.len() as f64);
    };
    let at_once = match place {
        Place::Simulated(_) => simulated_at_once(jobs.len(), &means.settings),
        Place::Threads | Place::Processes(_) => 1,
    };
    // Counters are of the whole process: of several launches at once none can say which were its own.
    let alone = if means.counts && at_once > 1 { plans.len().min(jobs.len()) } else { 0 };
    let (first, rest) = jobs.split_at(alone);
    let carry_out = |(job, plan): &(usize, CollectivePlan)| {
        let launch = launch(plan, place, means, &|part| has_done(*job, part));
        has_done(*job, 1.0);
        launch
    };
    let mut done = in_parallel(first, 1, carry_out);
    let mut others = in_parallel(rest, at_once, carry_out);
    if at_once.min(rest.len()) > 1 {
        for launch in others.iter_mut().flatten() {
            if let Some(run) = &mut launch.simulated {
                run.counters.clear();
                launch.losses = Losses { dropped: run.totals.drops(), ..Losses::default() };
            }
        }
    }
    done.extend(others);
    let mut of_plans = vec![Vec::new(); plans.len()];
    for (number, launch) in done.into_iter().enumerate() {
        of_plans[number % plans.len()].push(launch?);
    }
    Ok(of_plans)
}

/// How many of so many launches are simulated at a time.
pub fn simulated_at_once(launches: usize, settings: &Settings) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // What faults take is counted, and counters are of the whole process.
    if draws_faults(settings) { 1 } else { launches.min(cores) }
}

/// Whether packets are lost, or worse, on purpose.
fn draws_faults(settings: &Settings) -> bool {
    let without = Settings::default().fault;
    settings.fault != FaultSettings { seed: settings.fault.seed, ..without }
}

/// A launch's part of a plan: its share of the operations, and its seed.
fn part_of(plan: &CollectivePlan, launch: u32, launches: u32) -> CollectivePlan {
    let one_more = u32::from(launch < plan.operations % launches);
    let operations = plan.operations / launches + one_more;
    CollectivePlan { operations, seed: plan.seed.wrapping_add(launch.into()), ..plan.clone() }
}

fn launch(
    plan: &CollectivePlan,
    place: &Place,
    means: &Means,
    heard: &Heard<'_>,
) -> Result<Launch, LaunchError> {
    let Means { transport, settings, assignments, .. } = means;
    Ok(match place {
        Place::Simulated(profile) => {
            let fabric = SimulatedFabric::new((**profile).clone(), plan.seed);
            let fabric = SimulatedFabric { schedule: means.schedule.clone(), ..fabric };
            let run = simulated::run_heard(plan, fabric, *transport, settings, heard)?;
            let simulated::SimulatedOperations { times, repeated, run, traces } = run;
            // Counters of the fabric are brought up to date now and then, and its totals are exact. What was
            // injected never came to it.
            let counted = Losses::of(&run.counters);
            let dropped = counted.dropped.max(run.totals.drops() + counted.injected);
            let losses = Losses { dropped, ..counted };
            Launch { times, repeated, losses, simulated: Some(run), traces }
        }
        Place::Threads => {
            let run = threads::run(plan, *transport, settings)?;
            let threads::ThreadsRun { times, repeated, losses, traces } = run;
            Launch { times, repeated, losses, simulated: None, traces }
        }
        Place::Processes(world) => {
            let run = processes::run(plan, *transport, assignments, world.as_ref())?;
            let processes::ProcessesRun { times, repeated, losses, traces } = run;
            Launch { times, repeated, losses, simulated: None, traces }
        }
    })
}

/// Does all jobs, `at_once` at a time, and returns what came of them in their order.
fn in_parallel<J: Sync, R: Send>(jobs: &[J], at_once: usize, run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { break };
            let result = run(job);
            done.lock().expect("no other worker panicked").push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..at_once.min(jobs.len()) {
            // Where there are no more threads, those that there are do it all.
            if beside::spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let mut done = done.into_inner().expect("no worker panicked");
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_draw_faults_are_simulated_one_by_one() {
        let settings = |assignments: &[&str]| {
            Settings::load(assignments.iter().map(|text| (*text).to_owned())).expect("they are right")
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        assert_eq!(simulated_at_once(1_000, &settings(&[])), cores);
        assert_eq!(simulated_at_once(1, &settings(&["fault.seed=3"])), 1);
        assert_eq!(simulated_at_once(1_000, &settings(&["fault.drop_permille=1"])), 1);
    }

    #[test]
    fn jobs_are_done_once_each_and_come_back_in_order() {
        let jobs: Vec<usize> = (0..100).collect();
        for at_once in [1, 2, 7, 1000] {
            assert_eq!(in_parallel(&jobs, at_once, |job| job * 2), Vec::from_iter((0..200).step_by(2)));
        }
    }
}
