//! Serving: a service of tonic at an endpoint of farcall.
//!
//! The thread that owns the endpoint gets the requests. It looks once whether the service has its response at
//! once, as most unary ones do: then it leaves in the same poll, and no other thread has to wake. Everything
//! else becomes a task of tokio.

use core::convert::Infallible;
use core::future::{Future, IntoFuture as _};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use farcall::spans::BegunSpan;
use farcall::{
    CallError, CallRefused, Client, ClientError, ClientPending, Deferred, Endpoint, Peer, Reply, Request,
    Service,
};
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::body::Body;

use crate::GRPC;
use crate::exchanges::{Exchange, Exchanges, Pushed};
use crate::pieces::{Answering, failed};
use crate::status::{MALFORMED, UNKNOWN_EXCHANGE, timeout_of};
use crate::traced;
use crate::wire::{Ask, ENOUGH, Piece, bytes_of};

/// How often a server asks whether callers that it works for live.
const LIVE_PERIOD: Duration = Duration::from_secs(1);

/// How long such a question may take.
const LIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A service of tonic that is called with bodies of tonic: a generated one, or tonic's `Routes`.
pub trait Served:
    tower_service::Service<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<http::Response<Body>, Infallible>> + Send + 'static,
    > + Clone
    + Send
    + 'static
{
}

impl<S> Served for S where
    S: tower_service::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Future<Output = Result<http::Response<Body>, Infallible>> + Send + 'static,
        > + Clone
        + Send
        + 'static
{
}

/// How long the piece that says that the deadline has passed waits for a caller that asks.
const LATE_GRACE: Duration = Duration::from_secs(1);

/// A service that is served until this is dropped, which ends what is in flight.
#[derive(Debug)]
pub struct Server {
    client: Client,
}

impl Server {
    /// Gives the endpoint to a thread that serves `service` to whoever calls it over farcall. Its handlers
    /// run in the runtime of tokio that this is called in; what they answer at once they answer on the
    /// endpoint's thread, which must not be blocked.
    ///
    /// # Errors
    /// The system has no thread to give.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn start<S: Served>(endpoint: Endpoint, service: S) -> io::Result<Self> {
        Self::start_at(endpoint, GRPC, service)
    }

    /// As [`Server::start`], as another service of farcall than [`GRPC`].
    ///
    /// # Errors
    /// As of [`Server::start`].
    ///
    /// # Panics
    /// As of [`Server::start`].
    pub fn start_at<S: Served>(endpoint: Endpoint, at: Service, service: S) -> io::Result<Self> {
        let (runtime, exchanges) = (Handle::current(), Exchanges::default());
        let acceptor = Acceptor { service, exchanges: exchanges.clone(), runtime: runtime.clone() };
        endpoint.serve(at, move |request, reply| acceptor.accept(&request, reply));
        let client = Client::start(endpoint)?;
        runtime.spawn(watch(client.clone(), at, exchanges));
        Ok(Self { client })
    }

    /// The endpoint, for listening under a name: `server.client().run(async |endpoint| …)`.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.client.stop();
    }
}

/// Ends exchanges that have no caller any more: those of callers that are dead, and all when the endpoint is
/// gone. Not before, or the callers would hear that their calls were dropped instead of that the server is
/// gone.
async fn watch(client: Client, at: Service, exchanges: Exchanges) {
    let gone = client.run(async |_| core::future::pending::<()>().await);
    tokio::select! {
        _ = gone => exchanges.close(),
        () = watch_callers(client, at, &exchanges) => {}
    }
}

/// Ends exchanges of callers that are dead, which say nothing any more. Each caller is asked by itself: one
/// that is late holds up no other.
async fn watch_callers(client: Client, at: Service, exchanges: &Exchanges) {
    let mut questions: HashMap<Peer, ClientPending> = HashMap::new();
    loop {
        tokio::time::sleep(LIVE_PERIOD).await;
        questions.retain(|peer, question| {
            let mut look = Context::from_waker(Waker::noop());
            let Poll::Ready(end) = Pin::new(question).poll(&mut look) else { return true };
            match end {
                Err(error) if is_dead(&error) => exchanges.remove_all_of(*peer),
                // Whatever else comes back is a sign of life, or says nothing of the caller.
                _ => {}
            }
            false
        });
        for peer in exchanges.peers() {
            let ask = || client.call(peer, at, Ask::Live.encode()).within(LIVE_TIMEOUT).into_future();
            questions.entry(peer).or_insert_with(ask);
        }
    }
}

