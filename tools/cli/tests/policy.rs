//! `farcall policy`, and that the program keeps to the file that a parameter names.

mod common;

use std::fs;
use std::path::PathBuf;

use common::farcall;

/// A file with rules, which goes with the test.
struct Rules(PathBuf);

impl Rules {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-policy-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a file");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// The exit status, and what it printed and said.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = farcall(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_question_is_answered_with_the_line_that_decides() {
    let rules = Rules::new("asked", "# orders\nservice 10: call by uid 1000\ntable \"a b\": read by any\n");
    let ask =
        |who: &str, what: &str| run(&["policy", "check", rules.path(), "--identity", who, "--do", what]);
    assert_eq!(ask("uid 1000", "service 10: call"), (Some(0), "allowed by line 2\n".into(), String::new()));
    assert_eq!(ask("none", "table \"a b\": read").1, "allowed by line 3\n");
    let (status, said, why) = ask("uid 1001", "service 10: call");
    assert_eq!((status, said.as_str()), (Some(1), ""));
    assert!(why.contains("refused: no line of ") && why.contains(rules.path()), "{why}");
    let (status, _, why) = ask("user 1000", "service 10: call");
    assert_eq!(status, Some(2));
    assert!(
        why.contains("--identity: `uid`, `key`, `identity`, `certificate`, `password` or `any` is wanted"),
        "{why}"
    );
    assert_eq!(ask("uid 1000", "service 10: read").0, Some(2));
    let (_, json, _) = run(&[
        "policy",
        "check",
        rules.path(),
        "--identity",
        "uid 1000",
        "--do",
        "service 10: call",
        "--json",
        "-",
    ]);
    assert!(json.contains("\"allowed\":true") && json.contains("\"line\":2"), "{json}");
}

#[test]
fn a_file_is_checked_as_a_whole() {
    let rules = Rules::new("good", "service 10: call by uid 1000\n");
    assert_eq!(run(&["policy", "check", rules.path()]).1, format!("{} has 1 rule\n", rules.path()));
    let rules = Rules::new("empty", "");
    let nothing = format!("{} has no rules: it allows nothing to anybody\n", rules.path());
    assert_eq!(run(&["policy", "check", rules.path()]), (Some(0), nothing, String::new()));
    let rules = Rules::new("bad", "service 10: call by uid 1000\nservice ten: call by any\n");
    let (status, _, why) = run(&["policy", "check", rules.path()]);
    assert_eq!(status, Some(1));
    assert!(why.contains("line 2: the number of a service"), "{why}");
    assert_eq!(run(&["policy", "check", rules.path(), "--identity", "none"]).0, Some(2), "it asks nothing");
}

#[test]
fn a_measurement_is_refused_by_a_policy_that_does_not_allow_it() {
    let measure = |rules: &Rules| {
        let setting = format!("security.policy_file={}", rules.path());
        run(&[
            "perf",
            "echo",
            "--transport",
            "ring+shm",
            "--sizes",
            "100",
            "--count",
            "50",
            "--set",
            &setting,
        ])
    };
    let (status, table, why) = measure(&Rules::new("all", "service *: call by any\nmessages: send by any\n"));
    assert_eq!(status, Some(0), "{table} {why}");
    let (status, _, why) = measure(&Rules::new("none", "# nothing\n"));
    assert_eq!(status, Some(1));
    assert!(why.contains("may not call service"), "{why}");
}
