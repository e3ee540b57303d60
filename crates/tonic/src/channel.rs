//! Calling: what takes the place of tonic's channel in a generated client.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use farcall::bootstrap::random_incarnation;
use farcall::spans::BegunSpan;
use farcall::{Client, ClientError, ClientPending, Endpoint, NoServer, Peer, Service, WatchError};
use tonic::Status;
use tonic::body::Body;

use crate::GRPC;
use crate::cancels::{Cancels, is_for_want_of_room};
use crate::pieces::{Gathered, Source, too_many};
use crate::pulled::{poll_piece, pulled_body};
use crate::pushing::Pushing;
use crate::status::{of_error, timeout_of};
use crate::traced;
use crate::wire::{Ask, PATH_BYTES_MAX, Piece, bytes_of};

/// How long a call without a deadline may wait for its next piece: as long as its session lives.
const WITHOUT_DEADLINE: Duration = Duration::MAX;

/// How long the server may take to hear that a call is cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(30);

/// A channel of gRPC to one peer: give it to the `new` of a generated client. Clones are the same channel.
///
/// Calls end as `unavailable` when the session to the peer has ended; connect again then.
#[derive(Clone, Debug)]
pub struct Channel {
    client: Client,
    peer: Peer,
    at: Service,
    exchanges: Arc<AtomicU64>,
    cancels: Arc<Cancels>,
}

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system has no thread to give.
    #[error("there is no thread for the endpoint: {0}")]
    Thread(#[from] std::io::Error),
    /// The name cannot be looked up.
    #[error(transparent)]
    Name(#[from] WatchError),
    /// No server listens under the name.
    #[error(transparent)]
    NoServer(#[from] NoServer),
}

impl Channel {
    /// A channel to the peer, over a session of the client's endpoint.
    pub fn new(client: Client, peer: Peer) -> Self {
        // Other channels over the same session have other numbers.
        let exchanges = Arc::new(AtomicU64::new(random_incarnation()));
        Self { client, peer, at: GRPC, exchanges, cancels: Arc::default() }
    }

    /// A channel to a server of a name, or to an address, for which it waits at most `within`. The endpoint
    /// is given to a thread of its own.
    ///
    /// # Errors
    /// There is no server, or no thread.
    pub fn connect(endpoint: Endpoint, target: &str, within: Duration) -> Result<Self, ConnectError> {
        let peer = endpoint.connect(target)?.wait(within)?;
        Ok(Self::new(Client::start(endpoint)?, peer))
    }

    /// The same channel, to another service of farcall than [`GRPC`].
    pub fn at(self, at: Service) -> Self {
        // What is still to be cancelled is so at the service that it was begun at.
        Self { at, cancels: Arc::default(), ..self }
    }

    /// Asks the peer; the future is sent at once, and behind it cancellations that were refused before.
    pub(crate) fn ask(&self, ask: &Ask, deadline: Option<Instant>) -> ClientPending {
        let asked = self.ask_within(ask, time_left(deadline, Instant::now()));
        self.cancels.renew(|exchange| self.ask_to_cancel(exchange));
        asked
    }

    /// Cancels an exchange. Nobody waits for the answer: whoever wants this may be on any thread, without a
    /// runtime.
    pub(crate) fn cancel(&self, exchange: u64) {
        self.cancels.keep(exchange, self.ask_to_cancel(exchange));
    }

    fn ask_to_cancel(&self, exchange: u64) -> ClientPending {
        self.ask_within(&Ask::Cancel { exchange }, CANCEL_WITHIN)
    }

    fn ask_within(&self, ask: &Ask, within: Duration) -> ClientPending {
        self.client.call(self.peer, self.at, ask.encode()).within(within).into_future()
    }

    /// An exchange, and its span to the beginning of the response.
    async fn spanned(
        self,
        request: http::Request<Body>,
        span: Option<BegunSpan>,
    ) -> Result<http::Response<Body>, Status> {
        let response = self.exchange(request).await;
        if let Some(span) = span {
            span.end(response.as_ref().err().map(ToString::to_string).as_deref());
        }
        response
    }

    async fn exchange(self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        if let Some(status) = too_many(&parts.headers) {
            return Err(status);
        }
        if parts.uri.path().len() > PATH_BYTES_MAX {
            return Err(Status::invalid_argument("the path of the method is over 65,535 bytes"));
        }
        let deadline = timeout_of(&parts.headers).and_then(|timeout| Instant::now().checked_add(timeout));
        let mut source = Source::new(body);
        // A unary request is there at once.
        let Gathered { data, is_last, .. } = source.ready(&mut Context::from_waker(Waker::noop()))?;
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        let mut ended = Ended { channel: self, number, deadline, is_over: false };
        let begin = Ask::Begin {
            exchange: number,
            is_whole: is_last,
            path: parts.uri.path().to_owned(),
            headers: parts.headers,
            data,
        };
        let mut piece = ended.begin(&begin).await?;
        let mut pushing = Pushing::nothing();
        if !is_last {
            pushing = Pushing::start(ended.channel.clone(), number, deadline, source);
        }
        while piece.head.is_none() && !piece.is_last {
            let mut asked = ended.pull();
            piece = poll_fn(|task| poll_piece(&mut asked, &mut ended, &mut pushing, task)).await?;
        }
        Ok(response(piece, ended, pushing))
    }
}

fn time_left(deadline: Option<Instant>, now: Instant) -> Duration {
    deadline.map_or(WITHOUT_DEADLINE, |deadline| deadline.saturating_duration_since(now))
}

fn response(mut piece: Piece, ended: Ended, pushing: Pushing) -> http::Response<Body> {
    let mut response = http::Response::new(());
    match piece.head.take() {
        Some((status, headers)) => (*response.status_mut(), *response.headers_mut()) = (status, headers),
        // A call that failed before there was a head: what is behind it is the status, as a head has it.
        None => *response.headers_mut() = piece.trailers.take().unwrap_or_default(),
    }
    response.map(|()| pulled_body(piece, ended, pushing))
}

/// An exchange that its caller began. Dropped before its end, it is cancelled at the server.
pub struct Ended {
    channel: Channel,
    number: u64,
    deadline: Option<Instant>,
    is_over: bool,
}

impl Ended {
    /// Begins it.
    async fn begin(&mut self, begin: &Ask) -> Result<Piece, Status> {
        let answer = self.channel.ask(begin, self.deadline).await;
        let is_not_begun = answer.as_ref().is_err_and(is_for_want_of_room);
        let piece = self.piece_of(answer);
        self.is_over |= is_not_begun;
        piece
    }

    /// Asks for the next piece.
    pub fn pull(&self) -> ClientPending {
        self.channel.ask(&Ask::Pull { exchange: self.number }, self.deadline)
    }

    /// The piece that an answer is; the exchange is over with the last, or if it has failed.
    pub fn piece_of(&mut self, answer: Result<farcall::Payload, ClientError>) -> Result<Piece, Status> {
        let piece = match answer {
            Ok(answer) => Piece::decode(bytes_of(answer)).map_err(Status::from),
            Err(error) => Err(of_error(&error)),
        };
        // After its deadline the server has ended it by itself, or does so soon; a cancellation does no harm.
        self.is_over = piece.as_ref().is_ok_and(|piece| piece.is_last);
        piece
    }

    /// Cancels it at the server, unless it is over.
    pub fn cancel(&mut self) {
        if !core::mem::replace(&mut self.is_over, true) {
            self.channel.cancel(self.number);
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl tower_service::Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // Here, and not when the future is polled: the scope is that of the caller.
        let span = traced::begin_call(&mut request, self.at);
        Box::pin(self.clone().spanned(request, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_the_time_to_its_deadline_and_without_one_no_limit() {
        let now = Instant::now();
        assert_eq!(time_left(Some(now + CANCEL_WITHIN), now), CANCEL_WITHIN);
        assert_eq!(time_left(Some(now), now + CANCEL_WITHIN), Duration::ZERO);
        assert_eq!(time_left(None, now), Duration::MAX);
    }
}
