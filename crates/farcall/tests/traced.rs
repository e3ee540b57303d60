//! The context of a trace goes with the calls of typed services, and both ends of the slowest are written.

mod common;
#[path = "common/spans.rs"]
mod spans;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use common::{LONG, Pair, settings};
use farcall::spans::{Keep, RecorderError, Resource, SpanRecorder, TraceContext};
use farcall::typed::TypedService;
use farcall::{Client, CounterFile, Service, TransportKind};
use opentelemetry_proto::tonic::trace::v1::Span;
use spans::{Written, alone, stages_of};

/// Answers with the context in whose scope its handler ran.
struct Scope;

impl TypedService for Scope {
    const SERVICE: Service = Service(20);
    type Request = u8;
    type Reply = Option<String>;
    type Error = ();
    const TRACED: bool = true;
}

/// Has no room for a context.
struct Untraced;

impl TypedService for Untraced {
    const SERVICE: Service = Service(21);
    type Request = u8;
    type Reply = Option<String>;
    type Error = ();
}

fn scope(request: u8) -> Result<Option<String>, ()> {
    if request == 0 {
        return Err(());
    }
    Ok(TraceContext::current().map(|context| context.traceparent()))
}

fn pair(is_blocking: bool) -> Pair {
    Pair::new(TransportKind::RING_SHM, settings(&["endpoint.idle=block"]), move |server| {
        server.tracer().switch(true);
        if is_blocking {
            server.serve_typed_blocking::<Scope>(2, scope).expect("threads");
        } else {
            server.serve_typed::<Scope>(scope);
        }
        server.serve_typed::<Untraced>(scope);
    })
}

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn given() -> TraceContext {
    TraceContext::from_headers(GIVEN.as_bytes(), Some(b"rojo=1")).expect("a header")
}

#[test]
fn without_a_recorder_the_callers_context_arrives_unchanged() {
    let _alone = alone();
    for is_blocking in [false, true] {
        let Pair { client, server, .. } = &pair(is_blocking);
        let call = || client.call_typed::<Scope>(*server, &7, LONG).expect("an answer");
        assert_eq!(call(), None);
        let entered = TraceContext::enter(Some(given()));
        assert_eq!(call().as_deref(), Some(GIVEN));
        assert_eq!(TraceContext::current(), Some(given()), "the scope goes on after the call");
        let untraced = client.call_typed::<Untraced>(*server, &7, LONG).expect("an answer");
        assert_eq!(untraced, None, "there is no room for it");
        drop(entered);
        assert_eq!(call(), None);
    }
}

#[test]
fn a_malformed_context_is_dropped_and_counted_and_the_request_runs() {
    let _alone = alone();
    let Pair { client, server, .. } = &pair(false);
    let before = counted("malformed_contexts");
    let mut request = Vec::new();
    TraceContext::put(Some(&given()), &mut request);
    request[1..17].fill(0);
    request.push(7);
    let answer = client.call(*server, Scope::SERVICE, &request).within(LONG).wait().expect("an answer");
    assert_eq!(&answer[..], [0, 0], "`Ok(None)`: there was no context");
    assert_eq!(counted("malformed_contexts") - before, 1);
    let cut = client.call(*server, Scope::SERVICE, &request[..20]).within(LONG).wait();
    assert!(cut.is_err(), "where the request begins is not known");
}

/// One of the counters of spans; 0 before the first use.
fn counted(name: &str) -> u64 {
    let groups = CounterFile::open_process(std::process::id()).expect("this process").groups;
    let counters = groups.iter().filter(|group| group.label == "spans").flat_map(|group| &group.counters);
    counters.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
}

const KEEP: Keep = Keep { slowest: 2, window: Duration::from_secs(3600) };

