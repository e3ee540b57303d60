//! A cluster of Slurm on hosts that are network namespaces: its controller, a daemon on each host and the
//! service that signs their messages, all with files of their own; they end with it.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::ranks::Hosts;

/// What Debian's packages slurmctld, slurmd, slurm-client and munge have.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "sinfo"];

/// How long the daemons may take to find each other.
const STARTING_MAX: Duration = Duration::from_secs(120);

/// How long `srun` may run.
const RUNNING_MAX: Duration = Duration::from_secs(300);

/// How long a daemon that was told to end may take. One waits for its steps, which may be stuck.
const ENDING_MAX: Duration = Duration::from_secs(20);

/// How often they are asked whether they have.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The cluster.
pub struct Slurm {
    // Ended before the hosts that they are on.
    daemons: Vec<Child>,
    folder: PathBuf,
    hosts: Hosts,
    nodes: usize,
}

impl Slurm {
    /// A cluster of so many nodes, `node0` and so on; why there is none where something is not installed or
    /// not allowed.
    pub fn start(nodes: usize) -> Result<Self, String> {
        if let Some(absent) = PROGRAMS.iter().find(|program| !is_installed(program)) {
            return Err(format!("there is no {absent}"));
        }
        let hosts = Hosts::new(nodes)?;
        let folder = std::env::temp_dir().join(format!("farcall-slurm-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let mut slurm = Self { daemons: Vec::new(), folder, hosts, nodes };
        slurm.configure();
        slurm.start_daemons();
        slurm.wait_for("cluster of Slurm", |slurm| slurm.states() == vec!["idle"; slurm.nodes]);
        Ok(slurm)
    }

    /// Runs the program at this many ranks by `srun`, which speaks in the way of `mpi` with them.
    pub fn srun(&self, mpi: &str, ranks: usize, arguments: &[String]) -> Child {
        let mut command = self.on(0, "srun");
        command.args([
            format!("--mpi={mpi}"),
            format!("--ntasks={ranks}"),
            format!("--nodes={}", self.nodes),
        ]);
        command.args(["--quiet", env!("CARGO_BIN_EXE_farcall")]).args(arguments).arg("--quiet");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("srun is installed")
    }

    /// The process that `srun` started as the rank of that number, if it runs.
    pub fn process_of(&self, rank: usize) -> Option<u32> {
        let mark =
            [format!("SLURM_PROCID={rank}"), format!("SLURM_CONF={}", self.file("slurm.conf").display())];
        let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).find(|&pid| {
            let environment = read(&format!("/proc/{pid}/environ"));
            let variables: Vec<&str> = environment.split('\0').collect();
            mark.iter().all(|mark| variables.contains(&mark.as_str())) && is_of_step(pid)
        })
    }

    /// What the daemons wrote, for a test that fails.
    pub fn log(&self) -> String {
        let files = std::fs::read_dir(&self.folder).expect("the folder").flatten();
        let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "log"));
        logs.map(|log| read(&log.path().to_string_lossy())).collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn configure(&self) {
        let key: [u8; 64] = {
            let mut random = std::fs::File::open("/dev/urandom").expect("random numbers");
            let mut key = [0; 64];
            random.read_exact(&mut key).expect("random numbers");
            key
        };
        std::fs::write(self.file("munge.key"), key).expect("a key");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.file("munge.key"), own).expect("it is ours");
        // No group is made: this way asks for no file system of them, which hosts do not have.
        std::fs::write(
            self.file("cgroup.conf"),
            "CgroupPlugin=cgroup/v1
CgroupAutomount=no
",
        )
        .expect("a file");
        let mut text = include_str!("slurm.conf").replace("FOLDER", &self.folder.to_string_lossy());
        text += &format!("SlurmctldHost=node0({})\n", self.hosts.address(0));
        for node in 0..self.nodes {
            for kind in ["spool", "tmp"] {
                std::fs::create_dir(self.file(&format!("{kind}-node{node}"))).expect("a folder");
            }
            // More processors than there may be: several ranks share one.
            text += &format!("NodeName=node{node} NodeAddr={} CPUs=8\n", self.hosts.address(node));
        }
        text += "PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE\n";
        std::fs::write(self.file("slurm.conf"), text).expect("a file");
    }

    fn start_daemons(&mut self) {
        let path = |name: &str| self.file(name).to_string_lossy().into_owned();
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in [
            ("socket", "munge.socket"),
            ("key-file", "munge.key"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
        ] {
            munged.arg(format!("--{option}={}", path(name)));
        }
        munged.arg(format!("--log-file={}", path("munge.log")));
        let mut controller = self.on(0, "slurmctld");
        controller.args(["-D", "-c", "-f", &path("slurm.conf")]);
        let nodes = (0..self.nodes).map(|node| {
            let mut daemon = self.on(node, "slurmd");
            daemon.args(["-D", "-N", &format!("node{node}"), "-f", &path("slurm.conf")]);
            daemon
        });
        let commands: Vec<Command> = [controller].into_iter().chain(nodes).collect();
        self.start_daemon(munged);
        // The others end where they cannot ask it.
        self.wait_for("munge", |slurm| slurm.file("munge.socket").exists());
        commands.into_iter().for_each(|command| self.start_daemon(command));
    }

    fn start_daemon(&mut self, mut command: Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().expect("it is installed"));
    }

    fn wait_for(&mut self, what: &str, is_there: impl Fn(&Self) -> bool) {
        let end = Instant::now() + STARTING_MAX;
        while !is_there(self) {
            let has_ended =
                self.daemons.iter_mut().any(|daemon| daemon.try_wait().is_ok_and(|end| end.is_some()));
            assert!(!has_ended && Instant::now() < end, "no {what}:\n{}", self.log());
            // Not to wait for something that will have happened: sinfo is asked until it has.
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn states(&self) -> Vec<String> {
        let output = self.on(0, "sinfo").args(["--noheader", "--Node", "--format=%T"]).output();
        let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
        String::from_utf8_lossy(&text).lines().map(|line| line.trim().to_owned()).collect()
    }

    fn on(&self, host: usize, program: &str) -> Command {
        let mut command = self.hosts.program(host, Path::new(program), &[]);
        command.env("SLURM_CONF", self.file("slurm.conf"));
        command
    }
}

/// Waits for the end of `srun`, which has all the time that a busy machine may take.
pub fn ended(srun: Child) -> Output {
    let pid = srun.id();
    let (ends, end) = mpsc::channel();
    std::thread::spawn(move || ends.send(srun.wait_with_output()));
    let output = end.recv_timeout(RUNNING_MAX).unwrap_or_else(|_| {
        send(pid, Signal::KILL);
        panic!("srun had not ended after {RUNNING_MAX:?}")
    });
    output.expect("it is a child")
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn is_of_step(pid: u32) -> bool {
    let status = read(&format!("/proc/{pid}/stat"));
    // The words after the name, which is in parentheses: state and parent.
    let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    parent.is_some_and(|parent| read(&format!("/proc/{parent}/comm")).trim() == "slurmstepd")
}

fn read(path: &str) -> String {
    std::fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter().rev() {
            send(daemon.id(), Signal::TERM);
        }
        let end = Instant::now() + ENDING_MAX;
        for daemon in &mut self.daemons {
            let steps = steps_beside(daemon.id());
            while daemon.try_wait().is_ok_and(|end| end.is_none()) && Instant::now() < end {
                std::thread::sleep(ASK_EVERY);
            }
            steps.into_iter().for_each(|step| send(step, Signal::KILL));
            send(daemon.id(), Signal::KILL);
            drop(daemon.wait());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The steps that run on the host of a daemon: a step is no child of its daemon, but in its network
/// namespace.
fn steps_beside(daemon: u32) -> Vec<u32> {
    let host = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let is_there =
        |pid: &u32| read(&format!("/proc/{pid}/comm")).trim() == "slurmstepd" && host(*pid) == host(daemon);
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_there).collect()
}

/// Sends a signal to a process, which may have ended by itself.
fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    let _ = kill_process(pid, signal);
}
