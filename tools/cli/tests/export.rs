//! What monitoring systems see: the text, and Prometheus itself where it is installed.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::places::free_address;
use common::{farcall, sentence, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// For what takes less than a second on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    /// Starts the program, and gives its first line.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let command = command.args(arguments).stdout(Stdio::piped());
        let mut started = Self(command.spawn().expect("the program runs"));
        let mut line = String::new();
        let mut lines = BufReader::new(started.0.stdout.take().expect("it is piped"));
        lines.read_line(&mut line).expect("lines are text");
        (started, line)
    }

    /// A store with an object in it.
    fn store() -> Self {
        let at = free_address();
        let (store, line) = Self::start(&["kv", "serve", "--at", &at, "--memory", "16M"]);
        assert!(line.contains("serves"), "{line}");
        let put = farcall(&["kv", "put", "key", "value", "--slots", "never", "--at", &at]);
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
        store
    }

    /// An exporter, and where it listens.
    fn exporter() -> (Self, String) {
        let (exporter, line) = Self::start(&["export", "--listen", "127.0.0.1:0"]);
        let address = line.trim().strip_prefix("counters are served at http://").expect("it says where");
        (exporter, address.strip_suffix("/metrics").expect("and the path").to_owned())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is ours");
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

/// The whole answer to a request.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

fn scrape(address: &str) -> String {
    let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

/// The value of the one series of a name whose labels contain this.
fn value(text: &str, name: &str, labels: &str) -> Option<f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    let mut found = lines.filter(|(found, _)| found.contains(labels)).map(|(_, value)| value);
    let value = found.next()?.parse().expect("a number");
    assert_eq!(found.next(), None, "{name}{{{labels}}} is several");
    Some(value)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program of Prometheus; `None` where it is not installed. `scripts/prepare test` installs it on
/// Debian.
fn prometheus_tool(arguments: &[&str], input: &str) -> Option<()> {
    let mut command = Command::new("promtool");
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("promtool is not installed: not tested");
        return None;
    };
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
    Some(())
}

#[test]
fn a_store_is_seen_while_it_runs_hangs_and_after_it_was_killed() {
    let store = Ended::store();
    let (_exporter, at) = Ended::exporter();
    let process = format!("process=\"{}\"", store.pid());
    let look = |name: &str| value(&scrape(&at), name, &process);
    assert_eq!(look("farcall_process_up"), Some(1.0));
    // They are brought up to date now and then.
    until("the put is counted", || look("farcall_kv_puts_total") == Some(1.0));
    until("polls are counted", || look("farcall_endpoint_polls_total") > Some(0.0));
    store.signal(Signal::STOP);
    assert_eq!(look("farcall_kv_puts_total"), Some(1.0), "nothing is asked of the process");
    let pid = store.pid();
    drop(store);
    let text = scrape(&at);
    assert_eq!(value(&text, "farcall_process_up", &process), Some(0.0), "{pid} was killed");
    assert_eq!(value(&text, "farcall_kv_puts_total", &process), Some(1.0));
    // What was already gone when the exporter began is unknown to it.
    let fresh = farcall(&["export"]);
    assert!(fresh.status.success());
    assert_eq!(value(&String::from_utf8_lossy(&fresh.stdout), "farcall_process_up", &process), None);
}

#[test]
fn promtool_finds_nothing_to_mend_in_the_text_and_the_alerts_fire_when_they_should() {
    let _store = Ended::store();
    let printed = farcall(&["export"]);
    let text = String::from_utf8(printed.stdout).expect("it is text");
    prometheus_tool(&["check", "metrics"], &text);
    let rules = repository().join("deploy/alerts.test.yml");
    prometheus_tool(&["test", "rules", rules.to_str().expect("it is text")], "");
}

#[test]
fn other_requests_get_an_answer_and_clients_that_do_not_ask_hold_up_nobody() {
    let (_exporter, at) = Ended::exporter();
    let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(&at).expect("it listens")).collect();
    assert!(ask(&at, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(&at, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let open = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n";
    let answer = ask(&at, open);
    assert!(answer.contains("Content-Type: application/openmetrics-text") && answer.ends_with("# EOF\n"));
    drop(silent);
    let taken = sentence(&["export", "--listen", &at], 1);
    assert!(taken.starts_with(&format!("farcall: cannot listen at {at}: ")), "{taken}");
}

/// A Prometheus in a folder that goes with it.
struct Prometheus {
    server: Option<Ended>,
    at: String,
    folder: PathBuf,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.server = None;
        // What is left of it is in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Prometheus {
    /// Scrapes one target every second; `None` where it is not installed.
    fn start(target: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("farcall-prometheus-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let configuration = format!(
            "scrape_configs:\n  - job_name: farcall\n    scrape_interval: 1s\n    static_configs:\n      - \
             targets: [\"{target}\"]\n"
        );
        fs::write(folder.join("prometheus.yml"), configuration).expect("it can be written");
        let at = free_address();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={at}")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut prometheus = Self { server: None, at, folder };
        match command.spawn() {
            Ok(child) => prometheus.server = Some(Ended(child)),
            Err(_) => {
                println!("prometheus is not installed: not tested");
                return None;
            }
        }
        Some(prometheus)
    }

    /// What it answers to a query; nothing while it starts.
    fn query(&self, expression: &str) -> Option<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut stream = TcpStream::connect(&self.at).ok()?;
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The value of the one series that a query leads to, when there is one.
    fn wait_for(&self, expression: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.query(expression);
            let found = answer.as_ref().and_then(|answer| answer["data"]["result"][0]["value"][1].as_str());
            if let Some(value) = found {
                return value.to_owned();
            }
            assert!(Instant::now() < until, "{expression} leads to nothing: {answer:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_real_prometheus_stores_what_is_exported_and_understands_the_dashboard() {
    let store = Ended::store();
    let (_exporter, at) = Ended::exporter();
    let Some(prometheus) = Prometheus::start(&at) else { return };
    let process = format!("{{process=\"{}\"}}", store.pid());
    assert_eq!(prometheus.wait_for(&format!("farcall_kv_puts_total{process} == 1")), "1");
    assert_eq!(prometheus.wait_for(&format!("farcall_process_up{process} == 1")), "1");
    drop(store);
    assert_eq!(prometheus.wait_for(&format!("farcall_process_up{process} == 0")), "0");
    let dashboard = fs::read_to_string(repository().join("deploy/grafana.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("it shows something")) {
        let expression = target["expr"].as_str().expect("it is text");
        let asked = expression.replace("[$__rate_interval]", "[1m]").replace("$instance", ".*");
        let answer = prometheus.query(&asked.replace("$process", ".*")).expect("it answers");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
    }
}

/// The counters of all parts, from where they are declared.
fn declared() -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![repository().join("crates"), repository().join("fabrics")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                let lines = text.lines().filter(|line| line.contains("\" => \""));
                let named = lines.filter_map(|line| line.trim().split_once(": \""));
                names.extend(named.map(|(name, _)| name.to_owned()));
            }
        }
    }
    names
}

#[test]
fn dashboard_and_alerts_speak_of_counters_that_exist() {
    let declared = declared();
    let own = ["process_up", "process_wait_seconds", "export_look_seconds", "export_groups_left_out"];
    for file in ["deploy/grafana.json", "deploy/alerts.yml"] {
        let text = fs::read_to_string(repository().join(file)).expect("it is there");
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let names = text.split("farcall_").skip(1).map(|rest| rest.split(|c| !is_name(c)).next());
        let names: Vec<_> = names.flatten().map(|name| name.trim_end_matches("_total")).collect();
        assert!(names.len() > 5, "{file}");
        for name in names {
            let is_counter = |counter: &String| name.ends_with(&format!("_{counter}"));
            assert!(own.contains(&name) || declared.iter().any(is_counter), "{file}: farcall_{name}");
        }
    }
}
