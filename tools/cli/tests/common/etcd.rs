//! An etcd for the registries of stores.

use std::process::{Command, Stdio};

use super::places::free_port;
use super::stores::{Folder, Server};

/// An etcd of one member.
pub struct Etcd {
    folder: String,
    ports: [u16; 2],
    running: Option<Server>,
}

impl Etcd {
    /// Starts one; `None`, with a line that says so, where there is no etcd.
    pub fn start(folder: &Folder) -> Option<Self> {
        let is_there = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        if is_there.is_err() {
            println!("unsupported: there is no etcd on this machine; scripts/prepare installs etcd-server");
            return None;
        }
        let ports = [(); 2].map(|()| free_port());
        let mut etcd = Self { folder: folder.of("etcd"), ports, running: None };
        etcd.start_again();
        Some(etcd)
    }

    pub fn start_again(&mut self) {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", "one", "--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--log-level",
            "error",
        ]);
        etcd.args(["--initial-cluster", &format!("one={peer}"), "--data-dir", &self.folder]);
        let child = etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was found");
        self.running = Some(Server(child));
    }

    pub fn kill(&mut self) {
        self.running = None;
    }

    pub fn signal(&self, name: &str) {
        let process = self.running.as_ref().expect("it runs").0.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().expect("kill runs").success());
    }

    pub fn registry(&self) -> String {
        format!("etcd://127.0.0.1:{}/store", self.ports[0])
    }
}
