//! The published notes, read as an engineer would read them: what follows from them comes out, and nothing
//! more.

use std::path::Path;

use super::analyse;
use super::finding::{Finding, Section};
use super::input::Document;

fn audit(file: &str) -> Vec<Finding> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/audit").join(file);
    analyse(&Document::read(&path).expect("a document"))
}

fn find<'a>(findings: &'a [Finding], rule: &str, word: &str) -> &'a Finding {
    let found =
        findings.iter().find(|f| f.rule == rule && (f.sentence.contains(word) || f.about.contains(word)));
    found.unwrap_or_else(|| panic!("no {rule} with `{word}` in {findings:#?}"))
}

fn figure(finding: &Finding, name: &str) -> f64 {
    finding.figure(name).unwrap_or_else(|| panic!("no {name} in {finding:?}"))
}

fn near(finding: &Finding, name: &str, expected: f64, tolerance: f64) {
    let value = figure(finding, name);
    assert!(
        (value - expected).abs() <= tolerance,
        "{name} is {value}, not {expected} +- {tolerance}: {finding:?}"
    );
}

#[test]
fn the_shuffles_throughput_is_of_the_median_and_hides_the_tail() {
    let findings = audit("shuffle.toml");
    let formula = find(&findings, "throughput_formula", "nodes x bytes x 8 / p50");
    assert_eq!((figure(formula, "rows"), figure(formula, "of")), (211.0, 211.0));
    assert!(figure(formula, "next_best") <= 2.0);
    let hidden = find(&findings, "throughput_hides_tail", "message to self");
    near(hidden, "median_percent", 8.0, 2.0);
    near(hidden, "worst_percent", 70.0, 2.0);
    assert!(!findings.iter().any(|finding| finding.rule == "above_link"));
}

#[test]
fn the_shuffles_knobs_act_on_short_messages_only() {
    let findings = audit("shuffle.toml");
    let window = find(&findings, "effect", "2 -> 8 chunks pending");
    near(window, "first_percent", 13.8, 0.1);
    near(window, "last_percent", 0.0, 0.1);
    assert!(window.sentence.contains("8000: +8.2 %,") && window.sentence.contains("16000: +1.3 % (none)"));
    let queue = find(&findings, "effect", "transmit queue");
    assert_eq!(queue.sentence.matches("(none)").count(), 6, "{}", queue.sentence);
    near(find(&findings, "window", "confirmed up to 8000"), "helps_up_to", 8000.0, 0.0);
    let copy = find(&findings, "effect", "rendezvous");
    near(copy, "first_percent", 40.3, 0.5);
    near(find(&findings, "copy", "refuted at 100"), "helps_up_to", 70.0, 0.0);
    near(find(&findings, "effect", "push"), "last_percent", -5.7, 0.1);
}

#[test]
fn the_shuffle_has_three_regimes() {
    let findings = audit("shuffle.toml");
    let host = find(&findings, "time_of_size", "renumbered, 20 nodes:");
    near(host, "intercept_us", 4.0, 0.1);
    near(host, "ns_per_byte", 0.12, 0.005);
    near(host, "gbps", 65.0, 2.0);
    near(host, "flat_us", 3.5, 0.3);
    assert_eq!(figure(host, "flat_to_bytes"), 4000.0);
    let old = find(&findings, "shared_by_bytes", "tuned-scale:");
    assert_eq!((figure(old, "from_nodes"), figure(old, "from_bytes")), (120.0, 16_000.0));
    near(old, "total_tbps", 2.06, 0.02);
    near(old, "total_tbps_deviation", 0.11, 0.02);
    near(old, "slope", -1.1, 0.15);
    let new = find(&findings, "shared_by_bytes", "renumbered:");
    assert_eq!(figure(new, "from_nodes"), 120.0);
    near(new, "slope", 0.0, 0.15);
    near(new, "gbps_of_node", 12.0, 0.5);
}

#[test]
fn the_shuffle_does_not_name_a_single_cause() {
    let findings = audit("shuffle.toml");
    for rule in ["limit_of_host", "limit_of_fabric"] {
        let hypothesis = find(&findings, rule, "consistent with the figures, not tested");
        assert_eq!(figure(hypothesis, "confirmed"), 0.0);
    }
    assert!(find(&findings, "machine_or_fabric", "unresolved").sentence.contains("placement"));
    find(&findings, "one_pair", "farcall shuffle --collective two-way-bandwidth");
    near(find(&findings, "same_cell_differs", "series"), "ratio", 1.8, 0.2);
}

#[test]
fn a_change_to_the_receive_path_promotes_the_host() {
    let findings = audit("shuffle-followup.toml");
    let host = find(&findings, "limit_of_host", "1. ");
    assert_eq!(figure(host, "confirmed"), 1.0);
    near(host, "growth", 1.26, 0.01);
    assert_eq!(figure(find(&findings, "limit_of_fabric", "2. "), "confirmed"), 0.0);
    assert!(!findings.iter().any(|finding| finding.rule == "one_pair"));
}

