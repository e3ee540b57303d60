//! New connections, each with its first call.
//!
//! What a client has before it connects is made before the clock runs: sockets that listen, names that are
//! found, certificates that are read. All connections of a block stay open until it is over, so that no end
//! of one is measured. The mean of a block is taken, because a server may have work after it has answered.

use std::net::SocketAddr;

use tonic::transport::Endpoint;

use crate::common::helloworld::greeter_client::GreeterClient;
use crate::measured::bare::{Bare, first_call, found};
use crate::measured::{processor_time_of, request, short_or, us};
use crate::quic::{self, Quic};
use crate::secrets::Secrets;

/// How many a block has.
fn block() -> usize {
    short_or(5, 100)
}

async fn mean(connecting: impl Future<Output = ()>) -> f64 {
    us(processor_time_of(connecting).await) / block() as f64
}

/// To a thread that echoes over farcall.
pub async fn over_farcall(bare: &Bare) -> f64 {
    let newcomers = bare.newcomers(block());
    let connections: Vec<_> = newcomers.iter().map(found).collect();
    mean(async {
        newcomers
            .iter()
            .zip(&connections)
            .for_each(|(newcomer, connection)| first_call(newcomer, connection));
    })
    .await
}

/// What reaches a server of HTTP/2 with TLS.
pub fn to_http(at: SocketAddr, secrets: &Secrets) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("https://{at}")).expect("it is an address");
    endpoint.tls_config(secrets.of_http_client()).expect("the certificate is read")
}

/// To such a server. Each client has a store of sessions of its own, so that none is resumed.
pub async fn over_http(at: SocketAddr, secrets: &Secrets) -> f64 {
    let endpoints: Vec<_> = (0..block()).map(|_| to_http(at, secrets)).collect();
    let mut clients = Vec::with_capacity(endpoints.len());
    mean(async {
        for endpoint in &endpoints {
            let mut client = GreeterClient::new(endpoint.connect().await.expect("it listens"));
            client.say_hello(request()).await.expect("a reply");
            clients.push(client);
        }
    })
    .await
}

/// To a server of QUIC; sessions are as with HTTP/2.
pub async fn over_quic(server: &Quic, secrets: &Secrets) -> f64 {
    let configs: Vec<_> = (0..block()).map(|_| secrets.of_quic_client()).collect();
    let mut connections = Vec::with_capacity(configs.len());
    mean(async {
        for config in configs {
            let connection = server.connect(config).await;
            quic::call(&connection).await;
            connections.push(connection);
        }
    })
    .await
}
