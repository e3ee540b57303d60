//! A command as a trial: started in a process group of its own, with its files, watched until its end or its
//! time limit.

use core::time::Duration;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use farcall::bootstrap::end_with_this_thread;
use farcall_lab::files::{create_new, on_search_path, write_beside};
use regex::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::last_will::LastWill;
use super::reader::{read, tail};
use super::{Objective, ObjectiveError, Reader, TrialFinding, censored, measured};
use crate::evidence::TrialOutcome;
use crate::search::Problem;
use crate::session::Trial;
use crate::space::{Rendered, Scope};

/// How long a process group has to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The longest wait between two looks at whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(200);

/// What is known of a command beside its emissions.
#[derive(Clone, Debug)]
pub struct CommandPlan {
    /// The program, where no row changes which it is or where it is looked for.
    pub program: Option<String>,
    /// Whether it runs on from trial to trial.
    pub resident: bool,
    /// How long a trial may take.
    pub timeout: Duration,
    /// The exit status of a good run.
    pub exit: i32,
    /// What the output of a good run contains.
    pub success: Option<Regex>,
    /// Where each metric's figure is.
    pub readers: Vec<Reader>,
}

/// Runs a command.
pub struct CommandObjective {
    plan: CommandPlan,
    /// Where the trial's files go; emptied before each.
    directory: PathBuf,
    /// Where logs of failures go.
    logs: PathBuf,
    stop: Arc<AtomicBool>,
    last_will: LastWill,
}

/// How a process ended.
enum End {
    Exited(ExitStatus),
    TimedOut,
}

