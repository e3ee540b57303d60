//! What encryption costs: calls of 1 KB over farcall with a cluster key, over HTTP/2 with TLS and over QUIC,
//! and the same without keys, all over loopback: `cargo bench -p farcall-tonic --bench encrypted`. They take
//! turns: figures of one column belong together. Then the processor time of a new connection with its first
//! call. With `FARCALL_BENCH_SHORT=1` there is little of each: that only says whether it runs.
//!
//! Over farcall both ends prove who they are, over HTTP/2 and QUIC the server alone, as is usual there.
//! Nobody resumes an earlier session. Needs openssl.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "encrypted/connecting.rs"]
mod connecting;
mod measured;
#[path = "encrypted/quic.rs"]
mod quic;
#[path = "encrypted/rows.rs"]
mod rows;
#[path = "encrypted/secrets.rs"]
mod secrets;

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::GreeterServer;
use measured::bare::Bare;
use measured::{Amount, Echo, http, median, request, run};
use quic::Quic;
use rows::Rows;
use secrets::Secrets;

/// A transport, and whether it has the cluster key.
const OVER: [(&str, bool); 4] =
    [("tcp", false), ("tcp+tls", true), ("basic+udp", false), ("basic+udp", true)];

fn name_of(what: &str, transport: &str, has_key: bool) -> String {
    format!("{what} over {transport}{}", if has_key { " with a key" } else { "" })
}

/// Calls over connections that are up.
async fn calls(secrets: &Secrets) {
    let amount = Amount::asked_for();
    let plain = format!("http://{}", http::serve(None).await);
    let mut plain = GreeterClient::connect(plain).await.expect("it listens");
    let with_tls = connecting::to_http(http::serve(Some(secrets.of_http_server())).await, secrets);
    let mut with_tls = GreeterClient::new(with_tls.connect().await.expect("it listens"));
    let key = secrets.key_parameter();
    let key = |has_key: bool| has_key.then_some(key.as_str());
    let pairs = OVER.map(|(transport, has_key)| {
        common::serve_set(transport, GreeterServer::new(Echo), [key(has_key); 2])
    });
    let bare = OVER.map(|(transport, has_key)| Bare::over(transport, key(has_key)));
    let quic = Quic::serve(secrets);
    let connection = quic.connect(secrets.of_quic_client()).await;
    let mut stream = quic::Stream::open(&connection).await;
    let mut rows = Rows::default();
    for _ in 0..amount.rounds {
        let greet = async || drop(plain.say_hello(request()).await.expect("a reply"));
        rows.add("gRPC over HTTP/2", median(amount, greet).await);
        let greet = async || drop(with_tls.say_hello(request()).await.expect("a reply"));
        rows.add("gRPC over HTTP/2 with TLS", median(amount, greet).await);
        for (pair, (transport, has_key)) in pairs.iter().zip(OVER) {
            let mut client = GreeterClient::new(pair.channel.clone());
            let greet = async || drop(client.say_hello(request()).await.expect("a reply"));
            rows.add(&name_of("gRPC", transport, has_key), median(amount, greet).await);
        }
        for (bare, (transport, has_key)) in bare.iter().zip(OVER) {
            rows.add(&name_of("bare calls", transport, has_key), median(amount, async || bare.call()).await);
        }
        let call = async || quic::call(&connection).await;
        rows.add("QUIC, a stream for each call", median(amount, call).await);
        rows.add("QUIC, one stream for all calls", median(amount, async || stream.call().await).await);
    }
    rows.print("median us of 1 KB there and back, a round in each column");
}

/// What it takes until there is one. All that `calls` had open is closed by then.
async fn connections(secrets: &Secrets) {
    let key = secrets.key_parameter();
    let bare = OVER.map(|(transport, has_key)| Bare::over(transport, has_key.then_some(key.as_str())));
    let over_tls = http::serve(Some(secrets.of_http_server())).await;
    let quic = Quic::serve(secrets);
    let mut rows = Rows::default();
    for _ in 0..Amount::asked_for().rounds {
        rows.add("gRPC over HTTP/2 with TLS", connecting::over_http(over_tls, secrets).await);
        for (bare, (transport, has_key)) in bare.iter().zip(OVER) {
            rows.add(&name_of("bare calls", transport, has_key), connecting::over_farcall(bare).await);
        }
        rows.add("QUIC", connecting::over_quic(&quic, secrets).await);
    }
    rows.print("mean us of processor time, both ends, of a new connection and its first call");
}

fn main() {
    let secrets = Secrets::new();
    run(async {
        calls(&secrets).await;
        connections(&secrets).await;
    });
}
