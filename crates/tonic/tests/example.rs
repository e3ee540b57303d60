//! The example `swap`: a server, and a client over each of its two channels.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use farcall::Node;

/// A server that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example, which cargo builds beside the tests.
fn swap(registry: &str) -> Command {
    let tests = std::env::current_exe().expect("this program has a path");
    let folder: PathBuf = tests.ancestors().nth(2).expect("in the folder `deps`").join("examples");
    let mut command = Command::new(folder.join("swap"));
    command.env("FARCALL_NAMES", registry);
    command
}

#[test]
fn the_same_service_is_called_over_both_channels() {
    let node = Node::serving_names("127.0.0.1:0").expect("a free port");
    let registry = node.registry_address().expect("it serves one").to_string();
    let mut serve = swap(&registry);
    let mut server =
        Ended(serve.args(["serve", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().expect("it runs"));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("it is piped")).read_line(&mut line).expect("text");
    let http = line.trim().rsplit(' ').next().expect("where it is");
    assert!(http.starts_with("http://127.0.0.1:"), "{line}");
    for channel in ["farcall", http] {
        let output = swap(&registry).args(["call", channel]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, "Hello farcall\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = swap(&registry).arg("nonsense").output().expect("it runs");
    assert!(!output.status.success());
}
