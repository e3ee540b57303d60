//! Unary calls of 1 KB over farcall and over tonic's own transport, which take turns: `cargo bench -p
//! farcall-tonic`. Figures of one round belong together.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::{Greeter, GreeterServer};
use common::helloworld::{HelloReply, HelloRequest};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const ROUNDS: usize = 5;
const WARM_UP: usize = 200;
const CALLS: usize = 2000;
const BYTES: usize = 1000;

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
    ($client:expr) => {{
        let mut times = Vec::with_capacity(CALLS);
        for call in 0..WARM_UP + CALLS {
            let begun = Instant::now();
            let request = HelloRequest { name: "x".repeat(BYTES) };
            $client.say_hello(request).await.expect("a reply");
            if call >= WARM_UP {
                times.push(begun.elapsed());
            }
        }
        times.sort_unstable();
        times[CALLS / 2]
    }};
}

async fn measure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let server = tonic::transport::Server::builder().add_service(GreeterServer::new(Echo));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(server.serve_with_incoming(incoming));
    let mut over_http = GreeterClient::connect(address).await.expect("it listens");
    let pairs = common::TRANSPORTS.map(|transport| common::serve(transport, GreeterServer::new(Echo)));
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!("median us of 1 KB: HTTP/2 over loopback, {}", common::TRANSPORTS.join(", "));
    for _ in 0..ROUNDS {
        print!("{:.1}", us(median!(over_http)));
        for pair in &pairs {
            let mut client = GreeterClient::new(pair.channel.clone());
            print!(", {:.1}", us(median!(client)));
        }
        println!();
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(measure());
}
