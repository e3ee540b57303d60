use farcall_driver::Record;
use farcall_protocol::ring::{EntryHeader, EntryKind, WORD_BYTES, padded};

use super::{Entries, RequestBatch, Response, ResponseBatch, Unanswered};
use crate::{CallId, Incoming, RequestId, Service, SessionId, Status};

const SESSION: SessionId = SessionId(3);

/// A record, of entries with payloads that repeat the lowest byte of their call's number.
#[repr(align(8))]
struct Memory {
    bytes: [u8; 1024],
    used: usize,
    entries: u16,
}

impl Memory {
    fn with(entries: &[(EntryKind, u16, u32, u32)]) -> Self {
        let mut memory = Self { bytes: [0; 1024], used: WORD_BYTES, entries: entries.len() as u16 };
        for &(kind, selector, call, length) in entries {
            let word = EntryHeader { kind, call, selector, length }.to_word();
            let payload = memory.used + WORD_BYTES;
            memory.bytes[memory.used..payload].copy_from_slice(&word.to_le_bytes());
            memory.bytes[payload..payload + length as usize].fill(call as u8);
            memory.used = payload + padded(length as usize);
        }
        memory
    }

    fn entries(&self) -> Entries<'_> {
        Entries::new(Record::new(&self.bytes[..self.used]), WORD_BYTES, self.entries)
    }
}

/// The calls of the requests for a service that are taken, where their payload is what it should be, and
/// where the batch ended.
fn requests(entries: Entries<'_>, bytes_max: usize, service: u16) -> (Vec<u64>, (usize, u16)) {
    let mut batch = RequestBatch::new(entries, bytes_max, SESSION, Service(service));
    let mut calls = Vec::new();
    batch.for_each(|id, payload| {
        let bytes = payload.as_slice();
        assert!(id.session == SESSION && bytes.iter().all(|&byte| byte == id.token as u8));
        calls.push(id.token);
    });
    (calls, batch.end())
}

#[test]
fn requests_end_with_their_service_and_at_what_is_not_allowed() {
    use EntryKind::{Request, RequestBlock, Response};
    let of_one = [(Request, 9, 1, 0), (Request, 9, 2, 5), (Request, 9, 3, 16)];
    let last = WORD_BYTES * 2;
    for other in [(Request, 8, 4, 0), (RequestBlock, 9, 4, 16), (Response, 9, 4, 0), (Request, 9, 4, 17)] {
        let memory = Memory::with(&[&of_one[..], &[other]].concat());
        let (calls, (at, taken)) = requests(memory.entries(), 16, 9);
        assert_eq!((calls, taken), (vec![1, 2, 3], 3), "before {other:?}");
        assert_eq!(at, memory.used - WORD_BYTES - padded(other.3 as usize), "the other is what comes next");
    }
    let memory = Memory::with(&of_one);
    assert_eq!(requests(memory.entries(), 16, 9), (vec![1, 2, 3], (memory.used, 3)));
    assert_eq!(requests(memory.entries().first(2), 16, 9).0, [1, 2], "and no more than are allowed");
    assert_eq!(requests(memory.entries().first(0), 16, 9), (vec![], (WORD_BYTES, 0)));
    let cut = Entries::new(Record::new(&memory.bytes[..memory.used - last]), WORD_BYTES, 3);
    assert_eq!(requests(cut, 16, 9).0, [1, 2], "what is cut short is for others to find");
}

#[test]
fn answers_are_to_calls_and_well() {
    let ok = |call| (EntryKind::Response, 0, call, 8);
    let refused = (EntryKind::Response, 0x109, 4, 0);
    let memory = Memory::with(&[ok(1), ok(2), ok(3), refused, ok(5)]);
    let unanswered = Unanswered::default();
    let answers = |calls: usize, ends: &dyn Fn(u32) -> bool| {
        unanswered.set(calls);
        let mut batch = ResponseBatch::new(memory.entries(), 8, SESSION, &unanswered);
        let mut taken = Vec::new();
        let other = batch.take_while(|&Response { call: CallId(call), status, payload }| {
            assert!(status == Status::Ok && payload.as_slice() == [call as u8; 8]);
            taken.push(call);
            ends(call)
        });
        assert_eq!(batch.taken(), taken.len());
        (taken, other.map(|other| other.call.0), unanswered.get())
    };
    assert_eq!(answers(10, &|_| true), (vec![1, 2, 3], None, 7), "one that is not well comes singly");
    assert_eq!(answers(2, &|_| true), (vec![1, 2], None, 0), "there are no more calls");
    assert_eq!(answers(0, &|_| true), (vec![], None, 0));
    assert_eq!(
        answers(10, &|call| call != 2),
        (vec![1, 2], Some(2), 8),
        "one that was not ended is given back"
    );
}

#[test]
fn a_call_made_for_an_answer_counts_at_once() {
    let memory = Memory::with(&[(EntryKind::Response, 0, 1, 0); 6]);
    let unanswered = Unanswered::default();
    unanswered.set(6);
    let mut batch = ResponseBatch::new(memory.entries(), 8, SESSION, &unanswered);
    let none = batch.take_while(|_| {
        assert_eq!(unanswered.get(), 5);
        unanswered.add(1);
        true
    });
    assert!(none.is_none() && batch.taken() == 6 && unanswered.get() == 6);
}

#[test]
fn a_single_request_or_response_is_a_batch_of_one() {
    let (request, payload) = (RequestId { session: SESSION, token: 7 }, Incoming::Borrowed(b"x"));
    let mut batch = RequestBatch::single(request, Service(9), payload);
    assert_eq!((batch.session(), batch.single_request(), batch.taken()), (SESSION, Some(request), 0));
    let mut taken = Vec::new();
    (0..2).for_each(|_| batch.for_each(|id, payload| taken.push((id, payload.as_slice().to_vec()))));
    assert_eq!((taken, batch.taken()), (vec![(request, b"x".to_vec())], 1), "and it is taken once");

    let response = Response { call: CallId(3), status: Status::Refused(1), payload };
    let mut batch = ResponseBatch::single(SESSION, response);
    let given_back = batch.take_while(|response| response.status == Status::Ok);
    assert_eq!(given_back.map(|response| response.call), Some(CallId(3)));
    assert!(batch.take().is_none() && batch.taken() == 1);
}
