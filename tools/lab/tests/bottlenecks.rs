//! Bottlenecks put in on purpose, on a simulated fabric: the analysis of one traced run names each of them first.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use farcall::parameters::Settings;
use farcall::simulated::{Action, Cluster, Picos, Profile, Schedule, Scheduled};
use farcall::{Instant, TransportKind};
use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::causes::causes;
use farcall_lab::explain::recorded::{RecordedFigure, RecordedRun, Run, anatomy};
use farcall_lab::explain::trace::PARTS;
use farcall_lab::run::closed_loop::ClosedLoop;
use farcall_lab::run::closed_loop::{Outcome, Ran};
use farcall_lab::run::echo::EchoTest;
use farcall_lab::run::exchange::{Buffers, Instruments};
use farcall_lab::run::simulation::{SimulatedFabric, UNCHECKED};
use farcall_lab::units::Size;
use serde_json::{Map, json};

/// What is put in.
struct Bottleneck<'a> {
    transport: TransportKind,
    in_flight: usize,
    handler_ns: u64,
    settings: &'a [&'a str],
    fabric: &'a [&'a str],
    prepare: fn(&Cluster),
    /// Hosts that answer, and as many that call.
    pairs: usize,
}

const NONE: Bottleneck<'_> = Bottleneck {
    transport: TransportKind::RING_SIM,
    in_flight: 16,
    handler_ns: 0,
    settings: &[],
    fabric: &[],
    prepare: |_| (),
    pairs: 1,
};

/// Simulations of one process count together, so they run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn echo(transport: TransportKind, bottleneck: &Bottleneck<'_>) -> Outcome {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let profile = Profile::load_with("connectx7-ndr", bottleneck.fabric).expect("a profile");
    let settings = UNCHECKED.iter().chain(bottleneck.settings);
    let assignments: Vec<String> = settings.map(|&text| text.to_owned()).collect();
    let test = EchoTest {
        settings: Settings::load(assignments.clone()).expect("valid settings"),
        buffers: Buffers::Copied,
        closed_loop: ClosedLoop {
            assignments,
            calls: 5000 / bottleneck.pairs as u64,
            lasting: Duration::from_secs(1),
            warmup_calls: 0,
            in_flight: bottleneck.in_flight,
            clients: bottleneck.pairs,
            servers: bottleneck.pairs,
            seed: 1,
            instruments: Instruments { trace: true, handler: Duration::from_nanos(bottleneck.handler_ns) },
        },
    };
    let fabric = SimulatedFabric::new(profile, 1);
    test.simulate_with(&fabric, transport, Size(1024), bottleneck.prepare).expect("a simulation")
}

/// The run as `--record` keeps it.
fn run(name: &str, bottleneck: &Bottleneck<'_>) -> RecordedRun {
    let outcome = echo(bottleneck.transport, bottleneck);
    let more = json!({
        "calls_per_second": outcome.calls_per_second,
        "counters": outcome.counters,
        "trace": outcome.traced.summary,
        "clients": bottleneck.pairs,
        "servers": bottleneck.pairs,
    });
    let figure = RecordedFigure {
        schema: farcall_lab::record::SCHEMA.to_owned(),
        command: "perf".to_owned(),
        test: "echo".to_owned(),
        transport: bottleneck.transport.name().to_owned(),
        name: "echo1K".to_owned(),
        value: outcome.latency.p50_nanos.expect("enough calls") as f64,
        unit: "ns".to_owned(),
        statistic: "p50".to_owned(),
        samples: outcome.calls,
        in_flight: (bottleneck.in_flight * bottleneck.pairs) as u64,
        more: more.as_object().cloned().unwrap_or_else(Map::new),
    };
    RecordedRun { name: name.to_owned(), run: Run::begin(Vec::new(), 1, Vec::new()), figures: vec![figure] }
}

fn hypotheses(bottleneck: &Bottleneck<'_>) -> Vec<Finding> {
    let findings = anatomy(&[run("a", bottleneck)]);
    let hypotheses: Vec<_> =
        findings.into_iter().filter(|finding| finding.section == Section::Hypothesis).collect();
    assert!(hypotheses.iter().all(|finding| finding.sentence.contains("not tested")), "{hypotheses:#?}");
    hypotheses
}

