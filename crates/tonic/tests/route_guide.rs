//! The three kinds of streaming: tonic's route guide, with another channel.

mod common;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::routeguide::route_guide_client::RouteGuideClient;
use common::routeguide::route_guide_server::{RouteGuide, RouteGuideServer};
use common::routeguide::{Feature, Point, Rectangle, RouteNote, RouteSummary};
use common::{over_each, serve};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// How long the name of an endless feature is.
const NAME_BYTES: usize = 64 << 10;

/// A guide that counts what it made, and says when a stream of it was dropped.
#[derive(Clone, Default)]
struct Guide {
    made: Arc<AtomicUsize>,
    dropped: Arc<Notify>,
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn point(latitude: i32) -> Point {
    Point { latitude, longitude: 0 }
}

fn feature(latitude: i32) -> Feature {
    Feature { name: format!("place {latitude}"), location: Some(point(latitude)) }
}

#[tonic::async_trait]
impl RouteGuide for Guide {
    type ListFeaturesStream = Results<Feature>;
    type RouteChatStream = Results<RouteNote>;

    async fn get_feature(&self, request: Request<Point>) -> Result<Response<Feature>, Status> {
        Ok(Response::new(feature(request.into_inner().latitude)))
    }

    /// From `lo` to `hi`; without a `hi` it never ends, and a `hi` below `lo` is a failure in the middle.
    async fn list_features(
        &self,
        request: Request<Rectangle>,
    ) -> Result<Response<Self::ListFeaturesStream>, Status> {
        let Rectangle { lo, hi } = request.into_inner();
        let lo = lo.unwrap_or_default().latitude;
        let Some(hi) = hi else {
            let (made, on_drop) = (self.made.clone(), NotifyOnDrop(self.dropped.clone()));
            let endless = tokio_stream::iter(std::iter::from_fn(move || {
                let _held = &on_drop;
                made.fetch_add(1, Ordering::Relaxed);
                Some(Ok(Feature { name: "f".repeat(NAME_BYTES), location: None }))
            }));
            return Ok(Response::new(Box::pin(endless)));
        };
        if hi.latitude < lo {
            let failing = [Ok(feature(lo)), Err(Status::data_loss("a page is missing"))];
            return Ok(Response::new(Box::pin(tokio_stream::iter(failing))));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter((lo..hi.latitude).map(|place| Ok(feature(place)))))))
    }

    async fn record_route(
        &self,
        request: Request<Streaming<Point>>,
    ) -> Result<Response<RouteSummary>, Status> {
        let (mut points, mut summary) = (request.into_inner(), RouteSummary::default());
        while let Some(point) = points.message().await? {
            summary.point_count += 1;
            summary.feature_count += i32::from(point.latitude % 2 == 0);
            if point.latitude < 0 {
                return Err(Status::invalid_argument("no such place"));
            }
        }
        Ok(Response::new(summary))
    }

    async fn route_chat(
        &self,
        request: Request<Streaming<RouteNote>>,
    ) -> Result<Response<Self::RouteChatStream>, Status> {
        let notes = request.into_inner();
        let echoed =
            notes.map(|note| note.map(|note| RouteNote { message: format!("{}?", note.message), ..note }));
        Ok(Response::new(Box::pin(echoed)))
    }
}

#[test]
fn unary() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Guide::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        assert_eq!(client.get_feature(point(7)).await.expect("a feature").into_inner(), feature(7));
    });
}

#[test]
fn a_stream_of_responses() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Guide::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        for count in [0, 1, 1000] {
            let area = Rectangle { lo: Some(point(0)), hi: Some(point(count)) };
            let features = client.list_features(area).await.expect("a stream").into_inner();
            let features: Vec<Feature> = features.map(|feature| feature.expect("a feature")).collect().await;
            assert!(features.into_iter().eq((0..count).map(feature)));
        }
        let failing = Rectangle { lo: Some(point(1)), hi: Some(point(0)) };
        let mut features = client.list_features(failing).await.expect("a stream").into_inner();
        assert_eq!(features.message().await.expect("the first"), Some(feature(1)));
        let status = features.message().await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::DataLoss, "a page is missing"));
    });
}

