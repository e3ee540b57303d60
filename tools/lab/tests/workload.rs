//! The open-loop workload on simulated fabrics: what it shows of the protocols, and what it says when there
//! is too much.

use core::time::Duration;

use farcall::TransportKind;
use farcall::simulated::Profile;
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::run::workload::{OUTSTANDING_MAX, Reply, Roles, SizeMix, WorkloadOutcome, WorkloadTest};

/// Homa's default: what may be sent unasked.
const RTT_BYTES: u32 = 16 << 10;

fn ideal() -> SimulatedFabric {
    SimulatedFabric::new(Profile::load("ideal").expect("an embedded profile"), 1)
}

fn test(mix: SizeMix, load: f64, nodes: usize, messages: u64) -> WorkloadTest {
    WorkloadTest {
        assignments: Vec::new(),
        mix,
        replay: None,
        load,
        link_bits_per_second: ideal().link_bits_per_second(),
        roles: Roles::Everyone(nodes),
        reply: Reply::Ack,
        messages,
        lasting: Duration::from_secs(1),
        seed: 1,
        trace: false,
    }
}

fn embedded(name: &str) -> SizeMix {
    SizeMix::load(name).expect("an embedded mix")
}

fn simulate(test: &WorkloadTest, transport: TransportKind) -> WorkloadOutcome {
    test.simulate(&ideal(), transport, &|_| ()).expect("the fabric carries it").0
}

/// W4 without its longest messages, a thirtieth of all that would take two thirds of the time to simulate.
fn w4_without_the_longest() -> SizeMix {
    const LONGEST: f64 = 0.9684;
    let points =
        include_str!("../src/run/workload/mixes/W4.cdf").lines().filter(|line| !line.starts_with('#'));
    let kept: Vec<String> = points
        .filter_map(|line| line.split_once(' '))
        .map(|(bytes, share)| (bytes, share.parse::<f64>().expect("a share") / LONGEST))
        .take_while(|(_, share)| *share <= 1.0)
        .map(|(bytes, share)| format!("{bytes} {share}\n"))
        .collect();
    SizeMix::parse("W4 without the longest", &kept.concat()).expect("still a mix")
}

#[test]
fn short_messages_hardly_notice_a_full_rack_with_homa() {
    let test = test(w4_without_the_longest(), 0.8, 16, 220);
    let (homa, basic) = (simulate(&test, TransportKind::HOMA_SIM), simulate(&test, TransportKind::BASIC_SIM));
    let shortest = |outcome: &WorkloadOutcome| {
        let band = outcome.decile(1).expect("there are short ones");
        band.slowdown.p99.expect("there are enough of them")
    };
    let (with_homa, with_basic) = (shortest(&homa), shortest(&basic));
    assert!(with_basic >= 5.0 * with_homa, "{with_basic} with basic, {with_homa} with homa");
    let unscheduled = homa.bands.iter().filter(|band| band.decile.is_some() && band.bytes_max <= RTT_BYTES);
    let slowdowns: Vec<f64> = unscheduled.filter_map(|band| band.slowdown.p99).collect();
    assert!(slowdowns.len() >= 7 && slowdowns.iter().all(|p99| *p99 <= 3.0), "{slowdowns:?}");
}

#[test]
fn every_simulated_transport_carries_the_load_and_nothing_is_faster_than_alone() {
    for &transport in TransportKind::SIMULATED {
        let test = test(embedded("W2"), 0.3, 4, 2_000);
        let (outcome, run) = test.simulate(&ideal(), transport, &|_| ()).expect("the fabric carries it");
        let WorkloadOutcome { drawn_load, achieved_load, waited, .. } = outcome;
        assert!((achieved_load / drawn_load - 1.0).abs() < 0.1, "{transport}: {drawn_load}, {achieved_load}");
        assert_eq!(waited, 0, "{transport}");
        let all = outcome.bands.last().expect("all messages");
        assert!(all.slowdown.mean >= 1.0, "{transport}: {}", all.slowdown.mean);
        let wire_load = outcome.wire_load.expect("the links are seen");
        assert!((0.3..0.6).contains(&wire_load), "{transport}: {wire_load}");
        let (again, same_run) = test.simulate(&ideal(), transport, &|_| ()).expect("as before");
        assert_eq!((again.bands, same_run.trace_hash), (outcome.bands, run.trace_hash), "{transport}");
    }
}

#[test]
fn more_than_the_links_carry_is_said_and_waiting_counts() {
    let test = test(embedded("W1"), 1.0, 2, 20_000);
    let outcome = simulate(&test, TransportKind::BASIC_SIM);
    assert!(outcome.wire_load.expect("the links are seen") > 1.0);
    assert_eq!(outcome.outstanding_peak, OUTSTANDING_MAX as u64);
    assert!(outcome.waited > 0 && outcome.achieved_load < outcome.drawn_load);
    let all = outcome.bands.last().expect("all messages");
    let in_flight_at_most = OUTSTANDING_MAX as f64 / (test.messages_per_second() * outcome.achieved_load);
    assert!(
        all.latency.max_nanos as f64 > 1e9 * in_flight_at_most,
        "the last message waited for more than those in flight: {}",
        all.latency.max_nanos
    );
}

#[test]
fn clients_send_to_servers_and_get_back_what_they_sent() {
    let roles = Roles::Apart { clients: 3, servers: 2 };
    let test = WorkloadTest { roles, reply: Reply::Echo, ..test(embedded("W3"), 0.4, 5, 400) };
    let outcome = simulate(&test, TransportKind::HOMA_SIM);
    let (samples, wire_load) =
        (outcome.bands.last().expect("all messages").latency.samples, outcome.wire_load);
    assert!((1_000..1_400).contains(&samples), "{samples}");
    assert_eq!(wire_load, None, "the links of clients are not as full as those of servers");
}
