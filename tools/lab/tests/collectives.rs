//! Collective operations come to their end with everything delivered, on every fabric.
//!
//! That everything arrived, and nothing twice, is checked by the ranks themselves: a chunk that is not expected is
//! refused, and a refusal ends the run with an error.

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::Profile;
use farcall_lab::run::collective::launches::{self, Means, Place};
use farcall_lab::run::collective::{Collective, CollectivePlan, PushLimits, PushPolicy, simulated, threads};

const CHUNK_BYTES: usize = 5_000;

fn plan(collective: Collective, ranks: u32, message_bytes: usize, policy: PushPolicy) -> CollectivePlan {
    let limits = PushLimits { policy, chunk_bytes: CHUNK_BYTES, pending_max: 3, outstanding_max: 5, seed: 0 };
    CollectivePlan {
        collective,
        ranks,
        message_bytes,
        warmup: 1,
        operations: 3,
        limits,
        seed: 0x5eed,
        trace: false,
    }
}

fn profile() -> Profile {
    Profile::load("omni-path-100").expect("an embedded profile")
}

#[test]
fn every_operation_ends_on_simulated_fabrics_with_messages_of_any_length() {
    let lengths = [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES];
    for collective in Collective::ALL {
        for (&transport, push) in TransportKind::SIMULATED.iter().zip(PushPolicy::ALL) {
            for length in lengths {
                let plan = plan(collective, 13, length, push);
                let run = simulated::run(&plan, profile(), transport, &Settings::default());
                let run = run.unwrap_or_else(|error| panic!("{plan:?} over {transport}: {error}"));
                assert_eq!(run.times.len(), 3, "{plan:?} over {transport}");
                assert!(run.times.iter().all(|time| time.nanos > 0), "{plan:?} over {transport}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    for &transport in TransportKind::SIMULATED {
        for push in PushPolicy::ALL {
            let plan = plan(Collective::Shuffle, 12, 7_000, push);
            let trace = |seed| {
                let plan = CollectivePlan { seed, ..plan.clone() };
                let run = simulated::run(&plan, profile(), transport, &Settings::default()).expect("a run");
                (run.run.trace_hash, run.times)
            };
            assert_eq!(trace(1), trace(1), "{transport}, {push}");
            assert_ne!(trace(1).0, trace(2).0, "{transport}, {push}");
        }
    }
}

#[test]
fn lost_packets_make_operations_longer_and_lose_nothing() {
    let mut lossy = profile();
    let plan = plan(Collective::Shuffle, 24, 40_000, PushPolicy::Random);
    let whole =
        simulated::run(&plan, lossy.clone(), TransportKind::BASIC_SIM, &Settings::default()).expect("a run");
    // Ports that hold a packet or two only: all senders at once overrun them.
    lossy.switch.port_buffer_bytes = 10_000;
    let run = simulated::run(&plan, lossy, TransportKind::BASIC_SIM, &Settings::default()).expect("a run");
    assert!(run.run.totals.drops() > 0 && whole.run.totals.drops() == 0);
    let total = |run: &simulated::SimulatedOperations| run.times.iter().map(|time| time.nanos).sum::<u64>();
    assert!(total(&run) > total(&whole));
}

#[test]
fn threads_shuffle_over_every_real_transport() {
    for &transport in TransportKind::ALL {
        for length in [0, 1, 2 * CHUNK_BYTES + 1] {
            let plan = plan(Collective::Shuffle, 3, length, PushPolicy::PowerOfTwo);
            let run = threads::run(&plan, transport, &Settings::default());
            assert_eq!(run.unwrap_or_else(|error| panic!("{transport}: {error}")).times.len(), 3);
        }
    }
}

#[test]
fn launches_share_the_operations_and_have_seeds_of_their_own() {
    let plans = PushPolicy::ALL.map(|push| plan(Collective::Shuffle, 6, 1_000, push));
    let means = Means {
        transport: TransportKind::HOMA_SIM,
        settings: Settings::default(),
        assignments: Vec::new(),
        counts: true,
        schedule: None,
    };
    let of_plans = launches::run(&plans, 2, &Place::Simulated(Box::new(profile())), &means, &|_| ())
        .expect("simulated launches");
    for (plan, launches) in plans.iter().zip(&of_plans) {
        let operations: Vec<usize> = launches.iter().map(|launch| launch.times.len()).collect();
        assert_eq!(operations, [2, 1], "{plan:?}");
        let traces: Vec<_> =
            launches.iter().flat_map(|launch| &launch.simulated).map(|run| run.trace_hash).collect();
        assert_ne!(traces[0], traces[1], "{plan:?}");
        let alone = simulated::run(
            &CollectivePlan { operations: 1, seed: plan.seed + 1, ..plan.clone() },
            profile(),
            means.transport,
            &Settings::default(),
        );
        assert_eq!(alone.expect("a run").run.trace_hash, traces[1], "{plan:?}");
    }
}
