//! A body of HTTP as pieces: what is ready is gathered, up to the length of a piece.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::Body as _;
use tonic::Status;
use tonic::body::Body;

use crate::headers::HEADERS_MAX;
use crate::wire::{PIECE_BYTES_MAX, Piece};

/// The rest of a body.
pub struct Source {
    body: Pin<Box<Body>>,
    /// What was read and did not fit.
    left: Bytes,
    trailers: Option<HeaderMap>,
    is_over: bool,
}

/// What was gathered of a body.
pub struct Gathered {
    pub data: Bytes,
    pub trailers: Option<HeaderMap>,
    /// Whether the body is over.
    pub is_last: bool,
}

impl Source {
    pub fn new(body: Body) -> Self {
        Self { body: Box::pin(body), left: Bytes::new(), trailers: None, is_over: false }
    }

    /// What is ready now; nothing is ready as well.
    pub fn ready(&mut self, task: &mut Context<'_>) -> Result<Gathered, Status> {
        let mut first = core::mem::take(&mut self.left);
        let mut more = BytesMut::new();
        while !self.is_over && first.len() + more.len() < PIECE_BYTES_MAX {
            match self.body.as_mut().poll_frame(task) {
                Poll::Pending => break,
                Poll::Ready(None) => self.is_over = true,
                Poll::Ready(Some(frame)) => match frame?.into_data() {
                    // A message as a rule is one frame, which is passed on as it is.
                    Ok(data) if first.is_empty() => first = data,
                    Ok(data) => more.extend_from_slice(&data),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
        let mut data = if more.is_empty() { first } else { [first, more.freeze()].concat().into() };
        if data.len() > PIECE_BYTES_MAX {
            self.left = data.split_off(PIECE_BYTES_MAX);
        }
        let is_last = self.is_over && self.left.is_empty();
        let trailers = if is_last { self.trailers.take() } else { None };
        Ok(Gathered { data, trailers, is_last })
    }

    /// The next part, waited for.
    pub async fn next(&mut self) -> Result<Gathered, Status> {
        poll_fn(|task| match self.ready(task) {
            Ok(gathered) if gathered.data.is_empty() && !gathered.is_last => Poll::Pending,
            outcome => Poll::Ready(outcome),
        })
        .await
    }
}

/// The response of a service, future and body: piece by piece.
pub enum Answering<F> {
    Called(Pin<Box<F>>),
    Responded(Source),
}

impl<F: Future<Output = Result<Response<Body>, Infallible>>> Answering<F> {
    /// The next piece, waited for: the head as soon as it is there, with what is ready behind it.
    pub async fn next(&mut self) -> Piece {
        let mut head = None;
        if let Self::Called(future) = self {
            let Ok(response) = future.await;
            let (parts, body) = response.into_parts();
            head = Some((parts.status, parts.headers));
            *self = Self::Responded(Source::new(body));
        }
        let Self::Responded(source) = self else { unreachable!("it has just responded") };
        let gathered = if head.is_some() {
            poll_fn(|task| Poll::Ready(source.ready(task))).await
        } else {
            source.next().await
        };
        let trailers = gathered.as_ref().ok().and_then(|gathered| gathered.trailers.as_ref());
        let metadata = [head.as_ref().map(|(_, headers)| headers), trailers];
        if let Some(status) = metadata.into_iter().flatten().find_map(too_many) {
            return failed(None, &status);
        }
        match gathered {
            Ok(Gathered { data, trailers, is_last }) => Piece { head, data, trailers, is_last },
            Err(status) => failed(head, &status),
        }
    }
}

/// What becomes of a call with more metadata than a peer takes.
pub fn too_many(headers: &HeaderMap) -> Option<Status> {
    let sentence =
        || format!("{} entries of metadata; farcall carries {HEADERS_MAX} of a call", headers.len());
    (headers.len() > HEADERS_MAX).then(|| Status::resource_exhausted(sentence()))
}

/// The last piece of an exchange that has failed.
pub fn failed(head: Option<(http::StatusCode, HeaderMap)>, status: &Status) -> Piece {
    let mut trailers = HeaderMap::new();
    // Only what is no text of HTTP is left out, which statuses made here are not.
    let _ = status.add_header(&mut trailers);
    Piece { head, data: Bytes::new(), trailers: Some(trailers), is_last: true }
}
