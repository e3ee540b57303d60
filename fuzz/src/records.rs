//! Figures of others: whatever a file holds, it is refused in one sentence or analysed to the end.

use std::path::Path;

use farcall_lab::explain::analysis::analyse;
use farcall_lab::explain::analysis::finding::Finding;
use farcall_lab::explain::analysis::input::Document;
use farcall_lab::explain::recorded::{document, parse};
use farcall_lab::run::workload::{Recorded, Roles};

/// What divides `run.json` from `results.jsonl` in one input.
const DIVIDER: &str = "\n---\n";

/// Reads the bytes as arrivals, as a table or the output of a program, as a document whose tables are all the
/// same text, and as a run.
pub fn run(bytes: &[u8]) {
    match Recorded::read(Path::new("arrivals"), bytes) {
        Ok(arrivals) => {
            assert!(arrivals.per_second(1.0).is_finite() && arrivals.mix().mean_bytes() >= 1.0);
            let _ = arrivals.check(Roles::Everyone(4), 1.0);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(document) = Document::of_text("table", &text) {
        check(&analyse(&document));
    }
    let table = "set,nodes,size,p50_us,throughput_gbps\na,2,1K,1,2\nb,2,1K,2,1\n";
    match Document::parse(&text, |_: &Path| Ok(table.to_owned())) {
        Ok(document) => check(&analyse(&document)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let (run, results) = text.split_once(DIVIDER).unwrap_or((&text, ""));
    match parse("run", run, results) {
        Ok(run) => check(&analyse(&document(&[run.clone(), run]))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Findings have words, and come in the order of reading.
fn check(findings: &[Finding]) {
    assert!(findings.iter().all(|finding| !finding.sentence.is_empty()));
    assert!(findings.is_sorted_by_key(|finding| finding.section));
}
