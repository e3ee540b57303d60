//! One gRPC service over two channels: `swap serve`, then `swap call farcall` and `swap call http://HOST:PORT`.
//!
//! The service, its messages and the calls are what tonic generates; the two functions below that make a
//! client are all that differs. Names are kept by `farcall registry`, or where FARCALL_NAMES says.

use std::error::Error;
use std::time::Duration;

use farcall::Node;
use farcall_tonic::{Channel, Server};
use helloworld::greeter_client::GreeterClient;
use helloworld::greeter_server::{Greeter, GreeterServer};
use helloworld::{HelloReply, HelloRequest};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// What `tonic-prost-build` makes of `helloworld.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
mod helloworld {
    include!("../tests/generated/helloworld.rs");
}

const NAME: &str = "greeter";

#[derive(Clone)]
struct MyGreeter;

#[tonic::async_trait]
impl Greeter for MyGreeter {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(Status::invalid_argument("nobody to greet"));
        }
        Ok(Response::new(HelloReply { message: format!("Hello {name}") }))
    }
}

/// The same service at an endpoint and at a port.
async fn serve(at: &str) -> Result<(), Box<dyn Error>> {
    let greeter = GreeterServer::new(MyGreeter);
    let node = Node::open()?;
    let endpoint = node.endpoint("auto")?;
    let _listener = endpoint.listen(NAME)?;
    let _server = Server::start(endpoint, greeter.clone())?;
    let listener = TcpListener::bind(at).await?;
    println!("{NAME} is served over farcall, and at http://{}", listener.local_addr()?);
    let http = tonic::transport::Server::builder().add_service(greeter);
    Ok(http.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}

async fn over_farcall() -> Result<GreeterClient<Channel>, Box<dyn Error>> {
    let endpoint = Node::open()?.endpoint("auto")?;
    Ok(GreeterClient::new(Channel::connect(endpoint, NAME, Duration::from_secs(5))?))
}

async fn over_http(at: String) -> Result<GreeterClient<tonic::transport::Channel>, Box<dyn Error>> {
    Ok(GreeterClient::connect(at).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let request = HelloRequest { name: "farcall".into() };
    let reply = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => return serve("127.0.0.1:50051").await,
        ["serve", at] => return serve(at).await,
        ["call", "farcall"] => over_farcall().await?.say_hello(request).await?,
        ["call", at] => over_http(at.to_owned()).await?.say_hello(request).await?,
        _ => return Err("swap serve [HOST:PORT] | swap call farcall | swap call http://HOST:PORT".into()),
    };
    println!("{}", reply.into_inner().message);
    Ok(())
}
