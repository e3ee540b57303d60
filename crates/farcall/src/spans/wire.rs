//! A context as bytes in front of a payload.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 0: no context follows; 1: one does |
//! | 16, 8, 1 | numbers of trace and span, the lowest byte first; flags |
//! | 2 | length of the state, the lowest byte first; at most 512 |
//! | … | the state, as `tracestate` has it |

use super::context::{TraceContext, malformed};
use super::ids::{SpanId, TraceId};
use super::state::{TRACESTATE_BYTES_MAX, checked_state};

const NONE: u8 = 0;
const CONTEXT: u8 = 1;

impl TraceContext {
    /// Writes a context, or that there is none, to the end of `to`; the payload follows.
    pub fn put(context: Option<&Self>, to: &mut Vec<u8>) {
        let Some(context) = context else { return to.push(NONE) };
        let state = context.state().unwrap_or_default();
        to.push(CONTEXT);
        to.extend_from_slice(&context.trace.number().to_le_bytes());
        to.extend_from_slice(&context.span.number().to_le_bytes());
        to.push(context.flags);
        // A state has at most as many bytes as its bound.
        to.extend_from_slice(&(state.len() as u16).to_le_bytes());
        to.extend_from_slice(state.as_bytes());
    }

    /// Takes a context off the beginning of what a peer sent, and returns the payload behind it. One with
    /// impossible numbers or a malformed state is dropped, in whole or without the state, and counted.
    ///
    /// `None` when the payload cannot be told from the context: the message has another form.
    pub fn take(from: &[u8]) -> Option<(Option<Self>, &[u8])> {
        let (&kind, rest) = from.split_first()?;
        if kind == NONE {
            return Some((None, rest));
        }
        let (trace, rest) = rest.split_first_chunk::<16>().filter(|_| kind == CONTEXT)?;
        let (span, rest) = rest.split_first_chunk::<8>()?;
        let (&[flags], rest) = rest.split_first_chunk::<1>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (state, payload) = rest.split_at_checked(length).filter(|_| length <= TRACESTATE_BYTES_MAX)?;
        let ids = TraceId::new(u128::from_le_bytes(*trace)).zip(SpanId::new(u64::from_le_bytes(*span)));
        let Some((trace, span)) = ids else {
            malformed();
            return Some((None, payload));
        };
        let state = checked_state(state).unwrap_or_else(|| {
            malformed();
            None
        });
        Some((Some(Self::from_parts(trace, span, flags, state)), payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(context: Option<&TraceContext>) -> Vec<u8> {
        let mut bytes = Vec::new();
        TraceContext::put(context, &mut bytes);
        bytes.extend_from_slice(b"payload");
        bytes
    }

    fn context(state: Option<&[u8]>) -> TraceContext {
        TraceContext::from_headers(b"00-000000000000000000000000000000ab-00000000000000cd-01", state)
            .expect("good")
    }

    #[test]
    fn what_is_put_is_taken() {
        for context in [None, Some(context(None)), Some(context(Some(b"a=b,c=d")))] {
            assert_eq!(TraceContext::take(&bytes(context.as_ref())), Some((context, &b"payload"[..])));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let begin = [&[1, 0xab][..], &[0; 15], &[0xcd], &[0; 7], &[1, 3, 0], b"a=b", b"payload"].concat();
        assert_eq!(bytes(Some(&context(Some(b"a=b")))), begin);
        assert_eq!(bytes(None), b"\0payload");
    }

    #[test]
    fn what_is_cut_or_of_another_kind_is_no_context() {
        let whole = bytes(Some(&context(Some(b"a=b"))));
        for length in 0..whole.len() - b"payload".len() {
            assert_eq!(TraceContext::take(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(TraceContext::take(b"\x02payload"), None);
        let long = [&[1][..], &[7; 25], &513_u16.to_le_bytes(), &[b' '; 600]].concat();
        assert_eq!(TraceContext::take(&long), None, "the state is over its bound");
    }

    #[test]
    fn impossible_numbers_are_dropped_with_the_payload_kept() {
        let mut zero = bytes(Some(&context(None)));
        zero[1] = 0;
        assert_eq!(TraceContext::take(&zero), Some((None, &b"payload"[..])));
        let mut state = bytes(Some(&context(Some(b"a=b"))));
        state[29] = b',';
        assert_eq!(TraceContext::take(&state), Some((Some(context(None)), &b"payload"[..])));
    }
}
