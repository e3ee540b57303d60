//! A command that runs on from trial to trial.

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Folder, experiment, finish};
use farcall_tune::experiment::ExperimentFile;
use farcall_tune::objective::{ObjectivePlan, ResidentObjective};
use farcall_tune::plan::Plan;
use farcall_tune::result::{Summary, lines};
use farcall_tune::search::Problem;
use farcall_tune::space::lint;
use farcall_tune::tuning::Tuning;

/// Two parameters that the running program is told, and one that only a launch sets.
const SPACE: &str = r#"
    [[parameter]]
    name = "window"
    kind = "integer"
    range = "1..64 *2"
    default = 8
    scope = "message"
    [[parameter]]
    name = "session"
    kind = "boolean"
    scope = "session"
    [[parameter]]
    name = "ring"
    kind = "size"
    values = ["1K", "4K"]
    environment = "RING"
    [[metric]]
    name = "time"
    pattern = 'time ([0-9]+)'
"#;

/// Answers each line; writes a line to `launches` when it starts.
fn program(answer: &str) -> String {
    let numbers = r#"window=${line#*window\":\"}; window=${window%%\"*}; session=${line#*session\":\"}; session=${session%%\"*}"#;
    format!(
        "[objective]\nresident = true\ntimeout = \"10s\"\ncommand = [\"sh\", \"-c\", '''\necho $RING >> {{trial.directory}}/../launches\n\
         while read -r line; do {}; {answer}; done''']\n",
        numbers.replace('{', "{{").replace('}', "}}")
    )
}

fn launches(folder: &Folder) -> usize {
    fs::read_to_string(folder.0.join("launches")).map_or(0, |text| text.lines().count())
}

fn problem(answer: &str) -> (Problem, ObjectivePlan, Plan) {
    let (problem, objective, plan) = experiment(&format!("{}{SPACE}", program(answer)));
    (problem, objective.expect("there is one"), Plan { budget: 120, confirm: 3, ..plan })
}

fn objective(name: &str, plan: ObjectivePlan, stop: Arc<AtomicBool>) -> (ResidentObjective, Folder) {
    let folder = Folder::new(&format!("resident-{name}"));
    let ObjectivePlan::Command(command) = plan else { panic!("it is a command") };
    (ResidentObjective::new(command, &folder.0, stop).expect("it can be prepared"), folder)
}

fn summary(problem: &Problem, plan: &Plan, objective: &mut ResidentObjective) -> Summary {
    let mut tuning = Tuning::begin(problem, plan, None).expect("it begins");
    finish(&mut tuning, objective);
    Summary::new(tuning.session()).expect("there are samples")
}

#[test]
fn a_program_runs_on_until_a_launch_is_needed() {
    let (problem, objective_plan, plan) = problem("echo time $((100 + window))");
    assert!(lint(&problem.space, &problem.rows, &problem.environments).is_empty(), "what is told reaches it");
    assert_eq!(problem.environments.len(), 28);
    let (mut objective, folder) = objective("runs", objective_plan, Arc::default());
    let summary = summary(&problem, &plan, &mut objective);
    assert_eq!(
        (summary.failed, summary.metrics[0].best.row["window"].as_str()),
        (0, "1"),
        "{:?}",
        lines(&summary)
    );
    let launches = launches(&folder);
    assert!(launches > 1 && launches * 3 < summary.trials * 2, "{launches} for {} trials", summary.trials);
}

#[test]
fn one_that_ends_hangs_or_talks_nonsense_is_started_anew() {
    let answer = "case $window in 1) exit 3;; 2) test $session$RING = true1024 && sleep 100; echo time 1000;; 4) echo nothing;; *) echo time $((100 + window));; esac";
    let (problem, objective_plan, plan) = problem(answer);
    let (mut objective, folder) = objective("fails", objective_plan, Arc::default());
    let summary = summary(&problem, &plan, &mut objective);
    let whys: Vec<&str> = summary.failures.iter().map(|failure| failure.why.as_str()).collect();
    for why in ["it ended instead of answering", "it did not answer within 10s", "metric `time` is missing: "]
    {
        assert!(whys.iter().any(|one| one.starts_with(why)), "{why}: {whys:?}");
    }
    for failure in &summary.failures {
        let log = fs::read_to_string(failure.log.as_ref().expect("there is one")).expect("it is kept");
        assert!(log.contains("\ntold window="), "{log}");
    }
    assert_eq!(summary.metrics[0].best.row["window"], "8", "what fails cannot win");
    assert!(launches(&folder) > 2);
}

#[test]
fn answers_are_not_taken_for_those_of_another_trial() {
    let (problem, objective_plan, plan) = problem(r"printf 'time 5\ntime 6\n'");
    let (mut objective, _folder) = objective("words", objective_plan, Arc::default());
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    for _ in 0..10 {
        assert!(tuning.step(&mut objective).expect("some run"));
    }
    let (_, failure) = tuning.session().evidence().failures()[0];
    assert_eq!(failure.why, "it said more than one line for a trial");
}

#[test]
fn somebody_who_wants_to_stop_is_heard() {
    let (problem, objective_plan, plan) = problem("sleep 100");
    let stop = Arc::new(AtomicBool::new(false));
    let (mut objective, _folder) = objective("stop", objective_plan, Arc::clone(&stop));
    stop.store(true, Ordering::Relaxed);
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    assert_eq!(tuning.step(&mut objective).expect_err("it is stopped").to_string(), "interrupted");
}

#[test]
fn scopes_that_make_no_sense_are_refused_in_one_sentence() {
    let error = |text: &str| {
        ExperimentFile::read(text).and_then(|file| file.experiment().map(drop)).expect_err(text).to_string()
    };
    let space = program("echo time 1");
    assert_eq!(
        error(&format!("{}{SPACE}", space.replace("resident = true\n", ""))),
        "parameter `window` is for a program that runs on; say `resident = true` in [objective], or give it the scope `launch`"
    );
    let launched = SPACE.replace("scope = \"message\"", "").replace("scope = \"session\"", "");
    assert_eq!(
        error(&format!("{space}{launched}")),
        "`resident` is for a command that is told parameters of the scope `session` or `message`"
    );
    assert_eq!(
        error(&format!("{space}{}", SPACE.replace("default = 8", "environment = \"W\""))),
        "parameter `window` is told to the running program; leave it out of `environment`, `set` and templates, or give it the scope `launch`"
    );
}
