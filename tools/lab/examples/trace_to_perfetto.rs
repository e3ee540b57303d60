//! A program's own calls, traced and written for <https://ui.perfetto.dev>: `trace_to_perfetto FILE`.
//!
//! Two processes record what they do; the server sends its records to the caller, which joins both sides and
//! shows where the time of a call goes, as `farcall perf --trace` does for its own calls.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use farcall::{Endpoint, Node, Service};
use farcall_lab::explain::trace::{HostTrace, PART_WORDS, PARTS, Traced, perfetto};
use farcall_lab::files::write_beside;

const LENGTH: Service = Service(1);
const OVER: Service = Service(2);
const RECORDS: Service = Service(3);
const CALLS: usize = 100;

/// Answers until the caller says that it is over, and then sends what it recorded.
fn serve(endpoint: &Endpoint) -> Result<(), Box<dyn Error>> {
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    endpoint.serve(LENGTH, |request, reply| reply.send(&request.payload().len().to_le_bytes()));
    endpoint.serve(OVER, move |_, reply| {
        told.store(true, Ordering::Relaxed);
        reply.send(b"");
    });
    endpoint.run_while(|| !over.load(Ordering::Relaxed));
    // Before the caller leaves: a session that is over has lost its name.
    let trace = HostTrace::end(1, endpoint).ok_or("nothing was recorded")?;
    endpoint.call(endpoint.peer(0)?, RECORDS, serde_json::to_vec(&trace)?).wait()?;
    Ok(())
}

/// Calls, and returns what both sides recorded.
fn call(endpoint: &Endpoint) -> Result<[HostTrace; 2], Box<dyn Error>> {
    let records = Arc::new(OnceLock::new());
    let received = Arc::clone(&records);
    endpoint.serve(RECORDS, move |request, reply| {
        received.get_or_init(|| request.payload().to_vec());
        reply.send(b"");
    });
    let server = endpoint.peer(1)?;
    for call in 0..CALLS {
        endpoint.call(server, LENGTH, vec![0; call * 100]).wait()?;
    }
    let own = HostTrace::end(0, endpoint).ok_or("nothing was recorded")?;
    endpoint.call(server, OVER, b"").wait()?;
    endpoint.run_while(|| records.get().is_none());
    let theirs: &Vec<u8> = records.get().ok_or("the server sent no records")?;
    Ok([own, serde_json::from_slice(theirs)?])
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("usage: trace_to_perfetto FILE")?;
    let node = Node::local(2)?; // the first process starts the second, which arrives here too
    let endpoint = node.endpoint("ring+shm")?;
    endpoint.tracer().switch(true);
    if node.rank() == 1 {
        return serve(&endpoint);
    }
    let traces = call(&endpoint)?;
    let traced = Traced::on_machine([&traces[..]]);
    let summary = traced.summary.as_ref().ok_or("no call has all its points")?;
    println!("{} calls, nanoseconds of the median:", summary.calls);
    for (part, words) in PARTS.iter().zip(PART_WORDS) {
        println!("{part:<20} {:>8.0}  {words}", summary.part(part).p50);
    }
    write_beside(file.as_ref(), perfetto(&traced.joined.calls).to_string().as_bytes())?;
    Ok(())
}
