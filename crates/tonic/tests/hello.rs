//! Unary calls: the greeter of tonic's hello-world, with another channel.

mod common;

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::{Greeter, GreeterServer};
use common::helloworld::{HelloReply, HelloRequest};
use common::{LONG, over_each, serve};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status};

/// Greets; some names have a meaning of their own.
#[derive(Clone, Default)]
struct MyGreeter;

#[tonic::async_trait]
impl Greeter for MyGreeter {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let who = request.metadata().get("who").cloned();
        let bytes = request.metadata().get_bin("token-bin").cloned();
        match request.into_inner().name.as_str() {
            "nobody" => Err(Status::with_details(Code::NotFound, "there is nobody", b"details"[..].into())),
            "sleeper" => {
                tokio::time::sleep(LONG).await;
                Err(Status::internal("it slept well"))
            }
            "later" => {
                tokio::task::yield_now().await;
                Ok(Response::new(HelloReply { message: "Hello at last".into() }))
            }
            "panic" => panic!("a test panics"),
            name => {
                let mut response = Response::new(HelloReply { message: format!("Hello {name}") });
                if let Some(who) = who {
                    response.metadata_mut().insert("you-are", who);
                }
                if let Some(bytes) = bytes {
                    response.metadata_mut().insert_bin("token-bin", bytes);
                }
                Ok(response)
            }
        }
    }
}

fn hello(name: &str) -> HelloRequest {
    HelloRequest { name: name.into() }
}

#[test]
fn the_same_service_is_reached_over_farcall_and_over_http() {
    over_each(|transport| async move {
        let greeter = GreeterServer::new(MyGreeter);
        let pair = serve(transport, greeter.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let server = tonic::transport::Server::builder().add_service(greeter);
        let http = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let mut over_farcall = GreeterClient::new(pair.channel.clone());
        let mut over_http = GreeterClient::connect(address).await.expect("it listens");
        for name in ["one", "later", "one"] {
            let one = over_farcall.say_hello(hello(name)).await.expect("a reply").into_inner();
            let other = over_http.say_hello(hello(name)).await.expect("a reply").into_inner();
            assert_eq!(one, other);
        }
        http.abort();
    });
}

#[test]
fn metadata_goes_both_ways() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter));
        let mut request = Request::new(hello("you"));
        request.metadata_mut().insert("who", MetadataValue::from_static("a caller"));
        request.metadata_mut().insert_bin("token-bin", MetadataValue::from_bytes(&[0, 255, 10]));
        let reply = GreeterClient::new(pair.channel.clone()).say_hello(request).await.expect("a reply");
        assert_eq!(reply.metadata().get("you-are").expect("it came back"), "a caller");
        let bytes = reply.metadata().get_bin("token-bin").expect("it came back");
        assert_eq!(bytes.to_bytes().expect("base64"), &[0, 255, 10][..]);
    });
}

#[test]
fn statuses_are_those_of_the_handler() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter));
        let mut client = GreeterClient::new(pair.channel.clone());
        let status = client.say_hello(hello("nobody")).await.expect_err("it refuses");
        assert_eq!((status.code(), status.message()), (Code::NotFound, "there is nobody"));
        assert_eq!(status.details(), b"details");
        let status = client.say_hello(hello("panic")).await.expect_err("it panics");
        assert_eq!(status.code(), Code::Internal);
        // The server goes on.
        assert!(client.say_hello(hello("you")).await.is_ok());
    });
}

#[test]
fn deadlines_end_calls() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter));
        let mut request = Request::new(hello("sleeper"));
        request.set_timeout(std::time::Duration::from_millis(20));
        let status = GreeterClient::new(pair.channel.clone()).say_hello(request).await.expect_err("late");
        assert_eq!(status.code(), Code::DeadlineExceeded);
    });
}

#[test]
fn several_services_and_unknown_methods() {
    over_each(|transport| async move {
        let routes = tonic::service::Routes::new(GreeterServer::new(MyGreeter)).prepare();
        let pair = serve(transport, routes);
        let mut client = GreeterClient::new(pair.channel.clone());
        assert!(client.say_hello(hello("you")).await.is_ok());
        let mut other = common::routeguide::route_guide_client::RouteGuideClient::new(pair.channel.clone());
        let status = other.get_feature(common::routeguide::Point::default()).await.expect_err("no service");
        assert_eq!(status.code(), Code::Unimplemented);
    });
}

#[test]
fn long_messages_go_both_ways() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter).max_decoding_message_size(64 << 20));
        let mut client = GreeterClient::new(pair.channel.clone()).max_decoding_message_size(64 << 20);
        for bytes in [100_000, (1 << 20) - 10, 1 << 20, 20 << 20] {
            let name = "n".repeat(bytes);
            let reply = client.say_hello(hello(&name)).await.expect("a reply").into_inner();
            assert!(reply.message == format!("Hello {name}"), "{transport}, {bytes} bytes");
        }
    });
}

#[test]
fn hundreds_of_calls_are_in_flight_together() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter));
        let calls = (0..300).map(|number| {
            let mut client = GreeterClient::new(pair.channel.clone());
            let name = if number % 2 == 0 { "later".to_owned() } else { number.to_string() };
            tokio::spawn(async move { client.say_hello(hello(&name)).await.map(Response::into_inner) })
        });
        for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            let reply = call.await.expect("no panic").expect("a reply");
            let expected = if number % 2 == 0 { "Hello at last".into() } else { format!("Hello {number}") };
            assert_eq!(reply.message, expected);
        }
    });
}

#[test]
fn a_server_that_is_gone_is_unavailable() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(MyGreeter));
        let mut client = GreeterClient::new(pair.channel.clone());
        assert!(client.say_hello(hello("you")).await.is_ok());
        let waiting = tokio::spawn({
            let mut client = client.clone();
            async move { client.say_hello(hello("sleeper")).await }
        });
        tokio::task::yield_now().await;
        drop(pair.server);
        let status = waiting.await.expect("no panic").expect_err("the server is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    });
}
