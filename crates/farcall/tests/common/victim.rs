//! The server that is killed, and the traffic that it is killed in.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use farcall::{
    CallError, Deferred, DownReason, Endpoint, Event, Payload, Peer, ReceiveError, SendError, Service, Tag,
};

use super::{LONG, life, pattern};

/// Answers with the request.
pub const ECHO: Service = Service(1);
/// Writes the request's number into the log, and answers with it.
pub const LOGGED: Service = Service(2);
/// Keeps the request and never answers.
pub const KEEP: Service = Service(3);
/// Answers with memory of the server's.
pub const LENT: Service = Service(4);

/// What nobody sends or receives.
pub const NEVER: Tag = Tag(1);

/// Serves until it is killed.
pub fn serve() {
    let (_node, endpoint, log) = life::mortal();
    let mut log = log.writer();
    let process = std::process::id();
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(LOGGED, move |request, reply| {
        let number = u64::from_le_bytes(request.payload().try_into().expect("eight bytes"));
        log.write_all(format!("{number} {process}\n").as_bytes()).expect("room");
        reply.send(request.payload());
    });
    let kept: Arc<Mutex<Vec<(Payload, Deferred)>>> = Arc::default();
    endpoint.serve(KEEP, move |request, reply| {
        kept.lock().expect("one thread").push((request.take(), reply.defer().0));
        println!("kept");
    });
    endpoint.serve(LENT, |request, mut reply| {
        let length = u32::from_le_bytes(request.payload().try_into().expect("four bytes")) as usize;
        let mut page = reply.context().loan(length).expect("memory to lend");
        page.copy_from_slice(&pattern(5, length));
        reply.send(page);
    });
    endpoint.run_while(|| true);
}

/// How a conversation ended.
#[derive(Debug)]
pub struct End {
    /// Calls that were answered, and calls that the end of the session left without an answer.
    pub answered: u64,
    pub lost: u64,
    pub peer: Peer,
    pub reason: DownReason,
    /// From the kill to the report.
    pub after: Duration,
}

/// Calls that stay in flight in the traffic.
const IN_FLIGHT: usize = 64;
/// Of this many calls, one carries a long payload.
const LONG_EVERY: u64 = 16;
const LONG_BYTES: usize = 100_000;

/// Calls `peer` without a pause, has `kill` end it after `calls` answers, and goes on until the end is
/// reported.
///
/// Calls are numbered from `first`. Checks that each completes once, and that none is left when the end is
/// reported.
pub fn talk_until_death(endpoint: &Endpoint, peer: Peer, first: u64, calls: u64, kill: impl FnOnce()) -> End {
    let (mut next, mut kill, mut killed_at) = (first, Some(kill), None);
    let (mut completed, mut answered, mut lost, mut down) = (Vec::new(), 0, 0, None);
    let kept = endpoint.call(peer, KEEP, b"never").within(LONG).post(next);
    kept.expect("under the limit");
    next += 1;
    // The server never receives: at some time messages wait for it, and end with it.
    let (mut sent, mut sends_ended, mut receives_lost) = (0, 0, 0);
    endpoint.receive(peer, NEVER).within(LONG).post(0).expect("room");
    while down.is_none() {
        while endpoint.calls_in_flight() < IN_FLIGHT && post(endpoint, peer, next) {
            next += 1;
        }
        if endpoint.sends_in_flight() < IN_FLIGHT {
            sent += u64::from(endpoint.send(peer, NEVER, &[1; 1000]).within(LONG).post(0).is_ok());
        }
        endpoint.poll_idle(|context, event| match event {
            Event::Completed { token, outcome } => {
                completed.push(token);
                match outcome {
                    Ok(_) => answered += 1,
                    Err(CallError::PeerDown(_)) => lost += 1,
                    Err(other) => panic!("call {token}: {other}"),
                }
            }
            Event::Sent { outcome: Ok(()) | Err(SendError::PeerDown(_)), .. } => sends_ended += 1,
            Event::Received { outcome: Err(ReceiveError::PeerDown(_)), .. } => receives_lost += 1,
            other @ (Event::Sent { .. } | Event::Received { .. }) => panic!("{other:?}"),
            Event::PeerDown { peer, reason } => {
                assert_eq!(context.sends_in_flight() + context.receives_in_flight(), 0, "nor messages");
                assert_eq!(context.calls_in_flight(), 0, "its calls end before its end is told");
                down = Some((peer, reason, Instant::now()));
            }
        });
        if answered >= calls
            && let Some(kill) = kill.take()
        {
            kill();
            killed_at = Some(Instant::now());
        }
    }
    assert_eq!((sends_ended, receives_lost), (sent, 1), "every send and receive ends once");
    completed.sort_unstable();
    assert!(completed.iter().copied().eq(first..next), "every call completes once");
    let (peer, reason, told_at) = down.expect("the loop ended");
    let after = told_at.saturating_duration_since(killed_at.expect("it lives until it is killed"));
    End { answered, lost, peer, reason, after }
}

/// Returns whether the call was taken. An endpoint that notices the end when it is about to sleep takes no
/// more calls, and reports the end in its next poll.
fn post(endpoint: &Endpoint, peer: Peer, number: u64) -> bool {
    let posted = if number.is_multiple_of(LONG_EVERY) {
        let page = endpoint.loan(LONG_BYTES).expect("loans come back");
        endpoint.call(peer, ECHO, page).within(LONG).post(number)
    } else {
        endpoint.call(peer, LOGGED, &number.to_le_bytes()).within(LONG).post(number)
    };
    match posted {
        Ok(_) => true,
        Err(CallError::PeerDown(_)) => false,
        Err(other) => panic!("call {number}: {other}"),
    }
}
