//! What calls and messages cost a program that waits for each: `call_cost CALLS MESSAGES`, two processes over
//! `ring+shm`. Rank r runs on the r-th core that the process may use.
//!
//! Prints the median round trip of 30 B in nanoseconds, with an answer that is kept and with one that is
//! copied, and messages of 8 B in a second: one by one, and in batches of 10. It is
//! `crates/ffi/benches/price.c` in Rust, step for step, so that `scripts/bench-c` can say what the border
//! of C costs.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use farcall::{Endpoint, Node, Peer, SendError, Service, Tag};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ECHO: Service = Service(1);
const STOP: Service = Service(2);
const TAG: Tag = Tag(7);
const BATCH: usize = 10;
const CALLS_PER_BLOCK: usize = 20;

/// The median over blocks of calls: to read the clock takes a tenth of one.
fn echo_ns(calls: usize, mut call: impl FnMut()) -> f64 {
    let blocks = calls / CALLS_PER_BLOCK;
    let warm_up = blocks / 10 + 1;
    let mut times = Vec::with_capacity(blocks);
    for block in 0..warm_up + blocks {
        let begun = Instant::now();
        (0..CALLS_PER_BLOCK).for_each(|_| call());
        if block >= warm_up {
            times.push(begun.elapsed().as_nanos() as f64 / CALLS_PER_BLOCK as f64);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    times[blocks / 2]
}

/// Messages in a second, until the last has arrived: the call behind them is answered after it.
fn rate(endpoint: &Endpoint, peer: Peer, messages: usize, mut send: impl FnMut() -> usize) -> f64 {
    let (begun, mut done) = (Instant::now(), 0);
    while done < messages {
        done += send();
    }
    endpoint.call(peer, ECHO, b"-").wait().expect("an answer");
    done as f64 / begun.elapsed().as_secs_f64()
}

/// Sends a batch; says how many messages of it. Those for which the peer has made no room are operations in
/// flight, of which there is a limit.
fn batch(endpoint: &Endpoint, peer: Peer) -> usize {
    for sent in 0..BATCH {
        match endpoint.send(peer, TAG, &[0; 8]).start() {
            Ok(sending) => drop(sending),
            Err(SendError::TooMany { .. }) => {
                endpoint.turn();
                return sent;
            }
            Err(error) => panic!("a message cannot be sent: {error}"),
        }
    }
    BATCH
}

fn serve(endpoint: &Endpoint) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(STOP, move |_, reply| {
        ends.store(true, Ordering::Relaxed);
        reply.send(b"");
    });
    let arrived = AtomicUsize::new(0);
    // Only this thread counts.
    endpoint.on_message(move |_, message| {
        black_box(&*message);
        arrived.store(arrived.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    });
    is_over
}

fn measure(endpoint: &Endpoint, calls: usize, messages: usize) -> Result<(), Box<dyn Error>> {
    let peer = endpoint.peer(1)?;
    endpoint.wait_for(peer)?;
    let request = [0_u8; 30];
    let kept = echo_ns(calls, || {
        let answer = endpoint.call(peer, ECHO, &request).wait().expect("an answer");
        black_box(&*answer);
    });
    let mut copy = [0_u8; 30];
    let copied = echo_ns(calls, || {
        let answer = endpoint.call(peer, ECHO, &request).wait().expect("an answer");
        copy.copy_from_slice(&answer);
        black_box(&copy);
    });
    let message = [0_u8; 8];
    let one_by_one = rate(endpoint, peer, messages, || {
        endpoint.send(peer, TAG, &message).wait().expect("it leaves");
        1
    });
    let in_batches = rate(endpoint, peer, messages, || batch(endpoint, peer));
    println!("{kept:.0} {copied:.0} {one_by_one:.0} {in_batches:.0}");
    endpoint.call(peer, STOP, b"").wait()?;
    Ok(())
}

/// The core of a rank, of those that this process may use; without enough of them it stays where it is.
fn pin(rank: u32) -> Result<(), Box<dyn Error>> {
    let allowed = sched_getaffinity(None)?;
    let core = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).nth(rank as usize);
    if let Some(core) = core {
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut amounts = std::env::args().skip(1).map(|amount| amount.parse::<usize>());
    let calls = amounts.next().transpose()?.unwrap_or(100_000);
    let messages = amounts.next().transpose()?.unwrap_or(5_000_000);
    let node = Node::local(2)?;
    pin(node.rank())?;
    let mut settings = node.settings().clone();
    settings.assign("endpoint.idle=spin")?;
    let endpoint = node.endpoint_with("ring+shm".parse()?, &settings)?;
    let is_over = serve(&endpoint);
    if node.rank() == 1 {
        while !is_over.load(Ordering::Relaxed) {
            endpoint.poll_idle(|_, _| {});
        }
        endpoint.poll(|_, _| {});
    } else {
        measure(&endpoint, calls, messages)?;
    }
    node.barrier("done", Duration::from_secs(60))?;
    Ok(())
}
