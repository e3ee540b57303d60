//! Which transports there are, why others are not, and whether those that every machine has carry a call.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{
    CmReach, DeviceReport, Endpoint, Node, PortReport, Presence, Service, TransportKind, rdma_cm_reach,
    rdma_devices,
};

use super::finding::Finding;

/// The service of the call that is tried.
const ECHO: Service = Service(1);

/// How long it may take on a machine that is busy.
const WITHIN: Duration = Duration::from_secs(5);

/// How long the server listens at a time before it looks whether it is to end.
const SERVES_FOR: Duration = Duration::from_millis(20);

/// The transports that need nothing but the machine, one for each fabric.
const TRIED: [TransportKind; 2] = [TransportKind::RING_SHM, TransportKind::BASIC_UDP];

/// What is to be said of them.
pub fn findings() -> Vec<Finding> {
    TransportKind::every().filter(|kind| !kind.is_simulated()).map(transport).collect()
}

fn transport(kind: TransportKind) -> Finding {
    if TRIED.contains(&kind) {
        return tried(kind);
    }
    match kind.presence() {
        None => Finding::good(kind.name(), "needs nothing but the machine"),
        Some(Presence::Here { found }) => Finding::good(kind.name(), found),
        Some(Presence::Absent { why }) => Finding::note(kind.name(), format!("absent: {why}")),
    }
}

/// Makes a call between two endpoints of this process.
fn tried(kind: TransportKind) -> Finding {
    match echo(kind) {
        Ok(()) => Finding::good(kind.name(), "carries calls"),
        Err(why) => Finding::mend(
            kind.name(),
            format!("carries no calls: {why}"),
            "see what else is to be mended here: limits, memory files, loopback",
        ),
    }
}

fn echo(kind: TransportKind) -> Result<(), String> {
    // That of the environment may have unusable values, which is a finding of its own.
    let settings = Settings::load([]).unwrap_or_default();
    let node = Node::new(Bootstrap::alone(), settings.clone());
    let open = || node.endpoint_with(kind, &settings).map_err(|error| error.to_string());
    thread::scope(|scope| {
        let (opened, is_open) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let server = thread::Builder::new().spawn_scoped(scope, move || {
            let endpoint = open()?;
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            // The client is gone when it cannot open its own endpoint.
            let _ = opened.send(());
            serve(&endpoint, &ended);
            Ok::<(), String>(())
        });
        let server = server.map_err(|error| format!("no thread: {error}"))?;
        let called = is_open.recv().map_err(|_| String::new()).and_then(|()| call(&open()?));
        drop(end);
        server.join().map_err(|_| "the server panicked".to_owned())??;
        called
    })
}

fn serve(endpoint: &Endpoint, ended: &mpsc::Receiver<()>) {
    let is_wanted = || !matches!(ended.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    while is_wanted() {
        let until = std::time::Instant::now() + SERVES_FOR;
        endpoint.run_while(|| std::time::Instant::now() < until);
    }
}

fn call(endpoint: &Endpoint) -> Result<(), String> {
    let peer = endpoint.peer(0).map_err(|error| error.to_string())?;
    let echoed =
        endpoint.call(peer, ECHO, b"doctor").within(WITHIN).wait().map_err(|error| error.to_string())?;
    if &echoed[..] == b"doctor" { Ok(()) } else { Err("other bytes came back".to_owned()) }
}

/// Whether there are RDMA devices, which want memory that stays where it is.
pub fn pins() -> bool {
    rdma_devices().is_ok_and(|devices| !devices.is_empty())
}

/// What is to be said of RDMA devices, their ports and addresses.
pub fn devices() -> Vec<Finding> {
    match rdma_devices() {
        Err(error) => vec![Finding::note("RDMA devices", format!("none: {error}"))],
        Ok(devices) if devices.is_empty() => vec![Finding::note("RDMA devices", "none")],
        Ok(devices) => devices.iter().flat_map(device).collect(),
    }
}

fn device(device: &DeviceReport) -> impl Iterator<Item = Finding> {
    device.ports.iter().map(|port| of_port(&device.name, port))
}

fn of_port(device: &str, port: &PortReport) -> Finding {
    let PortReport { number, link, mtu_bytes, active, addresses, .. } = port;
    let subject = format!("{device} port {number}");
    if !active {
        return Finding::warning(subject, format!("{link}, down"), "connect it, or start its subnet manager");
    }
    let shown: Vec<_> =
        addresses.iter().map(|(index, address, kind)| format!("{index}: {address} ({kind})")).collect();
    let state = format!("{link}, packets up to {mtu_bytes} bytes, addresses {}", shown.join(", "));
    if addresses.is_empty() {
        return Finding::warning(subject, state, "give its interface an address: without one it has no GID");
    }
    match rdma_cm_reach(device, *number) {
        CmReach::By(address) => Finding::good(subject, format!("{state}, rdma_cm by {address}")),
        CmReach::No { why } => Finding::note(subject, format!("{state}, no rdma_cm: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn what_every_machine_has_carries_calls_here() {
        for finding in TRIED.map(tried) {
            assert_eq!(finding.severity, Severity::Good, "{finding:?}");
        }
    }
}
