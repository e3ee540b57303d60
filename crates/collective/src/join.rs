//! Futures that run side by side until all have ended, or one has failed.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

/// Both results, or the first error.
pub async fn both<A, B, E>(
    one: impl Future<Output = Result<A, E>>,
    other: impl Future<Output = Result<B, E>>,
) -> Result<(A, B), E> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(move |task| {
        if first.is_none()
            && let Poll::Ready(result) = one.as_mut().poll(task)
        {
            first = Some(result?);
        }
        if second.is_none()
            && let Poll::Ready(result) = other.as_mut().poll(task)
        {
            second = Some(result?);
        }
        if first.is_some() && second.is_some() {
            return Poll::Ready(Ok((first.take().expect("it ended"), second.take().expect("it ended"))));
        }
        Poll::Pending
    })
    .await
}

/// All results in the order of the futures, or the first error.
pub async fn all<T, E>(futures: impl Iterator<Item: Future<Output = Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut open: Vec<_> = futures.map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<Option<T>> = open.iter().map(|_| None).collect();
    poll_fn(|task| {
        let mut is_done = true;
        for (place, result) in open.iter_mut().zip(&mut results) {
            let Some(future) = place else { continue };
            match Pin::new(future).poll(task) {
                Poll::Ready(end) => {
                    *result = Some(end?);
                    *place = None;
                }
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await?;
    Ok(results.into_iter().map(|result| result.expect("all have ended")).collect())
}