/// Asserts that the first hypothesis is that one, with a gain of at least so much, and gives it.
fn first(bottleneck: &Bottleneck<'_>, rule: &str, gain_min: f64) -> Finding {
    let hypotheses = hypotheses(bottleneck);
    let first = hypotheses.first().expect("something limits").clone();
    assert_eq!(first.rule, rule, "{hypotheses:#?}");
    assert!(first.figure("gain").expect("a gain") >= gain_min, "{hypotheses:#?}");
    first
}

#[test]
fn a_slow_handler_is_named() {
    first(&Bottleneck { handler_ns: 500, ..NONE }, "handler", 1.3);
}

#[test]
fn a_window_of_one_is_named() {
    let found = first(&Bottleneck { in_flight: 1, ..NONE }, "window", 1.5);
    let more = echo(TransportKind::RING_SIM, &NONE).calls_per_second;
    let one = echo(TransportKind::RING_SIM, &Bottleneck { in_flight: 1, ..NONE }).calls_per_second;
    let gain = found.figure("gain").expect("a gain");
    // What drivers do on the way is not seen to be work, so that the prediction is a bound.
    assert!(gain >= more / one, "predicted {gain}, with 16 in flight it is {}", more / one);
    assert!(more / one > 4.0, "the window was what limited: {more} instead of {one}");
}

#[test]
fn a_ring_of_four_kilobytes_is_named() {
    first(&Bottleneck { in_flight: 64, fabric: &["lanes.ring_bytes=4096"], ..NONE }, "ring_room", 1.1);
}

#[test]
fn a_long_way_is_named() {
    first(&Bottleneck { in_flight: 8, fabric: &["link.propagation_ns=5000"], ..NONE }, "way", 1.5);
}

#[test]
fn a_delay_in_a_fault_decorator_is_named_on_lanes_and_on_packets() {
    let settings = &["fault.delay_permille=1000", "fault.delay_time=5us"];
    for transport in [TransportKind::RING_SIM, TransportKind::BASIC_SIM, TransportKind::HOMA_SIM] {
        let delayed = Bottleneck { transport, in_flight: 8, settings, ..NONE };
        let found = first(&delayed, "way", 1.5);
        let share = found.figure("share_percent").expect("a share");
        assert!(share > 70.0, "{transport}: {found:?}");
    }
}

/// The server runs for 100 us, and then its neighbour does.
fn share_the_core(cluster: &Cluster) {
    share_the_core_of(cluster, 0);
}

fn share_the_core_of(cluster: &Cluster, host: u32) {
    let events = (1..400_u64).map(|turn| {
        let at = Picos::from(Duration::from_micros(100 * turn));
        let action = if turn % 2 == 1 { Action::Pause(vec![host]) } else { Action::Resume(vec![host]) };
        Scheduled { at, action }
    });
    let schedule = Schedule { events: events.collect(), ..Schedule::default() };
    cluster.fabric().set_schedule(schedule).expect("the host is there");
}

#[test]
fn a_server_that_shares_its_core_is_named() {
    let found = first(&Bottleneck { prepare: share_the_core, ..NONE }, "standstill", 1.6);
    let share = found.figure("share_percent").expect("a share");
    assert!((share - 50.0).abs() < 15.0, "{found:?}");
}

/// The same run as its record is with what the fabric's resources did.
fn observed(bottleneck: &Bottleneck<'_>) -> RecordedRun {
    let outcome = echo(bottleneck.transport, bottleneck);
    let Ran::OnFabric(ran) = &outcome.ran else { panic!("it was simulated") };
    let mut recorded = run("a", bottleneck);
    recorded.figures[0].more.insert("uses".to_owned(), json!(ran.uses));
    recorded
}

#[test]
fn pauses_of_a_server_and_of_a_client_are_named_from_what_was_counted() {
    let share_clients: fn(&Cluster) = |cluster| share_the_core_of(cluster, 1);
    for (prepare, rule) in
        [(share_the_core as fn(&Cluster), "standstill"), (share_clients, "client_standstill")]
    {
        let findings = causes(&[observed(&Bottleneck { prepare, ..NONE })]);
        let first = findings.first().expect("something limits");
        assert_eq!(first.rule, rule, "{findings:#?}");
        let share = first.figure("share_percent").expect("a share");
        assert!((share - 50.0).abs() < 15.0, "{first:?}");
    }
}

