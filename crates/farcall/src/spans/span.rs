//! One span: a call as its caller, or as its server, saw it.

use farcall_base::Instant;

use super::context::TraceContext;
use super::ids::SpanId;

/// The longest name of a span; what is longer is cut.
pub const SPAN_NAME_BYTES_MAX: usize = 256;
/// The most stages of a span; later ones are left out.
pub const STAGES_MAX: usize = 16;

/// Whose span it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Of the caller.
    Client,
    /// Of the server.
    Server,
}

/// A call that has ended, at one of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace, the span's own number, flags and state.
    pub context: TraceContext,
    /// The span that caused it, here or at a peer; `None` of the first of a trace.
    pub parent: Option<SpanId>,
    /// Whose it is.
    pub kind: SpanKind,
    /// The name of the service or method.
    pub name: String,
    /// The number of the service.
    pub service: u16,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// Why there is no answer, if there is none.
    pub failure: Option<String>,
    /// What it consists of, as far as the endpoint's trace knows, in order.
    pub stages: Vec<Stage>,
}

/// A part of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
}

impl Span {
    /// How long it took, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.end.as_nanos().saturating_sub(self.begin.as_nanos())
    }
}

/// The beginning of a text, of at most `bytes_max` bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let is_end = |&end: &usize| text.is_char_boundary(end);
    let end = (0..=bytes_max.min(text.len())).rev().find(is_end).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("abc", 2), cut("abc", 9), cut("aä", 2), cut("ä", 0)), ("ab", "abc", "a", ""));
    }
}