fn is_dead(error: &ClientError) -> bool {
    matches!(error, ClientError::Call(CallError::PeerDown(_) | CallError::NotSent(CallRefused::Down)))
}

struct Acceptor<S> {
    service: S,
    exchanges: Exchanges,
    runtime: Handle,
}

/// Its endpoint takes no more asks: the server leaves before a planned stop, or has ended.
impl<S> Drop for Acceptor<S> {
    fn drop(&mut self) {
        self.exchanges.leave();
    }
}

impl<S: Served> Acceptor<S> {
    fn accept(&self, request: &Request<'_>, reply: Reply<'_>) {
        let peer = request.peer();
        match Ask::decode(bytes_of(request.take())) {
            Ok(Ask::Begin { exchange, is_whole, path, headers, data }) => {
                let mut http = http::Request::new(());
                let Ok(uri) = path.parse() else { return reply.refuse(MALFORMED) };
                (*http.method_mut(), *http.uri_mut()) = (http::Method::POST, uri);
                let deadline = timeout_of(&headers).map(|timeout| Instant::now() + timeout);
                *http.headers_mut() = headers;
                let begun = Begun { peer, number: exchange, deadline };
                // Before the service sees anything of it.
                if let Err(code) = self.exchanges.check(peer, exchange) {
                    return reply.refuse(code);
                }
                let span = traced::begin_handler(&mut http, request.service());
                if is_whole {
                    self.begin_whole(http.map(|()| whole(data)), begun, span, reply);
                } else {
                    self.begin_stream(http, data, begun, span, reply);
                }
            }
            Ok(Ask::Push { exchange, is_last, data }) => {
                let pushes = self.exchanges.with(peer, exchange, |exchange| exchange.pushes.clone());
                let Some(pushes) = pushes else { return reply.send(&[ENOUGH]) };
                let (taken, _context) = reply.defer();
                if let Err(unwanted) = pushes.try_send(Pushed { data, is_last, taken }) {
                    unwanted.into_inner().taken.send(&[ENOUGH]);
                }
            }
            Ok(Ask::Pull { exchange }) => {
                let pulls = self.exchanges.with(peer, exchange, |exchange| Some(exchange.pulls.clone()));
                let Some(pulls) = pulls else { return reply.refuse(UNKNOWN_EXCHANGE) };
                let (piece, _context) = reply.defer();
                if let Err(unwanted) = pulls.try_send(piece) {
                    unwanted.into_inner().refuse(UNKNOWN_EXCHANGE);
                }
            }
            Ok(Ask::Cancel { exchange }) => {
                self.exchanges.remove(peer, exchange);
                reply.send(&[]);
            }
            Ok(Ask::Live) => reply.send(&[]),
            Err(_) => reply.refuse(MALFORMED),
        }
    }

    /// A request that is all there: its response may be so at once.
    fn begin_whole(&self, request: http::Request<Body>, begun: Begun, span: BegunSpan, reply: Reply<'_>) {
        let _in_runtime = self.runtime.enter();
        let mut service = self.service.clone();
        let started = catch_unwind(AssertUnwindSafe(|| {
            let called = traced::handled(span, &mut service, request);
            let mut first = Box::pin(first_piece(Answering::Called(Box::pin(called)), begun));
            match first.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((piece, rest)) => Ok((piece, rest)),
                Poll::Pending => Err(first),
            }
        }));
        let (pulls, pulled) = mpsc::channel(1);
        let exchange = Exchange { pushes: None, pulls, task: None };
        match started {
            Ok(Ok((piece, rest))) => {
                let more = !piece.is_last;
                reply.send(piece.encode());
                if more {
                    self.exchanges.add(begun.peer, begun.number, exchange);
                    self.spawn(begun, serve_pulls(self.exchanges.clone(), begun, rest, pulled));
                }
            }
            Ok(Err(first)) => {
                self.exchanges.add(begun.peer, begun.number, exchange);
                let (deferred, _context) = reply.defer();
                let exchanges = self.exchanges.clone();
                self.spawn(begun, async move {
                    let (piece, rest) = first.await;
                    let more = !piece.is_last;
                    deferred.send(piece.encode());
                    if more {
                        serve_pulls(exchanges, begun, rest, pulled).await;
                    } else {
                        exchanges.remove(begun.peer, begun.number);
                    }
                });
            }
            Err(_) => reply.send(failed(None, &Status::internal("the service panicked")).encode()),
        }
    }

    /// A request of which more follows: the caller is told at once that it may send that.
    fn begin_stream(
        &self,
        request: http::Request<()>,
        data: Bytes,
        begun: Begun,
        span: BegunSpan,
        reply: Reply<'_>,
    ) {
        let ((pushes, pushed), (pulls, pulled)) = (mpsc::channel(1), mpsc::channel(1));
        let exchange = Exchange { pushes: Some(pushes), pulls, task: None };
        self.exchanges.add(begun.peer, begun.number, exchange);
        reply.send(Piece::default().encode());
        let (mut service, exchanges) = (self.service.clone(), self.exchanges.clone());
        let pushes = Pushes { first: data, pushed, is_over: false, exchanges: exchanges.clone() };
        let request = request.map(|()| Body::new(pushes));
        self.spawn(begun, async move {
            let answering = Answering::Called(Box::pin(traced::handled(span, &mut service, request)));
            serve_pulls(exchanges, begun, answering, pulled).await;
        });
    }

    /// Runs what works for an exchange; if it panics the exchange is over as well.
    fn spawn(&self, begun: Begun, work: impl Future<Output = ()> + Send + 'static) {
        let over = RemovedOnDrop { exchanges: self.exchanges.clone(), begun };
        let task = self.runtime.spawn(async move {
            let _over = over;
            work.await;
        });
        self.exchanges.set_task(begun.peer, begun.number, task.abort_handle());
    }
}

