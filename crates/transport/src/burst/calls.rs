//! Requests for one service, and answers, that came together.

use farcall_driver::Words;
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, HeaderSeries};

use super::entries::{Entries, Unread};
use super::unanswered::Unanswered;
use crate::{CallId, RequestId, Service, SessionId, Status};

/// Requests of one session for one service, in the order in which they were made.
pub struct RequestBurst<'a> {
    series: Series<'a>,
    session: SessionId,
}

/// Answers of one session, in the order in which they were given. No other responses: those come singly.
pub struct ResponseBurst<'a, 'u> {
    series: Series<'a>,
    unanswered: &'u Unanswered,
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
    #[inline(always)]
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

impl<'a> RequestBurst<'a> {
    /// Those of these entries that are requests for a service, of at most so many bytes each.
    #[inline(always)]
    pub(crate) fn new(entries: Entries<'a>, bytes_max: usize, session: SessionId, service: Service) -> Self {
        let headers = HeaderSeries::requests(service.0);
        Self { series: Series { entries, headers, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX) }, session }
    }

    /// Takes all requests.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn for_each(&mut self, mut serve: impl FnMut(RequestId, &'a [u8])) {
        let mut lent = Lent::new(&mut self.series);
        while let Some((call, payload, rest)) = lent.peek() {
            lent.unread.advance(rest);
            serve(RequestId { session: self.session, token: u64::from(call) }, payload);
        }
    }

    /// How many requests were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.series.entries.taken().into()
    }

    /// Where the next entry is, and how many were taken.
    #[inline(always)]
    pub(crate) fn end(&self) -> (usize, u16) {
        (self.series.entries.offset(), self.series.entries.taken())
    }
}

impl<'a, 'u> ResponseBurst<'a, 'u> {
    /// Those of these entries that are answers, of at most so many bytes each, to calls that are unanswered.
    #[inline(always)]
    pub(crate) fn new(entries: Entries<'a>, bytes_max: usize, unanswered: &'u Unanswered) -> Self {
        let headers = HeaderSeries::responses(Status::Ok.to_wire());
        Self { series: Series { entries, headers, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX) }, unanswered }
    }

    /// Takes answers, as long as `end` ends the calls that they are to, which it says; gives the one that it did not end.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_while(
        &mut self,
        mut end: impl FnMut(CallId, &'a [u8]) -> bool,
    ) -> Option<(CallId, &'a [u8])> {
        let (mut lent, unanswered) = (Lent::new(&mut self.series), self.unanswered);
        while let Some((call, payload, rest)) = lent.peek()
            && unanswered.take_one()
        {
            lent.unread.advance(rest);
            if !end(CallId(call), payload) {
                return Some((CallId(call), payload));
            }
        }
        None
    }

    /// How many answers were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.series.entries.taken().into()
    }

    /// Where the next entry is, and how many were taken.
    #[inline(always)]
    pub(crate) fn end(&self) -> (usize, u16) {
        (self.series.entries.offset(), self.series.entries.taken())
    }
}