impl CommandPlan {
    /// Whether the program is there: better said before a search than in it.
    pub fn check(&self) -> Result<(), ObjectiveError> {
        match &self.program {
            Some(program) if on_search_path(program).is_none() => {
                Err(ObjectiveError::NotFound { command: program.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl CommandObjective {
    /// A command whose files go below `directory`; it gives up when `stop` is set. Where the command does not
    /// exist nothing is written.
    pub fn new(plan: CommandPlan, directory: &Path, stop: Arc<AtomicBool>) -> Result<Self, ObjectiveError> {
        plan.check()?;
        let (trial, logs) = (directory.join("trial"), directory.join("logs"));
        fs::create_dir_all(&logs).map_err(|error| system("make the folder of logs", &error))?;
        Ok(Self { plan, directory: trial, logs, stop, last_will: LastWill::new() })
    }

    /// Where the trial's files go.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file of the trial's.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// How long a trial may take.
    pub(super) fn timeout(&self) -> Duration {
        self.plan.timeout
    }

    /// What ends a trial if this process is killed.
    pub(super) fn last_will(&mut self) -> &mut LastWill {
        &mut self.last_will
    }

    /// An empty directory with the files of the row.
    pub(super) fn prepare(&self, rendered: &Rendered) -> Result<(), ObjectiveError> {
        let failed = |error: std::io::Error| system("write the files of a trial", &error);
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory).map_err(failed)?;
        }
        fs::create_dir_all(&self.directory).map_err(failed)?;
        for (name, content) in rendered.files() {
            write_beside(&self.directory.join(name), content.as_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn start(&self, rendered: &Rendered) -> Result<Child, ObjectiveError> {
        let arguments = rendered.arguments();
        let (program, arguments) = arguments.split_first().unwrap_or((&"", &[]));
        let file = |name: &str| {
            let created = create_new(&self.directory.join(name));
            created.map_err(|error| system("write the output of a trial", &error))
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(rendered.environment()).process_group(0).stdin(Stdio::null());
        command.stdout(file("stdout")?).stderr(file("stderr")?);
        // When the tuner is killed, its trial is not to go on.
        end_with_this_thread(&mut command);
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ObjectiveError::NotFound { command: (*program).to_owned() },
            _ => system(&format!("start `{program}`"), &error),
        })
    }

    /// Waits for the end or the time limit; nothing of the group is left afterwards.
    fn wait(&self, child: &mut Child) -> Result<End, ObjectiveError> {
        let group = Pid::from_child(child);
        let pidfd = pidfd_open(group, PidfdFlags::empty())
            .map_err(|error| system("watch a process", &error.into()))?;
        let ends_within = |span: Duration| {
            let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
            poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&span)).is_ok_and(|ready| ready > 0)
        };
        let deadline = Instant::now() + self.plan.timeout;
        let mut asked_to_end = None;
        loop {
            let now = Instant::now();
            let left = asked_to_end.unwrap_or(deadline).saturating_duration_since(now);
            if ends_within(left.min(LOOK)) {
                break;
            }
            let stop = self.stop.load(Ordering::Relaxed);
            match asked_to_end {
                None if stop || left.is_zero() => {
                    let _ = kill_process_group(group, Signal::TERM);
                    asked_to_end = Some(now + GRACE);
                }
                Some(_) if left.is_zero() => {
                    let _ = kill_process_group(group, Signal::KILL);
                    break;
                }
                _ => {}
            }
        }
        let status = child.wait().map_err(|error| system("wait for a process", &error))?;
        // What the command left behind would disturb the next trial. A group that is empty cannot be
        // signalled.
        let _ = kill_process_group(group, Signal::KILL);
        if self.stop.load(Ordering::Relaxed) {
            return Err(ObjectiveError::Interrupted);
        }
        Ok(if asked_to_end.is_some() { End::TimedOut } else { End::Exited(status) })
    }

    fn judge(&self, problem: &Problem, end: &End, stdout: &str, stderr: &str) -> TrialOutcome {
        let why = match end {
            End::TimedOut => Some(format!("it did not end within {:?}", self.plan.timeout)),
            End::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) if code == self.plan.exit => None,
                (Some(code), _) => Some(format!("it ended with status {code}")),
                (None, signal) => Some(format!("it was ended by signal {}", signal.unwrap_or(0))),
            },
        };
        if let Some(why) = why {
            return censored(why, None);
        }
        match stderr.is_empty() {
            true => self.judge_output(problem, stdout),
            false => self.judge_output(problem, &format!("{stdout}\n{stderr}")),
        }
    }

    /// What a run that ended well has said.
    pub(super) fn judge_output(&self, problem: &Problem, output: &str) -> TrialOutcome {
        if self.plan.success.as_ref().is_some_and(|pattern| !pattern.is_match(output)) {
            return censored("its output lacks what a successful run says", None);
        }
        match self.plan.readers.iter().map(|reader| reader.read(output)).collect() {
            Ok(values) => measured(problem, values),
            Err(why) => censored(why, None),
        }
    }

    /// Keeps everything about a failure, and says where.
    pub(super) fn log(
        &self,
        trial: &Trial,
        rendered: &Rendered,
        why: &str,
        stdout: &str,
        stderr: &str,
    ) -> Option<String> {
        let name = format!("trial-{:06}.txt", trial.number);
        let mut text = format!("{why}\n\n$");
        rendered.environment().for_each(|(name, value)| text.push_str(&format!(" {name}={value}")));
        rendered.arguments().iter().for_each(|argument| text.push_str(&format!(" {argument}")));
        let told = [Scope::Session, Scope::Message].into_iter().flat_map(|scope| rendered.told(scope));
        told.for_each(|(name, value)| text.push_str(&format!("\ntold {name}={value}")));
        text.push_str(&format!(
            "\n\n--- standard output\n{}\n--- standard error\n{}\n",
            tail(stdout),
            tail(stderr)
        ));
        let path = self.logs.join(&name);
        write_beside(&path, text.as_bytes()).ok().map(|()| path.display().to_string())
    }
}

impl Objective for CommandObjective {
    fn measure(&mut self, problem: &Problem, trial: &Trial) -> Result<TrialFinding, ObjectiveError> {
        let directory = self.directory.display().to_string();
        let rendered = problem.space.render(problem.row(trial.environment), &directory);
        self.prepare(&rendered)?;
        let begun_ms = now_ms();
        let begun = Instant::now();
        let mut child = self.start(&rendered)?;
        self.last_will.name(Pid::from_child(&child));
        let end = self.wait(&mut child);
        self.last_will.forget();
        let end = end?;
        let seconds = Some(begun.elapsed().as_secs_f64());
        let (stdout, stderr) = (read(&self.directory.join("stdout")), read(&self.directory.join("stderr")));
        let mut outcome = self.judge(problem, &end, &stdout, &stderr);
        if let TrialOutcome::Censored(censored) = &mut outcome {
            censored.log = self.log(trial, &rendered, &censored.why, &stdout, &stderr);
        }
        Ok(TrialFinding { regime: None, outcome, begun_ms, seconds })
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> Option<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn system(what: &str, error: &std::io::Error) -> ObjectiveError {
    ObjectiveError::System { what: what.to_owned(), reason: error.to_string() }
}
