//! A TCP service on tokio whose tasks call a farcall service: one endpoint for all of its threads.
//!
//! `cargo run --example tokio_service`. For the sake of the example everything is in one process: the farcall
//! server, the TCP service, and a TCP client that asks three things.

use std::error::Error;
use std::time::Duration;

use farcall::bootstrap::Rendezvous;
use farcall::{Client, ClientConnection, Node, Service};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Answers with the length of what it is sent.
const LENGTH: Service = Service(1);
const TRANSPORT: &str = "ring+shm";
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Threads for handlers that block.
const HANDLERS: usize = 2;

/// Serves until the process ends, with handlers that may take their time.
fn serve(registry: &str) -> Outcome<()> {
    let endpoint = Node::open_at(registry)?.endpoint(TRANSPORT)?;
    endpoint.serve_blocking(LENGTH, HANDLERS, |request, reply| {
        reply.send(format!("{} bytes", request.payload().len()));
    })?;
    let _listener = endpoint.listen("lengths")?;
    endpoint.run_while(|| true);
    Ok(())
}

/// Answers each line of a TCP connection with what the farcall service says about it.
async fn answer_lines(mut connection: TcpStream, lengths: ClientConnection) -> Outcome<()> {
    let (reader, mut writer) = connection.split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match lengths.call(LENGTH, line).within(ANSWER_WITHIN).await {
            Ok(answer) => String::from_utf8_lossy(&answer).into_owned(),
            Err(error) => format!("error: {error}"),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

/// The TCP client: what it is answered.
async fn ask(service: std::net::SocketAddr, questions: &[&str]) -> Outcome<Vec<String>> {
    let mut connection = TcpStream::connect(service).await?;
    let (reader, mut writer) = connection.split();
    let mut lines = BufReader::new(reader).lines();
    let mut answers = Vec::new();
    for question in questions {
        writer.write_all(format!("{question}\n").as_bytes()).await?;
        answers.push(lines.next_line().await?.ok_or("the service hung up")?);
    }
    Ok(answers)
}

/// Starts everything and asks.
pub fn answers(questions: &[&str]) -> Outcome<Vec<String>> {
    let registry = Rendezvous::bind_open("127.0.0.1:0")?; // elsewhere: `farcall registry`
    let address = registry.address().to_string();
    let registry_of_server = address.clone();
    std::thread::spawn(move || serve(&registry_of_server).expect("it serves until the process ends"));

    let client = Client::start(Node::open_at(&address)?.endpoint(TRANSPORT)?)?;
    let lengths = client.connect("lengths");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let service = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer_lines(connection, lengths.clone()));
            }
        });
        ask(service, questions).await
    })
}

#[allow(dead_code, reason = "a test asks by itself")]
fn main() -> Outcome<()> {
    for answer in answers(&["a line", "a longer line", ""])? {
        println!("{answer}");
    }
    Ok(())
}
