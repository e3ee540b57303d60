//! `farcall key`: files of cluster keys, and that the program uses them.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use common::farcall;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farcall-key-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Whether it succeeded, and what it printed and said.
fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = farcall(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_key_is_made_once_and_named_but_not_shown() {
    let folder = Folder::new("made");
    let file = folder.path("cluster.key");
    let (made, said, _) = run(&["key", "generate", &file]);
    assert!(made && said.starts_with("key "), "{said}");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);
    let key = fs::read_to_string(&file).expect("it is text");
    let (shown, names, _) = run(&["key", "show", &file]);
    assert!(shown && names == format!("{}, used\n", said.trim()), "{names}");
    assert!(!names.contains(key.trim()));
    let (again, _, why) = run(&["key", "generate", &file]);
    assert!(!again && why.contains("is there already"), "{why}");
    assert_eq!(fs::read_to_string(&file).expect("it is text"), key);
}

#[test]
fn a_measurement_runs_with_a_key_and_not_with_a_bad_one() {
    let folder = Folder::new("used");
    let file = folder.path("cluster.key");
    assert!(run(&["key", "generate", &file]).0);
    let over = |transport: &str, file: &str| {
        let setting = format!("security.key_file={file}");
        run(&["perf", "echo", "--transport", transport, "--sizes", "100", "--count", "50", "--set", &setting])
    };
    for transport in ["basic+udp", "homa+udp"] {
        let (ran, table, why) = over(transport, &file);
        assert!(ran && table.lines().any(|line| line.starts_with("echo")), "{table} {why}");
    }
    for (transport, file) in [("tcp", file), ("basic+udp", folder.path("absent"))] {
        let (ran, table, _) = over(transport, &file);
        assert!(!ran, "{table}");
    }
}

#[test]
fn a_private_key_is_made_once_and_its_public_half_is_shown() {
    let folder = Folder::new("identity");
    let file = folder.path("own.identity");
    let (made, said, _) = run(&["key", "generate", "--identity", &file]);
    assert!(made && said.starts_with("public ") && said.trim().len() == 7 + 64, "{said}");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).expect("it is text");
    let private = text.lines().find_map(|line| line.strip_prefix("private ")).expect("the secret half");
    let (shown, public, _) = run(&["key", "show", &file]);
    assert!(shown && public == said && !public.contains(private), "{public}");
    let (again, _, why) = run(&["key", "generate", "--identity", &file]);
    assert!(!again && why.contains("is there already"), "{why}");
}

#[test]
fn a_measurement_runs_between_peers_that_are_listed_and_not_between_others() {
    let folder = Folder::new("listed");
    let [key, own, other, listed, unlisted] =
        ["cluster.key", "own", "other", "listed", "unlisted"].map(|name| folder.path(name));
    assert!(run(&["key", "generate", &key]).0);
    let public = |file: &str| run(&["key", "generate", "--identity", file]).1.replace("public ", "");
    fs::write(&listed, format!("# who\nnode-1 {}", public(&own))).expect("a file");
    fs::write(&unlisted, format!("node-2 {}", public(&other))).expect("a file");
    let sets = |peers: &str| {
        [("key_file", key.as_str()), ("identity_file", &own), ("peers_file", peers)]
            .map(|(parameter, file)| format!("security.{parameter}={file}"))
    };
    let over = |transport: &str, peers: &str| {
        let sets = sets(peers);
        let command = ["perf", "echo", "--transport", transport, "--sizes", "100", "--count", "50"];
        run(&command.into_iter().chain(sets.iter().flat_map(|set| ["--set", set])).collect::<Vec<_>>())
    };
    for transport in ["basic+udp", "homa+udp"] {
        let (ran, table, why) = over(transport, &listed);
        assert!(ran && table.lines().any(|line| line.starts_with("echo")), "{table} {why}");
    }
    let (ran, table, why) = over("basic+udp", &unlisted);
    assert!(!ran && why.contains("does not have the peer's identity"), "{table} {why}");
}

/// As its user sees it: who listens there.
#[test]
fn the_identity_of_a_peer_is_shown() {
    let folder = Folder::new("shown");
    let [key, own, peers] = ["cluster.key", "own", "peers"].map(|name| folder.path(name));
    assert!(run(&["key", "generate", &key]).0);
    let public = run(&["key", "generate", "--identity", &own]).1.replace("public ", "");
    fs::write(&peers, format!("orders {public}")).expect("a file");
    let sets = [("key_file", &key), ("identity_file", &own), ("peers_file", &peers)]
        .map(|(parameter, file)| format!("security.{parameter}={file}"));
    let mut settings = farcall::parameters::Settings::default();
    sets.iter().for_each(|set| settings.assign(set).expect("it is a parameter"));
    let node = farcall::Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let place = node.registry_address().expect("it serves names");
    let kind = farcall::TransportKind::BASIC_UDP;
    let server = node.endpoint_with(kind, &settings).expect("an endpoint");
    let _listener = server.listen("orders").expect("a name");
    let target = format!("farcall://{place}/orders");
    let shown = std::thread::spawn(move || {
        let command = ["info", "--peer", &target, "--transport", "basic+udp"];
        run(&command.into_iter().chain(sets.iter().flat_map(|set| ["--set", set])).collect::<Vec<_>>())
    });
    server.run_while(|| !shown.is_finished());
    let (found, said, why) = shown.join().expect("no panic");
    assert!(found && said.contains("it is identity orders"), "{said} {why}");
}
