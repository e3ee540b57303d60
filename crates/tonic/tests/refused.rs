//! Asks of farcall that are refused in the middle of an exchange: both ends hear of it.

mod common;

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use common::routeguide::route_guide_client::RouteGuideClient;
use common::routeguide::route_guide_server::{RouteGuide, RouteGuideServer};
use common::routeguide::{Feature, Point, Rectangle, RouteNote, RouteSummary};
use common::{LONG, over_each, serve_with};
use farcall_tonic::Channel;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// More than a piece: what is first sent of it is full.
const LONG_BYTES: usize = 3 << 20;

/// Works until it is let go, and says when it begins and when a stream of it was dropped.
#[derive(Clone)]
struct Guide {
    begun: Arc<Semaphore>,
    let_go: Arc<Semaphore>,
    dropped: Arc<Notify>,
    /// A permit for each stream that was dropped.
    ended: Arc<Semaphore>,
}

impl Guide {
    fn new() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { begun: none(), let_go: none(), dropped: Arc::default(), ended: none() }
    }

    /// Returns when `count` calls have begun.
    async fn begun(&self, count: u32) {
        self.begun.acquire_many(count).await.expect("it is open").forget();
    }
}

/// Held by what a call works with.
struct Held(Guide);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.ended.add_permits(1);
        self.0.dropped.notify_one();
    }
}

#[tonic::async_trait]
impl RouteGuide for Guide {
    type ListFeaturesStream = Results<Feature>;
    type RouteChatStream = Results<RouteNote>;

    /// At 0 at once; elsewhere when it is let go.
    async fn get_feature(&self, request: Request<Point>) -> Result<Response<Feature>, Status> {
        if request.into_inner().latitude != 0 {
            self.begun.add_permits(1);
            self.let_go.acquire().await.expect("it is open").forget();
        }
        Ok(Response::new(Feature::default()))
    }

    /// One, and then none for ever.
    async fn list_features(
        &self,
        _: Request<Rectangle>,
    ) -> Result<Response<Self::ListFeaturesStream>, Status> {
        let held = Held(self.clone());
        let none = tokio_stream::pending().map(move |feature| {
            let _held = &held;
            feature
        });
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(Feature::default())).chain(none))))
    }

    /// Reads all before it answers.
    async fn record_route(
        &self,
        request: Request<Streaming<Point>>,
    ) -> Result<Response<RouteSummary>, Status> {
        let (_held, mut points) = (Held(self.clone()), request.into_inner());
        self.begun.add_permits(1);
        while points.message().await?.is_some() {}
        pending().await
    }

    /// Answers each.
    async fn route_chat(
        &self,
        request: Request<Streaming<RouteNote>>,
    ) -> Result<Response<Self::RouteChatStream>, Status> {
        let (held, notes) = (Held(self.clone()), request.into_inner());
        let echoed = notes.map(move |note| {
            let _held = &held;
            note
        });
        Ok(Response::new(Box::pin(echoed)))
    }
}

fn note(bytes: usize) -> RouteNote {
    RouteNote { location: None, message: "n".repeat(bytes) }
}

const EITHER_SIDE: [[Option<&str>; 2]; 2] =
    [[Some("message_bytes_max=1M"), None], [None, Some("message_bytes_max=1M")]];

#[test]
fn a_piece_that_no_message_carries_ends_a_conversation_at_both_ends() {
    over_each(|transport| async move {
        for parameters in EITHER_SIDE {
            let guide = Guide::new();
            let service = RouteGuideServer::new(guide.clone()).max_decoding_message_size(2 * LONG_BYTES);
            let pair = serve_with(transport, service, parameters);
            let mut client = RouteGuideClient::new(pair.channel.clone());
            let (notes, sent) = mpsc::channel(1);
            notes.send(note(1)).await.expect("there is room");
            let mut answers =
                client.route_chat(ReceiverStream::new(sent)).await.expect("a stream").into_inner();
            assert_eq!(answers.message().await.expect("no failure"), Some(note(1)));
            notes.send(note(LONG_BYTES)).await.expect("it is read");
            let status = answers.message().await.expect_err("it cannot be sent");
            assert_eq!(status.code(), Code::OutOfRange, "{status}");
            // The client holds both ends of the conversation still.
            guide.dropped.notified().await;
            notes.closed().await;
        }
    });
}

