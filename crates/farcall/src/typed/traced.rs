//! What typed services do for traces: the context in front of a request, the scope of a handler, and the end
//! of a span.

use core::any::type_name;

use serde::Serialize;

use super::decode::value_of;
use super::{TypedError, TypedResult, TypedService};
use crate::spans::{BegunSpan, TraceContext, TracedOperation, begin_handler};

/// What a span says of a call whose handler gave an error. Not the error: it may hold what collectors must
/// not know.
pub const REFUSED: &str = "the handler refused";

/// A request and the context in front of it, if the service has one there.
pub fn sent<T: Serialize>(request: &T, span: Option<&BegunSpan>) -> Result<Vec<u8>, postcard::Error> {
    match span {
        Some(span) => {
            let mut payload = Vec::new();
            TraceContext::put(span.context(), &mut payload);
            postcard::to_extend(request, payload)
        }
        None => postcard::to_stdvec(request),
    }
}

/// A request that arrived, and the span that begins with it; `None` of one that cannot be read.
pub fn received<S: TypedService>(payload: &[u8]) -> Option<(S::Request, Option<BegunSpan>)> {
    if !S::TRACED {
        return Some((value_of(payload).ok()?, None));
    }
    let (context, payload) = TraceContext::take(payload)?;
    let value = value_of(payload).ok()?;
    Some((value, Some(begin_handler(type_name::<S>(), S::SERVICE, context))))
}

/// Runs a handler in the scope of its request.
pub fn in_scope<T>(span: Option<&BegunSpan>, handler: impl FnOnce() -> T) -> T {
    let _scope = span.map(|span| TraceContext::enter(span.context().cloned()));
    handler()
}

/// At which end a span is, and how the endpoint's trace names it.
pub enum Side {
    Caller(TracedOperation),
    Server(TracedOperation),
}

/// Ends a span, with the stages that were traced.
pub fn ended(span: Option<BegunSpan>, failure: Option<&str>, side: Option<Side>) {
    let Some(span) = span else { return };
    span.end_with(failure, |end| match side {
        Some(Side::Caller(call)) => call.stages_of_call(),
        Some(Side::Server(request)) => request.stages_of_request(end),
        None => Vec::new(),
    });
}

/// Why a typed call has no reply, in words that may leave the process.
pub fn failure_of<S: TypedService>(result: &TypedResult<S>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(TypedError::Handler(_)) => Some(REFUSED.to_owned()),
        Err(error) => Some(error.to_string()),
    }
}
