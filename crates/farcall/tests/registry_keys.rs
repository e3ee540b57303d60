//! A registry with a cluster key: only processes that have the key join it.
//!
//! The key is the environment's, so that each process is another one: this program itself, with a role.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, KEY_FILE_VARIABLE, LAUNCH_VARIABLES, Rendezvous};
use farcall::{Node, Service};

const ROLE: &str = "FARCALL_TEST_ROLE";
const REGISTRY: &str = "FARCALL_TEST_REGISTRY";
const TEST: &str = "only_processes_with_the_key_join";
/// In front of what a child says, among what the harness prints.
const SAYS: &str = "child: ";

/// Far longer than an answer takes.
const LONG: Duration = Duration::from_secs(60);
/// For a registry that is asked until the time is over.
const LITTLE: Duration = Duration::from_secs(5);

struct Keys(PathBuf);

impl Keys {
    fn new(name: &str, digits: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-registry-{}-{name}", std::process::id()));
        let lines: String = digits.chars().map(|digit| digit.to_string().repeat(64) + "\n").collect();
        fs::write(&path, lines).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        Self(path)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn start(role: &str, keys: Option<&Keys>, registry: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    for variable in LAUNCH_VARIABLES.into_iter().chain([KEY_FILE_VARIABLE]) {
        command.env_remove(variable);
    }
    if let Some(Keys(path)) = keys {
        command.env(KEY_FILE_VARIABLE, path);
    }
    command.args(["--exact", TEST, "--nocapture"]).env(ROLE, role).env(REGISTRY, registry);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs")
}

/// What a child says next; nothing when it ends.
fn said(child: &mut Child) -> String {
    let out = child.stdout.as_mut().expect("it is a pipe");
    let lines = BufReader::new(out).lines().map_while(Result::ok);
    let said = lines.into_iter().find_map(|line| Some(line.split_once(SAYS)?.1.to_owned()));
    said.unwrap_or_default()
}

/// What a member says after it has tried to join and to be found.
fn member(keys: Option<&Keys>, registry: &str) -> String {
    say("member", keys, registry)
}

fn say(role: &str, keys: Option<&Keys>, registry: &str) -> String {
    let mut child = start(role, keys, registry);
    let said = said(&mut child);
    drop(child.stdin.take());
    child.wait().expect("it ends");
    said
}

fn be(role: &str) {
    let registry = std::env::var(REGISTRY).unwrap_or_default();
    if role == "registry" {
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        println!("{SAYS}{}", registry.address());
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let address = HostPort::from(registry.parse::<SocketAddr>().expect("an address"));
    let within = if role == "stranger" { LITTLE } else { LONG };
    match Bootstrap::open(&address, within) {
        Err(why) => println!("{SAYS}{why}"),
        Ok(bootstrap) => {
            // What is told and asked after the join passes as well.
            let node = Node::new(bootstrap, farcall::parameters::Settings::default());
            let endpoint = node.endpoint("basic+udp").expect("a socket");
            endpoint.serve(Service(1), |request, reply| reply.send(request.payload()));
            let listener = endpoint.listen("orders").expect("the registry takes it");
            let orders = endpoint.connect("orders").expect("it can be asked for");
            endpoint.run_while(|| orders.servers().is_empty());
            println!("{SAYS}listed {}", orders.servers().len());
            drop(listener);
        }
    }
}

fn registry(keys: Option<&Keys>) -> (Child, String) {
    let mut child = start("registry", keys, "");
    let address = said(&mut child);
    (child, address)
}

#[test]
fn only_processes_with_the_key_join() {
    if let Ok(role) = std::env::var(ROLE) {
        return be(&role);
    }
    let (one, both, other) = (Keys::new("one", "1"), Keys::new("both", "21"), Keys::new("other", "3"));
    let exposed = Keys::new("exposed", "1");
    fs::set_permissions(Path::new(&exposed.0), Permissions::from_mode(0o644)).expect("it is ours");
    let (mut keyed, address) = registry(Some(&both));
    assert_eq!(member(Some(&one), &address), "listed 1");
    for stranger in [None, Some(&other)] {
        let why = member(stranger, &address);
        assert!(why.contains("the registry has a cluster key: set FARCALL_SECURITY_KEY_FILE"), "{why:?}");
    }
    let why = member(Some(&exposed), &address);
    assert!(why.contains("it holds a secret; chmod 600 it"), "{why:?}");
    let (mut plain, address) = registry(None);
    assert_eq!(member(None, &address), "listed 1");
    let why = say("stranger", Some(&one), &address);
    assert!(why.contains("what listens there has no cluster key and this process has one"), "{why:?}");
    for child in [&mut keyed, &mut plain] {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
}