#[test]
fn a_piece_that_no_message_carries_ends_a_call_that_has_no_response_yet() {
    over_each(|transport| async move {
        for parameters in EITHER_SIDE {
            let guide = Guide::new();
            let pair = serve_with(transport, RouteGuideServer::new(guide.clone()), parameters);
            let mut client = RouteGuideClient::new(pair.channel.clone());
            let (points, sent) = mpsc::channel(1);
            points.send(Point::default()).await.expect("there is room");
            // One after another they are ready at once, once the first was read.
            let many = std::iter::repeat_n(Point { latitude: -1, longitude: -1 }, LONG_BYTES / 16);
            let stream = ReceiverStream::new(sent).chain(tokio_stream::iter(many));
            let call = tokio::spawn(async move { client.record_route(stream).await });
            guide.begun(1).await;
            drop(points);
            let status = call.await.expect("no panic").expect_err("it cannot be sent");
            assert_eq!(status.code(), Code::OutOfRange, "{status}");
            guide.dropped.notified().await;
        }
    });
}

#[test]
fn a_server_that_leaves_ends_its_conversations_at_both_ends() {
    over_each(|transport| async move {
        let guide = Guide::new();
        let pair = serve_with(transport, RouteGuideServer::new(guide.clone()), [None, None]);
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let (notes, sent) = mpsc::channel(1);
        notes.send(note(1)).await.expect("there is room");
        let mut answers = client.route_chat(ReceiverStream::new(sent)).await.expect("a stream").into_inner();
        assert_eq!(answers.message().await.expect("no failure"), Some(note(1)));
        let listener = pair.listener;
        let left = pair.server.client().run(async move |endpoint| listener.leave(endpoint, LONG));
        guide.dropped.notified().await;
        let status = answers.message().await.expect_err("the server leaves");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert_eq!(left.await.expect("it leaves").unanswered, 0);
        drop(notes);
    });
}

#[test]
fn conversations_for_which_there_is_no_room_end_at_both_ends() {
    const COUNT: usize = 40;
    over_each(|transport| async move {
        let guide = Guide::new();
        let service = RouteGuideServer::new(guide.clone());
        let pair = serve_with(transport, service, [None, Some("calls_max=64")]);
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let talks = [(); COUNT].map(|()| tokio::spawn(talk(client.clone())));
        let mut begun = 0;
        for talk in talks {
            begun += u32::from(talk.await.expect("no panic"));
        }
        // Each call makes up for cancellations that were refused.
        while guide.ended.available_permits() < begun as usize {
            client.get_feature(Point::default()).await.expect("a feature");
        }
    });
}

/// Talks for a while, or until it is refused; returns whether it began.
async fn talk(mut client: RouteGuideClient<Channel>) -> bool {
    let refused = |status: Status| assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let (notes, sent) = mpsc::channel(1);
    let mut answers = match client.route_chat(ReceiverStream::new(sent)).await {
        Ok(answers) => answers.into_inner(),
        Err(status) => {
            refused(status);
            return false;
        }
    };
    for _ in 0..20 {
        // What cannot be sent ends the stream of notes.
        let _ = notes.send(note(1)).await;
        match answers.message().await {
            Ok(answer) => assert_eq!(answer, Some(note(1))),
            Err(status) => {
                refused(status);
                break;
            }
        }
    }
    true
}

#[test]
fn a_cancellation_that_was_refused_is_made_up_for() {
    over_each(|transport| async move {
        let guide = Guide::new();
        let service = RouteGuideServer::new(guide.clone());
        let pair = serve_with(transport, service, [Some("calls_max=2"), None]);
        let mut client = RouteGuideClient::new(pair.channel.clone());
        let mut features = client.list_features(Rectangle::default()).await.expect("a stream").into_inner();
        assert!(features.message().await.expect("no failure").is_some());
        let elsewhere = Point { latitude: 1, longitude: 0 };
        let calls = [(); 2].map(|()| {
            let mut client = client.clone();
            tokio::spawn(async move { client.get_feature(elsewhere).await })
        });
        guide.begun(2).await;
        drop(features);
        // It leaves behind the cancellation: when it was refused, so was that.
        let status = client.get_feature(elsewhere).await.expect_err("there is no room");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        guide.let_go.add_permits(2);
        for call in calls {
            call.await.expect("no panic").expect("a feature");
        }
        client.get_feature(Point::default()).await.expect("a feature");
        guide.dropped.notified().await;
    });
}
