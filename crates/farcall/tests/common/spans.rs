//! What a recorder has written, read by the code that OpenTelemetry generates from its own description of the
//! format.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;

/// One test at a time: a process has one recorder, and with it all calls are spans.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a recorder has written.
#[derive(Clone, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// The spans.
    pub fn spans(&self) -> Vec<Span> {
        let text = String::from_utf8(self.0.lock().expect("nobody panics").clone()).expect("text");
        let read = |line| -> ExportTraceServiceRequest { serde_json::from_str(line).expect("OTLP/JSON") };
        let resources = text.lines().flat_map(|line| read(line).resource_spans);
        let spans = resources.flat_map(|resource| {
            let names = resource.resource.expect("there is one").attributes;
            assert!(names.iter().any(|attribute| attribute.key == "service.name"));
            resource.scope_spans
        });
        spans.flat_map(|scope| scope.spans).collect()
    }
}

/// The names of the spans within a span, which they lie in one after the other.
pub fn stages_of(of: &Span, spans: &[Span]) -> Vec<String> {
    let stages: Vec<_> =
        spans.iter().filter(|span| span.kind == 1 && span.parent_span_id == of.span_id).collect();
    assert!(stages.is_sorted_by(|one, next| one.end_time_unix_nano <= next.start_time_unix_nano));
    let within = |stage: &&&Span| {
        of.start_time_unix_nano <= stage.start_time_unix_nano
            && stage.end_time_unix_nano <= of.end_time_unix_nano
    };
    assert!(stages.iter().all(|stage| within(&stage)), "{of:?} {stages:?}");
    stages.iter().map(|stage| stage.name.clone()).collect()
}
