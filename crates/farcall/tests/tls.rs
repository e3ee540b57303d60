//! Calls over `tcp+tls` with a cluster key, and the sentences for what keeps peers apart.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use common::{LONG, Pair, pattern, settings};
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Service, TransportKind};

const ECHO: Service = Service(1);

/// A file with a cluster key of this digit, which goes with the test.
struct Key(PathBuf);

impl Key {
    fn new(name: &str, digit: char) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-key-{}-{name}", std::process::id()));
        fs::write(&path, digit.to_string().repeat(64)).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        Self(path)
    }

    fn settings(&self) -> Settings {
        settings(&[&format!("tls.cluster_key={}", self.0.display())])
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn echo(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

#[test]
fn calls_of_all_lengths_come_back_whole() {
    let key = Key::new("whole", '5');
    let pair = Pair::new(TransportKind::TCP_TLS, key.settings(), echo);
    for (round, length) in [0, 30, 1000, 16_384, 16_385, 100_000, 1 << 20, 8 << 20].into_iter().enumerate() {
        let bytes = pattern(round as u64, length);
        let answer = pair.client.call(pair.server, ECHO, &bytes).within(LONG).wait().expect("an echo");
        assert!(*answer == *bytes, "{length} bytes");
    }
}

#[test]
fn a_peer_with_another_key_is_refused_and_the_reason_is_said() {
    let (ours, theirs) = (Key::new("ours", '1'), Key::new("theirs", '2'));
    let pair = Pair::with_client_settings(TransportKind::TCP_TLS, theirs.settings(), ours.settings(), echo);
    let refused = pair.client.call(pair.server, ECHO, b"").within(LONG).wait().expect_err("another key");
    assert!(refused.to_string().contains("the peer has another cluster key"), "{refused}");
}

#[test]
fn without_a_key_the_parameters_are_named() {
    let node = Node::new(Bootstrap::alone(), Settings::default());
    let refused = node.endpoint("tcp+tls").map(drop).expect_err("there is no key").to_string();
    assert!(refused.contains("set either security.key_file, or tls.cert, tls.key and tls.ca"), "{refused}");
}
