//! An HTTP service on axum whose handlers call a farcall service by name.
//!
//! `cargo run --example http_service`, then `curl http://127.0.0.1:8080/length -d 'some text'`. For the sake
//! of the example the farcall server is in the same process. Failures of a call become statuses of HTTP: a
//! request that certainly did not run can be repeated by anybody (503), one that may have run by those who
//! know that it does no harm (504), and what the handler itself refuses is the client's business (422).

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use farcall::bootstrap::Rendezvous;
use farcall::{CallError, Client, ClientConnection, ClientError, Node, Service};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Answers with the number of characters of the UTF-8 that it is sent.
const LENGTH: Service = Service(1);
const TRANSPORT: &str = "auto";
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// What the farcall server says of what is no text.
const NO_TEXT: u8 = 1;

/// Serves until the process ends.
fn serve(registry: &str) -> Outcome<()> {
    let endpoint = Node::open_at(registry)?.endpoint(TRANSPORT)?;
    endpoint.serve(LENGTH, |request, reply| match std::str::from_utf8(request.payload()) {
        Ok(text) => reply.send(text.chars().count().to_string().as_bytes()),
        Err(_) => reply.refuse(NO_TEXT),
    });
    let _listener = endpoint.listen("lengths")?;
    endpoint.run_while(|| true);
    Ok(())
}

/// The routes, on a client that all requests share.
pub fn routes(lengths: ClientConnection) -> Router {
    Router::new().route("/length", post(length)).with_state(lengths)
}

async fn length(State(lengths): State<ClientConnection>, text: Bytes) -> Result<Bytes, (StatusCode, String)> {
    let response = lengths.call(LENGTH, &text[..]).within(ANSWER_WITHIN).await;
    response
        .map(|answer| Bytes::copy_from_slice(&answer))
        .map_err(|error| (status_of(&error), error.to_string()))
}

fn status_of(error: &ClientError) -> StatusCode {
    match error {
        ClientError::Call(CallError::Refused { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
        ClientError::Call(CallError::TimedOut | CallError::PeerDown(_)) | ClientError::Stopped => {
            StatusCode::GATEWAY_TIMEOUT
        }
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The routes over a farcall server of this process.
pub fn with_a_server() -> Outcome<(Router, Rendezvous)> {
    let registry = Rendezvous::bind_open("127.0.0.1:0")?; // elsewhere: `farcall registry`
    let address = registry.address().to_string();
    let registry_of_server = address.clone();
    std::thread::spawn(move || serve(&registry_of_server).expect("it serves until the process ends"));
    let client = Client::start(Node::open_at(&address)?.endpoint(TRANSPORT)?)?;
    Ok((routes(client.connect("lengths")), registry))
}

#[allow(dead_code, reason = "a test asks by itself")]
fn main() -> Outcome<()> {
    let (routes, _registry) = with_a_server()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
        println!("curl http://{}/length -d 'some text'", listener.local_addr()?);
        Ok(axum::serve(listener, routes).await?)
    })
}
