//! The stages of a span, from what the endpoint traced.

use farcall_base::Instant;
use farcall_driver::trace::TraceRecord;
use farcall_transport::SessionId;
use farcall_transport::trace::{CallTracer, event, session_bits};

use super::span::Stage;

/// The newest records among which those of a call are looked for: half a megabyte.
const RECORDS_LOOKED_AT: usize = 1 << 15;

/// A call as an endpoint's trace names it.
pub(crate) struct TracedOperation {
    pub tracer: CallTracer,
    pub session: SessionId,
    /// At the caller its own number, at the server that of the wire.
    pub operation: u32,
}

impl TracedOperation {
    /// The stages of a call that has completed at its caller.
    pub fn stages_of_call(&self) -> Vec<Stage> {
        let records = self.newest();
        let is_begin = |record: &&TraceRecord| record.event == event::SUBMITTED;
        let Some(begin) =
            records.iter().rposition(|record| is_begin(&record) && record.operation == self.operation)
        else {
            return Vec::new();
        };
        let records = &records[begin..];
        // Its number on the wire, if that is another one. The record has it in the place of a time.
        let is_name = |record: &&TraceRecord| {
            record.event == event::NAMED && record.time.as_nanos() as u32 == self.operation
        };
        let wire = records.iter().find(is_name).map_or(self.operation, |record| record.operation);
        let first = |event, operation| self.first(records, event, operation);
        let last = |event, operation| self.first(records.iter().rev(), event, operation);
        self.between(&[
            ("", first(event::SUBMITTED, self.operation)),
            ("submit", first(event::REQUEST_TRANSMITTED, wire)),
            ("away", last(event::RESPONSE_RECEIVED, wire)),
            ("complete", first(event::COMPLETED, self.operation)),
        ])
    }

    /// The stages of a request whose handler has returned, at `end`.
    pub fn stages_of_request(&self, end: Instant) -> Vec<Stage> {
        let records = self.newest();
        let last = |event| self.first(records.iter().rev(), event, self.operation);
        let begun = last(event::HANDLER_BEGUN);
        let mut stages = self.between(&[
            ("", last(event::REQUEST_RECEIVED)),
            ("gather", last(event::DISPATCHED)),
            ("dispatch", begun),
        ]);
        stages.extend(begun.map(|begin| Stage { name: "handler", begin, end }));
        stages
    }

    /// The records of the session.
    fn newest(&self) -> Vec<TraceRecord> {
        let mut records = self.tracer.newest(RECORDS_LOOKED_AT);
        records.retain(|record| record.detail == session_bits(self.session));
        records
    }

    fn first<'r>(
        &self,
        records: impl IntoIterator<Item = &'r TraceRecord>,
        event: u16,
        operation: u32,
    ) -> Option<Instant> {
        let is_it = |record: &&TraceRecord| record.event == event && record.operation == operation;
        records.into_iter().find(is_it).map(|record| self.tracer.time_of(record.time.as_nanos()))
    }

    /// What lies between points that are known and in order.
    fn between(&self, points: &[(&'static str, Option<Instant>)]) -> Vec<Stage> {
        let stage = |pair: &[(&'static str, Option<Instant>)]| {
            let (begin, end) = pair[0].1.zip(pair[1].1).filter(|(begin, end)| begin <= end)?;
            Some(Stage { name: pair[1].0, begin, end })
        };
        points.windows(2).filter_map(stage).collect()
    }
}
