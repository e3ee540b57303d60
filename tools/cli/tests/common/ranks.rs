//! Ranks without a launcher: processes that this test starts and tells their places, each as if on a host of
//! its own where the kernel lets us make some.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use super::places::free_port;

/// The workloads, each with arguments that let it run for about as long as `seconds` says, by `ranks` ranks.
pub fn workloads(ranks: usize, seconds: &str) -> [Vec<String>; 4] {
    workloads_over("basic+udp", ranks, seconds)
}

/// The same over another transport.
pub fn workloads_over(transport: &str, ranks: usize, seconds: &str) -> [Vec<String>; 4] {
    let millions = "1000000000";
    let clients = (ranks - 1).to_string();
    let words: [&[&str]; 4] = [
        &[
            "perf",
            "echo",
            "--transport",
            transport,
            "--sizes",
            "1K",
            "--count",
            millions,
            "--clients",
            &clients,
        ],
        &["shuffle", "--transport", transport, "--sizes", "1000", "--launches", "1"],
        &["msgrate", "--transport", transport, "--mode", "futures", "--size", "8", "--inflight", "8"],
        &["benchkv", "--transport", transport, "--runs", "1", "--keys", "64"],
    ];
    let more: [&[&str]; 4] = [
        &["--seconds", seconds],
        if seconds.len() > 1 { &["--ops", "1000000"] } else { &["--ops", "20"] },
        if seconds.len() > 1 {
            &["--messages", millions, "--seconds", "300"]
        } else {
            &["--messages", "2000"]
        },
        &["--seconds", seconds],
    ];
    core::array::from_fn(|at| words[at].iter().chain(more[at]).map(|&word| word.to_owned()).collect())
}

/// Hosts that are network namespaces of this machine, with a network between them; they end with it.
pub struct Hosts {
    prefix: String,
    count: usize,
}

impl Hosts {
    /// So many hosts; otherwise why there are none.
    pub fn new(count: usize) -> Result<Self, String> {
        let hosts = Self { prefix: format!("fcl{}", std::process::id()), count };
        hosts.make()?;
        Ok(hosts)
    }

    fn make(&self) -> Result<(), String> {
        let hub = format!("{}hub", self.prefix);
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "br0", "up"])?;
        for host in 0..self.count {
            let (name, port) = (self.name(host), format!("port{host}"));
            ip(&["netns", "add", &name])?;
            ip(&[
                "link", "add", &port, "netns", &hub, "type", "veth", "peer", "name", "eth0", "netns", &name,
            ])?;
            ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &name, "addr", "add", &format!("{}/24", self.address(host)), "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    fn name(&self, host: usize) -> String {
        format!("{}n{host}", self.prefix)
    }

    /// Its address in the network.
    pub fn address(&self, host: usize) -> String {
        format!("10.66.7.{}", host + 1)
    }

    /// The program as a rank on a host.
    fn command(&self, host: usize) -> Command {
        // As on other machines, the clock began at another time.
        let clock = format!("{}", host * 1000);
        self.program(host, Path::new(env!("CARGO_BIN_EXE_farcall")), &["--time", "--monotonic", &clock])
    }

    /// A program on a host, which calls itself `nodeN`, and is apart in what else `unshare` is asked for.
    pub fn program(&self, host: usize, program: &Path, apart: &[&str]) -> Command {
        let mut command = Command::new("ip");
        let enter = format!("hostname node{host} && exec \"$@\"");
        command.args(["netns", "exec", &self.name(host), "unshare", "--uts"]).args(apart);
        command.args(["sh", "-c", &enter, "sh"]).arg(program);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..self.count {
            let _ = ip(&["netns", "del", &self.name(host)]);
        }
        let _ = ip(&["netns", "del", &format!("{}hub", self.prefix)]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("no `ip`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {said}", arguments.join(" "))) }
}

/// Ranks that run.
pub struct Ranks {
    pub children: Vec<Child>,
}

impl Ranks {
    /// Starts them: on this machine, or each on its own of some hosts. `own` are arguments of rank 0 alone.
    pub fn start(ranks: usize, hosts: Option<&Hosts>, arguments: &[String], own: &[&str]) -> Self {
        Self::start_some(ranks, ranks, hosts, arguments, own)
    }

    /// As [`Ranks::start`], without those from `started` on.
    pub fn start_some(
        started: usize,
        ranks: usize,
        hosts: Option<&Hosts>,
        arguments: &[String],
        own: &[&str],
    ) -> Self {
        let port = free_port();
        let address = hosts.map_or("127.0.0.1".to_owned(), |hosts| hosts.address(0));
        let start = |rank: usize| {
            let program = || Command::new(env!("CARGO_BIN_EXE_farcall"));
            let mut command = hosts.map_or_else(program, |hosts| hosts.command(rank));
            command.args(arguments).arg("--quiet");
            if rank == 0 {
                command.args(own);
            }
            command.env("FARCALL_RENDEZVOUS", format!("{address}:{port}"));
            command.env("FARCALL_RANK", rank.to_string()).env("FARCALL_SIZE", ranks.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the program runs")
        };
        Self { children: (0..started).map(start).collect() }
    }

    /// Waits until all have ended; what each of them said, in the order of the ranks.
    pub fn wait(self) -> Vec<Output> {
        let waiting: Vec<_> =
            self.children.into_iter().map(|child| thread::spawn(|| child.wait_with_output())).collect();
        waiting.into_iter().map(|one| one.join().expect("no panic").expect("an end")).collect()
    }
}

/// The processes of this program that a process has started and that live.
pub fn children_of(pid: u32) -> Vec<u32> {
    let mut text = String::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        if let Ok(mut file) = std::fs::File::open(task.path().join("children")) {
            let _ = file.read_to_string(&mut text);
        }
    }
    // A shell before the program has others.
    let is_ours = |pid: &u32| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        program.is_ok_and(|program| program == Path::new(env!("CARGO_BIN_EXE_farcall")))
    };
    text.split_whitespace().filter_map(|number| number.parse().ok()).filter(is_ours).collect()
}

/// Kills a process at once.
pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
