//! Of all spans the slowest of each name and window: bounded memory, whatever is called how often.

use core::cmp::{Ordering, Reverse};
use core::time::Duration;
use std::collections::{BinaryHeap, HashMap};

use super::span::{Span, SpanKind};

/// The most spans that can be kept of a name, an end and a window.
pub const KEPT_MAX: usize = 100;
/// The most names of each end in a window. With [`KEPT_MAX`] spans of about 1 KB these are 50 MB.
pub const SPAN_NAMES_MAX: usize = 256;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many of the slowest, of each name, end and window; at most [`KEPT_MAX`].
    pub slowest: usize,
    /// The length of a window, after which they are written.
    pub window: Duration,
}

impl Default for Keep {
    /// Ten, every ten seconds.
    fn default() -> Self {
        Self { slowest: 10, window: Duration::from_secs(10) }
    }
}

/// A span in the order of how long it took.
#[derive(Debug)]
struct ByTime(Span);

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.nanos().cmp(&other.0.nanos())
    }
}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByTime {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByTime {}

/// The slowest of one name first to go is the fastest of them.
type OfName = BinaryHeap<Reverse<ByTime>>;

/// The slowest spans of a window.
#[derive(Debug)]
pub(super) struct Slowest {
    slowest: usize,
    by_kind: [HashMap<String, OfName>; 2],
}

impl Slowest {
    pub fn new(slowest: usize) -> Self {
        Self { slowest: slowest.min(KEPT_MAX), by_kind: Default::default() }
    }

    /// Whether there is room for the name.
    pub fn has_room(&self, kind: SpanKind, name: &str) -> bool {
        let of_kind = &self.by_kind[kind as usize];
        of_kind.len() < SPAN_NAMES_MAX || of_kind.contains_key(name)
    }

    /// Whether a span that took so long belongs to the slowest so far.
    pub fn wants(&self, kind: SpanKind, name: &str, nanos: u64) -> bool {
        let Some(of_name) = self.by_kind[kind as usize].get(name) else {
            return self.slowest > 0 && self.has_room(kind, name);
        };
        of_name.len() < self.slowest || of_name.peek().is_some_and(|Reverse(least)| least.0.nanos() < nanos)
    }

    /// Keeps a span, if it is wanted.
    pub fn add(&mut self, span: Span) {
        if !self.wants(span.kind, &span.name, span.nanos()) {
            return;
        }
        let of_kind = &mut self.by_kind[span.kind as usize];
        let of_name = match of_kind.get_mut(&span.name) {
            Some(of_name) => of_name,
            None => of_kind.entry(span.name.clone()).or_default(),
        };
        of_name.push(Reverse(ByTime(span)));
        if of_name.len() > self.slowest {
            of_name.pop();
        }
    }

    /// The spans of the window that is over, in the order in which they began.
    pub fn take(&mut self) -> Vec<Span> {
        let names = self.by_kind.iter_mut().flat_map(|of_kind| core::mem::take(of_kind).into_values());
        let mut spans: Vec<_> = names.flatten().map(|Reverse(ByTime(span))| span).collect();
        spans.sort_by_key(|span| span.begin);
        spans
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::Instant;

    use super::super::TraceContext;
    use super::*;

    fn span(kind: SpanKind, name: &str, nanos: u64) -> Span {
        Span {
            context: TraceContext::root(),
            parent: None,
            kind,
            name: name.to_owned(),
            service: 1,
            begin: Instant::from_nanos(1000),
            end: Instant::from_nanos(1000 + nanos),
            failure: None,
            stages: Vec::new(),
        }
    }

    fn nanos(slowest: &mut Slowest) -> Vec<u64> {
        let mut nanos: Vec<_> = slowest.take().iter().map(Span::nanos).collect();
        nanos.sort_unstable();
        nanos
    }

    #[test]
    fn each_name_and_end_has_its_own_slowest_and_a_window_forgets_them() {
        let mut slowest = Slowest::new(2);
        for took in [5, 1, 9, 7, 3] {
            slowest.add(span(SpanKind::Client, "orders", took));
            slowest.add(span(SpanKind::Server, "orders", took * 10));
        }
        slowest.add(span(SpanKind::Client, "rare", 1));
        assert!(
            !slowest.wants(SpanKind::Client, "orders", 7) && slowest.wants(SpanKind::Client, "orders", 8)
        );
        assert_eq!(nanos(&mut slowest), [1, 7, 9, 70, 90]);
        assert_eq!(nanos(&mut slowest), [0_u64; 0]);
    }

    #[test]
    fn names_that_a_peer_makes_up_are_bounded() {
        let mut slowest = Slowest::new(usize::MAX);
        for number in 0..SPAN_NAMES_MAX + 50 {
            slowest.add(span(SpanKind::Server, &format!("/made/up{number}"), 1));
        }
        assert!(
            !slowest.has_room(SpanKind::Server, "one more")
                && slowest.has_room(SpanKind::Server, "/made/up0")
        );
        (0..2 * KEPT_MAX as u64).for_each(|took| slowest.add(span(SpanKind::Server, "/made/up0", took)));
        assert_eq!(nanos(&mut slowest).len(), SPAN_NAMES_MAX - 1 + KEPT_MAX);
    }
}
