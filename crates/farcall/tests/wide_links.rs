//! Long messages over links of 1 Gb/s whose round trips take milliseconds, and which lose packets: the window
//! follows the path, losses cost throughput and not minutes, and flows that meet at a port share it. All of
//! it in simulated time, with default settings.

mod common;

use std::time::Duration;

use common::load::{Ended, Load, Report, Run};
use farcall::TransportKind;

const MESSAGE_BYTES: usize = 1 << 20;

/// The payload that a link of 1 Gb/s can carry at most, in bytes a second.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

const UNTIL: Duration = Duration::from_millis(500);

/// Each of `senders` keeps its load to host 0 on its way, over a path with this round trip, this many of 1000
/// packets lost, and this MTU.
fn to_one(
    transport: TransportKind,
    load: Load,
    senders: usize,
    (round_trip_ms, lost, mtu_bytes): (u64, u16, usize),
    until: Duration,
) -> Report {
    let loads = [None].into_iter().chain((0..senders).map(|_| Some(load.clone()))).collect();
    let (propagation, mtu, drop) = (
        format!("link.propagation_ns={}", round_trip_ms * 1_000_000 / 4),
        format!("nic.mtu_bytes={mtu_bytes}"),
        format!("fault.drop_permille={lost}"),
    );
    let fabric = vec!["link.gbps=1", "switch.port_buffer_bytes=1000000", propagation.as_str(), mtu.as_str()];
    Run { transport, settings: vec![drop.as_str()], fabric, loads, until }.run()
}

/// Eight long messages at a time.
fn long_messages() -> Load {
    Load { in_flight: 8, ..Load::endless(MESSAGE_BYTES) }
}

/// What part of the link one sender fills with messages that arrived in full.
fn filled(transport: TransportKind, round_trip_ms: u64, lost: u16, mtu_bytes: usize) -> f64 {
    let report = to_one(transport, long_messages(), 1, (round_trip_ms, lost, mtu_bytes), UNTIL);
    assert!(report.outcomes().all(|outcome| outcome.is_ok()));
    let part = (report.total() * MESSAGE_BYTES) as f64 / UNTIL.as_secs_f64() / LINK_BYTES_PER_SECOND;
    println!(
        "{transport} round trip {round_trip_ms} ms, {lost} of 1000 lost, MTU {mtu_bytes}: {part:.2} of the link"
    );
    part
}

/// Of the lossless link `least`, of one that loses 1 and 5 of 100 packets the parts that follow it.
fn assert_fills(transport: TransportKind, round_trip_ms: u64, least: [f64; 3]) {
    let cells = [(0, 1460, least[0]), (0, 8960, least[0]), (10, 1460, least[1]), (50, 1460, least[2])];
    for (lost, mtu_bytes, least) in cells {
        let part = filled(transport, round_trip_ms, lost, mtu_bytes);
        assert!(part >= least, "{part:.2} of the link, which should be {least}");
    }
}

#[test]
fn basic_fills_a_link_of_two_milliseconds() {
    assert_fills(TransportKind::BASIC_SIM, 2, [0.75, 0.75, 0.7]);
}

#[test]
fn basic_fills_a_link_of_ten_milliseconds() {
    assert_fills(TransportKind::BASIC_SIM, 10, [0.7, 0.6, 0.4]);
}

#[test]
fn homa_fills_a_link_of_two_milliseconds() {
    assert_fills(TransportKind::HOMA_SIM, 2, [0.8, 0.75, 0.65]);
}

#[test]
fn homa_fills_a_link_of_ten_milliseconds() {
    assert_fills(TransportKind::HOMA_SIM, 10, [0.7, 0.6, 0.4]);
}

/// What part of a link that loses nothing is filled with messages of `bytes`, `in_flight` of them at a time,
/// in the second half of a second: as responses, or as requests.
fn filled_when_warm(
    transport: TransportKind,
    round_trip_ms: u64,
    mtu_bytes: usize,
    (bytes, in_flight): (usize, usize),
    are_responses: bool,
) -> f64 {
    let (request_bytes, answer_bytes) = if are_responses { (100, bytes) } else { (bytes, 0) };
    let load = Load { answer_bytes, in_flight, ..Load::endless(request_bytes) };
    let report = to_one(transport, load, 1, (round_trip_ms, 0, mtu_bytes), 2 * UNTIL);
    let is_late = |ended: &&Ended| Duration::from_nanos(ended.began.as_nanos()) + ended.lasted >= UNTIL;
    let late = report.ended[1].borrow().iter().filter(is_late).count();
    let part = (late * bytes) as f64 / UNTIL.as_secs_f64() / LINK_BYTES_PER_SECOND;
    let what = if are_responses { "responses" } else { "requests" };
    println!(
        "{transport} round trip {round_trip_ms} ms, MTU {mtu_bytes}, {in_flight} {what} of {bytes} B: \
         {part:.2} of the link"
    );
    part
}

/// Whatever the messages, as long as enough of them are in flight, and with nothing sent twice: headers alone
/// take two or five of a hundred.
fn assert_fills_when_warm(transport: TransportKind) {
    for round_trip_ms in [2, 10] {
        for mtu_bytes in [1460, 8960] {
            for (messages, are_responses) in [((64 << 10, 64), true), ((1 << 20, 8), false)] {
                let part = filled_when_warm(transport, round_trip_ms, mtu_bytes, messages, are_responses);
                assert!(part >= 0.9, "{part:.2} of the link");
            }
        }
    }
}

#[test]
fn basic_fills_a_clean_link_when_it_is_warm() {
    assert_fills_when_warm(TransportKind::BASIC_SIM);
}

#[test]
fn homa_fills_a_clean_link_when_it_is_warm() {
    assert_fills_when_warm(TransportKind::HOMA_SIM);
}

/// Jain's index: 1 where all have the same, 1 / count where one has everything.
fn index_of_fairness(parts: &[f64]) -> f64 {
    let (sum, squares) = (parts.iter().sum::<f64>(), parts.iter().map(|part| part * part).sum::<f64>());
    sum * sum / (parts.len() as f64 * squares)
}

#[test]
fn senders_that_meet_at_a_port_share_it() {
    // homa prefers the message with the least left, whoever sends it: it owes nobody an equal share.
    for (transport, least) in [(TransportKind::BASIC_SIM, 0.8), (TransportKind::HOMA_SIM, 0.6)] {
        let report = to_one(transport, long_messages(), 2, (2, 0, 1460), UNTIL);
        let parts: Vec<f64> = (1..=2).map(|host| report.count(host) as f64).collect();
        let index = index_of_fairness(&parts);
        println!("{transport}: {parts:?}, index {index:.3}");
        assert!(index >= least, "{transport}: {parts:?}");
    }
}
