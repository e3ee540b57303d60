//! Two hosts with a router between them, as network namespaces of this machine, and processes on them.
//!
//! That takes root, `ip` and `iptables`. Without them a test says so and passes.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use farcall::bootstrap::LAUNCH_VARIABLES;
use farcall::{Connection, Endpoint, Node, Service};

/// What process of a test this is; unset in the test itself.
pub const ROLE: &str = "FARCALL_TEST_ROLE";
const TRANSPORT: &str = "FARCALL_TEST_OVER";

/// Answers with as many bytes as the request's first four say.
const ASKED_FOR: Service = Service(1);

/// Where the server's host is.
pub const SERVER: &str = "10.98.1.2";
/// The router, as the server's host sees it.
pub const ROUTER: &str = "10.98.1.1";
const NAMES: &str = "10.98.1.2:7117";

/// For a call while the network is whole; a thousand times what it takes.
const CALL_WITHIN: Duration = Duration::from_secs(20);

/// How many networks this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The namespaces: `s` for the server, `r` for the router, `c` for the client. In the router `s` and `c` are
/// the links to the hosts, and on those it is `r`.
pub struct Network {
    prefix: String,
}

impl Network {
    /// A network whose links carry `mtu_bytes`; `None`, with a sentence, where none can be made.
    pub fn new(mtu_bytes: u32) -> Option<Self> {
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Self { prefix: format!("farcall-test-{}-{made}-", std::process::id()) };
        let made = network.set_up(mtu_bytes);
        if let Err(command) = made {
            println!("unsupported: `{command}` does not work here");
            return None;
        }
        Some(network)
    }

    fn set_up(&self, mtu_bytes: u32) -> Result<(), String> {
        let Self { prefix } = self;
        for host in ["s", "r", "c"] {
            attempt(&format!("ip netns add {prefix}{host}"))?;
            self.attempt(host, "ip link set lo up")?;
        }
        for (number, host) in [(1, "s"), (2, "c")] {
            attempt(&format!(
                "ip link add r netns {prefix}{host} type veth peer name {host} netns {prefix}r"
            ))?;
            self.attempt("r", &format!("ip addr add 10.98.{number}.1/24 dev {host}"))?;
            self.attempt(host, &format!("ip addr add 10.98.{number}.2/24 dev r"))?;
            // The router sees packets as they would be on a wire, and not several as one.
            for (at, link) in [("r", host), (host, "r")] {
                self.attempt(at, &format!("ip link set {link} mtu {mtu_bytes} gso_max_segs 1 up"))?;
            }
            self.attempt(host, &format!("ip route add default via 10.98.{number}.1"))?;
        }
        self.attempt("r", "sysctl -qw net.ipv4.ip_forward=1")?;
        // Whether the matches are there that tests use.
        self.attempt("r", "iptables -A FORWARD -m length --length 65535 -j DROP")?;
        self.attempt("r", "iptables -A FORWARD -m statistic --mode random --probability 0.0 -j DROP")?;
        self.attempt("r", "iptables -F FORWARD")
    }

    fn attempt(&self, host: &str, command: &str) -> Result<(), String> {
        attempt(&format!("ip netns exec {}{host} {command}", self.prefix))
    }

    /// Runs a command on a host.
    #[track_caller]
    pub fn run(&self, host: &str, command: &str) {
        self.attempt(host, command).unwrap_or_else(|command| panic!("`{command}` failed"));
    }

    /// Starts this test, called `test`, once more on a host.
    pub fn start(&self, host: &str, test: &str, transport: &str) -> Process {
        let this = std::env::current_exe().expect("this program has a path");
        self.start_by(host, &[this.as_os_str()], test, transport, &[])
    }

    /// As [`Network::start`], by these words, which end with this program, and with these variables.
    pub fn start_by(
        &self,
        host: &str,
        words: &[&OsStr],
        test: &str,
        transport: &str,
        variables: &[(&str, &OsStr)],
    ) -> Process {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}{host}", self.prefix)]);
        command.args(words).args(["--exact", test, "--nocapture"]);
        LAUNCH_VARIABLES.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.env(ROLE, host).env(TRANSPORT, transport).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`ip` runs");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Process { child, input, output }
    }

    /// A server and a client that has called it.
    pub fn pair(&self, test: &str, transport: &str) -> (Process, Process) {
        let mut server = self.start("s", test, transport);
        assert_eq!(server.hears(), "ready");
        let mut client = self.start("c", test, transport);
        assert_eq!(client.hears(), "ready");
        client.calls(30, 30);
        (server, client)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in ["s", "r", "c"] {
            // Fails only for one that was not made.
            let _ = attempt(&format!("ip netns delete {}{host}", self.prefix));
        }
    }
}

