//! Unary calls of 1 KB over farcall and over tonic's own transport, which take turns, and bare calls of
//! farcall with as many bytes, which are the limit: `taskset -c 0,1,2 cargo bench -p farcall-tonic --bench
//! unary`. Figures of one round belong together. Then the processor time of all these clients and servers
//! while nobody calls, and while there is a call each 10 ms. With `FARCALL_BENCH_SHORT=1` there are few
//! calls: that only says whether it runs.

#[path = "../tests/common/mod.rs"]
mod common;
mod measured;

use std::time::{Duration, Instant};

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::GreeterServer;
use measured::bare::Bare;
use measured::{Amount, Echo, http, median, processor_time_of, request, run, short_or};

/// How often there is a call while the processor is to rest.
const SPARSE: Duration = Duration::from_millis(10);

/// Processor time in percent of the time that something takes.
async fn share_of(work: impl Future<Output = ()>) -> f64 {
    let begun = Instant::now();
    let processor_time = processor_time_of(work).await;
    100.0 * processor_time.as_secs_f64() / begun.elapsed().as_secs_f64()
}

async fn rest(pairs: &[common::Pair]) {
    let sparse_calls = short_or(2, 6000);
    let quiet = share_of(tokio::time::sleep(SPARSE * sparse_calls)).await;
    println!("% of a processor while nobody calls: {quiet:.2}");
    for (pair, transport) in pairs.iter().zip(common::TRANSPORTS) {
        let mut client = GreeterClient::new(pair.channel.clone());
        let sparse = share_of(async {
            for _ in 0..sparse_calls / 6 {
                client.say_hello(request()).await.expect("a reply");
                tokio::time::sleep(SPARSE).await;
            }
        });
        println!("and with a call each {SPARSE:?} over {transport}: {:.2}", sparse.await);
    }
}

async fn measure() {
    let amount = Amount::asked_for();
    let address = format!("http://{}", http::serve(None).await);
    let mut over_http = GreeterClient::connect(address).await.expect("it listens");
    let pairs = common::TRANSPORTS.map(|transport| common::serve(transport, GreeterServer::new(Echo)));
    let bare = common::TRANSPORTS.map(|transport| Bare::over(transport, None));
    let transports = common::TRANSPORTS.join(", ");
    println!("median us of 1 KB: HTTP/2 over loopback; gRPC over {transports}; bare calls over {transports}");
    for _ in 0..amount.rounds {
        let greet = async || drop(over_http.say_hello(request()).await.expect("a reply"));
        print!("{:.1}", median(amount, greet).await);
        for pair in &pairs {
            let mut client = GreeterClient::new(pair.channel.clone());
            let greet = async || drop(client.say_hello(request()).await.expect("a reply"));
            print!(", {:.1}", median(amount, greet).await);
        }
        for bare in &bare {
            print!(", {:.1}", median(amount, async || bare.call()).await);
        }
        println!();
    }
    rest(&pairs).await;
}

fn main() {
    run(measure());
}
