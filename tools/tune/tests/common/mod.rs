//! What the tests of tunings share: a folder, an experiment, the loop.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::PathBuf;

use farcall_tune::experiment::{Experiment, ExperimentFile};
use farcall_tune::objective::{Objective, ObjectivePlan};
use farcall_tune::plan::Plan;
use farcall_tune::search::Problem;
use farcall_tune::space::Rows;
use farcall_tune::tuning::Tuning;

/// A directory of its own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-tune-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub fn journal(&self) -> Vec<u8> {
        fs::read(self.0.join("journal.jsonl")).expect("there is a journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Three parameters and a requirement, without a metric.
pub const SPACE: &str = r#"
    [[parameter]]
    name = "a"
    kind = "integer"
    range = "1..64 *2"
    default = 8
    environment = "A"
    [[parameter]]
    name = "b"
    kind = "categorical"
    values = ["x", "y", "z"]
    environment = "B"
    [[parameter]]
    name = "c"
    kind = "size"
    range = "1K..16K *2"
    environment = "C"
    [[require]]
    that = "a > 1 || b != 'z'"
"#;

/// An experiment file as what tunings are made of.
pub fn experiment(text: &str) -> (Problem, Option<ObjectivePlan>, Plan) {
    let file = ExperimentFile::read(text).unwrap_or_else(|error| panic!("{error}"));
    let Experiment { space, metrics, objective, search } =
        file.experiment().unwrap_or_else(|error| panic!("{error}"));
    let rows = Rows::of(&space, 1).expect("there are rows");
    let problem = Problem::new(space, rows, metrics);
    let plan = Plan::new(&problem, &search, 3);
    (problem, objective, plan)
}

/// A problem with one metric, and a plan for it.
pub fn rehearsed() -> (Problem, Plan) {
    let (problem, _, plan) = experiment(&format!("{SPACE}[[metric]]\nname = \"m\"\nindifference = 0.0"));
    (problem, Plan { budget: 400, ..plan })
}

/// Steps until there is nothing more to do.
pub fn finish(tuning: &mut Tuning, objective: &mut dyn Objective) {
    while tuning.step(objective).unwrap_or_else(|error| panic!("{error}")) {}
}
