use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use farcall_driver::clock::Clock;

use super::{CallTracer, event};
use crate::{RequestId, SessionId};

#[test]
fn events_have_the_ticks_at_which_they_happened() {
    let tracer = CallTracer::new(Clock::new());
    tracer.mark(event::SUBMITTED, 1, SessionId(1 << 16 | 7));
    assert_eq!((tracer.begin(), tracer.records().len()), (None, 0));
    tracer.switch(true);
    let before = tracer.begin().expect("it is on");
    tracer.mark(event::SUBMITTED, 9, SessionId(1 << 16 | 7));
    let record = tracer.records()[0];
    assert_eq!((record.event, record.operation, record.detail), (event::SUBMITTED, 9, 7));
    assert!((before..=tracer.begin().expect("it is on")).contains(&record.time.as_nanos()));
}

fn marked(tracer: &CallTracer) -> Vec<(u16, u32, u64)> {
    let records = tracer.records().into_iter();
    records.map(|record| (record.event, record.operation, record.time.as_nanos())).collect()
}

#[test]
fn a_reading_serves_the_next_point_and_no_other() {
    let tracer = CallTracer::new(Clock::new());
    tracer.switch(true);
    tracer.share(Some(77));
    tracer.mark_shared(event::COMPLETED, 1, SessionId(2));
    tracer.mark_shared(event::COMPLETED, 2, SessionId(2));
    tracer.share(Some(78));
    tracer.share(None);
    tracer.mark_shared(event::COMPLETED, 3, SessionId(2));
    let times: Vec<_> = marked(&tracer).into_iter().map(|(_, _, time)| time).collect();
    assert!(times[0] == 77 && times[1..].iter().all(|&time| time > 78), "{times:?}");
}

#[test]
fn simulated_clocks_are_read_every_time() {
    let nanos = Arc::new(AtomicU64::new(5));
    let tracer = CallTracer::new(Clock::simulated(nanos.clone()));
    tracer.switch(true);
    tracer.share(tracer.begin());
    nanos.store(9, Ordering::Relaxed);
    tracer.mark_shared(event::COMPLETED, 1, SessionId(2));
    assert_eq!(marked(&tracer), [(event::COMPLETED, 1, 9)]);
}

#[test]
fn an_answer_counts_from_when_it_can_leave() {
    let nanos = Arc::new(AtomicU64::new(5));
    let tracer = CallTracer::new(Clock::simulated(nanos.clone()));
    tracer.switch(true);
    let at = |time| nanos.store(time, Ordering::Relaxed);
    let request = |token| RequestId { session: SessionId(3), token };
    tracer.begin_handler(request(1));
    at(6);
    // Another's, and its own.
    tracer.mark_reply(request(9));
    tracer.mark_reply(request(1));
    at(7);
    tracer.end_handler(request(1));
    tracer.begin_handler(request(2));
    tracer.mark_reply(request(2));
    at(8);
    // The record was full and left.
    tracer.mark_held_reply(8);
    at(9);
    tracer.end_handler(request(2));
    let (begun, replied, ended) = (event::HANDLER_BEGUN, event::REPLIED, event::HANDLER_ENDED);
    let first = [(begun, 1, 5), (replied, 9, 6), (replied, 1, 7), (ended, 1, 7)];
    assert_eq!(
        marked(&tracer),
        [first.as_slice(), &[(begun, 2, 7), (replied, 2, 8), (ended, 2, 9)]].concat()
    );
}

#[test]
fn only_an_answer_that_waited_for_its_handler_leaves_at_the_same_reading() {
    let tracer = CallTracer::new(Clock::new());
    tracer.switch(true);
    let ended = |token, answers: bool| {
        let request = RequestId { session: SessionId(3), token };
        tracer.begin_handler(request);
        if answers {
            tracer.mark_reply(request);
        }
        tracer.end_handler(request);
        marked(&tracer).last().expect("it has ended").2
    };
    assert_eq!(Some(ended(1, true)), tracer.begin_shared());
    assert!(Some(ended(2, false)) < tracer.begin_shared());
}

#[test]
fn what_was_left_before_a_stop_is_not_used_after_it() {
    let tracer = CallTracer::new(Clock::new());
    tracer.switch(true);
    let request = RequestId { session: SessionId(3), token: 1 };
    tracer.begin_handler(request);
    tracer.mark_reply(request);
    tracer.share(Some(77));
    tracer.switch(false);
    tracer.switch(true);
    let now = tracer.begin_shared().expect("it is on");
    assert!(now > 77 && !tracer.mark_held_reply(now));
}
