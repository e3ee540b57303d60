//! Traced calls as spans of OpenTelemetry: of both ends, with every part of the call within them.

use farcall::Instant;
use farcall::spans::{KEPT_MAX, Origin, Resource, Span, SpanId, SpanKind, Stage, TraceContext, lines};

use super::Traced;
use super::join::{Point, TracedCall};
use super::summary::PARTS;

/// The parts that lie at the caller, or that only it sees; the others are the server's.
const AT_CALLER: [Point; 4] =
    [Point::Submitted, Point::RequestTransmitted, Point::ResponseTransmitted, Point::ResponseReceived];
const AT_SERVER: [Point; 4] =
    [Point::RequestReceived, Point::Dispatched, Point::HandlerBegun, Point::Replied];

/// The slowest calls of a measurement as lines of OTLP/JSON, in the order in which they were made. Simulated
/// time begins in 1970.
pub fn otlp(traced: &Traced, name: &str) -> String {
    let mut calls: Vec<_> = traced.joined.calls.iter().collect();
    calls.sort_by_key(|call| core::cmp::Reverse(call.total_nanos()));
    calls.truncate(KEPT_MAX);
    calls.sort_by_key(|call| call.at(Point::Submitted));
    let spans: Vec<_> = calls.into_iter().flat_map(|call| spans_of(call, name)).collect();
    let origin = if traced.is_simulated { Origin::at(0) } else { Origin::now() };
    lines(&Resource { name: name.to_owned(), process: None }, origin, &spans)
}

fn spans_of(call: &TracedCall, name: &str) -> [Span; 2] {
    let of_caller = TraceContext::root();
    let caller = of_caller.span;
    let at = |point| Instant::from_nanos(call.at(point));
    let span = |context, parent, kind, [begin, end]: [Point; 2], parts| Span {
        context,
        parent,
        kind,
        name: name.to_owned(),
        service: 0,
        begin: at(begin),
        end: at(end),
        failure: None,
        stages: stages_of(call, parts),
    };
    let of_server = of_caller.within(SpanId::random());
    let served = [Point::RequestReceived, Point::ResponseTransmitted];
    [
        span(of_caller, None, SpanKind::Client, [Point::Submitted, Point::Completed], &AT_CALLER),
        span(of_server, Some(caller), SpanKind::Server, served, &AT_SERVER),
    ]
}

/// The parts that begin at these points.
fn stages_of(call: &TracedCall, begins: &[Point]) -> Vec<Stage> {
    let stage = |begin: &Point| {
        let place = *begin as usize;
        let [begin, end] = [call.nanos[place], call.nanos[place + 1]].map(Instant::from_nanos);
        Stage { name: PARTS[place], begin, end }
    };
    begins.iter().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::explain::trace::Joined;

    fn traced(calls: usize) -> Traced {
        let call = |number: u64| TracedCall {
            client: 1,
            server: 0,
            call: number as u32,
            // The later, the slower.
            nanos: core::array::from_fn(|place| 1000 * number + place as u64 * (number + 1)),
            handler_ended_nanos: None,
        };
        let calls = (0..calls as u64).map(call).collect();
        Traced { joined: Joined { calls, ..Joined::default() }, summary: None, is_simulated: true }
    }

    fn spans(calls: usize) -> Vec<Value> {
        let text = otlp(&traced(calls), "echo");
        let line = |line| serde_json::from_str::<Value>(line).expect("JSON");
        let of_line = |line: Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned();
        text.lines().map(line).flat_map(|line| of_line(line).expect("spans")).collect()
    }

    #[test]
    fn a_call_is_a_span_of_each_end_with_its_parts_within() {
        let spans = spans(1);
        let field = |name: &str| spans.iter().map(|span| span[name].clone()).collect::<Vec<_>>();
        let order = [0, 1, 6, 7].into_iter().chain([2, 3, 4, 5]).map(|place| PARTS[place]);
        let parts = field("name").into_iter().filter(|name| name != "echo").collect::<Vec<_>>();
        assert_eq!(parts, order.collect::<Vec<_>>());
        assert_eq!(field("kind"), [3, 1, 1, 1, 1, 2, 1, 1, 1, 1]);
        assert_eq!(
            (&spans[0]["startTimeUnixNano"], &spans[0]["endTimeUnixNano"]),
            (&"0".into(), &"8".into())
        );
        assert_eq!(
            (&spans[5]["startTimeUnixNano"], &spans[5]["endTimeUnixNano"]),
            (&"2".into(), &"6".into())
        );
        assert_eq!(spans[5]["parentSpanId"], spans[0]["spanId"]);
        assert!(spans.iter().all(|span| span["traceId"] == spans[0]["traceId"]));
    }

    #[test]
    fn the_slowest_are_written() {
        let spans = spans(KEPT_MAX + 5);
        let callers = || spans.iter().filter(|span| span["kind"] == 3);
        assert_eq!(callers().count(), KEPT_MAX);
        assert_eq!(
            callers().next().expect("one")["startTimeUnixNano"],
            "5000",
            "the fastest five are not there"
        );
    }
}
