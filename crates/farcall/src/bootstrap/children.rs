//! Processes that this one starts as ranks of its cluster, and does not leave behind.
//!
//! A child is told its place by the launch variables. It ends with its parent in every case: dropping
//! [`Children`] asks it to end and then kills it, and a child that bootstraps has the kernel kill it when its
//! parent dies. The kernel takes the end of the *thread* that started a child for the parent's death; one
//! thread therefore starts the children and lives exactly as long as [`Children`] does.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farcall_base::explained;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
};

use super::variables::{
    CORE_VARIABLE, EXTERNAL_VARIABLE, HOSTS_VARIABLE, PARENT_VARIABLE, RANK_VARIABLE, RENDEZVOUS_VARIABLE,
    SIZE_VARIABLE,
};

/// Time that children have to end after they were asked to, all together.
const GRACE: Duration = Duration::from_secs(2);

/// A process to be started.
#[derive(Debug)]
pub struct ChildPlan {
    /// Its rank.
    pub rank: u32,
    /// Program, arguments, files and further variables. The launch variables are added to it.
    pub command: Command,
    /// The core that its bootstrapping thread is to run on.
    pub core: Option<u32>,
}

/// Processes started by this one. Dropping it ends them.
#[derive(Debug)]
pub struct Children {
    running: Vec<Running>,
    // Never sent over: its drop tells the starting thread to end.
    hold: Option<Sender<()>>,
    starter: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Running {
    rank: u32,
    child: Child,
}

/// Why processes could not be started. Those that had been are ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The program cannot be run.
    #[error("cannot start `{program}` as rank {rank}: {reason}")]
    Program {
        /// The rank it was to have.
        rank: u32,
        /// What was to be run.
        program: String,
        /// The system's own words.
        reason: String,
    },
    /// No thread is left to start processes from.
    #[error("cannot start a thread for child processes: {reason}; raise the limits of this process")]
    Thread {
        /// The system's own words.
        reason: String,
    },
}

/// Some children did not end in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the processes of ranks {ranks:?} did not end within {within:?}; wait longer or drop them")]
pub struct StillRunning {
    /// The ranks whose processes live.
    pub ranks: Vec<u32>,
    /// The time limit.
    pub within: Duration,
}

impl ChildPlan {
    /// Runs `command` as `rank`, on any core.
    pub fn new(rank: u32, command: Command) -> Self {
        Self { rank, command, core: None }
    }

    /// Has the bootstrapping thread run on `core` only.
    pub fn on_core(self, core: u32) -> Self {
        Self { core: Some(core), ..self }
    }

    fn start(mut self, rendezvous: SocketAddr, size: u32) -> Result<Running, SpawnError> {
        let command = &mut self.command;
        command
            .env(RANK_VARIABLE, self.rank.to_string())
            .env(SIZE_VARIABLE, size.to_string())
            .env(RENDEZVOUS_VARIABLE, rendezvous.to_string())
            .env(EXTERNAL_VARIABLE, "1")
            .env(PARENT_VARIABLE, std::process::id().to_string())
            .env_remove(HOSTS_VARIABLE);
        match self.core {
            Some(core) => command.env(CORE_VARIABLE, core.to_string()),
            None => command.env_remove(CORE_VARIABLE),
        };
        match command.spawn() {
            Ok(child) => Ok(Running { rank: self.rank, child }),
            Err(error) => Err(SpawnError::Program {
                rank: self.rank,
                program: command.get_program().to_string_lossy().into_owned(),
                reason: explained(&error),
            }),
        }
    }
}

