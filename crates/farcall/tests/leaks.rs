//! Many calls leave nothing behind: no call or block held, no memory pinned, no receive or credit missing.
//!
//! A receive, a slot or a credit that does not come back is missed at the latest when all of them are gone,
//! and there are fewer than calls; the calls then no longer end. `FARCALL_TEST_CALLS` is the number of calls
//! over each transport.

mod common;

use std::time::Instant;

use common::counters::sum_of;
use common::litter::{holdings, resident_bytes};
use common::{LONG, Pair, pattern, settings, transports_without_launcher};
use farcall::{Event, Holdings, Service};

const ECHO: Service = Service(1);
/// Calls in flight at a time.
const WINDOW: usize = 32;
/// Every this many calls one has a long payload in lent memory.
const CALLS_PER_LOAN: usize = 500;
const LOAN_BYTES: usize = 100_000;
/// What the process may grow by: far less than a few bytes for each of a million calls.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Makes that many calls, and waits for all answers.
fn converse(pair: &Pair, calls: usize) {
    let small = pattern(1, 100);
    let (mut sent, mut done) = (0, 0);
    while done < calls {
        while sent < calls && sent - done < WINDOW {
            let outcome = if sent % CALLS_PER_LOAN == 0 {
                let page = pair.client.loan(LOAN_BYTES).expect("memory for one");
                pair.client.call(pair.server, ECHO, page).within(LONG).post(sent as u64)
            } else {
                pair.client.call(pair.server, ECHO, &small[..]).within(LONG).post(sent as u64)
            };
            outcome.expect("the session has room");
            sent += 1;
        }
        pair.client.poll(|_, event| match event {
            Event::Completed { outcome: Ok(_), .. } => done += 1,
            other => panic!("after {done} answers: {other:?}"),
        });
    }
}

/// Turns until nothing is held: the last blocks and acknowledgements may be on their way.
fn settle(pair: &Pair) {
    let deadline = Instant::now() + LONG;
    while pair.client.holdings() != Holdings::default() {
        assert!(Instant::now() < deadline, "still held: {:?}", pair.client.holdings());
        pair.client.turn();
    }
}

#[test]
fn many_calls_leave_nothing_behind() {
    let calls = std::env::var("FARCALL_TEST_CALLS").map(|calls| calls.parse().expect("a number"));
    let calls: usize = calls.unwrap_or(20_000);
    for kind in transports_without_launcher() {
        let pair = Pair::new(kind, settings(&[]), |endpoint| {
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        });
        // What is made once and kept is made by now.
        converse(&pair, calls / 10);
        settle(&pair);
        let state = || (holdings(), sum_of("verbs", "pinned_bytes"));
        let (before, resident_before) = (state(), resident_bytes());
        let began = Instant::now();
        converse(&pair, calls);
        settle(&pair);
        println!("over {kind}: {calls} calls in {:?}", began.elapsed());
        assert_eq!(state(), before, "over {kind}");
        assert_eq!(pair.client.calls_in_flight(), 0, "over {kind}");
        let growth = resident_bytes().saturating_sub(resident_before);
        assert!(growth <= GROWTH_BYTES_MAX, "over {kind} the process grew by {growth} bytes");
    }
}
