//! A server of another project, to be held against, and what is drawn to ask both.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use farcall_base::Random;

use super::LONG;

/// A process that listens at `socket` in a folder of its own, which is gone with it.
pub struct Reference {
    process: Child,
    folder: PathBuf,
    program: &'static str,
}

impl Reference {
    /// Starts a program of this machine in its folder; `None`, which it says, when there is none.
    pub fn start(program: &'static str, arguments: &[&str], name: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("fc-{program}-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(process) => Some(Self { process, folder, program }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("unsupported: {program} is not installed");
                let _kept = std::fs::remove_dir_all(&folder);
                None
            }
            Err(error) => panic!("{program} does not start: {error}"),
        }
    }

    /// A connection, once it listens.
    pub fn connect(&self) -> UnixStream {
        let begun = Instant::now();
        loop {
            match UnixStream::connect(self.folder.join("socket")) {
                Ok(stream) => return stream,
                Err(error) => assert!(begun.elapsed() < LONG, "{} does not listen: {error}", self.program),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
        let _kept = std::fs::remove_dir_all(&self.folder);
    }
}

/// One of some words.
pub fn one_of<'a>(draws: &mut Random, words: &[&'a str]) -> &'a str {
    words[draws.index(words.len())]
}
