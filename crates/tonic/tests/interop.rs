//! What implementations of gRPC show each other, as far as it is not about HTTP/2: the interoperability cases
//! of gRPC, over farcall.

mod common;

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use common::helloworld::greeter_client::GreeterClient;
use common::helloworld::greeter_server::{Greeter, GreeterServer};
use common::helloworld::{HelloReply, HelloRequest};
use common::routeguide::route_guide_client::RouteGuideClient;
use common::routeguide::route_guide_server::{RouteGuide, RouteGuideServer};
use common::routeguide::{Feature, Point, Rectangle, RouteNote, RouteSummary};
use common::{over_each, serve};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

/// Of the case `special_status_message`: what no header can have as it is.
const SPECIAL: &str = "\t\ntest with whitespace\r\nand Unicode BMP \u{263a} and non-BMP \u{1f608}\t\n, 100%";

/// Metadata of both kinds.
fn metadata() -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("x-grpc-test-echo-initial", MetadataValue::from_static("test_initial_metadata_value"));
    metadata.insert_bin("x-grpc-test-echo-trailing-bin", MetadataValue::from_bytes(&[0xab, 0xab, 0, 0xff]));
    metadata
}

fn check_metadata(metadata: &MetadataMap) {
    let text = metadata.get("x-grpc-test-echo-initial").expect("the text");
    assert_eq!(text, "test_initial_metadata_value");
    let bytes = metadata.get_bin("x-grpc-test-echo-trailing-bin").expect("the bytes");
    assert_eq!(bytes.to_bytes().expect("base64"), &[0xab, 0xab, 0, 0xff][..]);
}

/// Fails as its caller's name says, and says when one of its calls was dropped.
#[derive(Clone, Default)]
struct Cases {
    begun: Arc<Notify>,
    dropped: Arc<Notify>,
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tonic::async_trait]
impl Greeter for Cases {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        match request.into_inner().name.as_str() {
            "special" => Err(Status::unknown(SPECIAL)),
            "metadata" => Err(Status::with_metadata(Code::Aborted, "with metadata", metadata())),
            "many" => {
                let mut response = Response::new(HelloReply::default());
                (0..2000).for_each(|number| {
                    response.metadata_mut().append("many", number.into());
                });
                Ok(response)
            }
            "forever" => {
                let _dropped = NotifyOnDrop(self.dropped.clone());
                self.begun.notify_one();
                pending().await
            }
            name => Ok(Response::new(HelloReply { message: name.into() })),
        }
    }
}

#[tonic::async_trait]
impl RouteGuide for Cases {
    type ListFeaturesStream = Pin<Box<dyn Stream<Item = Result<Feature, Status>> + Send>>;
    type RouteChatStream = Pin<Box<dyn Stream<Item = Result<RouteNote, Status>> + Send>>;

    async fn get_feature(&self, _: Request<Point>) -> Result<Response<Feature>, Status> {
        Ok(Response::new(Feature::default()))
    }

    /// One, and then a failure with metadata.
    async fn list_features(
        &self,
        request: Request<Rectangle>,
    ) -> Result<Response<Self::ListFeaturesStream>, Status> {
        check_metadata(request.metadata());
        let failure = Status::with_metadata(Code::Aborted, SPECIAL, metadata());
        let features = tokio_stream::iter([Ok(Feature::default()), Err(failure)]);
        let mut response = Response::new(Box::pin(features) as Self::ListFeaturesStream);
        *response.metadata_mut() = metadata();
        Ok(response)
    }

    async fn record_route(
        &self,
        request: Request<Streaming<Point>>,
    ) -> Result<Response<RouteSummary>, Status> {
        let (_dropped, mut points) = (NotifyOnDrop(self.dropped.clone()), request.into_inner());
        self.begun.notify_one();
        while points.message().await?.is_some() {}
        Ok(Response::new(RouteSummary::default()))
    }

    async fn route_chat(
        &self,
        request: Request<Streaming<RouteNote>>,
    ) -> Result<Response<Self::RouteChatStream>, Status> {
        let (dropped, notes) = (NotifyOnDrop(self.dropped.clone()), request.into_inner());
        let echoed = notes.map(move |note| {
            let _held = &dropped;
            note
        });
        Ok(Response::new(Box::pin(echoed)))
    }
}

fn hello(name: &str) -> HelloRequest {
    HelloRequest { name: name.into() }
}

