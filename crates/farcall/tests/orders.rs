//! The example service: a server and a client that find each other by name, as processes.

use std::process::{Child, Command, Stdio};

use farcall::bootstrap::{LAUNCH_VARIABLES, NAMES_VARIABLE, Rendezvous};

#[path = "../examples/orders_client.rs"]
mod client;
#[path = "../examples/orders_server.rs"]
mod server;

const ROLE: &str = "FARCALL_TEST_ROLE";
const TEST: &str = "a_client_is_served_by_the_server_that_has_the_name";

/// This program, to run only the test in `role`.
fn again(role: &str, registry: &Rendezvous, transport: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", TEST, "--nocapture"]).stdout(Stdio::piped());
    for variable in LAUNCH_VARIABLES {
        command.env_remove(variable);
    }
    command
        .env(ROLE, role)
        .env("ORDERS_OVER", transport)
        .env(NAMES_VARIABLE, format!("farcall://{}", registry.address()))
        .env("FARCALL_ENDPOINT_CALL_TIMEOUT", "60s");
    command
}

/// A process that is killed with this one's interest in it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_is_served_by_the_server_that_has_the_name() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => return server::main().expect("it serves"),
        Ok("client") => return client::main().expect("it is served"),
        _ => {}
    }
    for transport in ["auto", "basic+udp"] {
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        // The client is first, and the server is started twice.
        for _ in 0..2 {
            let client = again("client", &registry, transport).spawn().expect("it runs");
            let _server = Running(again("server", &registry, transport).spawn().expect("it runs"));
            let output = client.wait_with_output().expect("it ends");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{text}");
            assert!(text.contains("order 1\norder 2\norder 3\n"), "{text}");
        }
    }
}
