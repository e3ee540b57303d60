//! Running a command of this program again, with something changed, and reading what it recorded.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_lab::explain::recorded::RecordedRun;

use crate::failure::Failure;

/// The words of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<String>);

/// Options that have another name.
const ALIASES: [(&str, &str); 1] = [("--in-flight", "--concurrent-ops")];

/// Options that say where results go or what is shown; a run again has its own.
const DROPPED: [&str; 3] = ["--record", "--json", "--seed"];

impl Words {
    /// Those of a run, without where it was recorded and how it was shown.
    pub fn of<T: AsRef<str>>(words: &[T]) -> Self {
        let mut all = Self(words.iter().map(|word| word.as_ref().to_owned()).collect());
        DROPPED.iter().for_each(|option| all.remove(option));
        all.0.retain(|word| !word.starts_with("--trace=") && word != "--quiet");
        all
    }

    /// Gives an option a value, in the place of one that is there; `--set` may be there several times.
    pub fn set(&mut self, option: &str, value: &str) {
        if option != "--set" {
            self.remove(option);
            let aliases = ALIASES.iter().filter(|(name, _)| *name == option);
            aliases.for_each(|(_, alias)| self.remove(alias));
        }
        self.0.extend([option.to_owned(), value.to_owned()]);
    }

    fn remove(&mut self, option: &str) {
        let with_value = format!("{option}=");
        self.0.retain(|word| !word.starts_with(&with_value));
        while let Some(place) = self.0.iter().position(|word| word == option) {
            let is_valued = self.0.get(place + 1).is_some_and(|next| !next.starts_with("--"));
            self.0.drain(place..place + 1 + usize::from(is_valued));
        }
    }

    /// Runs the command in a process of its own and reads its record.
    pub fn run(&self, seed: u64) -> Result<RecordedRun, Failure> {
        let folder = Folder::new();
        let program = std::env::current_exe().map_err(Failure::run)?;
        let output = Command::new(program)
            .args(&self.0)
            .args(["--quiet", "--seed", &seed.to_string(), "--record"])
            .arg(&folder.0)
            .stdin(Stdio::null())
            .output()
            .map_err(Failure::run)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("it ended without a word");
            return Err(Failure::Run(format!("`farcall {self}` failed: {last}")));
        }
        RecordedRun::read(&folder.0).map_err(Failure::run)
    }
}

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// A folder for a record, gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("farcall-explain-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What remains is a few files in the folder for temporary ones.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_replaced_and_assignments_added() {
        let words =
            ["perf", "echo", "--concurrent-ops", "8", "--set", "a=1", "--record", "x", "--seed=3", "--trace"];
        let mut words = Words::of(&words);
        words.set("--in-flight", "16");
        words.set("--set", "b=2");
        assert_eq!(words.to_string(), "perf echo --set a=1 --trace --in-flight 16 --set b=2");
    }
}
