//! Calls over packets that are sealed with a cluster key, and the sentences for what keeps peers apart.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use common::{LONG, Pair, pattern, settings};
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Service, TransportKind};

const ECHO: Service = Service(1);

const SEALED: [TransportKind; 2] = [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP];

/// A file with the cluster keys of these digits, which goes with the test.
struct Keys(PathBuf);

impl Keys {
    fn new(name: &str, digits: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-keys-{}-{name}", std::process::id()));
        let this = Self(path);
        this.write(digits);
        this
    }

    fn write(&self, digits: &str) {
        let lines = digits.chars().map(|digit| digit.to_string().repeat(64) + "\n");
        fs::write(&self.0, lines.collect::<String>()).expect("a file");
        fs::set_permissions(&self.0, Permissions::from_mode(0o600)).expect("it is ours");
    }

    fn settings(&self) -> Settings {
        settings(&[&format!("security.key_file={}", self.0.display())])
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn echo(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

#[test]
fn calls_of_all_lengths_come_back_whole() {
    let keys = Keys::new("whole", "5");
    for kind in SEALED {
        let pair = Pair::new(kind, keys.settings(), echo);
        for (round, length) in
            [0, 30, 1000, 16_384, 65_000, 100_000, 1 << 20, 8 << 20].into_iter().enumerate()
        {
            let bytes = pattern(round as u64, length);
            let answer = pair.client.call(pair.server, ECHO, &bytes).within(LONG).wait().expect("an echo");
            assert!(*answer == *bytes, "{length} bytes over {kind}");
        }
    }
}

#[test]
fn one_file_is_for_packets_and_for_tls() {
    let keys = Keys::new("tls", "7");
    let pair = Pair::new(TransportKind::TCP_TLS, keys.settings(), echo);
    let answer = pair.client.call(pair.server, ECHO, b"sealed").within(LONG).wait().expect("an echo");
    assert_eq!(*answer, *b"sealed");
}

#[test]
fn each_key_of_a_file_is_believed() {
    let (ours, theirs) = (Keys::new("newer", "21"), Keys::new("older", "12"));
    for kind in [TransportKind::BASIC_UDP, TransportKind::TCP_TLS] {
        let pair = Pair::with_client_settings(kind, theirs.settings(), ours.settings(), echo);
        let answer = pair.client.call(pair.server, ECHO, b"hello").within(LONG).wait().expect("an echo");
        assert_eq!(*answer, *b"hello", "over {kind}");
    }
}

#[test]
fn a_peer_without_a_key_or_with_another_one_is_refused_and_the_reason_is_said() {
    let (ours, theirs) = (Keys::new("ours", "1"), Keys::new("theirs", "2"));
    let plain = settings(&[]);
    let cases = [
        (theirs.settings(), ours.settings(), "the peer has another cluster key"),
        (theirs.settings(), plain.clone(), "the peer wants a cluster key: set security.key_file"),
        (plain, ours.settings(), "the peer has no cluster key and this side has one"),
    ];
    for kind in SEALED {
        for (server, client, sentence) in cases.clone() {
            let pair = Pair::with_client_settings(kind, server, client, echo);
            let refused =
                pair.client.call(pair.server, ECHO, b"").within(LONG).wait().expect_err("no session");
            assert!(refused.to_string().contains(sentence), "{kind}: {refused}");
        }
    }
}

#[test]
fn with_a_key_no_transport_sends_in_clear() {
    let keys = Keys::new("clear", "9");
    let node = Node::new(Bootstrap::alone(), keys.settings());
    let refused = node.endpoint("tcp").map(drop).expect_err("it would send in clear").to_string();
    assert!(refused.contains("what tcp sends is not sealed by security.key_file"), "{refused}");
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let keys = Keys::new("exposed", "9");
    fs::set_permissions(&keys.0, Permissions::from_mode(0o644)).expect("it is ours");
    let node = Node::new(Bootstrap::alone(), keys.settings());
    let refused = node.endpoint("basic+udp").map(drop).expect_err("anybody can read it").to_string();
    assert!(refused.contains("it holds a secret; chmod 600 it"), "{refused}");
}