#[test]
fn empty_unary() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(Cases::default()));
        let reply = GreeterClient::new(pair.channel.clone()).say_hello(hello("")).await.expect("a reply");
        assert_eq!(reply.into_inner(), HelloReply::default());
    });
}

#[test]
fn empty_stream() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Cases::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut notes = client.route_chat(tokio_stream::empty()).await.expect("a stream").into_inner();
        assert_eq!(notes.message().await.expect("no failure"), None);
    });
}

#[test]
fn special_status_message_and_custom_metadata() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(Cases::default()));
        let mut client = GreeterClient::new(pair.channel.clone());
        let status = client.say_hello(hello("special")).await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::Unknown, SPECIAL));
        let status = client.say_hello(hello("metadata")).await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::Aborted, "with metadata"));
        check_metadata(status.metadata());
    });
}

#[test]
fn custom_metadata_of_streams() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Cases::default()));
        let mut request = Request::new(Rectangle::default());
        *request.metadata_mut() = metadata();
        let response =
            RouteGuideClient::new(pair.channel.clone()).list_features(request).await.expect("a stream");
        check_metadata(response.metadata());
        let mut features = response.into_inner();
        assert!(features.message().await.expect("the first").is_some());
        let status = features.message().await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::Aborted, SPECIAL));
        check_metadata(status.metadata());
    });
}

#[test]
fn unimplemented_method_and_service() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(Cases::default()));
        for path in ["/helloworld.Greeter/Nothing", "/nothing.Nobody/Nothing"] {
            let mut client = tonic::client::Grpc::new(pair.channel.clone());
            client.ready().await.expect("a channel is ready");
            let (path, codec) = (path.parse().expect("a path"), tonic_prost::ProstCodec::default());
            let answer: Result<Response<HelloReply>, _> =
                client.unary(Request::new(hello("x")), path, codec).await;
            assert_eq!(answer.expect_err("there is none").code(), Code::Unimplemented);
        }
    });
}

#[test]
fn more_metadata_than_is_carried_is_refused_in_words() {
    over_each(|transport| async move {
        let pair = serve(transport, GreeterServer::new(Cases::default()));
        let mut client = GreeterClient::new(pair.channel.clone());
        let mut request = Request::new(hello("x"));
        (0..2000).for_each(|number| {
            request.metadata_mut().append("many", number.into());
        });
        for end in [client.say_hello(request).await, client.say_hello(hello("many")).await] {
            let status = end.expect_err("it is too much");
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(status.message().contains("1024"), "{status}");
        }
        assert!(client.say_hello(hello("you")).await.is_ok());
    });
}

#[test]
fn cancel_after_begin() {
    over_each(|transport| async move {
        let cases = Cases::default();
        let pair = serve(transport, GreeterServer::new(cases.clone()));
        let mut client = GreeterClient::new(pair.channel.clone());
        let call = tokio::spawn(async move { client.say_hello(hello("forever")).await });
        cases.begun.notified().await;
        call.abort();
        cases.dropped.notified().await;

        let pair = serve(transport, RouteGuideServer::new(cases.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (points, sent) = mpsc::channel(1);
        let call = tokio::spawn(async move { client.record_route(ReceiverStream::new(sent)).await });
        cases.begun.notified().await;
        call.abort();
        cases.dropped.notified().await;
        drop(points);
    });
}

#[test]
fn cancel_after_first_response() {
    over_each(|transport| async move {
        let cases = Cases::default();
        let pair = serve(transport, RouteGuideServer::new(cases.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (notes, sent) = mpsc::channel(1);
        notes.send(RouteNote::default()).await.expect("there is room");
        let mut answers = client.route_chat(ReceiverStream::new(sent)).await.expect("a stream").into_inner();
        assert!(answers.message().await.expect("no failure").is_some());
        drop(answers);
        cases.dropped.notified().await;
        // The stream of requests was dropped with it.
        notes.closed().await;
    });
}

#[test]
fn a_stream_of_requests_that_is_dropped_half_way_ends_the_call() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Cases::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (points, sent) = mpsc::channel(1);
        points.send(Point::default()).await.expect("there is room");
        drop(points);
        let summary = client.record_route(ReceiverStream::new(sent)).await.expect("a summary");
        assert_eq!(summary.into_inner(), RouteSummary::default());
    });
}
