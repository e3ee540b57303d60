//! A response's body, which its reader pulls: a piece is asked for when the one before was read.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use farcall::ClientPending;
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;

use crate::channel::Ended;
use crate::pushing::Pushing;
use crate::wire::Piece;

/// The piece that was asked for, or why there is none: the request has failed meanwhile, and the server might
/// wait for the rest of it for ever.
pub fn poll_piece(
    asked: &mut ClientPending,
    ended: &mut Ended,
    pushing: &mut Pushing,
    task: &mut Context<'_>,
) -> Poll<Result<Piece, Status>> {
    let answer = Pin::new(asked).poll(task);
    if let Poll::Ready(Ok(_)) = answer {
        return answer.map(|answer| ended.piece_of(answer));
    }
    // A failure of the request is why the server has ended the exchange, if it has.
    let Poll::Ready(status) = pushing.poll_failed(task) else {
        return answer.map(|answer| ended.piece_of(answer));
    };
    ended.cancel();
    Poll::Ready(Err(status))
}

/// The body whose first piece is there.
pub fn pulled_body(piece: Piece, ended: Ended, pushing: Pushing) -> Body {
    Body::new(Pulled { piece, asked: None, ended, pushing })
}

struct Pulled {
    /// What was not read of the present piece.
    piece: Piece,
    /// The next one, once it was asked for.
    asked: Option<ClientPending>,
    ended: Ended,
    pushing: Pushing,
}

impl http_body::Body for Pulled {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if !self.piece.data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(core::mem::take(&mut self.piece.data)))));
            }
            if let Some(trailers) = self.piece.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if self.piece.is_last {
                return Poll::Ready(None);
            }
            let Self { asked, ended, pushing, .. } = &mut *self;
            let next = asked.get_or_insert_with(|| ended.pull());
            let outcome = ready!(poll_piece(next, ended, pushing, task));
            *asked = None;
            match outcome {
                Ok(piece) => self.piece = piece,
                Err(status) => {
                    self.piece.is_last = true;
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
    }
}
