//! Calls over QUIC: a server that echoes, and its client.

use std::net::SocketAddr;

use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};

use crate::measured::PAYLOAD;
use crate::secrets::{HOST, Secrets};

/// Any port of this host.
const ANY_PORT: &str = "127.0.0.1:0";

/// A server and the socket of its clients.
pub struct Quic {
    clients: Endpoint,
    at: SocketAddr,
}

impl Quic {
    pub fn serve(secrets: &Secrets) -> Self {
        let any_port = ANY_PORT.parse().expect("it is an address");
        let server = Endpoint::server(secrets.of_quic_server(), any_port).expect("a free port");
        let at = server.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                let connection = incoming.await.expect("the client has the certificate");
                tokio::spawn(answer(connection));
            }
        });
        Self { clients: Endpoint::client(any_port).expect("a free port"), at }
    }

    pub async fn connect(&self, config: ClientConfig) -> Connection {
        let connecting = self.clients.connect_with(config, self.at, HOST).expect("it is an address");
        connecting.await.expect("it listens")
    }
}

async fn answer(connection: Connection) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(Stream { send, receive }.echo());
    }
}

/// A stream in both directions.
pub struct Stream {
    send: SendStream,
    receive: RecvStream,
}

impl Stream {
    pub async fn open(connection: &Connection) -> Self {
        let (send, receive) = connection.open_bi().await.expect("the connection is up");
        Self { send, receive }
    }

    /// One call of those that the stream carries.
    pub async fn call(&mut self) {
        self.send.write_all(&PAYLOAD).await.expect("the connection is up");
        self.answer().await;
    }

    async fn answer(&mut self) {
        let mut answer = [0; PAYLOAD.len()];
        self.receive.read_exact(&mut answer).await.expect("an answer");
    }

    /// Answers each call with itself, until the client has no more.
    async fn echo(mut self) {
        let mut request = [0; PAYLOAD.len()];
        while self.receive.read_exact(&mut request).await.is_ok() {
            // A client that has gone does not wait for it.
            let _ = self.send.write_all(&request).await;
        }
        let _ = self.send.finish();
    }
}

/// A call in a stream of its own, whose end travels with the request.
pub async fn call(connection: &Connection) {
    let mut stream = Stream::open(connection).await;
    stream.send.write_all(&PAYLOAD).await.expect("the connection is up");
    stream.send.finish().expect("it was not finished before");
    stream.answer().await;
}
