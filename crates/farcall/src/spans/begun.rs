//! A span from its beginning to its end.

use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::clock::Clock;
use farcall_transport::Service;

use super::context::TraceContext;
use super::ids::SpanId;
use super::recorder::{Recording, recording};
use super::span::{SPAN_NAME_BYTES_MAX, STAGES_MAX, Span, SpanKind, Stage, cut};
use super::stages::TracedOperation;
use super::trail::Trail;

/// The longest words about a failure.
const FAILURE_BYTES_MAX: usize = 256;

/// A call that was begun: the context to hand on, and the span if the process records.
#[derive(Debug)]
#[must_use = "a span that is dropped counts as given up"]
pub struct BegunSpan {
    context: Option<TraceContext>,
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    recording: Arc<Recording>,
    parent: Option<SpanId>,
    kind: SpanKind,
    name: String,
    service: u16,
    begin: Instant,
    followed: Followed,
}

/// What the stages of a span are taken from.
#[derive(Debug, Default)]
pub(crate) enum Followed {
    /// Nothing is known but its beginning and end.
    #[default]
    Nothing,
    /// A call of an endpoint.
    Call(TracedOperation),
    /// A request; when its handler began, if it waited for that in a queue.
    Request { request: TracedOperation, taken: Option<Instant> },
    /// A call of a client, which begins the span when it is sent.
    Client(Arc<Trail>),
}

impl Followed {
    /// The stages of a span that ended then.
    fn stages(&self, end: Instant) -> Vec<Stage> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Call(call) => call.stages_of_call(end),
            Self::Request { request, taken } => request.stages_of_request(*taken, end),
            Self::Client(trail) => trail.stages(end),
        }
    }
}

/// Begins a call of a service in the scope of this thread: what the caller hands on is the context of the
/// scope, or of the new span if the process records.
pub fn begin_call(name: &str, service: Service) -> BegunSpan {
    begin(SpanKind::Client, name, service, TraceContext::current())
}

/// Begins to serve a request that came with this context: run the handler in the scope of
/// [`BegunSpan::context`].
pub fn begin_handler(name: &str, service: Service, received: Option<TraceContext>) -> BegunSpan {
    begin(SpanKind::Server, name, service, received)
}

fn begin(kind: SpanKind, name: &str, service: Service, cause: Option<TraceContext>) -> BegunSpan {
    let Some(recording) = recording() else { return BegunSpan { context: cause, recorded: None } };
    let parent = cause.as_ref().map(|cause| cause.span);
    let context = match cause {
        Some(cause) => cause.within(SpanId::random()),
        None => TraceContext::root(),
    };
    let name = cut(name, SPAN_NAME_BYTES_MAX).to_owned();
    let (service, begin, followed) = (service.0, Clock::new().now(), Followed::Nothing);
    let recorded = Recorded { recording, parent, kind, name, service, begin, followed };
    BegunSpan { context: Some(context), recorded: Some(recorded) }
}

impl BegunSpan {
    /// What is handed on, to the server or to the calls of the handler.
    pub fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// If it will be a span, its stages are those of what `followed` gives; of nothing they stay what they
    /// are.
    pub(crate) fn follow(&mut self, followed: impl FnOnce() -> Option<Followed>) {
        if let Some(recorded) = &mut self.recorded
            && let Some(followed) = followed()
        {
            recorded.followed = followed;
        }
    }

    /// The handler of a request begins now, after the request waited for it in a queue since the poll that
    /// gave it to [`Reply::in_span`](crate::Reply::in_span).
    pub fn taken(&mut self) {
        if let Some(Recorded { followed: Followed::Request { taken, .. }, .. }) = &mut self.recorded {
            *taken = Some(Clock::new().now());
        }
    }

    /// It has ended, well or with a failure.
    pub fn end(mut self, failure: Option<&str>) {
        self.finish(failure);
    }

    fn finish(&mut self, failure: Option<&str>) {
        let Some((recorded, context)) = self.recorded.take().zip(self.context.take()) else { return };
        let Recorded { recording, parent, kind, name, service, mut begin, followed } = recorded;
        if let Followed::Client(trail) = &followed {
            // One that was prepared and not sent was no call.
            let Some(sent) = trail.sent_at() else { return };
            begin = sent;
        }
        let end = Clock::new().now();
        let nanos = end.as_nanos().saturating_sub(begin.as_nanos());
        if !recording.wants(kind, &name, nanos) {
            return recording.count();
        }
        let mut stages = followed.stages(end);
        stages.truncate(STAGES_MAX);
        // Its first stage may have begun before the handler, and with it the span.
        let begin = stages.iter().map(|stage| stage.begin).min().map_or(begin, |first| first.min(begin));
        let failure = failure.map(|failure| cut(failure, FAILURE_BYTES_MAX).to_owned());
        recording.add(Span { context, parent, kind, name, service, begin, end, failure, stages });
        recording.count();
    }
}

impl Drop for BegunSpan {
    fn drop(&mut self) {
        self.finish(Some("given up before its end"));
    }
}
