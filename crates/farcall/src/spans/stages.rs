//! The stages of a span, from what the endpoint traced.

use core::ops::ControlFlow;

use farcall_base::Instant;
use farcall_driver::trace::TraceRecord;
use farcall_transport::SessionId;
use farcall_transport::trace::{CallTracer, event, session_bits};

use super::span::Stage;

/// The newest records among which those of a call are looked for.
const RECORDS_LOOKED_AT: usize = 1 << 15;

/// A call as an endpoint's trace names it.
#[derive(Clone, Debug)]
pub(crate) struct TracedOperation {
    pub tracer: CallTracer,
    pub session: SessionId,
    /// At the caller its own number, at the server that of the wire.
    pub operation: u32,
}

impl TracedOperation {
    /// The stages of a call that has completed at its caller, at `end` at the latest.
    pub fn stages_of_call(&self, end: Instant) -> Vec<Stage> {
        let Some(mut records) = self.since_submitted() else { return Vec::new() };
        // A response that was repeated comes once more when the call is over.
        let is_end =
            |record: &TraceRecord| record.event == event::COMPLETED && record.operation == self.operation;
        if let Some(end) = records.iter().position(is_end) {
            records.truncate(end + 1);
        }
        // Its number on the wire, if that is another one. The record has it in the place of a time.
        let is_name = |record: &&TraceRecord| {
            record.event == event::NAMED && record.time.as_nanos() as u32 == self.operation
        };
        let wire = records.iter().find(is_name).map_or(self.operation, |record| record.operation);
        let is_it = |event, operation| {
            move |record: &&TraceRecord| record.event == event && record.operation == operation
        };
        let first = |event, operation| {
            records.iter().find(is_it(event, operation)).map(|record| self.time_of(record))
        };
        let last = |event, operation| {
            records.iter().rfind(is_it(event, operation)).map(|record| self.time_of(record))
        };
        // A call without a response is away until its end.
        let received = last(event::RESPONSE_RECEIVED, wire);
        between(&[
            ("", first(event::SUBMITTED, self.operation)),
            ("submit", first(event::REQUEST_TRANSMITTED, wire)),
            ("away", received.or(Some(end))),
            ("complete", received.and(first(event::COMPLETED, self.operation))),
        ])
    }

