//! The example of a traced program runs, and its file has both sides of every call.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// What `cargo test` built of the example, beside this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folder = test.ancestors().nth(2).expect("in the folder `deps`").join("examples");
    folder.join("trace_to_perfetto")
}

#[test]
fn a_program_that_is_not_the_lab_writes_its_calls_for_perfetto() {
    let file = std::env::temp_dir().join(format!("farcall-example-{}.json", std::process::id()));
    let output = Command::new(example()).arg(&file).output().expect("the example is built");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("100 calls"), "{text}");
    let written = std::fs::read(&file).expect("it was written");
    let _ = std::fs::remove_file(&file);
    let document: Value = serde_json::from_slice(&written).expect("JSON");
    let events = document["traceEvents"].as_array().expect("what Perfetto reads");
    // A call is an asynchronous event of its caller, and its handler a slice of the server's thread.
    let [calls, handlers] = ["b", "X"].map(|phase| {
        let is_one = |event: &&Value| event["ph"] == phase && (phase == "X" || event["name"] == "call");
        events.iter().filter(is_one).count()
    });
    assert_eq!((calls, handlers), (100, 100), "{text}");
}
