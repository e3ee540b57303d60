//! Calling: what takes the place of tonic's channel in a generated client.

use core::future::Future;
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
use crate::pieces::{Gathered, Source, too_many};
use crate::pulled::{PushesAborted, pulled_body};
use crate::status::{of_error, timeout_of};
use crate::traced;
use crate::wire::{Ask, ENOUGH, PATH_BYTES_MAX, Piece, bytes_of};

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
        Self { client, peer, at: GRPC, exchanges: Arc::new(AtomicU64::new(random_incarnation())) }
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
        Self { at, ..self }
    }

    /// Asks the peer; the future is sent at once.
    pub(crate) fn ask(&self, ask: &Ask, deadline: Option<Instant>) -> ClientPending {
        self.ask_within(ask, time_left(deadline, Instant::now()))
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
        let mut piece = ended.piece(&begin).await?;
        let pushes = (!is_last).then(|| {
            let task = tokio::spawn(push(ended.channel.clone(), number, deadline, source));
            PushesAborted(task.abort_handle())
        });
        while piece.head.is_none() && !piece.is_last {
            piece = ended.piece(&Ask::Pull { exchange: number }).await?;
        }
        Ok(response(piece, ended, pushes))
    }
}

fn time_left(deadline: Option<Instant>, now: Instant) -> Duration {
    deadline.map_or(WITHOUT_DEADLINE, |deadline| deadline.saturating_duration_since(now))
}

fn response(mut piece: Piece, ended: Ended, pushes: Option<PushesAborted>) -> http::Response<Body> {
    let mut response = http::Response::new(());
    match piece.head.take() {
        Some((status, headers)) => (*response.status_mut(), *response.headers_mut()) = (status, headers),
        // A call that failed before there was a head: what is behind it is the status, as a head has it.
        None => *response.headers_mut() = piece.trailers.take().unwrap_or_default(),
    }
    response.map(|()| pulled_body(piece, ended, pushes))
}

/// Sends the rest of a request, a piece whenever the server has taken the one before.
async fn push(channel: Channel, exchange: u64, deadline: Option<Instant>, mut source: Source) {
    loop {
        let Ok(Gathered { data, is_last, .. }) = source.next().await else {
            // The program's stream has failed: the server is told that no more comes.
            drop(channel.ask(&Ask::Cancel { exchange }, deadline).await);
            return;
        };
        let taken = channel.ask(&Ask::Push { exchange, is_last, data }, deadline).await;
        if is_last || !taken.is_ok_and(|answer| *answer != [ENOUGH]) {
            return;
        }
    }
}

/// An exchange that its caller began. Dropped before its end, it is cancelled at the server.
pub struct Ended {
    pub channel: Channel,
    pub number: u64,
    pub deadline: Option<Instant>,
    pub is_over: bool,
}

impl Ended {
    /// Asks for a piece.
    async fn piece(&mut self, ask: &Ask) -> Result<Piece, Status> {
        let answer = self.channel.ask(ask, self.deadline).await;
        self.piece_of(answer)
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
}

impl Drop for Ended {
    fn drop(&mut self) {
        // Nobody waits for the answer: whoever drops this may be on any thread, without a runtime.
        if !self.is_over {
            self.channel.ask_within(&Ask::Cancel { exchange: self.number }, CANCEL_WITHIN).detach();
        }
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
