//! A page stands alone, says in words what it draws, and keeps the text of others from becoming part of it.

use serde_json::json;

use super::page;
use crate::explain::recorded::{RecordedRun, parse};

fn run(transport: &str) -> RecordedRun {
    let environment = json!({ "kernel": "6.1" });
    let run = json!({
        "schema": "farcall.run.v1", "program": "0.1.0", "arguments": ["perf", "echo"], "seed": 1, "parameters": [],
        "started_unix_seconds": 1, "window_seconds": 2.0, "units": {}, "environment": environment,
    });
    let mut lines = String::new();
    for size in [100, 1024, 10_240] {
        for (statistic, factor) in [("p50", 1.0), ("p99", 2.0)] {
            let figure = json!({
                "schema": "farcall.result.v1", "command": "perf", "test": "echo", "transport": transport,
                "name": format!("echo{size}"), "value": f64::from(size) * factor, "unit": "ns", "statistic": statistic,
                "samples": 1000, "in_flight": 1, "size_bytes": size, "published": f64::from(size) * 1.5,
            });
            lines += &format!("{figure}\n");
        }
    }
    parse("a <run>", &run.to_string(), &lines).expect("a run")
}

#[test]
fn a_page_asks_nothing_of_the_network() {
    let page = page(&[run("ring+shm")]);
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn every_figure_has_words_and_numbers() {
    let page = page(&[run("ring+shm")]);
    let count = |text: &str| page.matches(text).count();
    assert!(count("<svg ") >= 2);
    assert_eq!(count("<svg role=\"img\""), count("<svg "));
    assert_eq!(count("aria-label=\""), count("<svg "));
    assert_eq!(count("<a download=\""), count("<svg "));
    assert!(page.contains("published, p50") && page.contains("0.100 us at 100 to 10.240 at 10240"));
}

#[test]
fn what_was_measured_on_a_shared_core_or_varies_much_is_to_be_taken_with_care() {
    let with = |name: &str, value: f64| {
        let mut run = run("ring+shm");
        run.figures[0].more.insert(name.to_owned(), json!(value));
        page(&[run])
    };
    assert!(with("server_waited", 0.01).contains("Yes, as far as figures can tell"));
    assert!(
        with("server_waited", 0.87).contains("With care: 1 of 6 figures were taken while a server waited")
    );
    assert!(with("relative_error", 0.05).contains("Yes, as far as figures can tell"));
    assert!(with("relative_error", 1.15).contains("With care: 1 of 6 figures differ by more than 25 %"));
}

/// A run with a limit beside one of its figures.
fn limited() -> RecordedRun {
    let mut run = run("ring+shm");
    for (name, value, unit) in [("echo100.limit", 80.0, "ns"), ("echo100.ratio", 1.25, "1")] {
        let figure = json!({
            "schema": "farcall.result.v1", "command": "perf", "test": "echo", "transport": "ring+shm", "name": name,
            "value": value, "unit": unit, "statistic": "median_of_blocks", "samples": 3, "in_flight": 1, "warm": false,
        });
        run.figures.push(serde_json::from_value(figure).expect("a figure"));
    }
    run
}

#[test]
fn the_first_screen_answers_three_questions() {
    let page = page(&[limited()]);
    let places = ["Is it fast?", "Where does the time go?", "Can I trust it?", "What the figures say"];
    let places = places.map(|heading| page.find(heading).expect("it is asked"));
    assert!(places.is_sorted(), "in this order: {places:?}");
    assert!(page.contains("echo100 ring+shm: 1.25 × (0.100 us, the limit 0.080 us)"), "{page}");
    assert!(page.contains("echo1024 ring+shm: 0.667 × (1.024 us, published 1.536 us)"));
    assert!(page.contains("With care: 2 of 8 figures"));
    assert!(page.contains("Calls were not traced"));
    assert!(super::page(&[drawn()]).contains("echo100 ring+shm: of a typical call of 0.080 us, 12 % is"));
}

#[test]
fn a_transport_has_one_colour_in_every_drawing() {
    let page = page(&[run("basic+udp")]);
    assert!(page.contains("<rect class=\"f1\"") && page.contains("<polyline class=\"c1 d0\""));
    assert!(page.contains("<polyline class=\"c1 d1\""), "its p99 has another line");
    assert!(!page.contains("<polyline class=\"c0"));
}

#[test]
fn rows_are_in_the_order_of_their_sizes() {
    let page = page(&[run("ring+shm")]);
    let places = [", 100B</th>", ", 1KB</th>", ", 10KB</th>"].map(|size| page.find(size));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
}

#[test]
fn text_of_others_stays_text() {
    let page = page(&[run("<img src=x onerror=alert(1)>")]);
    assert!(!page.contains("<img") && !page.contains("a <run>"));
    assert!(page.contains("&lt;img") && page.contains("a &lt;run&gt;"));
}

#[test]
fn commands_in_sentences_are_code_and_names_of_curves_are_text() {
    let page = page(&[run("ring+shm")]);
    assert!(page.contains("<code class=\"short\">farcall diff</code>"));
    assert!(
        page.contains("</span>ring+shm") && page.contains(", p50</li>"),
        "a legend that finds its own lines"
    );
    assert_eq!(super::escape::prose("<a` b"), "&lt;a` b");
}

/// A run of `--vary`, and one whose calls were traced.
fn drawn() -> RecordedRun {
    let mut run = run("ring+shm");
    let part = json!({ "p50": 10.0, "mean": 11.0, "typical": 10.0, "slow": 20.0, "least": 9.0 });
    let parts: serde_json::Map<_, _> =
        crate::explain::trace::PARTS.iter().map(|name| ((*name).to_owned(), part.clone())).collect();
    let total = json!({ "p50": 80.0, "mean": 88.0, "typical": 80.0, "slow": 160.0, "least": 72.0 });
    let occupancy = serde_json::to_value(crate::explain::trace::Occupancy::default()).expect("JSON");
    let trace = json!({
        "calls": 1000, "incomplete": 0, "disordered": 0, "parts": parts, "total": total, "occupancy": occupancy,
    });
    run.figures[0].more.insert("trace".to_owned(), trace);
    let effect = json!({
        "schema": "farcall.result.v1", "command": "perf", "test": "echo", "transport": "ring+shm", "name": "any",
        "value": 0.936, "unit": "1", "statistic": "geometric_mean", "samples": 8, "in_flight": 0, "varied": "echo100",
        "figure": "p50", "shown": true, "kind": "effect", "factors": ["<b>"], "ratio_low": 0.927, "ratio_high": 0.945,
        "verdict": "better", "separable": true,
    });
    run.figures.push(serde_json::from_value(effect).expect("a figure"));
    run
}

#[test]
fn factors_have_bars_and_traced_calls_a_waterfall() {
    let page = page(&[drawn()]);
    assert!(page.contains("&lt;b&gt;: -6.4 % [-7.3, -5.5], better") && !page.contains("<b>"));
    assert!(page.contains("<rect class=\"f2\"") && page.contains("<path class=\"reach\""));
    assert!(page.contains("submit: 10 ns, slow 20 ns") && page.contains("in all 80 ns, slow 160 ns"));
    assert!(page.contains("confirmed: the figure depends on"));
    assert_eq!(page.matches("<a download=\"").count(), page.matches("<svg role=\"img\"").count());
}

#[test]
fn traced_messages_have_one_waterfall_for_their_two_figures() {
    let mut run = run("ring+shm");
    run.figures =
        parse("a", &serde_json::to_string(&run.run).expect("JSON"), MESSAGES).expect("a run").figures;
    let page = page(&[run]);
    assert_eq!(page.matches("where the time went").count(), 1);
    assert_eq!(page.matches("traced messages, as shares of a typical message").count(), 4 * WORDS_EACH);
    assert_eq!(page.matches("<a download=\"").count(), page.matches("<svg role=\"img\"").count());
    assert!(page.contains("a typical message takes"));
    /// In the drawing's title, in its words, and in the line below it.
    const WORDS_EACH: usize = 3;
}

const MESSAGES: &str = include_str!("../../../data/traced-messages.jsonl");
