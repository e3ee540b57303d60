//! What a `Client` costs beside the endpoint that it goes through: the table of `docs/clients.md`.
//!
//! `cargo run --release --example client_cost`, or with a transport and the milliseconds for each row:
//! `client_cost ring+shm 500`. The server is a process of its own; the rows alternate, so that each has its
//! share of what the machine does meanwhile.

use std::error::Error;
use std::time::{Duration, Instant};

use farcall::{CLIENT_CALLS_MAX, Client, Endpoint, Event, Node, Peer, Service};

const ECHO: Service = Service(1);
/// As many bytes as in the echo of `farcall perf`, each way.
const REQUEST: [u8; 30] = [7; 30];
const ANSWER: [u8; 100] = [8; 100];
/// Each row is measured that often, and the best is printed: neighbours only take.
const ROUNDS: usize = 5;
/// Tasks or calls in flight in the rows with several.
const WIDTH: usize = 64;

/// Calls and the time of each, in nanoseconds.
struct Measured {
    times: Vec<u64>,
    elapsed: Duration,
}

impl Measured {
    fn calls_per_second(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn median(&mut self) -> u64 {
        let middle = self.times.len() / 2;
        *self.times.select_nth_unstable(middle).1
    }
}

/// Call after call of one endpoint.
fn endpoint_alone(endpoint: &Endpoint, server: Peer, time: Duration) -> Measured {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let start = Instant::now();
        endpoint.call(server, ECHO, &REQUEST).wait().expect("an answer");
        times.push(start.elapsed().as_nanos() as u64);
    }
    Measured { times, elapsed: begun.elapsed() }
}

/// A window of calls of one endpoint.
fn endpoint_window(endpoint: &Endpoint, server: Peer, time: Duration) -> Measured {
    let (begun, mut times) = (Instant::now(), Vec::new());
    let mut starts = [begun; WIDTH];
    let call = |place: usize| {
        endpoint.call(server, ECHO, &REQUEST).post(place as u64).expect("room");
        Instant::now()
    };
    for (place, start) in starts.iter_mut().enumerate() {
        *start = call(place);
    }
    let (mut ended, mut in_flight) = (Vec::new(), WIDTH);
    while in_flight > 0 {
        endpoint.poll(|_, event| {
            if let Event::Completed { token, outcome: Ok(_) } = event {
                ended.push(token as usize);
            }
        });
        for place in ended.drain(..) {
            times.push(starts[place].elapsed().as_nanos() as u64);
            if begun.elapsed() < time {
                starts[place] = call(place);
            } else {
                in_flight -= 1;
            }
        }
    }
    Measured { times, elapsed: begun.elapsed() }
}

/// Threads that each wait for call after call of one client.
fn threads(client: &Client, server: Peer, threads: usize, time: Duration) -> Measured {
    let begun = Instant::now();
    let call = || {
        let mut times = Vec::new();
        while begun.elapsed() < time {
            let start = Instant::now();
            client.call(server, ECHO, &REQUEST).wait().expect("an answer");
            times.push(start.elapsed().as_nanos() as u64);
        }
        times
    };
    let times = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|_| scope.spawn(call)).collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("it measures")).collect()
    });
    Measured { times, elapsed: begun.elapsed() }
}

/// Tasks of a tokio runtime, each of which awaits call after call of one client.
fn tasks(runtime: &tokio::runtime::Runtime, client: &Client, server: Peer, time: Duration) -> Measured {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..WIDTH)
        .map(|_| {
            let client = client.clone();
            runtime.spawn(async move {
                let mut times = Vec::new();
                while begun.elapsed() < time {
                    let start = Instant::now();
                    client.call(server, ECHO, &REQUEST).await.expect("an answer");
                    times.push(start.elapsed().as_nanos() as u64);
                }
                times
            })
        })
        .collect();
    let times = tasks.into_iter().flat_map(|task| runtime.block_on(task).expect("it measures")).collect();
    Measured { times, elapsed: begun.elapsed() }
}

/// The best of several rounds of one row.
#[derive(Clone, Copy, Default)]
struct Row {
    calls_per_second: f64,
    median: Option<u64>,
}

impl Row {
    fn add(&mut self, mut measured: Measured) {
        self.calls_per_second = self.calls_per_second.max(measured.calls_per_second());
        let median = measured.median();
        self.median = Some(self.median.map_or(median, |least| least.min(median)));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let transport = arguments.next().unwrap_or_else(|| "ring+shm".into());
    let time = Duration::from_millis(arguments.next().map_or(Ok(500), |text| text.parse())?);
    let node = Node::local(2)?;
    if node.rank() == 1 {
        let endpoint = node.endpoint(&transport)?;
        endpoint.serve(ECHO, |_, reply| reply.send(&ANSWER));
        endpoint.run_while(|| true); // until the first process ends
    }
    let plain = node.endpoint(&transport)?;
    let plain_server = plain.peer(1)?;
    let of_client = node.endpoint(&transport)?;
    let server = of_client.peer(1)?;
    let client = Client::start_with(of_client, CLIENT_CALLS_MAX)?;
    let runtime_of = |threads| tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build();
    let (two, eight) = (runtime_of(2)?, runtime_of(8)?);
    let names = [
        "endpoint, one call at a time",
        "client, one thread that waits",
        "endpoint, 64 calls in flight",
        "client, 64 tasks of tokio on 2 threads",
        "client, 64 tasks of tokio on 8 threads",
        "client, 8 threads that wait",
    ];
    let mut rows = [Row::default(); 6];
    for _ in 0..ROUNDS {
        rows[0].add(endpoint_alone(&plain, plain_server, time));
        rows[1].add(threads(&client, server, 1, time));
        rows[2].add(endpoint_window(&plain, plain_server, time));
        rows[3].add(tasks(&two, &client, server, time));
        rows[4].add(tasks(&eight, &client, server, time));
        rows[5].add(threads(&client, server, 8, time));
    }
    println!("{transport}, 30 B there and 100 B back, the best of {ROUNDS} rounds of {time:?}");
    println!("{:<40} {:>12} {:>10}", "", "calls/s", "p50");
    for (name, row) in names.iter().zip(rows) {
        let median = row.median.unwrap_or_default() as f64 / 1000.0;
        println!("{name:<40} {:>12.0} {median:>7.2} us", row.calls_per_second);
    }
    Ok(())
}
