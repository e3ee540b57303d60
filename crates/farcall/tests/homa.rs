//! What homa is for, on a simulated fabric of 100 Gb/s: short messages in time, receivers that use their
//! links, buffers that do not overflow, no message that starves. Beside basic, which has neither priorities
//! nor a limit over all messages.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::load::{Load, Report, Run};
use farcall::{CallError, TransportKind};
use farcall_sim::Schedule;

const RTT_BYTES: usize = 16 << 10;
const GRANT_BYTES: usize = RTT_BYTES / 4;
const OVERCOMMIT: usize = 8;

const SETTINGS: &[&str] = &[
    "homa.rtt_bytes=16K",
    "homa.window_bytes=16K",
    "homa.grant_bytes=4K",
    "homa.overcommit=8",
    "homa.link_gbps=100",
    "homa.resend_interval=200us",
    "basic.rtt_bytes=16K",
    "basic.window_bytes=16K",
    "basic.resend_interval=200us",
];

const HOMA: TransportKind = TransportKind::HOMA_SIM;
const BASIC: TransportKind = TransportKind::BASIC_SIM;

/// A run of `loads` from host 1 on; host 0 only serves.
fn to_one<'a>(transport: TransportKind, loads: impl IntoIterator<Item = Load>, until: Duration) -> Run<'a> {
    let loads = [None].into_iter().chain(loads.into_iter().map(Some)).collect();
    Run { transport, settings: SETTINGS.to_vec(), fabric: Vec::new(), loads, until }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The most bytes that can wait at a port for granted bytes, the share of the oldest and headers included.
fn scheduled_bytes_max() -> usize {
    (OVERCOMMIT + 1) * (RTT_BYTES + GRANT_BYTES) * 11 / 10
}

#[track_caller]
fn assert_all_ran_once_and_were_answered(report: &Report, calls: usize) {
    let ran = report.ran.lock().expect("no panic");
    assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), ran.len(), "a request ran twice");
    assert_eq!((ran.len(), report.total()), (calls, calls));
    assert!(report.outcomes().all(|outcome| outcome.is_ok()));
}

#[test]
fn an_incast_of_forty_senders_overflows_no_buffer_and_is_fair() {
    const SENDERS: usize = 40;
    let report = to_one(HOMA, (0..SENDERS).map(|_| Load::endless(60_000)), millis(4)).run();
    let counts: Vec<usize> = (1..=SENDERS).map(|host| report.count(host)).collect();
    let mean = report.total() as f64 / SENDERS as f64;
    let port = report.fabric.host(0).port_usage();
    println!("{mean:.1} messages a sender, {counts:?}; {} bytes waited at the port", port.peak_bytes);
    assert_eq!(report.fabric.totals().drops(), 0);
    assert!(counts.iter().all(|count| (*count as f64 - mean).abs() <= 0.1 * mean), "{counts:?}");
    assert!(mean > 15.0, "too few messages to tell");
    // All begin at once, so the first bytes of all meet.
    assert!(port.peak_bytes <= SENDERS * RTT_BYTES * 11 / 10 + scheduled_bytes_max());
    assert!(port.busy.as_nanos() > 3_960_000, "busy for {} ns of 4 ms", port.busy.as_nanos());
}

/// The most bytes that waited at the port of a host to which 64 long messages are sent, sender by sender.
fn peak_of_long_messages(transport: TransportKind) -> usize {
    let load = |at: u32| Load {
        starts_at: Duration::from_micros(15) * at,
        in_flight: 4,
        count: 4,
        ..Load::endless(300_000)
    };
    let report = to_one(transport, (0..16).map(load), millis(10)).run();
    assert_all_ran_once_and_were_answered(&report, 64);
    report.fabric.host(0).port_usage().peak_bytes
}

#[test]
fn what_waits_at_a_switch_does_not_grow_with_the_messages_in_flight() {
    let (homa, basic) = (peak_of_long_messages(HOMA), peak_of_long_messages(BASIC));
    println!("{homa} bytes waited at the port with homa, {basic} with basic");
    // The first bytes of one sender's messages meet what was granted to the others.
    assert!(homa <= scheduled_bytes_max() + 4 * RTT_BYTES, "{homa} bytes");
    assert!(basic > 4 * homa, "{basic} bytes with basic, {homa} with homa");
}

/// The slowdown of echoes of 100 bytes at the 99th percentile, while 20 senders fill the link.
fn slowdown_of_short(transport: TransportKind, setting: &'static str) -> f64 {
    let short = || Load::endless(100);
    let alone = to_one(transport, [Load { count: 10, ..short() }], millis(1)).run();
    let long = (0..20).map(|_| Load::endless(200_000));
    let mut run = to_one(transport, [short()].into_iter().chain(long), millis(1));
    run.settings.push(setting);
    let report = run.run();
    let (best, all) = (alone.sorted(1)[0], report.sorted(1));
    all[all.len() * 99 / 100].as_secs_f64() / best.as_secs_f64()
}

#[test]
fn short_messages_pass_an_incast_by_their_priority() {
    let homa = slowdown_of_short(HOMA, "homa.priorities=8");
    let without = slowdown_of_short(HOMA, "homa.priorities=1");
    let basic = slowdown_of_short(BASIC, "homa.priorities=8");
    println!("p99 slowdown: {homa:.2} with homa, {without:.2} without priorities, {basic:.2} with basic");
    assert!(homa <= 3.0, "{homa}");
    assert!(without > 3.0 * homa && basic > 5.0 * homa, "{homa}, {without}, {basic}");
}

