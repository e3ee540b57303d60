//! What a member is ordered to run: one process of a measurement.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farcall::bootstrap::{ChildPlan, Children, HostPort, own_executable};
use serde::{Deserialize, Serialize};

/// How a launcher tells a process its place; a process of a measurement is told another one.
const OF_LAUNCHERS: [&str; 5] = ["PMIX_NAMESPACE", "PMIX_RANK", "PMI_FD", "PMI_RANK", "PMI_SIZE"];

/// How long a process that has written its report may take to end.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The argument that makes this program such a process.
    pub(crate) command: String,
    /// What it is told.
    pub(crate) job: String,
    /// Its rank in the measurement.
    pub(crate) rank: u32,
    /// How many the measurement has.
    pub(crate) size: u32,
    /// `host:port` of their rendezvous.
    pub(crate) rendezvous: String,
    /// The core that it runs on.
    pub(crate) core: Option<u32>,
    /// How far the clock there is ahead of rank 0's.
    pub(crate) clock_offset_nanos: i64,
}

/// Tells a process how far its clock is ahead of that of rank 0 of the launcher.
const CLOCK_OFFSET_VARIABLE: &str = "LAB_CLOCK_OFFSET_NANOS";

/// How far the clock of this process is ahead of that of rank 0 of the launcher; 0 without a launcher.
pub(crate) fn clock_offset_nanos() -> i64 {
    std::env::var(CLOCK_OFFSET_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Processes that run by order.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Mutex<Processes>>);

#[derive(Default)]
struct Processes {
    next: u64,
    running: BTreeMap<u64, Children>,
}

impl Running {
    /// Runs the order to its end; gives what the process wrote, or a sentence about how it ended without a
    /// word.
    pub(super) fn run(&self, order: &Order) -> Result<String, String> {
        let rendezvous = HostPort::parse(&order.rendezvous).ok_or("the rendezvous is no host:port")?;
        let found = rendezvous.look_up().map_err(|error| format!("{}: {error}", order.rendezvous))?;
        let mut children =
            Children::start(found[0], order.size, vec![plan(order)]).map_err(|e| e.to_string())?;
        let output = children.take_stdout(order.rank).ok_or("the process has no output")?;
        let number = {
            let mut processes = self.lock();
            processes.next += 1;
            let number = processes.next;
            processes.running.insert(number, children);
            number
        };
        let mut text = String::new();
        // What cannot be read shows as a report that is not whole.
        let _ = { output }.read_to_string(&mut text);
        let ended = self.lock().running.remove(&number);
        let Some(mut children) = ended else { return Err("it was told to end".to_owned()) };
        let status =
            children.wait(ENDING_MAX).ok().and_then(|ended| ended.first().map(|(_, status)| *status));
        match status {
            Some(status) if text.is_empty() => Err(format!("its process ended without a report ({status})")),
            _ => Ok(text),
        }
    }

    /// Ends all of them.
    pub(super) fn stop(&self) {
        let running = core::mem::take(&mut self.lock().running);
        drop(running);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Processes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn plan(order: &Order) -> ChildPlan {
    let mut command = Command::new(own_executable());
    command.args([&order.command, &order.job]).stdin(Stdio::null()).stdout(Stdio::piped());
    // Where reports are written, UCX would otherwise write its messages.
    command.env("UCX_LOG_FILE", "stderr");
    for variable in OF_LAUNCHERS {
        command.env_remove(variable);
    }
    command.env(CLOCK_OFFSET_VARIABLE, order.clock_offset_nanos.to_string());
    let plan = ChildPlan::new(order.rank, command);
    match order.core {
        Some(core) => plan.on_core(core),
        None => plan,
    }
}
