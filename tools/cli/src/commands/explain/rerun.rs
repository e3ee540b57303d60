//! Running a command of this program again, with something changed, and reading what it recorded.

use std::process::{Command, Stdio};

use farcall::parameters::{CONFIG_VARIABLE, PARAMETERS, Parameter};
use farcall_lab::explain::recorded::{RecordedRun, Run};
use farcall_lab::files::ScratchFolder;

use crate::failure::Failure;

/// The words of a command line, and what its parameters were before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    words: Vec<String>,
    /// The assignments that a run was recorded with; `None` takes those of this process.
    parameters: Option<Vec<String>>,
}

/// Options that have another name.
const ALIASES: [(&str, &str); 1] = [("--in-flight", "--concurrent-ops")];

/// Options that say where results go or what is shown; a run again has its own.
const DROPPED: [&str; 3] = ["--record", "--json", "--seed"];

impl Words {
    /// Those of a run, without where it was recorded and how it was shown.
    pub fn of<T: AsRef<str>>(words: &[T]) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        let mut all = Self { words, parameters: None };
        DROPPED.iter().for_each(|option| all.remove(option));
        all.words.retain(|word| !word.starts_with("--trace=") && word != "--quiet");
        all
    }

    /// Those of a recorded run, to be run with the parameters that it had, whatever those of this process
    /// are.
    pub fn of_run(run: &Run) -> Self {
        Self { parameters: Some(run.parameters.clone()), ..Self::of(&run.arguments) }
    }

    /// Gives an option a value, in the place of one that is there; `--set` may be there once for each
    /// parameter.
    pub fn set(&mut self, option: &str, value: &str) {
        if option != "--set" {
            self.remove(option);
            let aliases = ALIASES.iter().filter(|(name, _)| *name == option);
            aliases.for_each(|(_, alias)| self.remove(alias));
        } else if let Some((name, _)) = value.split_once('=') {
            self.unset(name);
        }
        self.words.extend([option.to_owned(), value.to_owned()]);
    }

    /// Takes the assignments to a parameter away.
    fn unset(&mut self, name: &str) {
        let assignment = format!("{name}=");
        self.words.retain(|word| {
            word.strip_prefix("--set=").is_none_or(|assigned| !assigned.starts_with(&assignment))
        });
        let is_set = |pair: &[String]| pair[0] == "--set" && pair[1].starts_with(&assignment);
        while let Some(place) = self.words.windows(2).position(is_set) {
            self.words.drain(place..place + 2);
        }
    }

    /// Takes an option away, with its value.
    pub fn remove(&mut self, option: &str) {
        let with_value = format!("{option}=");
        self.words.retain(|word| !word.starts_with(&with_value));
        while let Some(place) = self.words.iter().position(|word| word == option) {
            let is_valued = self.words.get(place + 1).is_some_and(|next| !next.starts_with("--"));
            self.words.drain(place..place + 1 + usize::from(is_valued));
        }
    }

    /// Asks whether they may be run, with the parameters that a run was recorded with.
    pub fn check(
        &self,
        allowed: impl Fn(&[String], &[String]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        allowed(&self.words, self.parameters.as_deref().unwrap_or_default())
    }

    /// Runs the command in a process of its own and reads its record.
    pub fn run(&self, seed: u64) -> Result<RecordedRun, Failure> {
        let scratch = ScratchFolder::new().map_err(Failure::run)?;
        let folder = scratch.file("run");
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(program);
        command.args(&self.words).args(["--quiet", "--seed", &seed.to_string(), "--record"]).arg(&folder);
        if let Some(assignments) = &self.parameters {
            with_parameters(&mut command, assignments);
        }
        let output = command.stdin(Stdio::null()).output().map_err(Failure::run)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("it ended without a word");
            return Err(Failure::Run(format!("`farcall {self}` failed: {last}")));
        }
        RecordedRun::read(&folder).map_err(Failure::run)
    }
}

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// Gives a command these parameters and none of this process. Those of its command line come after them.
fn with_parameters(command: &mut Command, assignments: &[String]) {
    command.env_remove(CONFIG_VARIABLE);
    PARAMETERS.iter().map(Parameter::environment).for_each(|variable| _ = command.env_remove(variable));
    for (name, value) in assignments.iter().filter_map(|assignment| assignment.split_once('=')) {
        if let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == name.trim()) {
            command.env(parameter.environment(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_replaced_and_assignments_added() {
        let words = [
            "perf",
            "echo",
            "--concurrent-ops",
            "8",
            "--set",
            "a=1",
            "--record",
            "x",
            "--seed=3",
            "--trace",
            "--set=b=1",
        ];
        let mut words = Words::of(&words);
        words.set("--in-flight", "16");
        words.set("--set", "b=2");
        words.set("--set", "a=3");
        assert_eq!(words.to_string(), "perf echo --trace --in-flight 16 --set b=2 --set a=3");
    }
}
