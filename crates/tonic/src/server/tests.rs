//! What a server does that no generated client asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use farcall::{Node, Payload};
use http::HeaderMap;
use tokio::sync::Notify;

use super::*;
use crate::status::TOO_MANY;

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

/// A service that never answers. It counts its calls, and says when one came and when one was dropped.
#[derive(Clone, Default)]
struct Silent {
    calls: Arc<AtomicUsize>,
    called: Arc<Notify>,
    dropped: Arc<Notify>,
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl tower_service::Service<http::Request<Body>> for Silent {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        self.calls.fetch_add(1, Relaxed);
        self.called.notify_one();
        let on_drop = NotifyOnDrop(self.dropped.clone());
        Box::pin(async move {
            let _held = on_drop;
            core::future::pending().await
        })
    }
}

fn begin(exchange: u64, is_whole: bool) -> Vec<u8> {
    let headers = HeaderMap::new();
    Ask::Begin { exchange, is_whole, path: "/any/one".to_owned(), headers, data: Bytes::new() }.encode()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads")
}

fn wait_for(runtime: &tokio::runtime::Runtime, said: &Notify, what: &str) {
    runtime.block_on(async { tokio::time::timeout(LONG, said.notified()).await }).expect(what);
}

/// What a caller gets for an ask, from an endpoint of its own.
fn ask(endpoint: &Endpoint, server: Peer, ask: &[u8]) -> Result<Payload, CallError> {
    endpoint.call(server, GRPC, ask).within(LONG).wait().map(|answer| answer.take())
}

#[test]
fn a_service_sees_nothing_of_an_exchange_that_is_refused() {
    let (runtime, service) = (runtime(), Silent::default());
    let node = Node::serving_names("127.0.0.1:0").expect("a free port");
    let served = node.endpoint("ring+shm").expect("it is there");
    let _listener = served.listen("grpc").expect("a free name");
    let _server = runtime.block_on(async { Server::start(served, service.clone()) }).expect("a thread");
    let caller = node.endpoint("ring+shm").expect("it is there");
    let server = caller.connect("grpc").expect("a name").wait(LONG).expect("it listens");
    ask(&caller, server, &begin(7, false)).expect("it begins");
    for is_whole in [true, false] {
        let refused = ask(&caller, server, &begin(7, is_whole)).expect_err("there is one of that number");
        assert!(matches!(refused, CallError::Refused { code: TOO_MANY, .. }), "{refused}");
    }
    // An exchange that is cancelled before its task ran reaches no service.
    wait_for(&runtime, &service.called, "the service is called");
    ask(&caller, server, &Ask::Cancel { exchange: 7 }.encode()).expect("it is cancelled");
    wait_for(&runtime, &service.dropped, "what works for the exchange is dropped");
    assert_eq!(service.calls.load(Relaxed), 1);
}

#[test]
fn a_caller_that_is_late_holds_up_no_look_at_others() {
    // Their questions one after another would take longer than this test waits.
    const LATE: u32 = 8;
    assert!(LATE * LIVE_TIMEOUT > 2 * LONG);
    let (runtime, service) = (runtime(), Silent::default());
    let node = Node::serving_names("127.0.0.1:0").expect("a free port");
    let served = node.endpoint("ring+shm").expect("it is there");
    let _listener = served.listen("grpc").expect("a free name");
    let _server = runtime.block_on(async { Server::start(served, service.clone()) }).expect("a thread");
    let begun = |_| {
        let caller = node.endpoint("ring+shm").expect("it is there");
        let server = caller.connect("grpc").expect("a name").wait(LONG).expect("it listens");
        ask(&caller, server, &begin(1, false)).expect("it begins");
        wait_for(&runtime, &service.called, "the service is called");
        caller
    };
    let mut callers: Vec<Endpoint> = (0..=LATE).map(begun).collect();
    callers.pop();
    wait_for(&runtime, &service.dropped, "the exchange of the one that is gone has ended");
}

#[test]
fn a_server_that_is_busy_takes_no_caller_for_dead() {
    let not_sent = |why| ClientError::Call(CallError::NotSent(why));
    assert!(is_dead(&not_sent(CallRefused::Down)));
    assert!(!is_dead(&not_sent(CallRefused::TooManyCalls { calls_max: 1 })));
    assert!(!is_dead(&ClientError::Call(CallError::TimedOut)));
}
