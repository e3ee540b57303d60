//! What the audit once said that was not so, each as a test of its kind.

use std::fs;
use std::path::{Path, PathBuf};

use super::analyse;
use super::finding::{Finding, Section};
use super::input::Document;

fn published(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/audit").join(file)
}

fn audit(text: &str) -> Vec<Finding> {
    let text = format!("schema = 'farcall.audit.v1'\nsource = ''\n{text}");
    let none = |_: &Path| -> Result<String, _> { unreachable!("no files are named") };
    analyse(&Document::parse(&text, none).expect("a document"))
}

/// The published shuffle with each line changed.
fn shuffle(change: impl Fn(usize, &str) -> Option<String>) -> Vec<Finding> {
    let text = fs::read_to_string(published("shuffle.csv")).expect("the table");
    let lines = text.lines().filter(|line| !line.starts_with('#')).enumerate();
    let rows: Vec<_> = lines.filter_map(|(index, line)| change(index, line)).collect();
    audit(&format!("link_gbps = 100\n[[table]]\nname = 'shuffle'\nrows = '''\n{}\n'''", rows.join("\n")))
}

fn of<'a>(findings: &'a [Finding], rule: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.rule == rule).collect()
}

#[test]
fn megabytes_are_never_printed_as_gigabits() {
    let in_megabytes = shuffle(|index, line| {
        let (rest, gbps) = line.rsplit_once(',').expect("cells");
        Some(match index {
            0 => format!("{rest},throughput_mb_s"),
            _ => format!("{rest},{:.2}", gbps.parse::<f64>().expect("a rate") * 125.0),
        })
    });
    let renumbered = of(&in_megabytes, "shared_by_bytes");
    let renumbered =
        renumbered.iter().find(|finding| finding.sentence.starts_with("renumbered")).expect("a range");
    let gbps = renumbered.figure("gbps_of_node").expect("a rate");
    assert!((gbps - 12.0).abs() < 0.5, "{gbps}");
    assert!(renumbered.sentence.contains("1 MB/s taken as 1000000 bytes/s"), "{}", renumbered.sentence);
    assert_eq!(of(&in_megabytes, "above_link"), [] as [&Finding; 0]);
}

#[test]
fn a_harmless_column_and_missing_rows_lose_no_hypothesis() {
    let with_column = shuffle(|index, line| {
        Some(format!("{},{line}", if index == 0 { "run".to_owned() } else { format!("run {index}") }))
    });
    assert_eq!(of(&with_column, "limit_of_fabric").len(), 1);
    // Every third row of short messages is gone.
    let with_gaps = shuffle(|index, line| {
        let short = line
            .split(',')
            .nth(2)
            .and_then(|bytes| bytes.parse::<u64>().ok())
            .is_some_and(|bytes| bytes < 16_000);
        (!short || index % 3 != 0).then(|| line.to_owned())
    });
    assert_eq!(of(&with_gaps, "limit_of_fabric").len(), 1);
}

#[test]
fn another_machine_confirms_nothing() {
    let rows = "set,machine,nodes,size_bytes,throughput_gbps\nbefore,slow,20,1000,10\nbefore,slow,20,2000,10\n\
                after,fast,20,1000,15\nafter,fast,20,2000,15\n";
    let comparison = "[[comparison]]\nchange = 'threads off'\ntable = 't'\nbefore = { set = 'before' }\n\
                      after = { set = 'after' }\ntests = 'host'\n";
    let findings = audit(&format!("[[table]]\nname = 't'\nrows = '''\n{rows}'''\n{comparison}"));
    let host = of(&findings, "limit_of_host");
    assert!(host[0].sentence.contains("not tested: `machine` and `set` changed"), "{host:?}");
    assert!(!findings.iter().any(|finding| finding.sentence.contains("confirmed")), "{findings:#?}");
}

#[test]
fn what_noise_hides_is_not_refuted() {
    let rows = "set,size_bytes,throughput_gbps\na,1,10\na,1,14\na,2,10\na,2,7\nb,1,13.8\nb,2,13.2\n";
    let comparison = "[[comparison]]\nchange = 'on'\ntable = 't'\nbefore = { set = 'a' }\nafter = { set = 'b' }\n\
                      tests = 'copy'\n";
    let findings = audit(&format!("[[table]]\nname = 't'\nrows = '''\n{rows}'''\n{comparison}"));
    let copy = of(&findings, "copy");
    assert!(copy[0].sentence.contains("not shown"), "{copy:?}");
    assert!(!findings.iter().any(|finding| finding.sentence.contains("refuted")), "{findings:#?}");
}

#[test]
fn sides_without_a_common_cell_are_not_passed_over() {
    let rows = "set,nodes,throughput_gbps\na,20,10\na,20,10\nb,38,15\n";
    let comparison = "[[comparison]]\nchange = 'on'\ntable = 't'\nbefore = { set = 'a' }\nafter = { set = 'b' }\ntests = 'host'\n";
    let findings = audit(&format!("[[table]]\nname = 't'\nrows = '''\n{rows}'''\n{comparison}"));
    let nothing = of(&findings, "no_common_cell");
    assert!(nothing[0].sentence.contains("differ in nodes"), "{nothing:?}");
}

#[test]
fn the_fit_over_sizes_knows_what_is_in_flight() {
    let findings = analyse(&Document::read(&published("clusterperf.toml")).expect("a document"));
    let two = findings.iter().find(|finding| {
        finding.rule == "time_of_size" && finding.sentence.contains("concurrent-ops-2, basic+infud")
    });
    let two = two.expect("a fit");
    let gbps = two.figure("gbps").expect("a rate");
    assert!((gbps - 25.5).abs() < 1.0 && two.sentence.contains("with 2 in flight"), "{two:?}");
}

#[test]
fn a_reading_with_impossible_rows_is_no_agreement() {
    let rows = "in_flight,size,min_us,p50_us,p99_us,throughput_mb_s\n1,1K,10.0,10.1,10.2,45.3\n1,10K,20.0,20.1,20.2,233.2\n";
    let findings = audit(&format!("[[table]]\nname = 't'\nrows = '''\n{rows}'''"));
    let units = of(&findings, "units");
    assert!(units[0].figure("impossible").is_some_and(|rows| rows > 0.0), "{units:?}");
    assert_eq!(units[0].section, Section::Contradiction);
}

#[test]
fn each_message_rate_is_said_once() {
    let findings = analyse(&Document::read(&published("message-rate.toml")).expect("a document"));
    let rates = of(&findings, "cost_per_in_flight");
    let mut names: Vec<_> = rates.iter().map(|finding| finding.sentence.split('`').nth(1)).collect();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(
        rates[0].sentence.contains("if the times are in s for 5,000,000 messages"),
        "{}",
        rates[0].sentence
    );
}