#[test]
fn a_stream_of_requests() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Guide::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        for count in [0, 1, 1000] {
            let points = tokio_stream::iter((0..count).map(point));
            let summary = client.record_route(points).await.expect("a summary").into_inner();
            assert_eq!((summary.point_count, summary.feature_count), (count, (count + 1) / 2));
        }
        // A server that has seen enough ends the stream of a client that would never end it.
        let (points, endless) = mpsc::channel(1);
        let writer = tokio::spawn(async move { while points.send(point(-1)).await.is_ok() {} });
        let status = client.record_route(ReceiverStream::new(endless)).await.expect_err("it refuses");
        assert_eq!(status.code(), Code::InvalidArgument);
        writer.await.expect("the writer has ended");
    });
}

#[test]
fn a_conversation() {
    over_each(|transport| async move {
        let pair = serve(transport, RouteGuideServer::new(Guide::default()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (notes, sent) = mpsc::channel(1);
        let mut answers = client.route_chat(ReceiverStream::new(sent)).await.expect("a stream").into_inner();
        for number in 0..50 {
            // Each note is written after the one before was answered.
            let note = RouteNote { location: Some(point(number)), message: number.to_string() };
            notes.send(note).await.expect("it is read");
            let answer = answers.message().await.expect("no failure").expect("an answer");
            assert_eq!(answer.message, format!("{number}?"));
        }
        drop(notes);
        assert_eq!(answers.message().await.expect("no failure"), None);
    });
}

#[test]
fn a_slow_reader_slows_the_writer_and_one_that_leaves_ends_it() {
    over_each(|transport| async move {
        let guide = Guide::default();
        let pair = serve(transport, RouteGuideServer::new(guide.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut features = client.list_features(Rectangle::default()).await.expect("a stream").into_inner();
        for _ in 0..40 {
            assert!(features.message().await.expect("no failure").is_some());
        }
        // Read are 40; in flight are at most a piece that is read, one that was asked for and one ahead.
        let made = guide.made.load(Ordering::Relaxed);
        assert!(made <= 40 + 4 * (1 << 20) / NAME_BYTES + 4, "{made} were made");
        drop(features);
        guide.dropped.notified().await;
    });
}

#[test]
fn deadlines_end_streams() {
    over_each(|transport| async move {
        let guide = Guide::default();
        let pair = serve(transport, RouteGuideServer::new(guide.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (notes, sent) = mpsc::channel::<RouteNote>(1);
        let mut request = Request::new(ReceiverStream::new(sent));
        request.set_timeout(std::time::Duration::from_millis(30));
        let end = match client.route_chat(request).await {
            Ok(mut answers) => answers.get_mut().message().await.map(drop),
            Err(status) => Err(status),
        };
        assert_eq!(end.expect_err("the deadline passed").code(), Code::DeadlineExceeded);
        drop(notes);
    });
}

#[test]
fn a_server_that_is_dropped_ends_its_streams() {
    over_each(|transport| async move {
        let guide = Guide::default();
        let pair = serve(transport, RouteGuideServer::new(guide.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut features = client.list_features(Rectangle::default()).await.expect("a stream").into_inner();
        assert!(features.message().await.expect("no failure").is_some());
        drop(pair.server);
        guide.dropped.notified().await;
        drop(features);
    });
}

#[test]
fn a_stream_that_is_dropped_outside_of_a_runtime_is_cancelled() {
    over_each(|transport| async move {
        let guide = Guide::default();
        let pair = serve(transport, RouteGuideServer::new(guide.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut features = client.list_features(Rectangle::default()).await.expect("a stream").into_inner();
        assert!(features.message().await.expect("no failure").is_some());
        std::thread::spawn(move || drop(features)).join().expect("it is dropped");
        guide.dropped.notified().await;
    });
}

#[test]
fn a_stream_that_nobody_reads_ends_with_its_deadline() {
    over_each(|transport| async move {
        let guide = Guide::default();
        let pair = serve(transport, RouteGuideServer::new(guide.clone()));
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut request = Request::new(Rectangle::default());
        // Long enough for the first message, which is there at once.
        request.set_timeout(std::time::Duration::from_secs(3));
        let mut features = client.list_features(request).await.expect("a stream").into_inner();
        guide.dropped.notified().await;
        while let Ok(Some(_)) = features.message().await {}
    });
}
