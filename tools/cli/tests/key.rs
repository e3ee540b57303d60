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
