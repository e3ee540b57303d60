//! Spans: one call as its caller and its server saw it, and the context that joins the spans of a request on
//! its way through many processes, as W3C Trace Context and OpenTelemetry have them.
//!
//! A [`TraceContext`] travels where calls have room for it: with typed services that say so
//! (`TypedService::TRACED`), with gRPC, and in any payload by [`TraceContext::put`]. A handler runs within
//! the scope of its caller's context, and calls made in that scope pass it on. Nothing is read, written or
//! sent for services that do not ask for it.
//!
//! While a process has a [`SpanRecorder`], both ends of such calls are spans, of which it keeps the slowest
//! and writes them for a collector of OpenTelemetry. Without one the context of the caller passes through
//! unchanged.
//!
//! ```
//! use farcall::spans::TraceContext;
//!
//! let header = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let scope = TraceContext::enter(TraceContext::from_headers(header, None).ok());
//! // What is called here is a part of that trace.
//! assert!(TraceContext::current().is_some());
//! drop(scope);
//! ```

mod begun;
mod context;
mod ids;
mod otlp;
mod recorder;
mod scope;
mod slowest;
mod span;
mod stages;
mod state;
mod trail;
mod wire;

pub(crate) use begun::Followed;
pub use begun::{BegunSpan, begin_call, begin_handler};
pub use context::{MalformedContext, TRACEPARENT_BYTES_MAX, TraceContext};
pub use ids::{SpanId, TraceId};
pub use otlp::{Origin, Resource, lines};
pub use recorder::{RecorderError, SpanRecorder};
pub use scope::{Entered, Scoped};
pub use slowest::{KEPT_MAX, Keep, SPAN_NAMES_MAX};
pub use span::{SPAN_NAME_BYTES_MAX, STAGES_MAX, Span, SpanKind, Stage};
pub(crate) use stages::TracedOperation;
pub use state::{TRACESTATE_BYTES_MAX, TRACESTATE_MEMBERS_MAX};
pub(crate) use trail::Trail;