/// An exchange that was begun.
#[derive(Clone, Copy)]
struct Begun {
    peer: Peer,
    number: u64,
    deadline: Option<Instant>,
}

struct RemovedOnDrop {
    exchanges: Exchanges,
    begun: Begun,
}

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        self.exchanges.remove(self.begun.peer, self.begun.number);
    }
}

type Response = Result<http::Response<Body>, Infallible>;

async fn first_piece<F: Future<Output = Response>>(
    mut answering: Answering<F>,
    begun: Begun,
) -> (Piece, Answering<F>) {
    (next_piece(&mut answering, begun).await, answering)
}

/// The next piece, or what the deadline makes of it.
async fn next_piece<F: Future<Output = Response>>(answering: &mut Answering<F>, begun: Begun) -> Piece {
    let Some(deadline) = begun.deadline else { return answering.next().await };
    let late = || failed(None, &Status::deadline_exceeded("the deadline passed at the server"));
    timeout_at(deadline, answering.next()).await.unwrap_or_else(|_| late())
}

/// Gives the caller a piece whenever it asks for one, to the last, or until the deadline has passed and it
/// does not ask.
async fn serve_pulls<F: Future<Output = Response>>(
    exchanges: Exchanges,
    begun: Begun,
    mut answering: Answering<F>,
    mut pulled: mpsc::Receiver<Deferred>,
) {
    loop {
        // The service works on before anything is asked for: its request may have to be read for that.
        let piece = next_piece(&mut answering, begun).await;
        let Some(asked) = next_pull(&mut pulled, begun).await else {
            return exchanges.remove(begun.peer, begun.number);
        };
        asked.send(piece.encode());
        if piece.is_last {
            return exchanges.remove(begun.peer, begun.number);
        }
    }
}

/// The next piece that is asked for; `None` when none will be.
async fn next_pull(pulled: &mut mpsc::Receiver<Deferred>, begun: Begun) -> Option<Deferred> {
    match begun.deadline {
        Some(deadline) => timeout_at(deadline + LATE_GRACE, pulled.recv()).await.ok()?,
        None => pulled.recv().await,
    }
}

/// A body that is all there.
fn whole(data: Bytes) -> Body {
    Body::new(Whole(Some(data).filter(|data| !data.is_empty())))
}

struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
    }
}

/// A request's body that its caller pushes.
struct Pushes {
    first: Bytes,
    pushed: mpsc::Receiver<Pushed>,
    is_over: bool,
    exchanges: Exchanges,
}

impl Pushes {
    /// Why there is no more, though more was to come.
    fn cut_off(&self) -> Status {
        if self.exchanges.is_leaving() {
            Status::unavailable("the server is leaving")
        } else {
            Status::cancelled("the caller has gone")
        }
    }
}

impl http_body::Body for Pushes {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(core::mem::take(&mut self.first)))));
        }
        while !self.is_over {
            let Poll::Ready(pushed) = self.pushed.poll_recv(task) else { return Poll::Pending };
            let Some(Pushed { data, is_last, taken }) = pushed else {
                self.is_over = true;
                return Poll::Ready(Some(Err(self.cut_off())));
            };
            taken.send(&[]);
            self.is_over = is_last;
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests;
