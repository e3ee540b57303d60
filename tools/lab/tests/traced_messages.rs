//! What is said of traced tagged messages, on records that `msgrate --trace` made.

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::recorded::{RecordedRun, Run, messages, parse};

/// Rates of two endpoints over shared memory and over UDP, and one time: with 8 bytes and 16 in flight the
/// sender is ahead; of 10 KB it waits for room; one message at a time is alone on its way; and 1000 of 10 KB
/// wait for the receiver's window.
const RECORDS: &str = include_str!("../data/traced-messages.jsonl");

fn run(records: &str) -> RecordedRun {
    let run = Run::begin(Vec::new(), 1, Vec::new());
    parse("a", &serde_json::to_string(&run).expect("JSON"), records).expect("a run")
}

fn of<'a>(findings: &'a [Finding], about: &str, section: Section) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.about == about && finding.section == section).collect()
}

#[test]
fn the_parts_of_every_message_add_up_and_are_told_once() {
    let findings = messages(&[run(RECORDS)]);
    let wholes: Vec<_> = findings.iter().filter(|finding| finding.rule == "message_parts").collect();
    assert_eq!(wholes.len(), 4, "{wholes:#?}");
    for whole in wholes {
        let percent = whole.figure("sum_percent").expect("a sum");
        assert!((percent - 100.0).abs() < 2.0 && whole.section == Section::Agreement, "{whole:?}");
        let parts =
            ["submit", "on_its_way", "match", "complete"].map(|name| whole.figure(name).expect("a part"));
        let total = whole.figure("total_ns").expect("a total");
        assert!((parts.iter().sum::<f64>() / total - 1.0).abs() < 0.02, "{whole:?}");
    }
}

#[test]
fn the_largest_part_is_the_first_hypothesis() {
    let findings = messages(&[run(RECORDS)]);
    for (about, rule, words) in [
        ("ring+shm callbacks-resubmit.8x16.rate", "message_way", "lying unread"),
        ("ring+shm callbacks-resubmit.10Kx16.rate", "message_submit", "waiting at the sender"),
        ("basic+udp callbacks-resubmit.8x1.rate", "message_way", "the way between the two"),
        ("basic+udp handler.10Kx1000.rate", "message_submit", "waiting at the sender"),
    ] {
        let hypotheses = of(&findings, about, Section::Hypothesis);
        let first = hypotheses.first().expect("a hypothesis");
        assert_eq!(first.rule, rule, "{hypotheses:#?}");
        assert!(first.sentence.starts_with(&format!("1. {words}")), "{first:?}");
        assert!(
            first.sentence.ends_with("not tested") && first.figure("share_percent") > Some(50.0),
            "{first:?}"
        );
        assert_eq!(of(&findings, about, Section::NextExperiment).len(), 1, "{about}");
    }
}

#[test]
fn messages_in_a_part_are_no_more_than_are_in_flight_at_the_sender() {
    let findings = messages(&[run(RECORDS)]);
    let hypotheses = of(&findings, "ring+shm callbacks-resubmit.10Kx16.rate", Section::Hypothesis);
    let there = hypotheses[0].figure("messages_there").expect("a number");
    assert!((14.0..16.5).contains(&there), "16 sends are in flight, and nearly all of them wait: {there}");
}

#[test]
fn what_can_be_done_without_receives_is_not_to_do_without_them() {
    let findings = messages(&[run(RECORDS)]);
    let next = |about| of(&findings, about, Section::NextExperiment)[0].sentence.clone();
    assert!(next("ring+shm callbacks-resubmit.8x16.rate").contains("--mode handler"));
    assert!(!next("basic+udp handler.10Kx1000.rate").contains("--mode handler"));
}

#[test]
fn parts_that_do_not_add_up_are_a_contradiction() {
    let mut run = run(RECORDS);
    for figure in &mut run.figures {
        let parts = &mut figure.more["message_trace"]["parts"];
        let largest = parts["on_its_way"]["typical"].as_f64().expect("a time");
        parts["on_its_way"]["typical"] = (largest * 2.0).into();
    }
    let findings = messages(&[run]);
    let wrong = of(&findings, "basic+udp callbacks-resubmit.8x1.rate", Section::Contradiction);
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].figure("sum_percent") > Some(150.0), "{wrong:?}");
}
