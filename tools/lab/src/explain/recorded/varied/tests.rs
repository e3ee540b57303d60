//! Which effects are told, and in which words.

use serde_json::json;

use super::*;
use crate::explain::recorded::Run;

fn effect(kind: &str, factors: &[&str], ratio: f64, verdict: &str) -> RecordedFigure {
    serde_json::from_value(json!({
        "schema": crate::record::SCHEMA, "command": "perf", "test": "echo", "transport": "ring+shm",
        "name": "any", "value": ratio, "unit": "1", "statistic": "geometric_mean", "samples": 8, "in_flight": 0,
        "varied": "echo1K", "figure": "p50", "shown": true, "kind": kind, "factors": factors,
        "levels": { "ring.ring_bytes": ["256K", "64K"] }, "ratio_low": ratio * 0.98, "ratio_high": ratio * 1.02,
        "verdict": verdict, "separable": factors.len() < 3, "guard": { "worse_at_most": 0.01, "verdict": "broken" },
    }))
    .expect("a figure")
}

fn findings(figures: Vec<RecordedFigure>) -> Vec<Finding> {
    interventions(&[RecordedRun {
        name: "a".to_owned(),
        run: Run::begin(Vec::new(), 1, Vec::new()),
        figures,
    }])
}

#[test]
fn what_matters_is_confirmed_first_and_what_is_inert_refuted_last() {
    let found = findings(vec![
        effect("effect", &["homa.overcommit"], 1.0, "inert"),
        effect("effect", &["endpoint.idle"], 1.005, "undecided"),
        effect("effect", &["ring.ring_bytes"], 1.2, "worse"),
    ]);
    let hypotheses: Vec<_> = found.iter().filter(|one| one.section == Section::Hypothesis).collect();
    assert_eq!(
        hypotheses.iter().map(|one| one.rule).collect::<Vec<_>>(),
        ["confirmed", "undecided", "refuted"]
    );
    let first = &hypotheses[0].sentence;
    assert!(first.contains("`ring.ring_bytes 256K → 64K`, which acts on room in the rings"), "{first}");
    assert!(first.contains("+20.0 % [+17.6, +22.4]"), "{first}");
    let next = found.iter().find(|one| one.rule == "more_blocks").expect("something is undecided");
    assert!(next.figure("blocks").expect("a number") > 8.0, "{next:?}");
    assert!(found.iter().any(|one| one.rule == "guard" && one.sentence.contains("breaks the guard")));
}

/// A factor's effect over eight blocks, with an interval of that half width around it, both as logarithms.
fn undecided(effect_log: f64, half: f64) -> RecordedFigure {
    let mut figure = effect("effect", &["ring.ring_bytes"], effect_log.exp(), "undecided");
    figure.more.insert("ratio_low".to_owned(), json!((effect_log - half).exp()));
    figure.more.insert("ratio_high".to_owned(), json!((effect_log + half).exp()));
    figure
}

fn more_blocks_than_eight(figure: RecordedFigure) -> Option<Finding> {
    findings(vec![figure]).into_iter().find(|one| one.rule == "more_blocks")
}

#[test]
fn so_many_blocks_are_asked_for_as_decide_and_no_more() {
    let is_decided = |effect: f64, half: f64| {
        let inert = effect.abs() + half <= INDIFFERENCE.ln_1p();
        inert || half <= effect.abs()
    };
    for effect in [-0.2, -0.05, -0.012, -0.0099, -0.006, -0.004, 0.0, 0.003, 0.005, 0.0098, 0.01, 0.03, 0.3] {
        let half = 0.03 + 1.1 * f64::abs(effect);
        let next = more_blocks_than_eight(undecided(effect, half)).expect("it is undecided");
        let blocks = next.figure("blocks").expect("a number");
        let narrowed = |blocks: f64| half * (8.0 / blocks).sqrt();
        assert!(is_decided(effect, narrowed(blocks + 1e-6)), "{effect}: {blocks} blocks are too few");
        assert!(!is_decided(effect, narrowed(blocks - 1.0)), "{effect}: {blocks} blocks are too many");
    }
}

#[test]
fn no_more_blocks_are_asked_for_than_the_command_line_takes() {
    let next = more_blocks_than_eight(undecided(0.005, 0.2)).expect("it is undecided");
    assert_eq!(next.figure("blocks"), Some(BLOCKS_MAX as f64));
    assert!(next.sentence.contains("`--blocks 1000` and more in each run"), "{}", next.sentence);
}

#[test]
fn pairs_that_cannot_be_told_apart_are_not_identifiable() {
    let together = findings(vec![effect("interaction", &["a", "b"], 1.3, "worse")]);
    assert_eq!(together[0].section, Section::Effect, "{together:?}");
    let aliased = findings(vec![effect("interaction", &["a", "b", "c", "d"], 1.3, "worse")]);
    assert_eq!((aliased[0].section, aliased[0].rule), (Section::NotIdentifiable, "aliased"));
}

#[test]
fn of_figures_that_the_command_did_not_show_only_guards_are_told() {
    let mut other = effect("effect", &["ring.ring_bytes"], 1.2, "worse");
    other.more.insert("shown".to_owned(), json!(false));
    let rules = |figure: &RecordedFigure| {
        findings(vec![figure.clone()]).iter().map(|one| (one.section, one.rule)).collect::<Vec<_>>()
    };
    assert_eq!(rules(&other), [(Section::Effect, "guard")]);
    other.more.insert("guard".to_owned(), Value::Null);
    assert_eq!(rules(&other), []);
}
