//! RDMA devices that go away and come back while calls are in flight. It takes the device away from its
//! users, so it is for the virtual machine of `scripts/rdma-vm`.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{LONG, Pair, settings};
use farcall::parameters::Settings;
use farcall::{CallError, Endpoint, Event, Service, TransportKind, rdma_devices};

const ECHO: Service = Service(1);
/// Calls in flight at a time.
const WINDOW: u64 = 16;
/// Calls made while the device goes away.
const CALLS: u64 = 2000;
/// What each may take; far more than the limit of silence below.
const CALL_WITHIN: Duration = Duration::from_secs(5);

fn quick() -> Settings {
    settings(&["endpoint.peer_timeout=1s"])
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("the program is there");
    assert!(status.success(), "{program} {arguments:?}");
}

/// The device that endpoints choose, because it is the first.
fn is_listed() -> bool {
    rdma_devices().unwrap_or_default().iter().any(|device| device.name == "rxe0")
}

/// Calls until `calls` are over; returns how many were answered. Each of the others must have ended for a
/// reason that fits.
fn converse(pair: &Pair, calls: u64) -> u64 {
    let (mut sent, mut ended, mut answered, mut gone) = (0, 0, 0, false);
    let deadline = Instant::now() + LONG;
    while ended < sent || sent < calls && !gone {
        assert!(Instant::now() < deadline, "{} of {sent} calls never ended", sent - ended);
        while sent < calls && sent - ended < WINDOW && !gone {
            match pair.client.call(pair.server, ECHO, b"is the device there?").within(CALL_WITHIN).post(sent)
            {
                Ok(_) => sent += 1,
                Err(error) => {
                    assert!(matches!(error, CallError::PeerDown(_)), "{error:?}");
                    gone = true;
                }
            }
        }
        pair.client.poll(|_, event| match event {
            Event::Completed { outcome, .. } => {
                ended += 1;
                match outcome {
                    Ok(_) => answered += 1,
                    Err(CallError::TimedOut | CallError::PeerDown(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            Event::PeerDown { .. } => gone = true,
            Event::Sent { .. } | Event::Received { .. } => panic!("{event:?} without messages"),
        });
    }
    answered
}

#[test]
fn calls_end_when_the_device_is_removed_and_pass_again_over_a_new_one() {
    for kind in TransportKind::VERBS.iter().copied() {
        let pair = Pair::new(kind, quick(), serve);
        assert_eq!(converse(&pair, 100), 100, "over {kind}");
        // Waits, in the kernel, until nobody uses the device any more.
        let removal = std::thread::spawn(|| run("rdma", &["link", "delete", "rxe0"]));
        while is_listed() {
            converse(&pair, 1);
        }
        let answered = converse(&pair, CALLS);
        println!("over {kind}: {answered} calls answered after the device had gone");
        drop(pair);
        removal.join().expect("the device goes when nobody uses it any more");
        run("rdma", &["link", "add", "rxe0", "type", "rxe", "netdev", "rdma0"]);
        let pair = Pair::new(kind, quick(), serve);
        assert_eq!(converse(&pair, 100), 100, "over {kind} and a new device");
    }
}
