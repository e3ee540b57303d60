//! Calls over packets between peers that prove who they are, and the sentences for what keeps others apart.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{LONG, Pair, pattern, settings};
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::policy::Principal;
use farcall::{CallError, Endpoint, Node, Service, TransportKind};

const WHO: Service = Service(1);
const ECHO: Service = Service(2);

const SEALED: [TransportKind; 2] = [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP];

/// A folder with the files of a cluster, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-identities-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        let this = Self(path);
        this.write("cluster.key", &format!("{}\n", "5".repeat(64)));
        this
    }

    /// Replaces a file at once, as an editor does.
    fn write(&self, name: &str, text: &str) {
        let (next, path) = (self.0.join("next"), self.0.join(name));
        fs::write(&next, text).expect("a file");
        fs::set_permissions(&next, Permissions::from_mode(0o600)).expect("it is ours");
        fs::rename(&next, &path).expect("it is ours");
    }

    /// A new identity; the line that makes it known under its name.
    fn identity(&self, name: &str) -> String {
        let public = farcall::create_identity_file(&self.0.join(name)).expect("there is none yet");
        format!("{name} {public}\n")
    }

    fn set(&self, parameter: &str, name: &str) -> String {
        format!("security.{parameter}={}", self.0.join(name).display())
    }

    /// Of a process with this identity that knows the peers of that file.
    fn settings(&self, own: &str, peers: &str) -> Settings {
        self.settings_with(own, peers, &[])
    }

    fn settings_with(&self, own: &str, peers: &str, more: &[String]) -> Settings {
        let files = [("key_file", "cluster.key"), ("identity_file", own), ("peers_file", peers)];
        let files: Vec<_> = files.iter().map(|(parameter, name)| self.set(parameter, name)).collect();
        settings(&files.iter().chain(more).map(String::as_str).collect::<Vec<_>>())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(WHO, |_, reply| {
        let principal = reply.principal().to_string();
        reply.send(principal.as_bytes());
    });
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

fn ask(pair: &Pair) -> Result<String, CallError> {
    let answer = pair.client.call(pair.server, WHO, b"").within(LONG).wait()?;
    Ok(String::from_utf8(answer.to_vec()).expect("text"))
}

#[test]
fn handlers_and_callers_learn_who_the_other_is_and_payloads_come_back_whole() {
    let folder = Folder::new("whole");
    let peers = folder.identity("ann") + &folder.identity("ben") + &folder.identity("cid");
    folder.write("peers", &peers);
    for kind in SEALED {
        let (server, client) = (folder.settings("ben", "peers"), folder.settings("ann", "peers"));
        let pair = Pair::with_client_settings(kind, server, client, serve);
        assert_eq!(ask(&pair).as_deref(), Ok("identity ann"), "over {kind}");
        assert_eq!(pair.client.principal(pair.server), Principal::Identity("ben".into()), "over {kind}");
        for (round, length) in [0, 1000, 65_000, 1 << 20].into_iter().enumerate() {
            let bytes = pattern(round as u64, length);
            let answer = pair.client.call(pair.server, ECHO, &bytes).within(LONG).wait().expect("an echo");
            assert!(*answer == *bytes, "{length} bytes over {kind}");
        }
    }
}

#[test]
fn whoever_proves_less_or_is_not_known_is_refused_and_the_reason_is_said() {
    let folder = Folder::new("refused");
    let (ann, ben) = (folder.identity("ann"), folder.identity("ben"));
    folder.write("both", &format!("{ann}{ben}"));
    folder.write("ann-alone", &ann);
    folder.write("ben-alone", &ben);
    let keyed = settings(&[&folder.set("key_file", "cluster.key")]);
    let plain = settings(&[]);
    let (of_ann, of_ben) = (folder.settings("ann", "both"), folder.settings("ben", "both"));
    let cases = [
        (of_ben.clone(), plain.clone(), "the peer wants a cluster key"),
        (of_ben.clone(), keyed.clone(), "the peer wants an identity: set security.identity_file"),
        (plain, of_ann.clone(), "the peer has no cluster key and this side has one"),
        (keyed, of_ann.clone(), "the peer has no identity and this side has one"),
        (folder.settings("ben", "ben-alone"), of_ann, "the peer does not know this side's identity"),
        (of_ben, folder.settings("ann", "ann-alone"), "does not have the peer's identity"),
    ];
    for kind in SEALED {
        for (server, client, sentence) in cases.clone() {
            let pair = Pair::with_client_settings(kind, server, client, serve);
            let refused = ask(&pair).expect_err("no session").to_string();
            assert!(refused.contains(sentence), "{kind}: {refused}");
        }
    }
}

#[test]
fn a_policy_tells_identities_apart() {
    let folder = Folder::new("policy");
    let peers = folder.identity("ann") + &folder.identity("ben") + &folder.identity("cid");
    folder.write("peers", &peers);
    folder
        .write("policy", "service 1: call by identity ann, identity cid\nservice 2: call by identity cid\n");
    for kind in SEALED {
        let policy = folder.set("policy_file", "policy");
        let server = folder.settings_with("ben", "peers", &[policy]);
        for (who, may_echo) in [("ann", false), ("cid", true)] {
            let client = folder.settings(who, "peers");
            let pair = Pair::with_client_settings(kind, server.clone(), client, serve);
            assert_eq!(ask(&pair), Ok(format!("identity {who}")), "over {kind}");
            let echo = pair.client.call(pair.server, ECHO, b"").within(LONG).wait();
            assert_eq!(echo.is_ok(), may_echo, "{who} over {kind}");
            let refusal = format!("identity {who} may not call service 2");
            assert!(echo.err().is_none_or(|error| error.to_string().ends_with(&refusal)));
        }
    }
}

/// Names lead to a peer that is listed under them and to no other one.
#[test]
fn a_server_is_the_one_that_the_name_says() {
    let folder = Folder::new("names");
    let (ann, ben, cid) = (folder.identity("ann"), folder.identity("ben"), folder.identity("cid"));
    folder.write("any", &format!("{ann}{ben}"));
    folder.write("orders-is-ben", &format!("{ann}{}", ben.replace("ben ", "orders ")));
    folder.write("orders-is-cid", &format!("{ann}{ben}{}", cid.replace("cid ", "orders ")));
    let node = Node::new(Bootstrap::alone(), folder.settings("ann", "any"));
    let server = node.endpoint_with(TransportKind::BASIC_UDP, &folder.settings("ben", "any")).expect("one");
    serve(&server);
    let _listener = server.listen("orders").expect("nothing else listens");
    for (peers, outcome) in [
        ("any", Ok("ben")),
        ("orders-is-ben", Ok("orders")),
        ("orders-is-cid", Err("another peer answers than the one that security.peers_file lists")),
    ] {
        let client =
            node.endpoint_with(TransportKind::BASIC_UDP, &folder.settings("ann", peers)).expect("one");
        let orders = client.connect("orders").expect("it can be watched");
        let begun = Instant::now();
        let peer = loop {
            if let Ok(peer) = orders.peer() {
                break peer;
            }
            client.poll_once();
            assert!(begun.elapsed() < LONG, "it is never found");
        };
        let call = client.call(peer, WHO, b"").within(LONG).start().expect("it begins");
        while !call.is_complete() {
            server.poll_once();
            client.poll_once();
            assert!(begun.elapsed() < LONG, "it never ends");
        }
        let answered = call.wait();
        match outcome {
            Ok(name) => {
                answered.expect("an answer");
                assert_eq!(client.principal(peer), Principal::Identity(name.into()));
            }
            Err(sentence) => {
                let refused = answered.expect_err("another one").to_string();
                assert!(refused.contains(sentence), "{refused}");
            }
        }
    }
}

#[test]
fn a_key_that_is_taken_away_opens_no_session_and_sessions_that_are_up_go_on() {
    let folder = Folder::new("rotated");
    let (ann, ben) = (folder.identity("ann"), folder.identity("ben"));
    folder.write("peers", &format!("{ann}{ben}"));
    folder.write("of-ann", &format!("{ann}{ben}"));
    let (server, client) = (folder.settings("ben", "peers"), folder.settings("ann", "of-ann"));
    let pair = Pair::with_client_settings(TransportKind::BASIC_UDP, server, client.clone(), serve);
    assert_eq!(ask(&pair).as_deref(), Ok("identity ann"));
    folder.write("peers", &format!("# without Ann\n{ben}"));
    let begun = Instant::now();
    loop {
        // Each endpoint opens a session of its own.
        let other = pair.node.endpoint_with(TransportKind::BASIC_UDP, &client).expect("an endpoint");
        let peer = other.peer(0).expect("the server is known");
        match other.call(peer, WHO, b"").within(LONG).wait() {
            Ok(_) => assert!(begun.elapsed() < LONG, "the key is never taken away"),
            Err(error) => {
                let refused = error.to_string();
                assert!(refused.contains("the peer does not know this side's identity"), "{refused}");
                break;
            }
        }
    }
    assert_eq!(ask(&pair).as_deref(), Ok("identity ann"), "a session that is up goes on");
}

#[test]
fn a_changed_cluster_key_is_not_forgotten_for_a_list_of_peers_that_is_of_no_use() {
    let folder = Folder::new("half-changed");
    let (ann, ben) = (folder.identity("ann"), folder.identity("ben"));
    folder.write("peers", &format!("{ann}{ben}"));
    folder.write("of-ann", &format!("{ann}{ben}"));
    let (server, client) = (folder.settings("ben", "peers"), folder.settings("ann", "of-ann"));
    let pair = Pair::with_client_settings(TransportKind::BASIC_UDP, server, client.clone(), serve);
    assert_eq!(ask(&pair).as_deref(), Ok("identity ann"));
    // Others may write it: what it says stays what it was.
    fs::set_permissions(folder.0.join("peers"), Permissions::from_mode(0o666)).expect("it is ours");
    folder.write("cluster.key", &format!("{}\n", "6".repeat(64)));
    let begun = Instant::now();
    loop {
        let other = pair.node.endpoint_with(TransportKind::BASIC_UDP, &client).expect("an endpoint");
        let peer = other.peer(0).expect("the server is known");
        match other.call(peer, WHO, b"").within(LONG).wait() {
            Ok(answer) => break assert_eq!(*answer, *b"identity ann"),
            Err(error) => assert!(begun.elapsed() < LONG, "the new key is never used: {error}"),
        }
    }
}

fn refused(settings: Settings, transport: &str) -> String {
    let node = Node::new(Bootstrap::alone(), settings);
    node.endpoint(transport).map(drop).expect_err("it is refused").to_string()
}

#[test]
fn what_would_prove_less_is_refused_before_there_is_an_endpoint() {
    let folder = Folder::new("settings");
    let ann = folder.identity("ann");
    folder.write("peers", &ann);
    let whole = folder.settings("ann", "peers");
    for transport in ["ring+shm", "tcp+tls"] {
        let sentence = refused(whole.clone(), transport);
        assert!(
            sentence.contains(&format!("peers over {transport} do not prove the identities")),
            "{sentence}"
        );
    }
    assert!(refused(whole, "tcp").contains("is not sealed by security.key_file"));
    let [own, peers, key] = [("identity_file", "ann"), ("peers_file", "peers"), ("key_file", "cluster.key")]
        .map(|(set, name)| folder.set(set, name));
    assert!(refused(settings(&[&own, &peers]), "basic+udp").contains("needs a cluster key beside it"));
    assert!(refused(settings(&[&own, &key]), "basic+udp").contains("go together: set both or none"));
    assert!(refused(settings(&[&peers, &key]), "basic+udp").contains("go together: set both or none"));
    // A cluster key, which others have, is no identity.
    let mixed = refused(folder.settings("cluster.key", "peers"), "basic+udp");
    assert!(mixed.contains("is no file of one private key"), "{mixed}");
    let mode = |name: &str, mode| {
        fs::set_permissions(folder.0.join(name), Permissions::from_mode(mode)).expect("it is ours");
    };
    mode("ann", 0o640);
    assert!(
        refused(folder.settings("ann", "peers"), "basic+udp").contains("it holds a secret; chmod 600 it")
    );
    mode("ann", 0o600);
    mode("peers", 0o664);
    assert!(refused(folder.settings("ann", "peers"), "basic+udp").contains("and with it let themselves in"));
    mode("peers", 0o644);
    folder.write("peers", &format!("{ann}{}", ann.replace("ann ", "bob ")));
    let twice = refused(folder.settings("ann", "peers"), "basic+udp");
    assert!(twice.contains("the key of `ann` is also that of `bob`"), "{twice}");
    let shown = farcall::public_key_of(Path::new(&folder.0.join("ann"))).expect("a key").to_string();
    assert_eq!(ann, format!("ann {shown}\n"));
}
