//! Clusters of real processes: this one, which survives, and those that it starts and kills.
//!
//! A child is this test program again, told by the environment to run one test in a role.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farcall::bootstrap::{Bootstrap, ChildPlan, Children, HostPort, LAUNCH_VARIABLES, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Peer, TransportKind};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{LONG, settings};

const ROLE: &str = "FARCALL_TEST_ROLE";
const TRANSPORT: &str = "FARCALL_TEST_TRANSPORT";
const SETTINGS: &str = "FARCALL_TEST_SETTINGS";
const LOG: &str = "FARCALL_TEST_LOG";

/// The role of this process; `None` in the test itself.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The turn of one test: others of this process would disturb what it counts.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rank that this process has in its clusters.
pub const SURVIVOR: u32 = 1;
/// The rank of the processes that are killed.
pub const MORTAL: u32 = 0;

/// A cluster of two over one transport, of which this process is the survivor.
pub struct Cluster {
    pub endpoint: Endpoint,
    pub log: ExecutionLog,
    test: &'static str,
    kind: TransportKind,
    assignments: String,
    rendezvous: Rendezvous,
    _node: Node,
}

impl Cluster {
    /// A cluster for the test of that name.
    pub fn new(test: &'static str, kind: TransportKind, assignments: &[&str]) -> Self {
        println!("over {kind}");
        let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
        let address = HostPort::from(rendezvous.address());
        let settings = settings(assignments);
        let bootstrap = Bootstrap::join(&address, SURVIVOR, 2, LONG).expect("the rendezvous is there");
        let node = Node::new(bootstrap, settings.clone());
        let endpoint = node.endpoint_with(kind, &settings).expect("the survivor's endpoint");
        let (log, assignments) = (ExecutionLog::new(test, kind), assignments.join(","));
        Self { endpoint, log, test, kind, assignments, rendezvous, _node: node }
    }

    /// The endpoint of the process that runs now, once the directory and the session have got over its
    /// predecessor.
    pub fn meet(&self) -> Peer {
        let deadline = Instant::now() + LONG;
        loop {
            let peer = self.endpoint.peer_within(MORTAL, LONG).expect("it publishes its endpoint");
            match self.endpoint.wait_for(peer) {
                Ok(()) => return peer,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    }

    /// Starts the process that will be killed, in the given role.
    pub fn start(&self, role: &str) -> Mortal {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", self.test, "--nocapture"]).stdout(Stdio::piped());
        for variable in LAUNCH_VARIABLES {
            command.env_remove(variable);
        }
        command.env(ROLE, role).env(TRANSPORT, self.kind.name()).env(SETTINGS, &self.assignments);
        command.env(LOG, &self.log.path);
        let plan = ChildPlan::new(MORTAL, command);
        let children = Children::start(self.rendezvous.address(), 2, vec![plan]);
        Mortal(children.expect("this program runs again"))
    }
}

/// The process that is killed.
pub struct Mortal(Children);

impl Mortal {
    pub fn process(&self) -> u32 {
        self.0.process(MORTAL).expect("it lives")
    }

    /// Kills it as `kill -9` does, and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill(MORTAL);
    }

    /// Stops it, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.process() as i32).expect("not 0");
        kill_process(process, signal).expect("it lives");
    }

    /// Returns when it has stopped itself.
    pub fn wait_until_stopped(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let process = Pid::from_raw(self.process() as i32).expect("not 0");
        let status = waitid(WaitId::Pid(process), options).expect("it is a child of this process");
        assert!(status.is_some_and(|status| status.stopped()), "it ended");
    }

    /// Returns when it has printed the line.
    pub fn wait_for_line(&mut self, expected: &str) {
        let output = self.0.take_stdout(MORTAL).expect("it is piped, and read once");
        let lines = BufReader::new(output).lines();
        // Where tests run one at a time their name stands before what they print first.
        let mut lines = lines.map(|line| line.expect("it prints text"));
        assert!(lines.any(|line| line.ends_with(expected)), "it ended before `{expected}`");
    }

    /// Serves at `endpoint` until it ends by itself, content.
    pub fn end_well(mut self, endpoint: &Endpoint) {
        let deadline = Instant::now() + LONG;
        let statuses = loop {
            match self.0.wait(Duration::ZERO) {
                Ok(statuses) => break statuses,
                Err(running) => assert!(Instant::now() < deadline, "{running}"),
            }
            endpoint.turn();
        };
        assert!(statuses.iter().all(|(_, status)| status.success()), "{statuses:?}");
    }
}

/// What a started process begins with: its node, its endpoint, and the log that it is to write.
pub fn mortal() -> (Node, Endpoint, ExecutionLog) {
    let variable = |name| std::env::var(name).expect("set by the test");
    let assignments = variable(SETTINGS);
    let assignments: Vec<_> = assignments.split(',').filter(|text| !text.is_empty()).collect();
    let settings: Settings = settings(&assignments);
    let node = Node::new(Bootstrap::from_env().expect("a place in the cluster"), settings.clone());
    let kind = variable(TRANSPORT).parse().expect("a transport");
    let endpoint = node.endpoint_with(kind, &settings).expect("an endpoint");
    (node, endpoint, ExecutionLog { path: variable(LOG).into(), owned: false })
}

/// Which requests ran, in a file that outlives the processes that ran them.
pub struct ExecutionLog {
    path: PathBuf,
    owned: bool,
}

impl ExecutionLog {
    fn new(test: &str, kind: TransportKind) -> Self {
        let name = format!("farcall-test-{}-{test}-{kind}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, []).expect("a temporary file");
        Self { path, owned: true }
    }

    /// The end of the file, where each write stays in one piece.
    pub fn writer(&self) -> std::fs::File {
        std::fs::File::options().append(true).open(Path::new(&self.path)).expect("the test made it")
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).expect("the test made it");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for ExecutionLog {
    fn drop(&mut self) {
        if self.owned {
            // Left to the system when it cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
