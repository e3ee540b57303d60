//! A rolling restart: every server of a name is replaced, one after the other, while clients call.
//!
//! A planned stop loses nothing: no call fails, and each runs exactly once, in the server that answered it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farcall::bootstrap::{LAUNCH_VARIABLES, NAMES_VARIABLE, Rendezvous};
use farcall::{Balance, Drained, Node, Service};

const ROLE: &str = "FARCALL_TEST_ROLE";
const TEST: &str = "servers_are_replaced_under_load_and_no_call_fails_or_runs_twice";
const ECHO: Service = Service(1);
const SERVERS: usize = 3;
const CLIENTS: u64 = 2;
/// Calls that end between two replacements.
const CALLS_BETWEEN: u64 = 50;
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);

/// Serves until its input ends, then leaves, and says how many requests it has answered.
fn serve(transport: &str) {
    static IS_TOLD_TO_LEAVE: AtomicBool = AtomicBool::new(false);
    static SERVED: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().count();
        IS_TOLD_TO_LEAVE.store(true, Ordering::Relaxed);
    });
    let node = Node::open().expect("the registry is there");
    let endpoint = node.endpoint(transport).expect("an endpoint");
    endpoint.serve(ECHO, |request, reply| {
        SERVED.fetch_add(1, Ordering::Relaxed);
        reply.send(request.payload());
    });
    let listener = endpoint.listen("orders").expect("a name");
    println!("{SAYS}serves");
    endpoint.run_while(|| !IS_TOLD_TO_LEAVE.load(Ordering::Relaxed));
    assert_eq!(listener.leave(&endpoint, LONG), Drained { unanswered: 0 });
    println!("{SAYS}{}", SERVED.load(Ordering::Relaxed));
    std::io::stdout().flush().expect("the test reads");
}

/// What tells a server's lines from those of the harness.
const SAYS: &str = "server: ";

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one, which serves when this returns.
    fn start(registry: &Rendezvous, transport: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", TEST, "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        for variable in LAUNCH_VARIABLES {
            command.env_remove(variable);
        }
        command.env(ROLE, transport).env(NAMES_VARIABLE, registry.address().to_string());
        let mut child = command.spawn().expect("it runs");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Self { child, input, output };
        assert_eq!(server.line(), "serves");
        server
    }

    /// What it says next.
    fn line(&mut self) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("lines are text") > 0 {
            if let Some((_, said)) = line.trim_end().split_once(SAYS) {
                return said.to_owned();
            }
            line.clear();
        }
        panic!("a server ended without a word");
    }

    /// Lets it leave; how many requests it has answered.
    fn leave(mut self) -> u64 {
        self.input = None;
        let served = self.line().parse().expect("a number");
        assert!(self.child.wait().expect("it is a child").success());
        served
    }
}

/// Calls until it is told to stop; every call must be answered.
fn call(registry: &str, transport: &str, answered: &AtomicU64, is_over: &AtomicBool) {
    let node = Node::open_at(registry).expect("the registry is there");
    let endpoint = node.endpoint(transport).expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name").balanced_by(Balance::RoundRobin);
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let answer = orders.call(ECHO, &number.to_le_bytes()).within(LONG).wait();
        let answer = answer.unwrap_or_else(|error| panic!("call {number} over {transport}: {error}"));
        assert_eq!(&answer[..], &number.to_le_bytes());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Until this many more calls are answered; ends the clients when there are none.
fn wait_for_calls(answered: &AtomicU64, is_over: &AtomicBool) {
    let (from, until) = (answered.load(Ordering::Relaxed), Instant::now() + LONG);
    while answered.load(Ordering::Relaxed) < from + CALLS_BETWEEN {
        if Instant::now() > until {
            is_over.store(true, Ordering::Relaxed);
            panic!("no call is answered any more");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn servers_are_replaced_under_load_and_no_call_fails_or_runs_twice() {
    if let Ok(transport) = std::env::var(ROLE) {
        return serve(&transport);
    }
    for transport in ["ring+shm", "basic+udp", "tcp"] {
        println!("over {transport}");
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        let address = registry.address().to_string();
        let (answered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut servers: Vec<_> = (0..SERVERS).map(|_| Server::start(&registry, transport)).collect();
        let served: u64 = std::thread::scope(|threads| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| threads.spawn(|| call(&address, transport, &answered, &is_over)))
                .collect();
            let mut served = 0;
            for server in &mut servers {
                wait_for_calls(&answered, &is_over);
                let new = Server::start(&registry, transport);
                served += std::mem::replace(server, new).leave();
            }
            wait_for_calls(&answered, &is_over);
            is_over.store(true, Ordering::Relaxed);
            clients.into_iter().for_each(|client| client.join().expect("no call failed"));
            served + servers.drain(..).map(Server::leave).sum::<u64>()
        });
        assert_eq!(served, answered.load(Ordering::Relaxed), "each call ran once, and was answered");
    }
}
