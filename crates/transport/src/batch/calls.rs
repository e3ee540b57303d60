//! Requests for one service, and responses, that came together.

use farcall_driver::Words;
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, HeaderSeries};

use super::entries::{Entries, Unread};
use super::unanswered::Unanswered;
use crate::{CallId, Incoming, RequestId, Service, SessionId, Status};

/// Requests of one session for one service, in the order in which they were made.
pub struct RequestBatch<'a> {
    /// Where answers go.
    answered_in: SessionId,
    /// Where they come from: another number where the session was moved.
    session: SessionId,
    service: Service,
    requests: Requests<'a>,
}

enum Requests<'a> {
    Series(Series<'a>),
    /// The number of its call and its payload, until it is taken.
    Single(u64, Option<Incoming<'a>>),
}

/// A response to one of our calls.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The call.
    pub call: CallId,
    /// How it was answered.
    pub status: Status,
    /// The answer.
    pub payload: Incoming<'a>,
}

/// Responses of one session, in the order in which they were given.
pub struct ResponseBatch<'a, 'u> {
    session: SessionId,
    responses: Responses<'a, 'u>,
}

enum Responses<'a, 'u> {
    /// Those with [`Status::Ok`] that follow each other, as long as there are calls that are unanswered.
    Series(Series<'a>, &'u Unanswered),
    Single(Option<Response<'a>>),
}

/// Entries whose headers differ only in the number of the call and the length.
struct Series<'a> {
    entries: Entries<'a>,
    headers: HeaderSeries,
    /// The most bytes of a payload.
    bytes_max: usize,
}

/// What a loop can keep in registers. What it has taken is taken when it ends, be that with a panic.
struct Lent<'s, 'a> {
    unread: Unread<'a>,
    headers: HeaderSeries,
    bytes_max: usize,
    from: &'s mut Unread<'a>,
}

impl<'s, 'a> Lent<'s, 'a> {
    #[inline]
    fn new(Series { entries, headers, bytes_max }: &'s mut Series<'a>) -> Self {
        let from = &mut entries.unread;
        Self { unread: *from, headers: *headers, bytes_max: *bytes_max, from }
    }

    #[inline(always)]
    fn peek(&self) -> Option<(u32, &'a [u8], Words<'a>)> {
        self.unread.peek(|word| self.headers.read(word, self.bytes_max))
    }
}

impl Drop for Lent<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.from = self.unread;
    }
}

impl<'a> Series<'a> {
    #[inline]
    fn new(entries: Entries<'a>, headers: HeaderSeries, bytes_max: usize) -> Self {
        Self { entries, headers, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX) }
    }

    /// Where the next entry is, and how many were taken.
    #[inline]
    fn end(&self) -> (usize, u16) {
        (self.entries.offset(), self.entries.taken())
    }
}

impl<'a> RequestBatch<'a> {
    /// A request alone.
    #[inline]
    pub fn single(request: RequestId, service: Service, payload: Incoming<'a>) -> Self {
        let requests = Requests::Single(request.token, Some(payload));
        Self { answered_in: request.session, session: request.session, service, requests }
    }

    /// Those of these entries that are requests for a service, of at most this many bytes each.
    #[inline]
    pub(crate) fn new(entries: Entries<'a>, bytes_max: usize, session: SessionId, service: Service) -> Self {
        let series = Series::new(entries, HeaderSeries::requests(service.0), bytes_max);
        Self { answered_in: session, session, service, requests: Requests::Series(series) }
    }

    /// Where they came from.
    #[inline]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// They come from the peer of this session.
    #[inline]
    pub(crate) fn renumber(&mut self, from: SessionId) {
        self.session = from;
    }

    /// What they are for.
    #[inline]
    pub fn service(&self) -> Service {
        self.service
    }

    /// The request of a batch that is known to have one: traced requests always come so.
    #[inline]
    pub fn single_request(&self) -> Option<RequestId> {
        match self.requests {
            Requests::Single(token, _) => Some(RequestId { session: self.answered_in, token }),
            Requests::Series(_) => None,
        }
    }

    /// Takes all requests.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn for_each(&mut self, mut serve: impl FnMut(RequestId, Incoming<'a>)) {
        let session = self.answered_in;
        match &mut self.requests {
            Requests::Single(token, payload) => {
                if let Some(payload) = payload.take() {
                    serve(RequestId { session, token: *token }, payload);
                }
            }
            Requests::Series(series) => {
                let mut lent = Lent::new(series);
                while let Some((call, payload, rest)) = lent.peek() {
                    lent.unread.advance(rest);
                    serve(RequestId { session, token: u64::from(call) }, Incoming::Borrowed(payload));
                }
            }
        }
    }

    /// How many requests were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        match &self.requests {
            Requests::Single(_, payload) => usize::from(payload.is_none()),
            Requests::Series(series) => series.entries.taken().into(),
        }
    }

    /// Where the next entry is, and how many were taken.
    #[inline]
    pub(crate) fn end(&self) -> (usize, u16) {
        match &self.requests {
            Requests::Series(series) => series.end(),
            Requests::Single(..) => (0, self.taken() as u16),
        }
    }
}

impl<'a, 'u> ResponseBatch<'a, 'u> {
    /// A response alone.
    #[inline]
    pub fn single(session: SessionId, response: Response<'a>) -> Self {
        Self { session, responses: Responses::Single(Some(response)) }
    }

    /// Those of these entries that are answers, of at most this many bytes each, to calls that are
    /// unanswered.
    #[inline]
    pub(crate) fn new(
        entries: Entries<'a>,
        bytes_max: usize,
        session: SessionId,
        unanswered: &'u Unanswered,
    ) -> Self {
        let series = Series::new(entries, HeaderSeries::responses(Status::Ok.to_wire()), bytes_max);
        Self { session, responses: Responses::Series(series, unanswered) }
    }

    /// Where they came from.
    #[inline]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// They count as those of this session.
    #[inline]
    pub(crate) fn renumber(&mut self, session: SessionId) {
        self.session = session;
    }

    /// Takes responses, as long as `end` ends the calls that they are to, which it says; gives the one that
    /// it did not end.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_while(&mut self, mut end: impl FnMut(&Response<'a>) -> bool) -> Option<Response<'a>> {
        match &mut self.responses {
            Responses::Single(single) => single.take().filter(|response| !end(response)),
            Responses::Series(series, unanswered) => {
                let mut lent = Lent::new(series);
                while let Some((call, payload, rest)) = lent.peek()
                    && unanswered.take_one()
                {
                    lent.unread.advance(rest);
                    let payload = Incoming::Borrowed(payload);
                    let response = Response { call: CallId(call), status: Status::Ok, payload };
                    if !end(&response) {
                        return Some(response);
                    }
                }
                None
            }
        }
    }

    /// Takes the next response.
    #[inline]
    pub fn take(&mut self) -> Option<Response<'a>> {
        self.take_while(|_| false)
    }

    /// How many responses were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        match &self.responses {
            Responses::Single(single) => usize::from(single.is_none()),
            Responses::Series(series, _) => series.entries.taken().into(),
        }
    }

    /// Where the next entry is, and how many were taken.
    #[inline]
    pub(crate) fn end(&self) -> (usize, u16) {
        match &self.responses {
            Responses::Series(series, _) => series.end(),
            Responses::Single(_) => (0, self.taken() as u16),
        }
    }
}
