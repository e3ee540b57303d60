//! What the benches share: how much is measured, what is called, and how its time is taken.

#![allow(dead_code, reason = "each bench uses its part")]

pub mod bare;
pub mod http;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tonic::{Request, Response, Status};

use crate::common::helloworld::greeter_server::Greeter;
use crate::common::helloworld::{HelloReply, HelloRequest};

/// What a call carries, there and back.
pub const PAYLOAD: [u8; 1000] = [b'x'; 1000];

/// One of two amounts: the first only says whether a bench runs.
pub fn short_or<T>(short: T, full: T) -> T {
    if std::env::var_os("FARCALL_BENCH_SHORT").is_some() { short } else { full }
}

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Amount {
    pub rounds: usize,
    pub warm_up: usize,
    pub calls: usize,
}

impl Amount {
    pub fn asked_for() -> Self {
        let short = Self { rounds: 1, warm_up: 5, calls: 25 };
        short_or(short, Self { rounds: 5, warm_up: 200, calls: 2000 })
    }
}

/// The service of gRPC.
#[derive(Clone)]
pub struct Echo;

#[tonic::async_trait]
impl Greeter for Echo {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        Ok(Response::new(HelloReply { message: request.into_inner().name }))
    }
}

/// What it is called with.
pub fn request() -> HelloRequest {
    HelloRequest { name: String::from_utf8(PAYLOAD.to_vec()).expect("ASCII") }
}

/// The median time of a call, in microseconds.
pub async fn median(Amount { warm_up, calls, .. }: Amount, mut call: impl AsyncFnMut()) -> f64 {
    let mut times = Vec::with_capacity(calls);
    for number in 0..warm_up + calls {
        let begun = Instant::now();
        call().await;
        if number >= warm_up {
            times.push(begun.elapsed());
        }
    }
    times.sort_unstable();
    us(times[calls / 2])
}

/// In microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The processor time that something takes: that of the whole process, so of both ends.
pub async fn processor_time_of(work: impl Future<Output = ()>) -> Duration {
    let processor_time = || clock_gettime(ClockId::ProcessCPUTime);
    let before = processor_time();
    work.await;
    Duration::try_from(processor_time() - before).expect("it only grows")
}

/// Runs a bench in a runtime with as many threads as its clients and servers need.
pub fn run(bench: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(bench);
}
