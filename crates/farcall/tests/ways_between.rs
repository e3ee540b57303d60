//! Which way sessions take between network namespaces of one machine, and between users of it, and what they
//! say of the others.

mod common;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use common::network::{Network, has_played_role};

const TEST: &str = "between_namespaces_and_users_memory_is_taken_where_folder_and_rule_allow_it";

/// A user that nobody is.
const OTHER_USER: &str = "61235";

/// A folder that all users may use, with this program and a folder for sockets in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("fc-ways-{}", std::process::id()));
        let open = |path: &PathBuf, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
        };
        // Each side has a run-time folder of its own, where none is shared.
        let (server, client) = (path.join("s"), path.join("c"));
        let folders =
            [(path.clone(), 0o755), (path.join("sockets"), 0o1777), (server, 0o700), (client, 0o700)];
        for (folder, mode) in folders {
            std::fs::create_dir(&folder).expect("a folder");
            open(&folder, mode);
        }
        std::fs::copy(std::env::current_exe().expect("this program"), path.join("test")).expect("room");
        open(&path.join("test"), 0o755);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the client is, and what it finds.
struct Case {
    transport: &'static str,
    /// `s` is the server's network namespace.
    at: &'static str,
    is_other_user: bool,
    has_folder: bool,
    allow: &'static str,
    way: &'static str,
    /// What is said of shared memory, in part.
    why: &'static str,
}

const HERE: Case = Case {
    transport: "auto",
    at: "s",
    is_other_user: false,
    has_folder: false,
    allow: "same-user",
    way: "ring+shm",
    why: "",
};

const CASES: [Case; 8] = [
    HERE,
    Case { at: "c", way: "tcp", why: "not ring+shm: nobody answers", ..HERE },
    Case { at: "c", transport: "ring+shm/basic+udp", way: "basic+udp", why: "not ring+shm: ", ..HERE },
    Case { at: "c", has_folder: true, ..HERE },
    Case { is_other_user: true, way: "tcp", why: "not ring+shm: ", ..HERE },
    Case { is_other_user: true, allow: "any", ..HERE },
    Case {
        at: "c",
        is_other_user: true,
        has_folder: true,
        way: "tcp",
        why: "not open to this process's user, by its shm.allow",
        ..HERE
    },
    Case { at: "c", is_other_user: true, has_folder: true, allow: "any", ..HERE },
];

impl Case {
    fn run(&self, network: &Network, scratch: &Scratch) {
        let program = scratch.0.join("test");
        let folder = scratch.0.join("sockets");
        let mut variables = vec![("FARCALL_SHM_ALLOW", OsStr::new(self.allow))];
        variables.extend(self.has_folder.then_some(("FARCALL_SHM_DIRECTORY", folder.as_os_str())));
        let start = |host, role: &str, is_other: bool| {
            let (user, group) = (format!("--reuid={OTHER_USER}"), format!("--regid={OTHER_USER}"));
            let mut words: Vec<&OsStr> = Vec::new();
            if is_other {
                words.extend(["setpriv", &user, &group, "--clear-groups"].map(OsStr::new));
            }
            words.push(program.as_os_str());
            let mut variables = variables.clone();
            let own_folder = scratch.0.join(role);
            variables.push((common::network::ROLE, OsStr::new(role)));
            variables.push(("XDG_RUNTIME_DIR", own_folder.as_os_str()));
            let mut process = network.start_by(host, &words, TEST, self.transport, &variables);
            assert_eq!(process.hears(), "ready");
            process
        };
        let _server = start("s", "s", false);
        let mut client = start(self.at, "c", self.is_other_user);
        client.calls(30, 30);
        let (way, why) = (client.ask("way"), client.ask("why"));
        let Self { transport, at, is_other_user, has_folder, allow, .. } = self;
        let case = format!("{transport} at {at}, {is_other_user}, {has_folder}, {allow}");
        assert_eq!(way, self.way, "{case}: {why}");
        assert!(why.contains(self.why), "{case}: {why}");
        println!("{case}: {way}; {why}");
    }
}

#[test]
fn between_namespaces_and_users_memory_is_taken_where_folder_and_rule_allow_it() {
    if has_played_role() {
        return;
    }
    let Some(network) = Network::new(1500) else { return };
    let scratch = Scratch::new();
    CASES.iter().for_each(|case| case.run(&network, &scratch));
}
