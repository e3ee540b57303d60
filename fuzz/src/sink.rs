//! What the attacked transport and the honest one report to.

use farcall_base::{Identity, Principal};
use farcall_transport::{
    CallId, DownReason, Matched, MatchedBatch, MessageBatch, MessageId, Outbox, Owned, RequestBatch,
    RequestId, Response, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submission, Submitted,
};

/// The service that answers with the same bytes.
pub const ECHO: Service = Service(0);

/// Calls that handlers make back have numbers from here on.
const CALLS_BACK: u32 = 1 << 16;

/// Serves, and checks what it is told against what was agreed.
#[derive(Default)]
pub struct TargetSink {
    pub honest: Option<SessionId>,
    /// The hostile peer's session, while it is up.
    pub hostile: Option<SessionId>,
    /// Sessions that came up and have not been looked at.
    pub ups: Vec<SessionId>,
    pub message_bytes_max: usize,
    pub calls_max: usize,
    pub requests_of_hostile: usize,
    pub calls_made: u32,
    responses: u32,
    deferred: Vec<RequestId>,
    ended: Vec<SessionId>,
}

impl TargetSink {
    /// Answers the oldest request that waits for it.
    pub fn answer_deferred(&mut self, outbox: &mut dyn Outbox) {
        if !self.deferred.is_empty() {
            let request = self.deferred.remove(0);
            outbox.reply(request, Status::Refused(3), b"late");
        }
    }

    fn check_is_up(&self, session: SessionId) {
        let is_known = [self.honest, self.hostile].contains(&Some(session));
        assert!(is_known && !self.ended.contains(&session), "news of a session that is not up");
    }
}

impl TargetSink {
    fn serve(&mut self, outbox: &mut dyn Outbox, request: RequestId, service: Service, payload: &[u8]) {
        self.check_is_up(request.session);
        if Some(request.session) == self.honest {
            return outbox.reply(request, Status::Ok, payload);
        }
        self.requests_of_hostile += 1;
        assert!(payload.len() <= self.message_bytes_max, "a request longer than agreed");
        match service.0 % 6 {
            0 | 1 => outbox.reply(request, Status::Ok, payload),
            2 => match outbox.loan(3000) {
                Ok(loan) => {
                    let reply = Submission::Reply { request, status: Status::Ok };
                    _ = outbox.submit_owned(reply, Owned::Loan(loan));
                }
                Err(_) => outbox.reply(request, Status::Abandoned, &[]),
            },
            3 => self.deferred.push(request),
            4 => outbox.reply(request, Status::Ok, &vec![1; 20_001]),
            _ => {
                let call = CallId(CALLS_BACK + self.calls_made);
                let made = outbox.call(request.session, call, ECHO, payload);
                self.calls_made += u32::from(is_accepted(made));
                outbox.reply(request, Status::UnknownService, &[]);
            }
        }
    }

    fn end_call(&mut self, session: SessionId, payload: &[u8]) {
        self.check_is_up(session);
        assert_eq!(Some(session), self.hostile, "the honest peer was never called");
        assert!(payload.len() <= self.message_bytes_max, "a response longer than agreed");
        self.responses += 1;
        assert!(self.responses <= self.calls_made, "more responses than calls");
    }
}

/// Whether a request was accepted.
pub fn is_accepted(made: Submitted) -> bool {
    !matches!(made, Submitted::Refused(_))
}

impl Sink for TargetSink {
    /// Of services from half of their numbers on a batch of several is left: its requests come again singly.
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let service = requests.service();
        if service.0 < 1 << 15 || requests.single_request().is_some() {
            requests.for_each(|id, payload| self.serve(outbox, id, service, payload.as_slice()));
        }
    }

    /// Answers to calls with odd numbers are given back, and end those that are taken together.
    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        let session = responses.session();
        let odd = responses.take_while(|response| {
            let is_even = response.call.0.is_multiple_of(2);
            if is_even {
                self.end_call(session, response.payload.as_slice());
            }
            is_even
        });
        if let Some(response) = odd {
            self.end_call(session, response.payload.as_slice());
        }
    }

    /// Messages with even tags are taken one by one, and each other one together with those behind it.
    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        self.check_is_up(messages.session());
        let check = |message: &Matched<'_>| {
            let bytes = message.payload.as_slice().len();
            assert!(bytes <= self.message_bytes_max, "a message longer than agreed");
            message.tag.0.is_multiple_of(2)
        };
        while let Some(odd) = messages.take_while(check) {
            messages.take_behind(odd).iter().for_each(|message| _ = check(message));
        }
    }

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {
        panic!("nobody asked for messages that no receive waits for");
    }

    fn sent(&mut self, _: &mut dyn Outbox, _: MessageId, _: SendOutcome) {}

    fn session_up(&mut self, _outbox: &mut dyn Outbox, session: SessionId, _peer: Identity, _: &Principal) {
        assert!(!self.ended.contains(&session), "numbers are not used again");
        if self.honest.is_some() {
            assert_eq!(self.hostile.replace(session), None, "the hostile peer connects once");
        }
        self.ups.push(session);
    }

    fn session_down(&mut self, _outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        assert_ne!(Some(session), self.honest, "the honest session ended: {reason}");
        assert!(!self.ended.contains(&session), "a session ends once");
        self.ended.push(session);
        self.hostile = None;
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

/// Keeps the answers.
pub struct HonestSink {
    pub session: SessionId,
    pub answers: Vec<(CallId, Status, Vec<u8>)>,
}

impl HonestSink {
    pub fn new(session: SessionId) -> Self {
        Self { session, answers: Vec::new() }
    }
}

impl Sink for HonestSink {
    fn requests(&mut self, _: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        panic!("nobody calls the honest peer, but {:?} did", requests.session());
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(Response { call, status, payload }) = responses.take() {
            self.answers.push((call, status, payload.as_slice().to_vec()));
        }
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        panic!("the honest peer posts no receives, but there are messages of {:?}", messages.session());
    }

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {
        panic!("the honest peer asked for no messages");
    }

    fn sent(&mut self, _: &mut dyn Outbox, send: MessageId, _: SendOutcome) {
        panic!("the honest peer sends no messages, but {send:?} ended");
    }

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity, _: &Principal) {}

    fn session_down(&mut self, _: &mut dyn Outbox, _: SessionId, reason: &DownReason) {
        panic!("the honest peer's session ended: {reason}");
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}