fn attempt(command: &str) -> Result<(), String> {
    let mut words = command.split_whitespace();
    let mut program = Command::new(words.next().expect("a program"));
    let outcome = program.args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if outcome.is_ok_and(|status| status.success()) { Ok(()) } else { Err(command.to_owned()) }
}

/// A process on a host, which does what it is told line by line.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// In front of what a process says to its test, among what the test harness prints.
const SAYS: &str = "says: ";

impl Process {
    /// The next thing that it says.
    #[track_caller]
    pub fn hears(&mut self) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line).expect("it is text");
            assert!(bytes > 0, "the process ended");
            if let Some(said) = line.trim_end().strip_prefix(SAYS) {
                return said.to_owned();
            }
        }
    }

    /// Tells it something, which it will answer: see [`Process::hears`].
    pub fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the process lives");
    }

    #[track_caller]
    pub fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.hears()
    }

    /// The outcome of what it was told before.
    #[track_caller]
    pub fn outcome(&mut self) -> String {
        self.hears()
    }

    /// Has it make a call with a request and an answer of these lengths, which succeeds.
    #[track_caller]
    pub fn calls(&mut self, bytes: usize, answer: usize) {
        let outcome = self.ask(&format!("call {bytes} {answer}"));
        assert_eq!(outcome, "answered", "a call of {bytes} bytes for {answer}");
    }

    /// Has it call until it is answered, which may take some failures; gives their number.
    #[track_caller]
    pub fn calls_until_answered(&mut self, bytes: usize, answer: usize) -> usize {
        const FAILURES_MAX: usize = 100;
        let mut call = || self.ask(&format!("call {bytes} {answer}"));
        (0..FAILURES_MAX).find(|_| call() == "answered").expect("the network is whole again")
    }

    /// The sum of what its counters of that name say.
    #[track_caller]
    pub fn counts(&mut self, counter: &str) -> u64 {
        self.ask(&format!("count {counter}")).parse().expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays its role, if this process has one.
pub fn has_played_role() -> bool {
    match std::env::var(ROLE).as_deref() {
        Ok("s") => serve(),
        Ok("c") => call(),
        _ => return false,
    }
    true
}

fn say(text: impl std::fmt::Display) {
    println!("\n{SAYS}{text}");
}

/// What the test tells this process, line by line.
fn commands() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let told = std::io::stdin().lines().map_while(Result::ok);
        told.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
    });
    receiver
}

/// Polls until there is a command; `None` when the test is over.
fn next(endpoint: &Endpoint, commands: &Receiver<String>) -> Option<String> {
    let mut found = Err(TryRecvError::Empty);
    endpoint.run_while(|| {
        found = commands.try_recv();
        matches!(found, Err(TryRecvError::Empty))
    });
    found.ok()
}

fn transport() -> String {
    std::env::var(TRANSPORT).expect("it is set for a role")
}

fn serve() {
    let node = Node::serving_names(NAMES).expect("the port is free in this namespace");
    let endpoint = node.endpoint(&transport()).expect("an endpoint");
    endpoint.serve(ASKED_FOR, |request, reply| {
        let asked = *request.payload().first_chunk().expect("four bytes");
        reply.send(vec![7; u32::from_le_bytes(asked) as usize]);
    });
    let _listener = endpoint.listen("orders").expect("a name");
    let commands = commands();
    say("ready");
    while let Some(command) = next(&endpoint, &commands) {
        obey_either(&command);
    }
}

fn call() {
    let node = Node::open_at(NAMES).expect("the registry is there");
    let endpoint = node.endpoint(&transport()).expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name");
    let commands = commands();
    say("ready");
    while let Some(command) = next(&endpoint, &commands) {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["call", bytes, answer] => say(outcome_of_call(&orders, number(bytes), number(answer))),
            ["way"] => {
                let peer = orders.peer().expect("a server is known");
                say(endpoint.way(peer).map_or("none", |taken| taken.way));
            }
            ["why"] => {
                let peer = orders.peer().expect("a server is known");
                let others = endpoint.way(peer).map(|taken| taken.not_taken).unwrap_or_default();
                let said = others.iter().map(|other| format!("not {}: {}", other.way, other.why));
                say(said.collect::<Vec<_>>().join("; "));
            }
            _ => obey_either(&command),
        }
    }
}

fn obey_either(command: &str) {
    let counter = command.strip_prefix("count ").expect("a command that is known");
    say(super::counters::sum_of("", counter));
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn outcome_of_call(orders: &Connection<'_>, bytes: usize, answer: usize) -> String {
    let mut request = vec![0; bytes];
    request[..4].copy_from_slice(&(answer as u32).to_le_bytes());
    match orders.call(ASKED_FOR, &request).within(CALL_WITHIN).wait() {
        Ok(response) if response[..] == vec![7; answer] => "answered".to_owned(),
        Ok(_) => "answered wrongly".to_owned(),
        Err(error) => error.to_string(),
    }
}
