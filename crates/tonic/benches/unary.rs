//! Unary calls of 1 KB over farcall and over tonic's own transport, which take turns, and bare calls of
//! farcall with as many bytes, which are the limit: `taskset -c 0,1,2 cargo bench -p farcall-tonic`. Figures
//! of one round belong together. Then the processor time of all these clients and servers while nobody calls,
//! and while there is a call each 10 ms. With `FARCALL_BENCH_SHORT=1` there are few calls: that only says
//! whether it runs.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::{Greeter, GreeterServer};
use common::helloworld::{HelloReply, HelloRequest};
use farcall::{Endpoint, Node, Peer, Service};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const BYTES: usize = 1000;

/// How much is measured.
#[derive(Clone, Copy)]
struct Amount {
    rounds: usize,
    warm_up: usize,
    calls: usize,
    /// How many of them there are at 10 ms each.
    sparse_calls: u32,
}

impl Amount {
    fn asked_for() -> Self {
        match std::env::var_os("FARCALL_BENCH_SHORT") {
            Some(_) => Self { rounds: 1, warm_up: 5, calls: 25, sparse_calls: 2 },
            None => Self { rounds: 5, warm_up: 200, calls: 2000, sparse_calls: 6000 },
        }
    }
}

#[derive(Clone)]
struct Echo;

#[tonic::async_trait]
impl Greeter for Echo {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        Ok(Response::new(HelloReply { message: request.into_inner().name }))
    }
}

/// The median time of a call.
macro_rules! median {
    ($client:expr, $amount:expr) => {{
        let Amount { warm_up, calls, .. } = $amount;
        let mut times = Vec::with_capacity(calls);
        for call in 0..warm_up + calls {
            let begun = Instant::now();
            let request = HelloRequest { name: "x".repeat(BYTES) };
            $client.say_hello(request).await.expect("a reply");
            if call >= warm_up {
                times.push(begun.elapsed());
            }
        }
        times.sort_unstable();
        times[calls / 2]
    }};
}

/// Bare calls over a transport, to a thread that echoes.
struct Bare {
    endpoint: Endpoint,
    peer: Peer,
    is_over: Arc<AtomicBool>,
    _node: Node,
}

const ECHO: Service = Service(1);

impl Bare {
    fn over(transport: &'static str) -> Self {
        let node = Node::serving_names("127.0.0.1:0").expect("a free port");
        let registry = node.registry_address().expect("it serves names").to_string();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let node = Node::open_at(&registry).expect("it is there");
            let endpoint = node.endpoint(transport).expect("it is there");
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            let _listener = endpoint.listen("echo").expect("a free name");
            endpoint.run_while(|| !ends.load(Ordering::Relaxed));
        });
        let endpoint = node.endpoint(transport).expect("it is there");
        let connection = endpoint.connect("echo").expect("a name");
        let peer = connection.wait(common::LONG).expect("it listens");
        drop(connection);
        Self { endpoint, peer, is_over, _node: node }
    }

    /// The median time of a call.
    fn median(&self, Amount { warm_up, calls, .. }: Amount) -> Duration {
        let bytes = [b'x'; BYTES];
        let mut times = Vec::with_capacity(calls);
        for call in 0..warm_up + calls {
            let begun = Instant::now();
            self.endpoint.call(self.peer, ECHO, &bytes).wait().expect("an answer");
            if call >= warm_up {
                times.push(begun.elapsed());
            }
        }
        times.sort_unstable();
        times[calls / 2]
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// How often there is a call while the processor is to rest.
const SPARSE: Duration = Duration::from_millis(10);

/// The processor time that this process has taken.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this process lives");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    // User and system time, in hundredths of a second: see proc(5).
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// Processor time in percent of the time that something takes.
async fn share_of<F: Future<Output = ()>>(work: F) -> f64 {
    let (begun, before) = (Instant::now(), processor_time());
    work.await;
    100.0 * (processor_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64()
}

async fn rest(pairs: &[common::Pair], Amount { sparse_calls, .. }: Amount) {
    let quiet = share_of(tokio::time::sleep(SPARSE * sparse_calls)).await;
    println!("% of a processor while nobody calls: {quiet:.2}");
    for (pair, transport) in pairs.iter().zip(common::TRANSPORTS) {
        let mut client = GreeterClient::new(pair.channel.clone());
        let sparse = share_of(async {
            for _ in 0..sparse_calls / 6 {
                client.say_hello(HelloRequest { name: "x".repeat(BYTES) }).await.expect("a reply");
                tokio::time::sleep(SPARSE).await;
            }
        });
        println!("and with a call each {SPARSE:?} over {transport}: {:.2}", sparse.await);
    }
}

async fn measure(amount: Amount) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let server = tonic::transport::Server::builder().add_service(GreeterServer::new(Echo));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(server.serve_with_incoming(incoming));
    let mut over_http = GreeterClient::connect(address).await.expect("it listens");
    let pairs = common::TRANSPORTS.map(|transport| common::serve(transport, GreeterServer::new(Echo)));
    let bare = common::TRANSPORTS.map(Bare::over);
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let transports = common::TRANSPORTS.join(", ");
    println!("median us of 1 KB: HTTP/2 over loopback; gRPC over {transports}; bare calls over {transports}");
    for _ in 0..amount.rounds {
        print!("{:.1}", us(median!(over_http, amount)));
        for pair in &pairs {
            let mut client = GreeterClient::new(pair.channel.clone());
            print!(", {:.1}", us(median!(client, amount)));
        }
        bare.iter().for_each(|bare| print!(", {:.1}", us(bare.median(amount))));
        println!();
    }
    rest(&pairs, amount).await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(measure(Amount::asked_for()));
}
