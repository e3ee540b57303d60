//! The echo over tonic's own transport, HTTP/2 over loopback.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::{ServerTlsConfig, TcpIncoming};

use super::Echo;
use crate::common::helloworld::greeter_server::GreeterServer;

/// Serves it, and says where.
pub async fn serve(tls: Option<ServerTlsConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("it is bound");
    let mut server = Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls).expect("the key is that of the certificate");
    }
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(server.add_service(GreeterServer::new(Echo)).serve_with_incoming(incoming));
    at
}