    /// The stages of a request whose handler has returned, or answered later, at `end`. One that waited for a
    /// thread until `taken` waited in a queue.
    pub fn stages_of_request(&self, taken: Option<Instant>, end: Instant) -> Vec<Stage> {
        let [mut received, mut dispatched, mut begun] = [None; 3];
        self.visit_session(|record| {
            if record.operation == self.operation {
                let place = match record.event {
                    event::REQUEST_RECEIVED => &mut received,
                    event::DISPATCHED => &mut dispatched,
                    event::HANDLER_BEGUN => &mut begun,
                    _ => return ControlFlow::Continue(()),
                };
                place.get_or_insert(self.time_of(&record));
            }
            match received.and(dispatched).and(begun) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
        let mut stages = between(&[("", received), ("gather", dispatched), ("dispatch", begun)]);
        if let Some(begun) = begun {
            stages.extend(between(&[("", taken.and(Some(begun))), ("queue", taken)]));
            let begin = taken.map_or(begun, |taken| taken.max(begun));
            stages.push(Stage { name: "handler", begin, end: end.max(begin) });
        }
        stages
    }

    /// What happened in the session since the call was submitted; `None` if that is not known any more.
    fn since_submitted(&self) -> Option<Vec<TraceRecord>> {
        let (mut records, mut is_whole) = (Vec::new(), false);
        self.visit_session(|record| {
            records.push(record);
            is_whole = record.event == event::SUBMITTED && record.operation == self.operation;
            if is_whole { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        records.reverse();
        is_whole.then_some(records)
    }

    /// Visits the records of the session, the newest first.
    fn visit_session(&self, mut visit: impl FnMut(TraceRecord) -> ControlFlow<()>) {
        let session = session_bits(self.session);
        self.tracer.visit_newest(RECORDS_LOOKED_AT, |record| {
            if record.detail == session { visit(record) } else { ControlFlow::Continue(()) }
        });
    }

    fn time_of(&self, record: &TraceRecord) -> Instant {
        self.tracer.time_of(record.time.as_nanos())
    }
}

/// What lies between points that are known and in order.
pub(super) fn between(points: &[(&'static str, Option<Instant>)]) -> Vec<Stage> {
    let stage = |pair: &[(&'static str, Option<Instant>)]| {
        let (begin, end) = pair[0].1.zip(pair[1].1).filter(|(begin, end)| begin <= end)?;
        Some(Stage { name: pair[1].0, begin, end })
    };
    points.windows(2).filter_map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(3);
    const OTHER: SessionId = SessionId(4);

    /// A trace whose records are a microsecond apart.
    struct Traced {
        of: TracedOperation,
        marks: u64,
    }

    impl Traced {
        fn new(operation: u32) -> Self {
            let tracer = CallTracer::new(farcall_driver::clock::Clock::simulated(Default::default()));
            tracer.switch(true);
            Self { of: TracedOperation { tracer, session: SESSION, operation }, marks: 0 }
        }

        fn mark(&mut self, event: u16, operation: u32, session: SessionId) -> Instant {
            self.marks += 1;
            self.of.tracer.mark_at(1000 * self.marks, event, operation, session);
            self.of.tracer.time_of(1000 * self.marks)
        }

        fn mark_all(&mut self, events: &[u16], operation: u32) -> Vec<Instant> {
            events.iter().map(|&event| self.mark(event, operation, SESSION)).collect()
        }

        fn names(stages: &[Stage]) -> Vec<&'static str> {
            stages.iter().map(|stage| stage.name).collect()
        }
    }

    const CALL: [u16; 4] =
        [event::SUBMITTED, event::REQUEST_TRANSMITTED, event::RESPONSE_RECEIVED, event::COMPLETED];
    const REQUEST: [u16; 3] = [event::REQUEST_RECEIVED, event::DISPATCHED, event::HANDLER_BEGUN];

    #[test]
    fn a_call_has_the_stages_of_its_last_use_of_a_number_and_copies_only_what_is_newer() {
        let mut traced = Traced::new(7);
        for _ in 0..3 {
            traced.mark_all(&CALL, 7);
            (0..10_000).for_each(|number| _ = traced.mark(event::SUBMITTED, number, OTHER));
        }
        traced.mark_all(&CALL, 8);
        let points = traced.mark_all(&CALL, 7);
        assert_eq!(traced.of.since_submitted().map(|records| records.len()), Some(4));
        let stages = traced.of.stages_of_call(points[3]);
        assert_eq!(Traced::names(&stages), ["submit", "away", "complete"]);
        assert_eq!((stages[0].begin, stages[2].end), (points[0], points[3]));
        traced.of.operation = 9;
        assert_eq!(traced.of.stages_of_call(points[3]), [], "it was never submitted");
    }

    #[test]
    fn a_response_that_comes_again_changes_nothing() {
        let mut traced = Traced::new(7);
        let points = traced.mark_all(&CALL[..3], 7);
        let last_part = traced.mark(event::RESPONSE_RECEIVED, 7, SESSION);
        let completed = traced.mark(event::COMPLETED, 7, SESSION);
        let end = traced.mark(event::RESPONSE_RECEIVED, 7, SESSION);
        let stages = traced.of.stages_of_call(end);
        assert_eq!(Traced::names(&stages), ["submit", "away", "complete"]);
        assert_eq!((stages[1].begin, stages[1].end, stages[2].end), (points[1], last_part, completed));
    }

    #[test]
    fn a_call_without_a_response_is_away_until_its_end() {
        let mut traced = Traced::new(7);
        let points = traced.mark_all(&CALL[..2], 7);
        let end = traced.mark(event::SUBMITTED, 8, SESSION);
        let stages = traced.of.stages_of_call(end);
        assert_eq!(Traced::names(&stages), ["submit", "away"]);
        assert_eq!((stages[1].begin, stages[1].end), (points[1], end));
    }

    #[test]
    fn a_request_that_waited_for_a_thread_has_a_queue_before_its_handler() {
        let mut traced = Traced::new(7);
        traced.mark_all(&REQUEST, 7);
        let points = traced.mark_all(&REQUEST, 7);
        let taken = traced.mark(event::REPLIED, 8, SESSION);
        let end = traced.mark(event::REPLIED, 7, SESSION);
        let in_poll = traced.of.stages_of_request(None, end);
        assert_eq!(Traced::names(&in_poll), ["gather", "dispatch", "handler"]);
        assert_eq!((in_poll[0].begin, in_poll[2].begin, in_poll[2].end), (points[0], points[2], end));
        let queued = traced.of.stages_of_request(Some(taken), end);
        assert_eq!(Traced::names(&queued), ["gather", "dispatch", "queue", "handler"]);
        assert_eq!((queued[2].begin, queued[2].end, queued[3].begin), (points[2], taken, taken));
    }
}