/// The share of the links' time in use while each of 8 hosts sends to all others.
fn use_of_links(overcommit: &'static str) -> f64 {
    const HOSTS: u32 = 8;
    let others = |host: u32| (0..HOSTS).filter(|other| *other != host).collect();
    let loads = (0..HOSTS).map(|host| Some(Load { to: others(host), ..Load::endless(200_000) }));
    let settings = SETTINGS.iter().copied().chain([overcommit]).collect();
    let until = millis(1);
    let report = Run { transport: HOMA, settings, fabric: Vec::new(), loads: loads.collect(), until }.run();
    let busy = |host: u32| report.fabric.host(host as usize).port_usage().busy.as_nanos() as f64;
    (0..HOSTS).map(busy).sum::<f64>() / (f64::from(HOSTS) * until.as_nanos() as f64)
}

#[test]
fn overcommitment_uses_links_whose_senders_are_busy_elsewhere() {
    let (one, eight) = (use_of_links("homa.overcommit=1"), use_of_links("homa.overcommit=8"));
    println!(
        "links in use: {:.0} % with a single active message, {:.0} % with 8",
        100.0 * one,
        100.0 * eight
    );
    assert!(eight > 0.9 && one < 0.75, "{one} and {eight}");
}

/// When a long message was done while shorter ones fill the link.
fn end_of_the_oldest(fifo: &'static str) -> Option<Duration> {
    let long = Load { count: 1, ..Load::endless(500_000) };
    let shorter = (0..6).map(|_| Load { in_flight: 2, ..Load::endless(60_000) });
    let mut run = to_one(HOMA, [long].into_iter().chain(shorter), millis(3));
    run.settings.extend(["homa.overcommit=2", fifo]);
    run.run().sorted(1).first().copied()
}

#[test]
fn the_oldest_message_has_its_share_of_an_overloaded_link() {
    let (without, with) =
        (end_of_the_oldest("homa.fifo_permille=0"), end_of_the_oldest("homa.fifo_permille=50"));
    println!("the long message took {without:?} without a share, {with:?} with 50 of 1000");
    assert_eq!(without, None, "without a share it starves, else this shows nothing");
    assert!(with.is_some());
}

#[test]
fn an_incast_beyond_the_buffer_loses_packets_and_no_call() {
    // Room for what homa grants though not for the first bytes of all, and for neither.
    for buffer in ["switch.port_buffer_bytes=262144", "switch.port_buffer_bytes=131072"] {
        for transport in [HOMA, BASIC] {
            let load = || Load { count: 5, ..Load::endless(60_000) };
            let mut run = to_one(transport, (0..40).map(|_| load()), millis(100));
            run.fabric = vec![buffer];
            let report = run.run();
            let totals = report.fabric.totals();
            let (lost, micros) = (totals.drops_port, totals.now.as_nanos() / 1000);
            println!("{buffer}, {transport}: {lost} packets lost, {micros} us");
            assert!(lost > 0, "{transport} lost nothing");
            assert_all_ran_once_and_were_answered(&report, 200);
        }
    }
}

#[test]
fn faults_of_packets_lose_no_call_and_repeat_little() {
    let load = || Load { count: 20, in_flight: 4, ..Load::endless(30_000) };
    let faults = "packets = { drop = 0.01, duplicate = 0.01, reorder = 0.02, corrupt = 0.0, truncate = 0.0 }";
    let run = |faults: &str| {
        let schedule = Schedule::parse("test", faults).expect("a schedule");
        let run = to_one(HOMA, (0..8).map(|_| load()), millis(200));
        let report = run.run_with(|fabric| fabric.set_schedule(schedule).expect("hosts that there are"));
        assert_all_ran_once_and_were_answered(&report, 160);
        report.fabric.totals()
    };
    let (without, with) = (run(""), run(faults));
    println!("{} packets without faults, {} with", without.packets_sent, with.packets_sent);
    assert!(with.drops_fault > 20);
    assert!(with.packets_sent < without.packets_sent * 5 / 4, "much was sent that was not lost");
}

#[test]
fn calls_into_a_partition_end_at_their_deadline_and_later_ones_are_answered() {
    let faults = "
        [[event]]
        at_us = 100
        action = { partition = { from = [0], to = [1, 2] } }
        [[event]]
        at_us = 5000
        action = 'heal'
    ";
    let schedule = Schedule::parse("test", faults).expect("a schedule");
    let load = || Load { timeout: millis(1), ..Load::endless(60_000) };
    let run = to_one(HOMA, (0..3).map(|_| load()), millis(8));
    let report = run.run_with(|fabric| fabric.set_schedule(schedule).expect("hosts that there are"));
    let ran = report.ran.lock().expect("no panic");
    assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), ran.len(), "a request ran twice");
    for host in [1, 2] {
        let ended = report.ended[host].borrow();
        let late: Vec<_> = ended.iter().filter(|call| call.outcome.is_err()).collect();
        assert!((4..=6).contains(&late.len()), "{} calls were not answered", late.len());
        assert!(late.iter().all(|call| call.outcome == Err(CallError::TimedOut)));
        let last = ended.last().expect("there are calls");
        assert!(last.outcome.is_ok() && last.began.as_nanos() > 5_000_000, "{last:?}");
    }
    assert!(report.ended[3].borrow().iter().all(|call| call.outcome.is_ok()), "it was not cut off");
}
