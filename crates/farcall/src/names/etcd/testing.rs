//! Real etcds, of one member or of several, for tests.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use rustix::process::{Pid, Signal, kill_process};

use super::EtcdPlace;
use super::gateway::{Gateway, number_of};
use crate::bootstrap::HostPort;
use crate::places::free_port;

/// Far longer than its start takes.
const PLENTY: Duration = Duration::from_secs(120);

/// An etcd that runs, and ends with this.
pub struct Server {
    members: Vec<Member>,
    folder: PathBuf,
}

/// One of its processes.
struct Member {
    child: Option<Child>,
    /// For clients, and for the other members.
    ports: [u16; 2],
}

impl Member {
    fn place(&self) -> HostPort {
        HostPort::parse(&format!("127.0.0.1:{}", self.ports[0])).expect("a place")
    }

    fn url_of_peers(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }
}

impl Server {
    /// Starts one of a single member; `None`, with a line that says so, where there is no etcd.
    pub fn start(name: &str) -> Option<Self> {
        Self::start_members(name, 1)
    }

    /// Starts one of as many members.
    pub fn start_members(name: &str, count: usize) -> Option<Self> {
        let is_there = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        if is_there.is_err() {
            println!("unsupported: there is no etcd on this machine; scripts/prepare installs etcd-server");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("farcall-etcd-{}-{name}", std::process::id()));
        // A port may be another's by now: then other ones are tried.
        let started = (0..100).find_map(|_| {
            let member = |_| Member { child: None, ports: [free_port(), free_port()] };
            let mut server = Self { members: (0..count).map(member).collect(), folder: folder.clone() };
            server.starts().then_some(server)
        });
        Some(started.expect("an etcd that stays"))
    }

    /// Where it is.
    pub fn place(&self) -> EtcdPlace {
        let members: Vec<_> = self.members.iter().map(|member| member.place().to_string()).collect();
        EtcdPlace::parse(&format!("etcd://{}/test", members.join(","))).expect("a place")
    }

    /// Starts the members that do not run, with what they have stored, and waits until they answer.
    pub fn start_again(&mut self) {
        assert!(self.starts(), "an etcd has ended");
    }

    /// The same; whether none of them has ended.
    fn starts(&mut self) -> bool {
        let cluster: Vec<_> = self
            .members
            .iter()
            .enumerate()
            .map(|(number, member)| format!("m{number}={}", member.url_of_peers()))
            .collect();
        let cluster = cluster.join(",");
        for (number, member) in
            self.members.iter_mut().enumerate().filter(|(_, member)| member.child.is_none())
        {
            let (client, peer) = (format!("http://{}", member.place()), member.url_of_peers());
            let mut command = Command::new("etcd");
            command.args(["--name", &format!("m{number}"), "--initial-cluster", &cluster]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--unsafe-no-fsync", "--log-level", "error"]);
            command.arg("--data-dir").arg(self.folder.join(number.to_string()));
            member.child =
                Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was found"));
        }
        for member in &mut self.members {
            let (gateway, begun) = (Gateway::new(vec![member.place()]), Instant::now());
            while let Err(error) = gateway.ask("kv/range", &json!({ "key": "AA==" }), PLENTY) {
                let child = member.child.as_mut().expect("it was started");
                if child.try_wait().expect("it is a child").is_some() {
                    return false;
                }
                assert!(begun.elapsed() < PLENTY, "{error}");
                std::thread::yield_now();
            }
        }
        true
    }

    /// The number of the member that leads the others, once one does.
    pub fn leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            for (number, member) in self.members.iter().enumerate() {
                let status = Gateway::new(vec![member.place()]).ask("maintenance/status", &json!({}), PLENTY);
                let id = |status: &Value| number_of(&status["header"]["member_id"]);
                if status.is_ok_and(|status| id(&status) != 0 && number_of(&status["leader"]) == id(&status))
                {
                    return number;
                }
            }
            assert!(begun.elapsed() < PLENTY, "nobody leads");
            std::thread::yield_now();
        }
    }

    /// Kills a member.
    pub fn kill_member(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops a member, which keeps its connections, or lets it go on.
    pub fn pause_member(&self, number: usize, is_paused: bool) {
        let child = self.members[number].child.as_ref().expect("it runs");
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).expect("it is ours");
    }

    /// Kills all members.
    pub fn kill(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill_member(number));
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
