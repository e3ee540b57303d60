//! Spans as OTLP/JSON lines: what OpenTelemetry's collector writes with its file exporter, and reads with its
//! OTLP/JSON file receiver.
//!
//! Numbers of traces and spans are hexadecimal there, 64-bit integers are strings, and times are nanoseconds
//! since 1970. A stage is a span of its own, within the one that it is a part of.

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde_json::{Value, json};

use farcall_base::Instant;

use super::ids::SpanId;
use super::span::{Span, SpanKind, Stage};

/// The most spans of a line, without their stages: what reads a line has it in memory.
const SPANS_OF_LINE_MAX: usize = 256;

/// The numbers of OTLP for kinds of spans and for a failure.
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;
const CLIENT: u32 = 3;
const FAILED: u32 = 2;

/// What the times of this machine's clocks are in the time of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    monotonic_nanos: u64,
    unix_nanos: u64,
}

impl Origin {
    /// As the system's two clocks say now. The time of the world is set now and then: read it again for
    /// later spans.
    pub fn now() -> Self {
        let nanos = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let read = |clock| nanos(clock_gettime(clock));
        Self { monotonic_nanos: read(ClockId::Monotonic), unix_nanos: read(ClockId::Realtime) }
    }

    /// The origin of times that begin at so many nanoseconds since 1970.
    pub fn at(unix_nanos: u64) -> Self {
        Self { monotonic_nanos: 0, unix_nanos }
    }

    /// Nanoseconds since 1970.
    pub fn unix_nanos(self, time: Instant) -> u64 {
        let since = i128::from(time.as_nanos()) - i128::from(self.monotonic_nanos);
        u64::try_from(i128::from(self.unix_nanos) + since).unwrap_or(0)
    }
}

/// Who wrote the spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The name of the program, as collectors group by it.
    pub name: String,
    /// The number of the process, if it is one.
    pub process: Option<u32>,
}

impl Resource {
    /// This process, under a name.
    pub fn process(name: impl Into<String>) -> Self {
        Self { name: name.into(), process: Some(std::process::id()) }
    }

    fn attributes(&self) -> Vec<Value> {
        let mut attributes = vec![
            text("service.name", &self.name),
            text("telemetry.sdk.name", "farcall"),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        attributes.extend(self.process.map(|process| integer("process.pid", process.into())));
        attributes
    }
}

/// The spans as lines of JSON; nothing when there are none.
pub fn lines(resource: &Resource, origin: Origin, spans: &[Span]) -> String {
    let line = |spans: &[Span]| {
        let spans: Vec<_> = spans.iter().flat_map(|span| with_stages(span, origin)).collect();
        let scope = json!({ "name": "farcall", "version": env!("CARGO_PKG_VERSION") });
        let document = json!({ "resourceSpans": [{
            "resource": { "attributes": resource.attributes() },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        format!("{document}\n")
    };
    spans.chunks(SPANS_OF_LINE_MAX).map(line).collect()
}

fn with_stages(span: &Span, origin: Origin) -> Vec<Value> {
    let kind = match span.kind {
        SpanKind::Client => CLIENT,
        SpanKind::Server => SERVER,
    };
    let mut own = one(span, &span.name, span.context.span, span.parent, kind);
    times(&mut own, origin, span.begin, span.end);
    own["attributes"] = json!([
        text("rpc.system", "farcall"),
        text("rpc.service", &span.name),
        integer("farcall.service", span.service.into()),
    ]);
    if let Some(failure) = &span.failure {
        own["status"] = json!({ "code": FAILED, "message": failure });
    }
    let stages = span.stages.iter().map(|stage| of_stage(span, stage, origin));
    core::iter::once(own).chain(stages).collect()
}

fn of_stage(span: &Span, stage: &Stage, origin: Origin) -> Value {
    let mut value = one(span, stage.name, SpanId::random(), Some(span.context.span), INTERNAL);
    times(&mut value, origin, stage.begin, stage.end);
    value
}

fn one(span: &Span, name: &str, id: SpanId, parent: Option<SpanId>, kind: u32) -> Value {
    let mut value = json!({
        "traceId": span.context.trace.to_string(),
        "spanId": id.to_string(),
        "name": name,
        "kind": kind,
        "flags": span.context.flags,
    });
    if let Some(parent) = parent {
        value["parentSpanId"] = parent.to_string().into();
    }
    if let Some(state) = span.context.state() {
        value["traceState"] = state.into();
    }
    value
}

fn times(value: &mut Value, origin: Origin, begin: Instant, end: Instant) {
    value["startTimeUnixNano"] = origin.unix_nanos(begin).to_string().into();
    value["endTimeUnixNano"] = origin.unix_nanos(end).to_string().into();
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn integer(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
