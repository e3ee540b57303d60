//! A command that runs on from trial to trial: started once for what only a launch can set, then told the
//! rest.
//!
//! A launch takes a hundred times as long as what it measures. Where a setting takes effect in a running
//! program, blocks of trials fit into the time of one launch. The program gets one line of JSON for each
//! trial, `{"trial": 7, "session": {…}, "message": {…}}`, and answers with one line, in which the figures
//! are.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use farcall::bootstrap::end_with_this_thread;
use farcall_lab::files::create_new;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value as Json, json};

use super::command::{CommandObjective, CommandPlan, now_ms};
use super::reader::read;
use super::{Objective, ObjectiveError, TrialFinding, censored};
use crate::answers::{Answers, Silence, Unasked};
use crate::evidence::TrialOutcome;
use crate::search::Problem;
use crate::session::Trial;
use crate::space::{Rendered, Scope};

/// Tells a running command what to measure.
pub struct ResidentObjective {
    command: CommandObjective,
    stop: Arc<AtomicBool>,
    running: Option<Running>,
}

/// A program that waits for trials.
struct Running {
    /// What was decided at its launch.
    launch: String,
    child: Child,
    input: ChildStdin,
    answers: Answers,
}

impl ResidentObjective {
    /// A command whose files go below `directory`; it gives up when `stop` is set.
    pub fn new(plan: CommandPlan, directory: &Path, stop: Arc<AtomicBool>) -> Result<Self, ObjectiveError> {
        let command = CommandObjective::new(plan, directory, Arc::clone(&stop))?;
        Ok(Self { command, stop, running: None })
    }

    /// The program that was launched with the row's values; started again if it is another one, or none.
    fn running(&mut self, rendered: &Rendered) -> Result<&mut Running, ObjectiveError> {
        let launch = format!("{:?}", rendered.launch());
        if let Some(mut running) = self.running.take()
            && running.launch == launch
            && running.answers.unasked() != Unasked::End
        {
            return Ok(self.running.insert(running));
        }
        self.command.prepare(rendered)?;
        let running = self.start(rendered, launch)?;
        self.command.last_will().name(Pid::from_child(&running.child));
        Ok(self.running.insert(running))
    }

    fn start(&self, rendered: &Rendered, launch: String) -> Result<Running, ObjectiveError> {
        let failed = |what: &str, reason: String| ObjectiveError::System { what: what.to_owned(), reason };
        let arguments = rendered.arguments();
        let (program, arguments) = arguments.split_first().unwrap_or((&"", &[]));
        let errors = create_new(&self.command.file("stderr"))
            .map_err(|error| failed("write the output of a trial", error.to_string()))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(rendered.environment()).process_group(0);
        end_with_this_thread(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ObjectiveError::NotFound { command: (*program).to_owned() },
            _ => failed(&format!("start `{program}`"), error.to_string()),
        })?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Running { launch, child, input, answers: Answers::new(output) })
            }
            _ => Err(failed("talk to a command", "it has no pipes".to_owned())),
        }
    }

    fn end(&mut self) {
        self.running = None;
        self.command.last_will().forget();
    }

    /// What the program answers; otherwise why it does not.
    fn ask(&mut self, rendered: &Rendered, trial: &Trial) -> Result<Result<String, String>, ObjectiveError> {
        let deadline = Instant::now() + self.command.timeout();
        let stop = Arc::clone(&self.stop);
        let running = self.running(rendered)?;
        if running.answers.unasked() == Unasked::Words {
            self.end();
            return Ok(Err("it said more than one line for a trial".to_owned()));
        }
        let told = |scope| -> Map<String, Json> {
            rendered.told(scope).map(|(name, text)| (name.to_owned(), text.into())).collect()
        };
        let line = json!({ "trial": trial.number, "session": told(Scope::Session), "message": told(Scope::Message) });
        let said = writeln!(running.input, "{line}").and_then(|()| running.input.flush());
        let heard = match said {
            Ok(()) => running.answers.line(deadline, || stop.load(Ordering::Relaxed)),
            // It has ended, and its last words are still to be heard.
            Err(_) => Err(Silence::Ended),
        };
        let why = match heard {
            Ok(answer) => return Ok(Ok(answer)),
            Err(Silence::Interrupted) => return Err(ObjectiveError::Interrupted),
            Err(Silence::Late) => format!("it did not answer within {:?}", self.command.timeout()),
            Err(Silence::Ended) => "it ended instead of answering".to_owned(),
            Err(Silence::Endless) => "its answer has no end".to_owned(),
            Err(Silence::Broken(reason)) => format!("its answer cannot be read: {reason}"),
        };
        // Whatever state it is in: the next trial gets a fresh one.
        self.end();
        Ok(Err(why))
    }
}

impl Objective for ResidentObjective {
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError> {
        let directory = self.command.directory().display().to_string();
        let rendered = problem.space.render(problem.row(trial.environment), &directory);
        let (begun_ms, begun) = (now_ms(), Instant::now());
        let answer = self.ask(&rendered, trial)?;
        let seconds = Some(begun.elapsed().as_secs_f64());
        let (said, mut outcome) = match answer {
            Ok(line) => (line.clone(), self.command.judge_output(problem, &line)),
            Err(why) => (String::new(), censored(why, None)),
        };
        if let TrialOutcome::Censored(censored) = &mut outcome {
            let stderr = read(&self.command.file("stderr"));
            censored.log = self.command.log(trial, &rendered, &censored.why, &said, &stderr);
        }
        Ok(TrialFinding { regime: None, outcome, begun_ms, seconds })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It was promised no time to say goodbye: between two trials it has nothing to lose.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
