//! What typed services do for traces: the context in front of a request, the scope of a handler, and the end
//! of a span.

use core::any::type_name;

use serde::Serialize;

use super::decode::value_of;
use super::{TypedError, TypedResult, TypedService};
use crate::spans::{BegunSpan, TraceContext, begin_handler};

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

/// Ends a span.
pub fn ended(span: Option<BegunSpan>, failure: Option<&str>) {
    if let Some(span) = span {
        span.end(failure);
    }
}

/// Why a typed call has no reply, in words that may leave the process.
pub fn failure_of<S: TypedService>(result: &TypedResult<S>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(TypedError::Handler(_)) => Some(REFUSED.to_owned()),
        Err(error) => Some(error.to_string()),
    }
}