#[test]
fn both_ends_of_the_slowest_calls_are_written_with_their_stages() {
    let _alone = alone();
    let written = Written::default();
    let pair = pair(false);
    pair.client.tracer().switch(true);
    let recorder =
        SpanRecorder::start(Resource::process("orders"), KEEP, written.clone()).expect("the first");
    let again = SpanRecorder::start(Resource::process("orders"), KEEP, io::sink());
    assert!(matches!(again, Err(RecorderError::Already)));
    let before = unix_nanos();
    {
        let _scope = TraceContext::enter(Some(given()));
        for _ in 0..20 {
            pair.client.call_typed::<Scope>(pair.server, &7, LONG).expect("an answer").expect("a scope");
        }
    }
    drop(recorder);
    let after = unix_nanos();
    let spans = written.spans();
    let of_kind = |kind: i32| spans.iter().filter(|span| span.kind == kind).collect::<Vec<_>>();
    let (clients, servers) = (of_kind(3), of_kind(2));
    assert_eq!((clients.len(), servers.len()), (2, 2), "the slowest two of each end");
    for span in &spans {
        assert_eq!(span.trace_id, given().trace.number().to_be_bytes());
        assert_eq!((span.span_id.len(), span.trace_state.as_str()), (8, "rojo=1"));
        assert!(before <= span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(span.end_time_unix_nano <= after);
    }
    for client in &clients {
        assert_eq!(client.parent_span_id, given().span.number().to_be_bytes());
        assert_eq!(stages_of(client, &spans), ["submit", "away", "complete"]);
    }
    for server in &servers {
        assert_eq!(stages_of(server, &spans), ["gather", "dispatch", "handler"]);
        let is_cause = |client: &&&Span| client.span_id == server.parent_span_id;
        if let Some(client) = clients.iter().find(is_cause) {
            assert!(client.start_time_unix_nano <= server.start_time_unix_nano);
        }
    }
}

fn unix_nanos() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64
}

#[test]
fn a_handler_is_the_child_of_its_call_and_failures_are_said() {
    let _alone = alone();
    let written = Written::default();
    let pair = pair(true);
    let keep = Keep { slowest: 100, ..KEEP };
    let recorder =
        SpanRecorder::start(Resource::process("orders"), keep, written.clone()).expect("the first");
    let settings = settings(&["endpoint.idle=block"]);
    let endpoint = pair.node.endpoint_with(TransportKind::RING_SHM, &settings).expect("an endpoint");
    let server = endpoint.peer(0).expect("it is known");
    let client = Client::start(endpoint).expect("a thread");
    let call = |request: u8| client.call_typed::<Scope>(server, &request).expect("an encoding");
    let in_handler = call(7).within(LONG).wait().expect("an answer").expect("a new trace");
    assert!(call(0).within(LONG).wait().is_err());
    drop(call(7)); // It was never sent.
    drop(pair);
    drop(recorder);
    let spans = written.spans();
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span)).collect();
    let servers: Vec<_> = spans.iter().filter(|span| span.kind == 2).collect();
    let clients = spans.iter().filter(|span| span.kind == 3).count();
    assert_eq!((clients, servers.len()), (2, 2), "{spans:?}");
    for server in servers {
        let client = by_id[&server.parent_span_id];
        assert_eq!((client.kind, &client.trace_id, client.parent_span_id.len()), (3, &server.trace_id, 0));
        assert_eq!(client.status.is_some(), server.status.is_some());
    }
    let failures: Vec<_> = spans.iter().filter_map(|span| span.status.as_ref()).collect();
    let words: Vec<_> = failures.iter().map(|status| (status.code, status.message.as_str())).collect();
    assert_eq!(words, [(2, "the handler refused"); 2]);
    let in_handler = TraceContext::from_headers(in_handler.as_bytes(), None).expect("a header");
    let own = by_id[&in_handler.span.number().to_be_bytes().to_vec()];
    assert_eq!(own.kind, 2, "what a handler calls is caused by the server's span");
}

/// A disk without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_full_disk_does_not_take_is_lost_and_counted_and_calls_go_on() {
    let _alone = alone();
    let pair = pair(false);
    let counts = || ["ended", "written", "not_written"].map(counted);
    let before = counts();
    let window = Duration::from_millis(1);
    let recorder = SpanRecorder::start(Resource::process("orders"), Keep { slowest: 2, window }, Full);
    for _ in 0..20 {
        pair.client.call_typed::<Scope>(pair.server, &7, LONG).expect("an answer");
    }
    // The last handler may return after its answer has arrived.
    drop(pair);
    drop(recorder.expect("the first"));
    let after = counts();
    assert_eq!((after[0] - before[0], after[1] - before[1]), (40, 0));
    assert!(after[2] - before[2] >= 4, "of each end the slowest two at least");
}
