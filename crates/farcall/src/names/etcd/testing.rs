//! A real etcd of one member, for tests.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::EtcdPlace;
use super::gateway::Gateway;
use crate::bootstrap::HostPort;

/// Far longer than its start takes.
const PLENTY: Duration = Duration::from_secs(120);

/// An etcd that runs, and ends with this.
pub struct Server {
    child: Option<Child>,
    folder: PathBuf,
    ports: [u16; 2],
}

impl Server {
    /// Starts one; `None`, with a line that says so, where there is no etcd.
    pub fn start(name: &str) -> Option<Self> {
        let is_there = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        if is_there.is_err() {
            println!("unsupported: there is no etcd on this machine; scripts/prepare installs etcd-server");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("farcall-etcd-{}-{name}", std::process::id()));
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let ports = free.each_ref().map(|port| port.local_addr().expect("bound").port());
        drop(free);
        let mut server = Self { child: None, folder, ports };
        server.start_again();
        Some(server)
    }

    /// Where it is.
    pub fn place(&self) -> EtcdPlace {
        EtcdPlace::parse(&format!("etcd://127.0.0.1:{}/test", self.ports[0])).expect("a place")
    }

    /// Starts it with what it has stored.
    pub fn start_again(&mut self) {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new("etcd");
        command.args(["--name", "one", "--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args([
            "--initial-cluster",
            &format!("one={peer}"),
            "--unsafe-no-fsync",
            "--log-level",
            "error",
        ]);
        command.arg("--data-dir").arg(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it was found"));
        let member = HostPort::parse(&format!("127.0.0.1:{}", self.ports[0])).expect("a place");
        let (gateway, begun) = (Gateway::new(vec![member]), Instant::now());
        while let Err(error) = gateway.ask("kv/range", &json!({ "key": "AA==" }), PLENTY) {
            assert!(begun.elapsed() < PLENTY, "{error}");
            std::thread::yield_now();
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Removes what it has stored.
    pub fn forget(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        self.forget();
    }
}
