//! The context of a trace, and the header `traceparent` of W3C Trace Context, which is read strictly.

use std::sync::Arc;

use super::ids::{SpanId, TraceId};
use super::state::checked_state;

/// The longest `traceparent` that is looked at. Version 0 has 55 bytes; later ones may have more behind them.
pub const TRACEPARENT_BYTES_MAX: usize = 256;

/// What version 0 has: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const VERSION_0_BYTES: usize = 55;

/// The flag that says that the caller may have recorded the trace.
const SAMPLED: u8 = 1;

/// Where in which trace a call is made: what a caller hands on so that its server's spans join its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span that causes what comes: for a handler that of its caller.
    pub span: SpanId,
    /// The flags of the header; the lowest says that the caller may have recorded the trace.
    pub flags: u8,
    state: Option<Arc<str>>,
}

/// A header that says nothing: it was dropped, and the counter `malformed_contexts` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace context that is malformed or over its bounds")]
pub struct MalformedContext;

impl TraceContext {
    /// The beginning of a new trace, sampled.
    pub fn root() -> Self {
        Self { trace: TraceId::random(), span: SpanId::random(), flags: SAMPLED, state: None }
    }

    pub(super) fn from_parts(trace: TraceId, span: SpanId, flags: u8, state: Option<Arc<str>>) -> Self {
        Self { trace, span, flags, state }
    }

    /// The same trace, in another span.
    pub fn within(&self, span: SpanId) -> Self {
        Self { span, ..self.clone() }
    }

    /// The header `tracestate`, if there is one: what other tracing systems want handed on.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Reads the headers of a caller. A `tracestate` that is malformed or over its bounds is dropped, and
    /// counted; the context goes on without it, as the standard wants.
    ///
    /// # Errors
    /// The `traceparent` is malformed; it is counted, and its `tracestate` says nothing either.
    pub fn from_headers(traceparent: &[u8], tracestate: Option<&[u8]>) -> Result<Self, MalformedContext> {
        let (trace, span, flags) = parse(traceparent).ok_or_else(malformed)?;
        let state = tracestate.and_then(|state| {
            checked_state(state).unwrap_or_else(|| {
                malformed();
                None
            })
        });
        Ok(Self { trace, span, flags, state })
    }

    /// The header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Counts one.
pub(super) fn malformed() -> MalformedContext {
    super::recorder::count_malformed();
    MalformedContext
}

fn parse(header: &[u8]) -> Option<(TraceId, SpanId, u8)> {
    if header.len() > TRACEPARENT_BYTES_MAX {
        return None;
    }
    let (known, rest) = header.split_at_checked(VERSION_0_BYTES)?;
    let dashes = [2, 35, 52].iter().all(|&place| known[place] == b'-');
    let version = hex(&known[..2])?;
    // Version 255 does not exist, and version 0 has nothing behind what is known.
    let ends_well =
        if version == 0 { rest.is_empty() } else { rest.first().is_none_or(|&byte| byte == b'-') };
    if !dashes || version == 0xff || !ends_well {
        return None;
    }
    let flags = hex(&known[53..])? as u8;
    // Of later versions only the flag is known that this one has.
    let flags = if version == 0 { flags } else { flags & SAMPLED };
    Some((TraceId::new(hex(&known[3..35])?)?, SpanId::new(hex(&known[36..52])? as u64)?, flags))
}

/// A number of lowercase digits alone.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(header: &str) -> Result<TraceContext, MalformedContext> {
        TraceContext::from_headers(header.as_bytes(), None)
    }

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let context = read(GOOD).expect("the example of the standard");
        assert_eq!(
            (context.trace.number() >> 120, context.span.number(), context.flags),
            (0x4b, 0xf067aa0ba902b7, 1)
        );
        assert_eq!(context.traceparent(), GOOD);
    }

    #[test]
    fn later_versions_may_have_more_behind_and_only_the_known_flag() {
        let later = format!("cc{}ff-what-the-future-has", &GOOD[2..53]);
        assert_eq!(read(&later).map(|context| context.traceparent()), Ok(GOOD.to_owned()));
        assert_eq!(read(&format!("cc{}", &GOOD[2..])), read(GOOD));
        assert!(read(&format!("cc{}.more", &GOOD[2..])).is_err());
        let long = format!("cc{}-{}", &GOOD[2..], "x".repeat(TRACEPARENT_BYTES_MAX));
        assert!(read(&long).is_err(), "over its bound");
    }

    #[test]
    fn whatever_is_not_exactly_a_header_is_refused() {
        assert!(read(&GOOD.to_uppercase()).is_err());
        assert!(read(&format!("{GOOD}-more")).is_err(), "version 0 has an end");
        assert!(read(&format!("ff{}", &GOOD[2..])).is_err());
        assert!(read(&format!(" {GOOD}")).is_err());
        assert!(read(&GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32))).is_err());
        assert!(read(&GOOD.replace("00f067aa0ba902b7", &"0".repeat(16))).is_err());
        for place in 0..GOOD.len() {
            let mut changed = GOOD.as_bytes().to_vec();
            changed[place] = b'g';
            assert_eq!(TraceContext::from_headers(&changed, None), Err(MalformedContext), "byte {place}");
            assert!(read(&GOOD[..place]).is_err(), "{place} bytes");
        }
    }

    #[test]
    fn a_malformed_state_is_dropped_alone() {
        let with = |state: &[u8]| TraceContext::from_headers(GOOD.as_bytes(), Some(state)).expect("a header");
        assert_eq!(
            with(b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE").state(),
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
        );
        assert_eq!(
            (with(b"no equals sign").state(), with(b"no equals sign").traceparent()),
            (None, GOOD.to_owned())
        );
    }
}
