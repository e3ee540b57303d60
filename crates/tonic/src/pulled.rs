//! A response's body, which its reader pulls: a piece is asked for when the one before was read.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use farcall::ClientPending;
use http_body::Frame;
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;

use crate::channel::Ended;
use crate::wire::{Ask, Piece};

/// Ends the task that pushes a request when it is dropped.
pub struct PushesAborted(pub AbortHandle);

impl Drop for PushesAborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body whose first piece is there.
pub fn pulled_body(piece: Piece, ended: Ended, pushes: Option<PushesAborted>) -> Body {
    Body::new(Pulled { piece, asked: None, ended, _pushes: pushes })
}

struct Pulled {
    /// What was not read of the present piece.
    piece: Piece,
    /// The next one, once it was asked for.
    asked: Option<Pin<Box<ClientPending>>>,
    ended: Ended,
    _pushes: Option<PushesAborted>,
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
            if self.asked.is_none() {
                let pull = Ask::Pull { exchange: self.ended.number };
                self.asked = Some(Box::pin(self.ended.channel.ask(&pull, self.ended.deadline)));
            }
            let asked = self.asked.as_mut().expect("it was asked for");
            let answer = ready!(asked.as_mut().poll(task));
            self.asked = None;
            match self.ended.piece_of(answer) {
                Ok(piece) => self.piece = piece,
                Err(status) => {
                    self.piece.is_last = true;
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
    }
}
