//! The context of a trace in the metadata of calls: `traceparent` and `tracestate`, as over HTTP.

use core::convert::Infallible;
use core::future::Future;

use farcall::Service;
use farcall::spans::{self, BegunSpan, TRACESTATE_BYTES_MAX, TraceContext};
use http::{HeaderMap, HeaderValue};
use tonic::body::Body;

use crate::server::Served;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Begins a call in the scope of this thread, and hands its context on. Metadata that has a `traceparent`
/// is the program's own, or of another tracing library, and stays as it is.
pub fn begin_call(request: &mut http::Request<Body>, at: Service) -> Option<BegunSpan> {
    if request.headers().contains_key(TRACEPARENT) {
        return None;
    }
    let span = spans::begin_call(request.uri().path(), at);
    let context = span.context()?;
    let (parent, state) = (context.traceparent(), context.state().map(str::to_owned));
    let headers = request.headers_mut();
    headers.remove(TRACESTATE);
    for (name, value) in [(TRACEPARENT, Some(parent)), (TRACESTATE, state)] {
        // Neither has a byte that metadata must not have.
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
    Some(span)
}

/// Begins to serve a request: its handler finds the context in its extensions too. Malformed headers are
/// dropped.
pub fn begin_handler(request: &mut http::Request<()>, at: Service) -> BegunSpan {
    let received = received(request.headers());
    if received.is_none() {
        request.headers_mut().remove(TRACEPARENT);
    }
    if received.as_ref().is_none_or(|context| context.state().is_none()) {
        request.headers_mut().remove(TRACESTATE);
    }
    let span = spans::begin_handler(request.uri().path(), at, received);
    if let Some(context) = span.context() {
        request.extensions_mut().insert(context.clone());
    }
    span
}

/// The context that headers say, if it is well-formed.
fn received(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next()?;
    if parents.next().is_some() {
        // Two of them say nothing: read as what no header can be, it is counted.
        return TraceContext::from_headers(b"", None).ok();
    }
    TraceContext::from_headers(parent.as_bytes(), joined(headers).as_deref()).ok()
}

/// A list may come in several headers. Of one that is over its bound no more is copied than shows it.
fn joined(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut list: Option<Vec<u8>> = None;
    for part in headers.get_all(TRACESTATE) {
        let list = list.get_or_insert_default();
        if !list.is_empty() {
            list.push(b',');
        }
        list.extend_from_slice(part.as_bytes().get(..=TRACESTATE_BYTES_MAX).unwrap_or(part.as_bytes()));
        if list.len() > TRACESTATE_BYTES_MAX {
            break;
        }
    }
    list
}

type Response = Result<http::Response<Body>, Infallible>;

/// Runs a handler in the scope of its request, to the beginning of its response.
pub fn handled<S: Served>(
    span: BegunSpan,
    service: &mut S,
    request: http::Request<Body>,
) -> impl Future<Output = Response> + Send + use<S> {
    let context = span.context().cloned();
    let scope = TraceContext::enter(context.clone());
    let called = service.call(request);
    drop(scope);
    let called = TraceContext::scope(context, called);
    async move {
        let response = called.await;
        let failure = response.as_ref().ok().and_then(|response| failure_of(response.headers()));
        span.end(failure.as_deref());
        response
    }
}

/// The status of gRPC of a response without a body, if it is a failure.
fn failure_of(headers: &HeaderMap) -> Option<String> {
    let status = tonic::Status::from_header_map(headers)?;
    (status.code() != tonic::Code::Ok).then(|| status.code().description().to_owned())
}