#[test]
fn the_shuffles_tails_stand_at_timers() {
    let findings = audit("shuffle.toml");
    let tails: Vec<_> = findings.iter().filter(|finding| finding.rule == "tail_at_timer").collect();
    assert!(tails.iter().any(|tail| (2.6..3.4).contains(&figure(tail, "middle_ms"))), "{tails:#?}");
    assert!(tails.iter().any(|tail| (1.4..1.8).contains(&figure(tail, "middle_ms"))), "{tails:#?}");
    let share = find(&findings, "tail_share", "waiting for a timer");
    assert!(figure(share, "low_percent") >= 1.0 && figure(share, "high_percent") <= 12.0, "{share:?}");
    find(&findings, "too_few_samples", "percentile");
}

#[test]
fn the_best_of_the_tuner_is_what_noise_predicts() {
    let findings = audit("tuner.toml");
    let best = find(&findings, "best_of_many", "37730");
    near(best, "noise_ns", 6.9, 0.1);
    near(best, "median_us", 3.9028, 0.0001);
    near(best, "rank_in_noise", -4.04, 0.01);
    near(best, "expected_best_us", 3.874, 0.002);
    near(best, "exactly_one", 0.35, 0.03);
    near(best, "single_width_ns", 16.0, 0.3);
    near(best, "tied_width_ns", 46.0, 0.5);
    assert_eq!(figure(best, "tied"), 29_206.0);
}

#[test]
fn completion_costs_grow_with_the_messages_in_flight() {
    let findings = audit("message-rate.toml");
    let in_us = |program: &str, backend: &str| {
        let series = format!("`{backend}, {program}, 1 bytes`, times in us a message");
        find(&findings, "cost_per_in_flight", &series)
    };
    for (program, backend, slope) in [
        ("mpi_avail (waitany)", "openmpi-hpcx2.4", 78.7),
        ("mpi_avail (testany)", "openmpi-hpcx2.4", 12.2),
        ("mpi_avail (waitany)", "intel-mpi", 17.9),
        ("mpi_avail (testany)", "intel-mpi", 26.6),
    ] {
        near(in_us(program, backend), "slope_ns", slope, 0.1);
    }
    near(in_us("mpi_avail (waitany)", "openmpi-hpcx2.4"), "predicted_ns", 2110.0, 5.0);
    near(in_us("mpi_avail (waitany)", "openmpi-hpcx2.4"), "measured_ns", 2100.0, 0.1);
    find(&findings, "unit_not_stated", "us a message and s for 5,000,000 messages");
}

#[test]
fn clusterperf_counts_in_binary() {
    let findings = audit("clusterperf.toml");
    let units = find(&findings, "units", "2^20");
    assert_eq!((figure(units, "size_base"), figure(units, "rate_base")), (1024.0, 1024.0));
    near(units, "off_percent", 2.2, 0.2);
    near(units, "next_off_percent", 4.7, 0.2);
    assert_eq!(figure(units, "impossible"), 0.0);
}

#[test]
fn benchkvs_figures_fit_and_its_sweep_has_a_knee() {
    let findings = audit("benchkv.toml");
    assert_eq!(find(&findings, "balance", "agree").section, Section::Agreement);
    near(find(&findings, "little", "local"), "left_us", 0.32, 0.01);
    let knee = find(&findings, "knee", "above the knee");
    near(knee, "ceiling_per_s", 4.5e6, 1.0);
    near(knee, "knee", 11.2, 0.3);
}

#[test]
fn findings_come_in_the_order_of_reading() {
    let sections: Vec<_> = audit("shuffle.toml").iter().map(|finding| finding.section).collect();
    assert!(sections.is_sorted());
}

#[test]
fn documents_that_make_no_sense_get_one_sentence() {
    let refusal = |text: &str| {
        let none = |_: &Path| -> Result<String, _> { unreachable!("no files are named") };
        Document::parse(text, none).expect_err("no document").to_string()
    };
    assert_eq!(
        refusal("schema = 'farcall.audit.v9'\nsource = ''"),
        "this is a document of `farcall.audit.v9`, and this program reads `farcall.audit.v1`"
    );
    assert!(refusal("schema = 'farcall.audit.v1'\nsource = ''\nsauce = 1").contains("unknown field `sauce`"));
    let head = "schema = 'farcall.audit.v1'\nsource = ''\n";
    assert_eq!(
        refusal(&format!("{head}[[balance]]\nname = 'b'\nleft = [['x']]\nright = [['x']]")),
        "`b` speaks of the figure `x`, which the document does not have"
    );
    assert_eq!(
        refusal(&format!("{head}[[table]]\nname = 't'")),
        "the table `t` needs either `file` or `rows`"
    );
    assert_eq!(
        refusal(&format!("link_gbps = -1\n{head}[[table]]\nname='t'\nrows='p50_us'")),
        "`link_gbps` has a number that is not above 0"
    );
}
