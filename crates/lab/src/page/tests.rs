//! A page stands alone, says in words what it draws, and keeps the text of others from becoming part of it.

use serde_json::json;

use super::page;
use crate::run::{RecordedRun, parse};

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
fn text_of_others_stays_text() {
    let page = page(&[run("<img src=x onerror=alert(1)>")]);
    assert!(!page.contains("<img") && !page.contains("a <run>"));
    assert!(page.contains("&lt;img") && page.contains("a &lt;run&gt;"));
}
