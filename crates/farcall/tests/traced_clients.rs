//! Spans of clients: they begin when a call is sent, and say where its time went on both sides.

mod common;
#[path = "common/spans.rs"]
mod spans;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{LONG, Pair, settings};
use farcall::spans::{Keep, Resource, SpanRecorder, TraceContext, begin_call, begin_handler};
use farcall::typed::TypedService;
use farcall::{CLIENT_CALLS_MAX, Client, Node, Peer, Service, TransportKind};
use opentelemetry_proto::tonic::trace::v1::Span;
use spans::{Written, alone, stages_of};

struct Orders;

impl TypedService for Orders {
    const SERVICE: Service = Service(20);
    type Request = u8;
    type Reply = u8;
    type Error = ();
    const TRACED: bool = true;
}

/// Calls of bytes with a context in front.
const PLAIN: Service = Service(21);

const KEEP: Keep = Keep { slowest: 100, window: Duration::from_secs(3600) };

/// A server whose threads serve `Orders` and whose poll serves `PLAIN`, both traced.
fn pair(kind: TransportKind) -> Pair {
    Pair::new(kind, settings(&["endpoint.idle=block"]), |server| {
        server.tracer().switch(true);
        server.serve_typed_blocking::<Orders>(2, Ok).expect("threads");
        server.serve(PLAIN, |request, reply| {
            let (context, order) = TraceContext::take(request.payload()).expect("a context is in front");
            let mut span = begin_handler("plain", PLAIN, context);
            reply.in_span(&mut span);
            if order == b"refuse" {
                reply.refuse(7)
            } else {
                reply.send(order)
            }
            span.end(None);
        });
    })
}

/// A client of the server, whose endpoint traces or does not.
fn client(node: &Node, kind: TransportKind, traces: bool) -> (Client, Peer) {
    let endpoint = node.endpoint_with(kind, &settings(&["endpoint.idle=block"]));
    let endpoint = endpoint.expect("an endpoint");
    endpoint.tracer().switch(traces);
    let server = endpoint.peer(0).expect("it is known");
    (Client::start(endpoint).expect("a thread"), server)
}

fn record() -> (SpanRecorder, Written) {
    let written = Written::default();
    let recorder = SpanRecorder::start(Resource::process("orders"), KEEP, written.clone());
    (recorder.expect("the first"), written)
}

fn of_kind(spans: &[Span], kind: i32) -> Vec<&Span> {
    spans.iter().filter(|span| span.kind == kind).collect()
}

#[test]
fn a_typed_call_of_a_client_has_the_time_in_queues_and_that_of_its_endpoint() {
    let _alone = alone();
    let of_client: [&[&str]; 2] =
        [&["queue", "call", "wake"], &["queue", "submit", "away", "complete", "wake"]];
    for (kind, traces) in [
        (TransportKind::RING_SHM, false),
        (TransportKind::RING_SHM, true),
        (TransportKind::BASIC_UDP, true),
        (TransportKind::TCP, true),
    ] {
        let pair = pair(kind);
        let (recorder, written) = record();
        let (client, server) = client(&pair.node, kind, traces);
        for _ in 0..5 {
            let call = client.call_typed::<Orders>(server, &7).expect("an encoding");
            assert_eq!(call.within(LONG).wait(), Ok(7));
        }
        // The last handler may return after its answer has arrived.
        drop((client, pair));
        drop(recorder);
        let spans = written.spans();
        let (clients, servers) = (of_kind(&spans, 3), of_kind(&spans, 2));
        assert_eq!((clients.len(), servers.len()), (5, 5));
        for client in clients {
            assert_eq!(stages_of(client, &spans), of_client[usize::from(traces)], "{kind}");
        }
        for server in servers {
            let of_server = ["gather", "dispatch", "queue", "handler"];
            assert_eq!(stages_of(server, &spans), of_server, "{kind}");
        }
    }
}

#[test]
fn plain_calls_have_spans_that_the_program_begins_and_ends() {
    let _alone = alone();
    let pair = pair(TransportKind::RING_SHM);
    let (recorder, written) = record();
    let (client, server) = client(&pair.node, TransportKind::RING_SHM, true);
    let call = |order: &[u8]| {
        let mut span = begin_call("plain", PLAIN);
        let mut request = Vec::new();
        TraceContext::put(span.context(), &mut request);
        request.extend_from_slice(order);
        let answer = client.call(server, PLAIN, request).within(LONG).in_span(&mut span).wait();
        span.end(answer.as_ref().err().map(ToString::to_string).as_deref());
        answer.map(|answer| answer.to_vec())
    };
    assert_eq!(call(b"nails").as_deref(), Ok(&b"nails"[..]));
    assert!(call(b"refuse").is_err());
    // The same of an endpoint.
    pair.client.tracer().switch(true);
    let mut span = begin_call("plain", PLAIN);
    let mut request = Vec::new();
    TraceContext::put(span.context(), &mut request);
    let pending = pair.client.call(pair.server, PLAIN, &request).within(LONG).start().expect("room");
    pending.in_span(&mut span);
    assert_eq!(pending.wait().expect("an answer").len(), 0);
    span.end(None);
    drop((client, pair));
    drop(recorder);
    let spans = written.spans();
    let (clients, servers) = (of_kind(&spans, 3), of_kind(&spans, 2));
    assert_eq!((clients.len(), servers.len()), (3, 3));
    let stages: Vec<_> = clients.iter().map(|client| stages_of(client, &spans)).collect();
    let of_client = ["queue", "submit", "away", "complete", "wake"];
    assert_eq!(stages, [&of_client[..], &of_client, &of_client[1..4]]);
    let failures: Vec<_> = clients.iter().filter_map(|client| client.status.as_ref()).collect();
    assert!(failures.len() == 1 && failures[0].message.contains("refused with code 7"), "{failures:?}");
    for server in servers {
        assert!(clients.iter().any(|client| client.span_id == server.parent_span_id));
        assert_eq!(stages_of(server, &spans), ["gather", "dispatch", "handler"]);
    }
}

#[test]
fn a_span_begins_when_its_call_is_sent_and_one_that_is_not_sent_is_none() {
    let _alone = alone();
    let pair = pair(TransportKind::RING_SHM);
    let (recorder, written) = record();
    // Nobody turns the port: what is sent stays in the queue.
    let (client, port) = Client::over(&pair.client, CLIENT_CALLS_MAX);
    let prepared = || client.call_typed::<Orders>(pair.server, &7).expect("an encoding");
    drop(prepared());
    drop(prepared().send());
    let kept = prepared();
    begin_call("between", PLAIN).end(None);
    {
        let mut sending = pin!(kept.send());
        assert!(matches!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    drop(port);
    assert!(prepared().wait().is_err(), "its endpoint is gone");
    drop(recorder);
    let spans = written.spans();
    let (clients, between) = (of_kind(&spans, 3), spans.iter().find(|span| span.name == "between"));
    assert_eq!(clients.len(), 3);
    let between = between.expect("it was kept");
    let words: Vec<_> = clients.iter().filter_map(|client| client.status.as_ref()).collect();
    let words: Vec<_> = words.iter().map(|status| status.message.as_str()).collect();
    assert_eq!(words, ["given up before its end", "the client was stopped"]);
    assert_eq!(clients[0].name, between.name, "prepared before it, and sent behind it");
    assert!(between.end_time_unix_nano <= clients[1].start_time_unix_nano);
    assert_eq!(stages_of(clients[1], &spans), ["queue"]);
}
