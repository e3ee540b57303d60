//! `farcall top`: on a terminal, which `script` gives it, and without one.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use common::{PATIENCE, farcall, sentence, until};
use farcall::{Endpoint, Node};
use rustix::process::{Pid, Signal, kill_process};

/// What a program sends that takes the whole screen, and that gives it back.
const ENTERS: &str = "\x1b[?1049h";
const LEAVES: &str = "\x1b[?1049l";

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Something to look at, in this process.
fn endpoint() -> (Node, Endpoint) {
    let node = Node::alone().expect("a node");
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    (node, endpoint)
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// The program on a terminal of its own, looking at this process.
struct Top {
    script: Ended,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// All that it has sent to its terminal.
    shown: String,
}

impl Top {
    fn start(options: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_farcall");
        // The shell stays: `script` stops with a process that it has started itself.
        let command = format!(
            "stty rows 24 cols 140; sh -c 'echo pid=$$=; exec {program} top {} {options}'; exit $?",
            own_pid()
        );
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm-256color");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = Ended(script.spawn().expect("script, which every Linux distribution has"));
        let keys = script.0.stdin.take().expect("it is piped");
        let screen = pieces(script.0.stdout.take().expect("it is piped"));
        Self { script, keys, screen, shown: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is there");
    }

    /// Waits until a text was shown this many times.
    fn await_times(&mut self, text: &str, times: usize) {
        let end = Instant::now() + PATIENCE;
        while self.shown.matches(text).count() < times {
            let piece = self.screen.recv_timeout(end.saturating_duration_since(Instant::now()));
            let piece =
                piece.unwrap_or_else(|error| panic!("{text} did not come ({error}): {:?}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    fn await_text(&mut self, text: &str) {
        self.await_times(text, 1);
    }

    /// Its number, which the shell has said before it.
    fn pid(&mut self) -> u32 {
        self.await_times("=", 2);
        self.shown.split('=').nth(1).expect("its number").parse().expect("a number")
    }

    fn await_success(mut self) -> String {
        until("the program ends", || self.script.0.try_wait().expect("it is ours").is_some());
        assert!(self.script.0.wait().expect("it has ended").success(), "{:?}", self.shown);
        while let Ok(piece) = self.screen.recv() {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
        self.shown
    }
}

#[test]
fn it_prints_once_where_there_is_no_terminal() {
    let _seen = endpoint();
    let pid = own_pid();
    let shown = text(&farcall(&["top", &pid, &pid, "--interval", "0.1"]));
    assert_eq!(shown.matches("process ").count(), 1, "once, though it is named twice: {shown}");
    assert!(shown.contains("ring+shm") && shown.contains("stalls: none"), "{shown}");
    assert!(!shown.contains('\x1b'), "no control characters without a terminal: {shown:?}");
    let shown = text(&farcall(&["top", &pid, "--interval", "0.1", "--count", "3"]));
    assert_eq!(shown.matches("process ").count(), 3, "{shown}");
}

#[test]
fn it_draws_again_and_again_on_a_terminal() {
    let _seen = endpoint();
    let shown = Top::start("--interval 0.1 --count 3").await_success();
    let (entered, left) = (shown.find(ENTERS), shown.find(LEAVES));
    assert!(entered < left && entered.is_some(), "the shell's screen is as it was: {shown:?}");
    assert!(shown.contains("processes"), "{shown:?}");
}

#[test]
fn it_does_what_keys_say() {
    let _seen = endpoint();
    let mut top = Top::start("--interval 0.1");
    // What is drawn after a key says that it was heard. Only cells that change are drawn again: of the help a
    // word that lies below the rows of before.
    for (keys, expected) in [("", "in flight"), ("3", "\x1b[7m3 ways"), ("h", "stands"), ("hq", LEAVES)] {
        top.press(keys);
        top.await_text(expected);
    }
    top.await_success();
}

/// By a key, by a signal as shells send it, and by one that it cannot hear.
#[test]
fn it_goes_on_after_it_was_stopped() {
    let _seen = endpoint();
    let mut top = Top::start("--interval 0.1");
    let pid = top.pid();
    let own = Pid::from_raw(pid as i32).expect("a number");
    let send = |signal| kill_process(own, signal).expect("it is there");
    let is_stopped = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        status.lines().any(|line| line.starts_with("State:\tT"))
    };
    top.await_text("in flight");
    for (times, by) in [(1, None), (2, Some(Signal::TSTP)), (3, Some(Signal::STOP))] {
        match by {
            None => top.press("\x1a"),
            Some(signal) => send(signal),
        }
        if by != Some(Signal::STOP) {
            top.await_times(LEAVES, times);
        }
        until("it is stopped", is_stopped);
        send(Signal::CONT);
        top.await_times(ENTERS, times + 1);
        top.await_times("in flight", times + 1);
    }
    top.press("q");
    top.await_times(LEAVES, 3);
    top.await_success();
}

#[test]
fn it_ends_when_its_terminal_has_gone() {
    let _seen = endpoint();
    let mut top = Top::start("--interval 0.1");
    let pid = top.pid();
    top.await_text("in flight");
    top.script.0.kill().expect("it is ours");
    top.script.0.wait().expect("it has ended");
    let line = PathBuf::from(format!("/proc/{pid}/cmdline"));
    // Nobody may be there to ask how it ended: then its number stays, with no command.
    until("the program ends", || fs::read(&line).map_or(true, |line| line.is_empty()));
}

#[test]
fn a_terminal_without_a_screen_is_told_what_to_do() {
    let _seen = endpoint();
    let command = format!("TERM=dumb {} top {}", env!("CARGO_BIN_EXE_farcall"), own_pid());
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
    let output = output.expect("script, which every Linux distribution has");
    let shown = String::from_utf8_lossy(&output.stdout);
    let said = "this terminal cannot be drawn on: TERM says that it is dumb; --once prints without it";
    assert!(shown.contains(said) && !shown.contains(ENTERS), "{shown:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn readings_without_a_pause_are_refused() {
    let said = sentence(&["top", "--once", "--interval", "1e-9"], 2);
    assert_eq!(said, "farcall: --interval: give 0.01 s or more");
}

#[test]
fn a_process_that_is_named_must_be_there() {
    let _seen = endpoint();
    for named in [&["2147483647"][..], &[&own_pid(), "2147483647"]] {
        let said = sentence(&[&["top", "--once"], named].concat(), 1);
        assert_eq!(said, "farcall: there is no process 2147483647");
    }
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What comes out of a pipe, so that a test can wait for it only so long.
fn pieces(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
