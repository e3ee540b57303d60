//! What a trace point costs, on and off: `cargo bench -p farcall-transport --bench trace_points`.
//!
//! The loop beside it does the same without a trace point; the difference is the cost. Blocks are interleaved, and
//! the shortest of each kind counts: what is longer was disturbed.

use std::hint::black_box;
use std::time::Instant;

use farcall_driver::clock::Clock;
use farcall_transport::SessionId;
use farcall_transport::trace::{CallTracer, event};

const EVENTS: u32 = 100_000;
const BLOCKS: usize = 501;

fn main() {
    let tracer = CallTracer::new(Clock::new());
    let mut found: [Vec<f64>; 4] = Default::default();
    tracer.switch(true);
    for _ in 0..BLOCKS {
        found[0].push(nanos(|number| {
            let _ = black_box(number);
        }));
        tracer.switch(false);
        found[1].push(nanos(|number| black_box(&tracer).mark(event::REPLIED, number, SessionId(number))));
        tracer.switch(true);
        found[2].push(nanos(|number| black_box(&tracer).mark(event::REPLIED, number, SessionId(number))));
        found[3]
            .push(nanos(|number| black_box(&tracer).mark_at(1, event::REPLIED, number, SessionId(number))));
    }
    let least = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
    let [nothing, off, on, shared] = found.map(least);
    println!("a trace point, in nanoseconds, the shortest of {BLOCKS} blocks of {EVENTS}");
    println!("{:>8.2}  off", off - nothing);
    println!("{:>8.2}  on, with a reading of the counter", on - nothing);
    println!("{:>8.2}  on, sharing the reading of another", shared - nothing);
}

/// The time of one turn.
fn nanos(mut turn: impl FnMut(u32)) -> f64 {
    let begin = Instant::now();
    (0..EVENTS).for_each(&mut turn);
    begin.elapsed().as_nanos() as f64 / f64::from(EVENTS)
}
