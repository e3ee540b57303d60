//! Tunings from beginning to end: commands, journals, strategies and what they come to.

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Folder, SPACE, experiment, finish, rehearsed};
use farcall_tune::experiment::{ExperimentFile, StrategyName};
use farcall_tune::journal::Journal;
use farcall_tune::landscape::Shape;
use farcall_tune::objective::{CommandObjective, ObjectivePlan, Rehearsal};
use farcall_tune::plan::Plan;
use farcall_tune::result::{Summary, lines};
use farcall_tune::search::Problem;
use farcall_tune::tuning::{Tuning, TuningError};

#[test]
fn every_strategy_comes_to_a_result() {
    let (problem, plan) = rehearsed();
    for strategy in [
        StrategyName::Halving,
        StrategyName::Exhaustive,
        StrategyName::Random,
        StrategyName::OneAtATime,
        StrategyName::Factorial,
        StrategyName::Race,
        StrategyName::Tpe,
    ] {
        let plan = Plan { strategy, ..plan.clone() };
        let mut objective = Rehearsal::new(&problem, Shape { noise: 1.0, ..Shape::PEAKED }, 5);
        let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
        let expected = tuning.session().remaining();
        finish(&mut tuning, &mut objective);
        let samples = tuning.session().evidence().samples().len();
        assert!(samples <= expected * 6 / 5 && samples > 60, "{strategy:?}: {samples} of {expected}");
        let summary = Summary::new(tuning.session()).expect("there are samples");
        assert!(!lines(&summary).is_empty());
        let found = problem.environments.len();
        assert_eq!(summary.environments, found);
        assert!(
            summary.metrics[0].best.against_reference[0].percent < 0.0,
            "{strategy:?} found nothing better"
        );
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let (problem, plan) = rehearsed();
    let mut objective = Rehearsal::new(&problem, Shape::FLAT, 5);
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("there are samples");
    assert!(summary.metrics[0].nothing_matters && summary.metrics[0].default_in_set);
    assert_eq!(summary.metrics[0].simplest.changes, 0);
    let text = lines(&summary).join("\n");
    assert!(text.contains("nothing matters: no configuration can be told apart from the best"), "{text}");
    assert!(text.contains("nothing was shown to be better"), "{text}");
}

/// A shell script as the objective; figures do not vary but by what it says.
fn script(script: &str, more: &str) -> (Problem, CommandObjective, Plan, Folder) {
    let text = format!(
        "[objective]\ncommand = [\"sh\", \"-c\", '''{script}''', \"script\", [\"-c\", \"{{c}}\"]]\n{more}\n{SPACE}"
    );
    let (problem, objective, plan) = experiment(&text);
    static SCRIPTS: AtomicUsize = AtomicUsize::new(0);
    let folder = Folder::new(&format!("script-{}", SCRIPTS.fetch_add(1, Ordering::Relaxed)));
    let Some(ObjectivePlan::Command(command)) = objective else { panic!("it is a command") };
    let stop = Arc::new(AtomicBool::new(false));
    let objective = CommandObjective::new(command, &folder.0, stop).expect("it can be prepared");
    (problem, objective, Plan { budget: 60, confirm: 5, ..plan }, folder)
}

const METRIC: &str = "[[metric]]\nname = \"time\"\npattern = 'time ([0-9.]+)'";

fn stopped(problem: &Problem, objective: &mut CommandObjective, plan: &Plan) -> String {
    let mut tuning = Tuning::begin(problem, plan, None).expect("it begins");
    loop {
        match tuning.step(objective) {
            Ok(true) => {}
            Ok(false) => panic!("it did not stop"),
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn commands_get_their_environment_arguments_and_files() {
    let file = "[[objective.file]]\nname = \"settings\"\ncontent = '''a={a}\nb={b}'''\n[objective.environment]\nBOTH = \"{a}-{b}\"\n";
    let body = "test \"$1 $2\" = \"-c $C\" && . {trial.directory}/settings && test \"$a-$b\" = \"$BOTH\" && test \"$A$B\" = \"$a$b\" && echo time $((10 * a + 100))";
    let (problem, mut objective, plan, _folder) = script(body, &format!("{file}{METRIC}"));
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("there are samples");
    assert_eq!((summary.failed, summary.failures.len()), (0, 0), "{:?}", summary.failures);
    assert_eq!(summary.metrics[0].best.row["a"], "1");
    assert_eq!(summary.metrics[0].importance[0].parameters, ["a"]);
    assert_eq!(summary.confirmation[0].verdict, "better", "{:?}", summary.confirmation);
    // Which of those that differ in nothing that matters is the best by a hair is chance; what helps comes
    // first.
    let path = &summary.metrics[0].path;
    assert_eq!(path[0].changes, ["a: 8 -> 1"], "{path:?}");
    let more = path.iter().map(|step| step.change.percent - path[0].change.percent);
    assert!(more.clone().all(|change| change.abs() < 0.1), "only one change helps: {path:?}");
}

#[test]
fn trials_that_crash_hang_or_talk_nonsense_are_results() {
    let body = "case $B in y) exit 3;; z) kill -9 $$;; esac; if [ $A$C = 116384 ]; then sleep 100; fi; \
                if [ $C = 8192 ]; then echo time 0; else echo time 5; fi";
    let more = format!("timeout = \"5s\"\n{METRIC}");
    let (problem, mut objective, plan, _folder) = script(body, &more);
    // Every row twice.
    let plan = Plan { strategy: StrategyName::Exhaustive, budget: 2 * problem.environments.len(), ..plan };
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("there are samples");
    for failure in &summary.failures {
        assert_eq!(failure.trials, failure.environments, "what failed is not tried again: {failure:?}");
    }
    for why in [
        "it ended with status 3",
        "it was ended by signal 9",
        "it did not end within 5s",
        "`time` is 0, and only positive figures can be compared",
    ] {
        let failure = summary.failures.iter().find(|failure| failure.why == why);
        let log = failure
            .and_then(|failure| failure.log.clone())
            .unwrap_or_else(|| panic!("{why}: {:?}", summary.failures));
        let text = fs::read_to_string(&log).expect("the log is there");
        assert!(text.starts_with(why) && text.contains("$ A="), "{text}");
    }
    let best = &summary.metrics[0].best.row;
    assert_eq!(best["b"], "x", "what failed cannot win");
    assert!(summary.metrics[0].set_environments < problem.environments.len());
}

#[test]
fn what_cannot_work_is_said_at_once() {
    let (problem, mut objective, plan, _folder) = script("echo nothing", METRIC);
    let error = stopped(&problem, &mut objective, &plan);
    let expected = "the reference configuration does not run: metric `time` is missing: the pattern `time ([0-9.]+)` matches nothing in the output; see ";
    assert!(error.starts_with(expected), "{error}");

    let (problem, mut objective, plan, _folder) = script("echo time $((8 - (A == 8) * 8))", METRIC);
    let folder = Folder::new("reference");
    let mut tuning = Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins");
    assert!(tuning.step(&mut objective).expect("it is measured") && tuning.step(&mut objective).is_err());
    assert_eq!(folder.journal().iter().filter(|byte| **byte == b'\n').count(), 1, "it is tried again later");

    let (problem, mut objective, plan, _folder) =
        script("test $A = 8 && test $B = x && test $C = 1024 && echo time 1", METRIC);
    let mut plan = plan;
    plan.confirm = 1;
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("the reference ran");
    assert_eq!(
        (summary.metrics[0].set_measured, summary.metrics[0].best.changes),
        (1, 0),
        "only the reference works"
    );

    let text = format!("[objective]\ncommand = [\"no-such-program\"]\n{METRIC}\n{SPACE}");
    let (_, objective, _) = experiment(&text);
    let Some(ObjectivePlan::Command(command)) = objective else { panic!("it is a command") };
    let folder = Folder::new("missing");
    let error = CommandObjective::new(command, &folder.0, Arc::default()).err().expect("there is no program");
    assert_eq!(error.to_string(), "the command `no-such-program` was not found; install it or give its path");
    assert!(!folder.0.exists(), "nothing was begun");

    // Which program it is depends on the row: that one is missing shows when it is started.
    let text = format!("[objective]\ncommand = [\"no-such-{{b}}\"]\n{METRIC}\n{SPACE}");
    let (problem, objective, plan) = experiment(&text);
    let Some(ObjectivePlan::Command(command)) = objective else { panic!("it is a command") };
    let mut objective = CommandObjective::new(command, &folder.0, Arc::default()).expect("prepared");
    let error = stopped(&problem, &mut objective, &plan);
    assert_eq!(error, "the command `no-such-x` was not found; install it or give its path");
}

#[test]
fn a_block_of_which_nothing_runs_is_the_last() {
    // A lock that is taken once too often: the reference runs first, then nothing does.
    let body = "mkdir {trial.directory}/../once 2> /dev/null && echo time 1";
    let (problem, mut objective, plan, _folder) = script(body, METRIC);
    let error = stopped(&problem, &mut objective, &plan);
    assert!(
        error.starts_with("all ")
            && error.contains(" trials of a block failed, the last one because it ended with status 1; see "),
        "{error}"
    );
}

#[test]
fn descriptions_that_make_no_sense_are_refused_in_one_sentence() {
    let error = |text: &str| {
        let read = ExperimentFile::read(text).and_then(|file| file.experiment().map(|_| ()));
        read.expect_err(text).to_string()
    };
    let with = |more: &str| error(&format!("{more}\n{SPACE}"));
    assert_eq!(error("[[parameter]\n"), "line 1: unclosed array table, expected `]`");
    assert!(
        error("[objectiv]\n").starts_with("line 1: unknown field `objectiv`"),
        "{}",
        error("[objectiv]\n")
    );
    assert_eq!(with("[objective]\n"), "[objective] needs either a `command` or `workload = \"exchange\"`");
    assert_eq!(
        with("[objective]\ncommand = [\"x\"]"),
        "nothing says what is good; add a [[metric]] that is no guard"
    );
    assert_eq!(
        with("[objective]\nworkload = \"x\""),
        "there is no workload `x`; the one there is is `exchange`"
    );
    assert_eq!(
        with("[objective]\ncommand = [\"x\", \"{aa}\"]\n[[metric]]\nname = \"m\"\npattern = '(.)'"),
        "`{aa}` in `{aa}` is no parameter; did you mean `{a}`?"
    );
    assert_eq!(
        with("[objective]\ncommand = [\"x\"]\ntimeout = \"20\"\n[[metric]]\nname = \"m\"\npattern = '(.)'"),
        "`20` is not a time limit; write a duration such as 20s"
    );
    assert_eq!(
        with("[[metric]]\nname = \"m\"\nguard = \"1%\""),
        "the first metric, `m`, is a guard; put an objective first"
    );
    assert_eq!(
        with("[[metric]]\nname = \"m\"\nindifference = \"a lot\""),
        "metric `m`: write `indifference` and `guard` as a share from 0% to 100%, such as \"1%\""
    );
    let exchange = "[objective]\nworkload = \"exchange\"\n[[metric]]\nname = \"m\"\n";
    assert_eq!(
        with(exchange),
        "metric `m` needs an `exchange`, such as { transport = \"ring+shm\", request = \"30\", response = \"100\" }"
    );
    assert_eq!(
        with(&format!(
            "{exchange}exchange = {{ transport = \"ring+shm\", request = \"x\", response = \"1\" }}"
        )),
        "the exchange of metric `m`: `x` is not a size; write a whole number of bytes such as 100, 10K or 1M"
    );
}

#[test]
fn guards_keep_out_what_worsens_them() {
    // A large `a` is fast and breaks the guard.
    let body = "echo time $((200 - A)); echo memory $((100 + A))";
    let more =
        format!("{METRIC}\n[[metric]]\nname = \"memory\"\npattern = 'memory ([0-9]+)'\nguard = \"10%\"");
    let (problem, mut objective, plan, _folder) = script(body, &more);
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("there are samples");
    // The reference has a = 8: 108. Ten percent more are 118.8, which a = 16 keeps and a = 32 breaks.
    assert_eq!(summary.metrics[0].best.row["a"], "16");
}

#[test]
fn several_objectives_have_a_front() {
    let body = "echo time $((200 - A)); echo memory $((100 + A))";
    let guard = "[[metric]]\nname = \"guard\"\npattern = 'time ([0-9]+)'\nguard = \"100%\"";
    let memory = "[[metric]]\nname = \"memory\"\nunit = \"MB\"\npattern = 'memory ([0-9]+)'";
    let more = format!("{METRIC}\n{guard}\n{memory}");
    for strategy in [StrategyName::Halving, StrategyName::Race] {
        let (problem, mut objective, plan, _folder) = script(body, &more);
        let plan = Plan { strategy, budget: 200, ..plan };
        let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
        finish(&mut tuning, &mut objective);
        let summary = Summary::new(tuning.session()).expect("there are samples");
        let ends = [summary.front.first(), summary.front.last()]
            .map(|end| end.map(|choice| choice.row["a"].clone()));
        assert!(summary.front.len() > 2, "{:?}", summary.front);
        assert_ne!(ends[0], ends[1]);
        assert!(!summary.confirmation.is_empty());
        let trades: Vec<(&str, &str)> =
            summary.trades.iter().map(|trade| (trade.parameter.as_str(), trade.to.as_str())).collect();
        assert!(trades.contains(&("a", "64")) && trades.iter().all(|(name, _)| *name == "a"), "{trades:?}");
        let text = lines(&summary).join("\n");
        assert!(text.contains("trade     a 64 instead of 8: time -"), "{text}");
        assert!(text.contains("best      101.000 MB in "), "each objective has its own figures: {text}");
    }
}

#[test]
fn an_interrupted_trial_is_not_recorded() {
    let stop = Arc::new(AtomicBool::new(true));
    let text = format!("[objective]\ncommand = [\"sleep\", \"100\"]\n{METRIC}\n{SPACE}");
    let (problem, objective, plan) = experiment(&text);
    let Some(ObjectivePlan::Command(command)) = objective else { panic!("it is a command") };
    let folder = Folder::new("stop");
    let mut objective = CommandObjective::new(command, &folder.0, stop).expect("prepared");
    let mut tuning = Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins");
    let error = tuning.step(&mut objective).expect_err("somebody wants to stop");
    assert!(matches!(error, TuningError::Objective(_)));
    assert_eq!(folder.journal().iter().filter(|byte| **byte == b'\n').count(), 1, "the first line only");
}

/// Proposes the same rows whenever it is asked, one of which is not valid as it stands.
const PROPOSER: &str = r#"while read -r line; do case "$line" in *'"ask"'*)
    echo '{"propose":[{"a":2,"b":"y","c":1024},{"a":1.2,"b":"z"},{"a":64}]}';; esac; done"#;

#[test]
fn a_program_outside_can_propose_and_be_resumed() {
    let text = format!("{SPACE}[[metric]]\nname = \"m\"\nindifference = 0.0");
    let (problem, _, plan) = experiment(&text);
    let proposer = Some(["sh", "-c", PROPOSER].map(str::to_owned).to_vec());
    let plan = Plan { strategy: StrategyName::Proposer, budget: 100, proposer, ..plan };
    let mut objective = Rehearsal::new(&problem, Shape::PEAKED, 5);
    let folder = Folder::new("proposer");
    let mut tuning = Tuning::begin(&problem, &plan, Some(&folder.0)).expect("it begins");
    finish(&mut tuning, &mut objective);
    let screened = &tuning.session().evidence().samples()[1..5];
    assert!(screened.iter().all(|sample| problem.space.is_valid(problem.row(sample.environment))));
    let levels: Vec<_> =
        screened.iter().map(|sample| problem.space.describe(problem.row(sample.environment))).collect();
    let has = |a: &str| levels.iter().any(|row| row[0].1 == a);
    assert!(has("2") && has("64"), "{levels:?}");
    drop(tuning);
    let whole = folder.journal();
    fs::write(folder.0.join("journal.jsonl"), &whole[..whole.len() / 3]).expect("it can be written");
    let (journal, begin, lines) = Journal::resume(&folder.0).expect("it is whole");
    let mut resumed = Tuning::resume(&problem, &begin, journal, &lines).expect("it goes on");
    finish(&mut resumed, &mut objective);
    assert!(folder.journal() == whole);
}

#[test]
fn a_proposer_that_does_not_do_its_part_is_named() {
    let text = format!("{SPACE}[[metric]]\nname = \"m\"");
    let (problem, _, plan) = experiment(&text);
    let error = |program: &[&str]| {
        let proposer = Some(program.iter().map(|word| (*word).to_owned()).collect());
        let plan = Plan { strategy: StrategyName::Proposer, proposer, ..plan.clone() };
        let mut objective = Rehearsal::new(&problem, Shape::PEAKED, 5);
        let steps = |mut tuning: Tuning| loop {
            match tuning.step(&mut objective) {
                Ok(going_on) => assert!(going_on, "it did not stop"),
                Err(error) => return error,
            }
        };
        Tuning::begin(&problem, &plan, None).map_or_else(|error| error, steps).to_string()
    };
    assert!(error(&["no-such-program"]).starts_with("the proposer `no-such-program` cannot be started: "));
    assert_eq!(
        error(&["sh", "-c", "read -r begin; read -r tell; read -r ask; echo what"]),
        "the proposer `sh` answered `what`, which is not JSON"
    );
    assert_eq!(
        error(&["sh", "-c", "read -r begin; read -r tell; read -r ask; echo '{}'"]),
        "the proposer `sh` answered `{}`, which has no list `propose`"
    );
    let ended = error(&["sh", "-c", "read -r begin; read -r tell; read -r ask"]);
    assert_eq!(ended, "the proposer `sh` ended before it proposed anything; see what it wrote above");
}

/// With FARCALL_TEST_OPTUNA=/path/to/python, a Python that has Optuna.
#[test]
#[ignore = "needs a Python with Optuna"]
fn optuna_proposes() {
    let python =
        std::env::var("FARCALL_TEST_OPTUNA").expect("FARCALL_TEST_OPTUNA names a Python with Optuna");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tuning/optuna_proposer.py");
    let text = format!("{SPACE}[[metric]]\nname = \"m\"\nindifference = 0.0");
    let (problem, _, plan) = experiment(&text);
    let proposer = Some(vec![python, script.to_owned()]);
    let plan = Plan { strategy: StrategyName::Proposer, budget: 300, proposer, ..plan };
    let mut objective = Rehearsal::new(&problem, Shape { noise: 1.0, ..Shape::PEAKED }, 5);
    let mut tuning = Tuning::begin(&problem, &plan, None).expect("it begins");
    finish(&mut tuning, &mut objective);
    let summary = Summary::new(tuning.session()).expect("there are samples");
    let (metric, best) = (&summary.metrics[0], tuning.session().knowledge());
    assert!(metric.best.against_reference[0].high < 0.0, "{:?}", metric.best);
    assert!(best.evidence.samples().len() > 250);
}
