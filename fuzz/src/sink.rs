//! What the attacked transport and the honest one report to.

use farcall_base::Identity;
use farcall_transport::{
    CallId, DownReason, Incoming, Outbox, Outgoing, RequestBurst, RequestId, ResponseBurst, Service,
    SessionId, Sink, Status,
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
            outbox.reply(request, Status::Refused(3), Outgoing::Slice(b"late"));
        }
    }

    fn check_is_up(&self, session: SessionId) {
        let is_known = [self.honest, self.hostile].contains(&Some(session));
        assert!(is_known && !self.ended.contains(&session), "news of a session that is not up");
    }
}

impl Sink for TargetSink {
    fn request(
        &mut self,
        outbox: &mut dyn Outbox,
        request: RequestId,
        service: Service,
        payload: &Incoming<'_>,
    ) {
        self.check_is_up(request.session);
        if Some(request.session) == self.honest {
            return outbox.reply(request, Status::Ok, Outgoing::Slice(payload.as_slice()));
        }
        self.requests_of_hostile += 1;
        assert!(payload.as_slice().len() <= self.message_bytes_max, "a request longer than agreed");
        match service.0 % 6 {
            0 | 1 => outbox.reply(request, Status::Ok, Outgoing::Slice(payload.as_slice())),
            2 => match outbox.loan(3000) {
                Ok(loan) => outbox.reply(request, Status::Ok, Outgoing::Loan(loan)),
                Err(_) => outbox.reply(request, Status::Abandoned, Outgoing::Slice(&[])),
            },
            3 => self.deferred.push(request),
            4 => outbox.reply(request, Status::Ok, Outgoing::Slice(&vec![1; 20_001])),
            _ => {
                let call = CallId(CALLS_BACK + self.calls_made);
                let made = outbox.call(request.session, call, ECHO, Outgoing::Slice(payload.as_slice()));
                self.calls_made += u32::from(made.is_ok());
                outbox.reply(request, Status::UnknownService, Outgoing::Slice(&[]));
            }
        }
    }

    /// Services from half of their numbers on get their requests singly.
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        _session: SessionId,
        service: Service,
        burst: &mut RequestBurst<'_>,
    ) {
        if service.0 < 1 << 15 {
            burst.for_each(|id, payload| self.request(outbox, id, service, &Incoming::Borrowed(payload)));
        }
    }

    /// Answers to calls with odd numbers are given back, and end those that are taken together.
    fn responses(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut ResponseBurst<'_, '_>) {
        let odd = burst.take_while(|call, payload| {
            let is_even = call.0.is_multiple_of(2);
            if is_even {
                self.response(outbox, session, call, Status::Ok, &Incoming::Borrowed(payload));
            }
            is_even
        });
        if let Some((call, payload)) = odd {
            self.response(outbox, session, call, Status::Ok, &Incoming::Borrowed(payload));
        }
    }

    fn response(
        &mut self,
        _outbox: &mut dyn Outbox,
        session: SessionId,
        _call: CallId,
        _status: Status,
        payload: &Incoming<'_>,
    ) {
        self.check_is_up(session);
        assert_eq!(Some(session), self.hostile, "the honest peer was never called");
        assert!(payload.as_slice().len() <= self.message_bytes_max, "a response longer than agreed");
        self.responses += 1;
        assert!(self.responses <= self.calls_made, "more responses than calls");
    }

    fn session_up(&mut self, _outbox: &mut dyn Outbox, session: SessionId, _peer: Identity) {
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
    fn request(&mut self, _: &mut dyn Outbox, request: RequestId, _: Service, _: &Incoming<'_>) {
        panic!("nobody calls the honest peer, but {request:?} came");
    }

    fn response(
        &mut self,
        _outbox: &mut dyn Outbox,
        _session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    ) {
        self.answers.push((call, status, payload.as_slice().to_vec()));
    }

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity) {}

    fn session_down(&mut self, _: &mut dyn Outbox, _: SessionId, reason: &DownReason) {
        panic!("the honest peer's session ended: {reason}");
    }
}
