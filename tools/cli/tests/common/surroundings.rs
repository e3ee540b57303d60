//! Commands of the program under limits, users and namespaces of a test's own.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes a tenth of it on an idle machine.
pub const LONG: Duration = Duration::from_secs(100);

pub const FARCALL: &str = env!("CARGO_BIN_EXE_farcall");

/// A process that is killed when the test is over.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program runs"))
    }

    /// Waits for its end, which comes.
    pub fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("it is a child of this process") {
                return status;
            }
            assert!(begun.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is there");
    }
}

/// What a command that ends said on standard error, and its status.
pub fn ended(command: &mut Command) -> (ExitStatus, String) {
    let mut running =
        Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()));
    let status = running.end();
    let mut said = String::new();
    let mut errors = running.0.stderr.take().expect("it is piped");
    errors.read_to_string(&mut said).expect("messages are text");
    (status, said)
}

/// A failure as it has to be: a status, and one sentence with these words.
pub fn fails(command: &mut Command, code: i32, words: &str) {
    let (status, said) = ended(command);
    assert_eq!(status.code(), Some(code), "{command:?}: {said}");
    assert!(said.lines().count() == 1 && said.contains(words), "{command:?}: {said}");
}

pub fn words(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

/// Whether the program runs in this way; a sentence if not.
pub fn runs(way: &str) -> bool {
    let (program, arguments) = way.split_once(' ').expect("a program and its arguments");
    let mut command = words(program, arguments);
    let outcome = command.arg(FARCALL).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let does = outcome.is_ok_and(|status| status.success());
    if !does {
        println!("unsupported: `{way} farcall` does not run here");
    }
    does
}

/// The program, started in this way.
pub fn farcall_by(way: &str, arguments: &str) -> Command {
    let (program, options) = way.split_once(' ').expect("a program and its arguments");
    let mut command = words(program, options);
    command.arg(FARCALL).args(arguments.split_whitespace());
    command
}

/// A place for a store that nothing else listens at: below the ports that the system gives to connections.
pub fn place(number: u32) -> String {
    format!("127.0.0.1:{}", 10_000 + (std::process::id() * 13 + number) % 10_000)
}

/// The processes whose command line has this word.
pub fn processes_with(word: &str) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").expect("there is one").flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        fs::read_to_string(entry.path().join("cmdline")).ok()?.contains(word).then_some(number)
    });
    numbers.filter_map(Pid::from_raw).collect()
}