/// Makes everything take a host ten times as long.
fn slow_down(cluster: &Cluster, host: u32) {
    let schedule = Schedule::new().at(Instant::ZERO, Action::Slow { hosts: vec![host], factor: 10 });
    cluster.fabric().set_schedule(schedule).expect("the host is there");
}

#[test]
fn a_slow_one_of_four_servers_is_named() {
    let slow_server: fn(&Cluster) = |cluster| slow_down(cluster, 2);
    for transport in [TransportKind::RING_SIM, TransportKind::BASIC_SIM] {
        let findings = causes(&[observed(&Bottleneck { transport, pairs: 4, prepare: slow_server, ..NONE })]);
        let first = findings.first().expect("something limits");
        assert_eq!(first.rule, "slow_server", "{transport}: {findings:#?}");
        assert!(first.sentence.contains("number 2 works"), "{first:?}");
        let even = causes(&[observed(&Bottleneck { transport, pairs: 4, ..NONE })]);
        assert!(even.iter().all(|finding| finding.rule != "slow_server"), "{transport}: {even:#?}");
    }
}

/// What the client sends is lost for 20 us of every 500; what the server sends is not.
fn part_one_way(cluster: &Cluster) {
    let at = |us: u64| Instant::ZERO + Duration::from_micros(us);
    let parted = |schedule: Schedule, turn: u64| {
        let action = Action::Partition { from: vec![1], to: vec![0], one_way: true };
        schedule.at(at(500 * turn), action).at(at(500 * turn + 20), Action::Heal)
    };
    cluster.fabric().set_schedule((1..200).fold(Schedule::new(), parted)).expect("the hosts are there");
}

#[test]
fn a_path_that_is_parted_one_way_is_named() {
    for transport in [TransportKind::BASIC_SIM, TransportKind::HOMA_SIM] {
        let findings = causes(&[observed(&Bottleneck { transport, prepare: part_one_way, ..NONE })]);
        assert_eq!(
            findings.first().expect("something limits").rule,
            "partition",
            "{transport}: {findings:#?}"
        );
    }
}

#[test]
fn without_any_of_them_none_of_their_signs_is_there() {
    let rules: Vec<_> = hypotheses(&NONE).iter().map(|finding| finding.rule).collect();
    for rule in ["standstill", "ring_room", "window"] {
        assert!(!rules.contains(&rule), "{rules:?}");
    }
}

#[test]
fn of_two_runs_the_part_that_grew_is_named() {
    let slow = Bottleneck { in_flight: 1, handler_ns: 500, ..NONE };
    let findings = anatomy(&[run("a", &Bottleneck { in_flight: 1, ..NONE }), run("b", &slow)]);
    let effect = findings.iter().find(|finding| finding.rule == "part_changed").expect("a change");
    let handler = PARTS.iter().position(|part| *part == "handler").expect("a part") as f64;
    assert_eq!(effect.figure("part"), Some(handler), "{effect:?}");
    assert!((effect.figure("part_ns").expect("a time") - 500.0).abs() < 5.0, "{effect:?}");
}

#[test]
fn parts_add_up_to_the_measured_round_trip_on_every_transport() {
    for transport in [TransportKind::RING_SIM, TransportKind::BASIC_SIM, TransportKind::HOMA_SIM] {
        for in_flight in [1, 16] {
            let outcome = echo(transport, &Bottleneck { in_flight, ..NONE });
            let trace = outcome.traced.summary.expect("calls were traced");
            assert_eq!((trace.incomplete, trace.disordered), (0, 0), "{transport}");
            assert_eq!(trace.calls, outcome.calls, "{transport}");
            let sum: f64 = trace.parts.values().map(|part| part.mean).sum();
            let off = sum / outcome.latency.mean_nanos - 1.0;
            assert!(off.abs() < 0.02, "{transport}, {in_flight} in flight: {sum} of {:?}", outcome.latency);
        }
    }
}