impl Children {
    /// Starts processes as ranks of the cluster of `size` ranks whose rendezvous is served at `rendezvous`.
    pub fn start(rendezvous: SocketAddr, size: u32, plans: Vec<ChildPlan>) -> Result<Self, SpawnError> {
        let (report, started) = channel();
        let (hold, held) = channel::<()>();
        let life = move || {
            for plan in plans {
                let outcome = plan.start(rendezvous, size);
                let failed = outcome.is_err();
                if report.send(outcome).is_err() || failed {
                    break;
                }
            }
            drop(report);
            // Ends with an error when the other side is dropped: that is the signal.
            let _ = held.recv();
        };
        let starter = std::thread::Builder::new()
            .name("children".to_owned())
            .spawn(life)
            .map_err(|error| SpawnError::Thread { reason: error.to_string() })?;
        let mut children = Self { running: Vec::new(), hold: Some(hold), starter: Some(starter) };
        for outcome in started {
            children.running.push(outcome?);
        }
        Ok(children)
    }

    /// The process id of a rank that was started here and has not been waited for.
    pub fn process(&self, rank: u32) -> Option<u32> {
        self.running.iter().find(|running| running.rank == rank).map(|running| running.child.id())
    }

    /// The output of a rank whose plan had it piped; once.
    pub fn take_stdout(&mut self, rank: u32) -> Option<ChildStdout> {
        self.find(rank)?.child.stdout.take()
    }

    /// Kills the process of a rank at once and waits for its end. Does nothing when there is none.
    pub fn kill(&mut self, rank: u32) {
        if let Some(index) = self.running.iter().position(|running| running.rank == rank) {
            end(&mut self.running.remove(index).child);
        }
    }

    /// Waits until all processes have ended by themselves, and returns how.
    ///
    /// Those that have not are kept, and can be waited for again.
    pub fn wait(&mut self, within: Duration) -> Result<Vec<(u32, ExitStatus)>, StillRunning> {
        let statuses = self.wait_until(Instant::now() + within.min(WAIT_MAX));
        if self.running.iter().zip(&statuses).any(|(_, status)| status.is_none()) {
            let pairs = self.running.iter().zip(&statuses);
            let ranks =
                pairs.filter(|(_, status)| status.is_none()).map(|(running, _)| running.rank).collect();
            return Err(StillRunning { ranks, within });
        }
        let ranks = self.running.drain(..).map(|running| running.rank);
        Ok(ranks.zip(statuses.into_iter().flatten()).collect())
    }

    fn find(&mut self, rank: u32) -> Option<&mut Running> {
        self.running.iter_mut().find(|running| running.rank == rank)
    }

    /// How each process ended; `None` for those that live at `deadline`.
    fn wait_until(&mut self, deadline: Instant) -> Vec<Option<ExitStatus>> {
        self.running.iter_mut().map(|running| wait_for(&mut running.child, deadline)).collect()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &mut self.running {
            // A process that has ended and been waited for may have given its number to another one.
            if let Ok(None) = running.child.try_wait() {
                // It fails only when the process has ended.
                let _ = kill_process(process_id(&running.child), Signal::TERM);
            }
        }
        self.wait_until(Instant::now() + GRACE);
        for running in &mut self.running {
            end(&mut running.child);
        }
        drop(self.hold.take());
        if let Some(starter) = self.starter.take() {
            let _ = starter.join();
        }
    }
}

/// Has the kernel ask a command's process to end (SIGTERM) when the thread that starts it ends, however it
/// ends. For launchers, which end their own processes when they are asked to.
pub fn end_with_this_thread(command: &mut Command) {
    let starter = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // Asked after the kernel was told: a starter that dies from here on is noticed.
        if getppid() == Some(starter) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec the new process makes two system calls and allocates nothing.
    #[expect(unsafe_code, reason = "the new process itself has to ask for the signal")]
    unsafe {
        command.pre_exec(tie);
    }
}

/// Longer than anybody waits, and short enough for every clock.
const WAIT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

fn end(child: &mut Child) {
    // Both fail only when the process has ended.
    let _ = child.kill();
    let _ = child.wait();
}

fn process_id(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// How the process ended, when it does before `deadline`.
fn wait_for(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(status);
    }
    // Its number cannot have been given away, because only this function and `end` wait for it.
    let descriptor = pidfd_open(process_id(child), PidfdFlags::empty()).ok()?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => (),
            _ => return child.try_wait().unwrap_or(None),
        }
    }
}
