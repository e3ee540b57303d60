//! The scope of a context: what a thread, or a future while it is polled, does on behalf of a request.

use core::cell::RefCell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::context::TraceContext;

thread_local!(static CURRENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) });

impl TraceContext {
    /// The context in whose scope this thread is.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Enters the scope of a context, or leaves all scopes, until the guard is dropped. Calls of traced
    /// services that are made meanwhile on this thread pass the context on.
    pub fn enter(context: Option<Self>) -> Entered {
        Entered { before: CURRENT.replace(context), not_send: PhantomData }
    }

    /// Polls a future within the scope of a context, on whatever thread.
    pub fn scope<F: Future>(context: Option<Self>, future: F) -> Scoped<F> {
        Scoped { future: Box::pin(future), context }
    }
}

/// While it is there, its thread is in the scope of a context. Drop guards in the reverse order.
#[must_use = "the scope ends when it is dropped"]
#[derive(Debug)]
pub struct Entered {
    before: Option<TraceContext>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// A future that is polled within the scope of a context.
#[derive(Debug)]
pub struct Scoped<F> {
    future: Pin<Box<F>>,
    context: Option<TraceContext>,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<F::Output> {
        let _scope = TraceContext::enter(self.context.clone());
        self.future.as_mut().poll(task)
    }
}

#[cfg(test)]
mod tests {
    use core::task::Waker;

    use super::*;

    #[test]
    fn scopes_nest_and_end() {
        let (one, two) = (TraceContext::root(), TraceContext::root());
        assert_ne!(one.trace, two.trace);
        let outer = TraceContext::enter(Some(one.clone()));
        let inner = TraceContext::enter(Some(two.clone()));
        assert_eq!(TraceContext::current(), Some(two));
        drop(inner);
        let none = TraceContext::enter(None);
        assert_eq!(TraceContext::current(), None);
        drop(none);
        assert_eq!(TraceContext::current(), Some(one));
        drop(outer);
        assert_eq!(TraceContext::current(), None);
    }

    #[test]
    fn a_future_has_its_scope_whenever_it_is_polled_and_its_thread_does_not() {
        let context = TraceContext::root();
        let mut is_polled_before = false;
        let work = core::future::poll_fn(|_| match core::mem::replace(&mut is_polled_before, true) {
            true => Poll::Ready(TraceContext::current()),
            false => Poll::Pending,
        });
        let mut scoped = TraceContext::scope(Some(context.clone()), work);
        let task = &mut TaskContext::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut scoped).poll(task), Poll::Pending);
        assert_eq!(TraceContext::current(), None);
        assert_eq!(Pin::new(&mut scoped).poll(task), Poll::Ready(Some(context)));
        assert_eq!(TraceContext::current(), None);
    }
}
