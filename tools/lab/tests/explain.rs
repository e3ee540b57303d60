//! Bottlenecks put into the simulated fabric on purpose: what was changed is what the analysis names.

use core::time::Duration;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::simulated::Profile;
use farcall_lab::explain::analysis::analyse;
use farcall_lab::explain::analysis::finding::Finding;
use farcall_lab::explain::recorded::{RecordedFigure, RecordedRun, Run, document};
use farcall_lab::run::closed_loop::ClosedLoop;
use farcall_lab::run::echo::EchoTest;
use farcall_lab::run::exchange::{Buffers, Instruments};
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::units::Size;
use serde_json::{Map, json};

const IN_FLIGHT: [usize; 4] = [1, 8, 64, 256];

/// Echoes of 1 KB with more and more of them in flight, as if each number had been a run.
fn sweep(name: &str, settings: &[&str], fabric: &[&str]) -> Vec<RecordedRun> {
    let profile = Profile::load_with("connectx7-ndr", fabric).expect("a profile");
    let fabric_of_run = SimulatedFabric::new(profile, 1);
    let parameters: Vec<String> = settings.iter().chain(fabric).map(|&text| text.to_owned()).collect();
    let assignments: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
    let run = |in_flight: usize| {
        let test = EchoTest {
            settings: Settings::load(assignments.clone()).expect("valid settings"),
            buffers: Buffers::Copied,
            closed_loop: ClosedLoop {
                assignments: assignments.clone(),
                calls: 2000,
                lasting: Duration::from_secs(1),
                warmup_calls: 0,
                in_flight,
                clients: 1,
                servers: 1,
                seed: 1,
                instruments: Instruments::default(),
            },
        };
        let outcome =
            test.simulate(&fabric_of_run, TransportKind::RING_SIM, Size(1024)).expect("a simulation");
        let more = json!({ "size_bytes": 1024, "calls_per_second": outcome.calls_per_second });
        let figure = RecordedFigure {
            schema: farcall_lab::record::SCHEMA.to_owned(),
            command: "perf".to_owned(),
            test: "echo".to_owned(),
            transport: "ring+sim".to_owned(),
            name: "echo1K".to_owned(),
            value: outcome.latency.p50_nanos.expect("enough calls") as f64,
            unit: "ns".to_owned(),
            statistic: "p50".to_owned(),
            samples: outcome.calls,
            in_flight: in_flight as u64,
            more: more.as_object().cloned().unwrap_or_else(Map::new),
        };
        let run = Run::begin(Vec::new(), 1, parameters.clone());
        RecordedRun { name: format!("{name}-{in_flight}"), run, figures: vec![figure] }
    };
    IN_FLIGHT.map(run).into()
}

/// What is said of a change to a fabric.
fn contrast(fabric: &[&str], settings: &[&str], change: &[&str]) -> Vec<Finding> {
    let mut runs = sweep("base", &[], fabric);
    runs.extend(sweep("changed", settings, &[fabric, change].concat()));
    let rules = ["delay_added", "work_added", "held_back"];
    analyse(&document(&runs)).into_iter().filter(|finding| rules.contains(&finding.rule)).collect()
}

/// The only finding, if it is of that rule, with microseconds added to the time alone and to the greatest
/// demand.
fn only(findings: &[Finding], rule: &str) -> (f64, f64) {
    let [finding] = findings else { panic!("not one finding: {findings:#?}") };
    assert_eq!(finding.rule, rule, "{finding:?}");
    let figure = |name| finding.figure(name).expect("a figure");
    (figure("alone_us"), figure("demand_us"))
}

#[test]
fn the_same_fabric_has_no_new_bottleneck() {
    assert_eq!(contrast(&[], &["endpoint.idle=spin"], &[]), []);
}

#[test]
fn a_slow_handler_is_work() {
    // The profile's 120 ns become 500, for the request on one side and for the response on the other.
    let (alone, demand) = only(&contrast(&[], &[], &["host.handler_ns=500"]), "work_added");
    assert!((alone - 0.76).abs() < 0.1, "{alone} us");
    assert!((demand - 0.38).abs() < 0.1, "{demand} us");
}

#[test]
fn a_long_cable_is_a_delay() {
    let (alone, _) = only(&contrast(&[], &[], &["link.propagation_ns=5000"]), "delay_added");
    assert!(alone > 9.0, "{alone} us");
}
