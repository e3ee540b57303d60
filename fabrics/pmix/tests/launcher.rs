//! A process whose launcher dies while a call waits for it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Tells a process of this file that it is the one that waits.
const WAITS: &str = "FARCALL_TEST_WAITS";

#[test]
fn a_call_ends_with_the_launcher_and_says_so() {
    wait_if_told();
    let mut launcher = Launcher::start("a_call_ends_with_the_launcher_and_says_so");
    let mut errors = launcher.process.stderr.take().expect("it is piped");
    launcher.kill_and_see_the_end();
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    assert!(said.contains("ended while this process joined its job"), "{said}");
}

#[test]
fn a_call_ends_with_the_launcher_when_nobody_reads_the_sentence() {
    wait_if_told();
    let mut launcher = Launcher::start("a_call_ends_with_the_launcher_when_nobody_reads_the_sentence");
    drop(launcher.process.stderr.take());
    launcher.kill_and_see_the_end();
}

/// In the process that a test of this file starts: the call that waits for ever.
fn wait_if_told() {
    if std::env::var_os(WAITS).is_some() {
        farcall_pmix::watched(|| {
            println!("waits");
            loop {
                std::thread::park();
            }
        });
    }
}

/// A shell that starts a test of this file once more and waits for it, as a launcher does.
struct Launcher {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Launcher {
    /// Returns when the process that it started waits.
    fn start(test: &str) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", "\"$0\" --exact \"$1\" --nocapture; true"])
            .arg(std::env::current_exe().expect("it runs"))
            .arg(test)
            .envs([(WAITS, "1"), ("PMIX_NAMESPACE", "job")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut said = String::new();
        while !said.ends_with("waits\n") {
            assert_ne!(output.read_line(&mut said).expect("text"), 0, "it ended: {said}");
        }
        Self { process, output }
    }

    fn kill_and_see_the_end(&mut self) {
        self.process.kill().expect("it is there");
        self.process.wait().expect("it is a child");
        // The end of the output is that of the process which waits.
        self.output.read_to_string(&mut String::new()).expect("text");
    }
}

#[test]
fn a_result_is_passed_on() {
    assert_eq!(farcall_pmix::watched(|| 17), 17);
}
