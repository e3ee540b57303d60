//! What the two ends say to each other, as bytes of farcall's requests and responses.
//!
//! An *exchange* is one call of gRPC. Its caller begins it with a request, sends the rest of a stream with
//! more of them, and asks for each piece of the response: neither side is sent what it did not ask for, so
//! that both hold one piece at most. `docs/grpc.md` has the bytes.

use bytes::{Buf, BufMut, Bytes, TryGetError};
use farcall::Payload;
use http::{HeaderMap, StatusCode};

use crate::headers;

/// The most bytes of a message's stream in one piece.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// The longest path of a method.
pub const PATH_BYTES_MAX: usize = u16::MAX as usize;

/// Bytes that no correct peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl From<TryGetError> for Malformed {
    fn from(_: TryGetError) -> Self {
        Self
    }
}

/// What a caller asks for.
#[derive(Debug, PartialEq)]
pub enum Ask {
    /// A new exchange, with the beginning of its request, which may be all of it.
    Begin { exchange: u64, is_whole: bool, path: String, headers: HeaderMap, data: Bytes },
    /// More of a request. The response comes when it was taken.
    Push { exchange: u64, is_last: bool, data: Bytes },
    /// The next piece of the response.
    Pull { exchange: u64 },
    /// The caller wants no more.
    Cancel { exchange: u64 },
    /// Whether the process lives; asked by servers.
    Live,
}

/// What a server says to [`Ask::Push`]: to send no more.
pub const ENOUGH: u8 = 1;

const BEGIN: u8 = 0;
const BEGIN_WHOLE: u8 = 1;
const PUSH: u8 = 2;
const PUSH_LAST: u8 = 3;
const PULL: u8 = 4;
const CANCEL: u8 = 5;
const LIVE: u8 = 6;

impl Ask {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Self::Begin { exchange, is_whole, path, headers, data } => {
                to.reserve(data.len() + path.len() + 512);
                to.put_u8(if *is_whole { BEGIN_WHOLE } else { BEGIN });
                to.put_u64_le(*exchange);
                to.put_u16_le(path.len() as u16);
                to.put_slice(path.as_bytes());
                headers::put(headers, &mut to);
                to.put_slice(data);
            }
            Self::Push { exchange, is_last, data } => {
                to.reserve(data.len() + 9);
                to.put_u8(if *is_last { PUSH_LAST } else { PUSH });
                to.put_u64_le(*exchange);
                to.put_slice(data);
            }
            Self::Pull { exchange } => {
                to.put_u8(PULL);
                to.put_u64_le(*exchange);
            }
            Self::Cancel { exchange } => {
                to.put_u8(CANCEL);
                to.put_u64_le(*exchange);
            }
            Self::Live => to.put_u8(LIVE),
        }
        to
    }

    /// What bytes of a peer ask for.
    pub fn decode(mut from: Bytes) -> Result<Self, Malformed> {
        let kind = from.try_get_u8()?;
        if kind == LIVE {
            return Ok(Self::Live);
        }
        let exchange = from.try_get_u64_le()?;
        Ok(match kind {
            BEGIN | BEGIN_WHOLE => {
                let path_bytes = usize::from(from.try_get_u16_le()?);
                let path = headers::take_bytes(&mut from, path_bytes)?;
                let path = String::from_utf8(path.into()).map_err(|_| Malformed)?;
                let headers = headers::take(&mut from)?;
                Self::Begin { exchange, is_whole: kind == BEGIN_WHOLE, path, headers, data: from }
            }
            PUSH | PUSH_LAST => Self::Push { exchange, is_last: kind == PUSH_LAST, data: from },
            PULL => Self::Pull { exchange },
            CANCEL => Self::Cancel { exchange },
            _ => return Err(Malformed),
        })
    }
}

/// A part of a response.
#[derive(Debug, Default, PartialEq)]
pub struct Piece {
    /// With the first: the status of HTTP, and the metadata.
    pub head: Option<(StatusCode, HeaderMap)>,
    /// Bytes of messages.
    pub data: Bytes,
    /// With the last, as a rule: the status of gRPC.
    pub trailers: Option<HeaderMap>,
    /// Whether nothing follows.
    pub is_last: bool,
}

const HAS_HEAD: u8 = 1;
const HAS_TRAILERS: u8 = 2;
const IS_LAST: u8 = 4;

impl Piece {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(self.data.len() + 256);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        to.put_u8(
            flag(self.head.is_some(), HAS_HEAD)
                | flag(self.trailers.is_some(), HAS_TRAILERS)
                | flag(self.is_last, IS_LAST),
        );
        if let Some((status, headers)) = &self.head {
            to.put_u16_le(status.as_u16());
            headers::put(headers, &mut to);
        }
        if let Some(trailers) = &self.trailers {
            headers::put(trailers, &mut to);
        }
        to.put_slice(&self.data);
        to
    }

    /// The piece that bytes of a peer are.
    pub fn decode(mut from: Bytes) -> Result<Self, Malformed> {
        let flags = from.try_get_u8()?;
        if flags > HAS_HEAD | HAS_TRAILERS | IS_LAST {
            return Err(Malformed);
        }
        let head = if flags & HAS_HEAD != 0 {
            let status = StatusCode::from_u16(from.try_get_u16_le()?).map_err(|_| Malformed)?;
            Some((status, headers::take(&mut from)?))
        } else {
            None
        };
        let trailers = if flags & HAS_TRAILERS != 0 { Some(headers::take(&mut from)?) } else { None };
        Ok(Self { head, data: from, trailers, is_last: flags & IS_LAST != 0 })
    }
}

/// A payload that arrived, as bytes that share its memory.
pub fn bytes_of(payload: Payload) -> Bytes {
    struct Held(Payload);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Held(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append("te", "trailers".parse().expect("a value"));
        headers.append("twice", "one".parse().expect("a value"));
        headers.append("twice", "two".parse().expect("a value"));
        headers
    }

    fn asks() -> Vec<Ask> {
        let (exchange, data) = (7 << 40, Bytes::from_static(b"data"));
        let begin = |is_whole| Ask::Begin {
            exchange,
            is_whole,
            path: "/a.B/C".into(),
            headers: headers(),
            data: data.clone(),
        };
        let push = |is_last| Ask::Push { exchange, is_last, data: data.clone() };
        let (pull, cancel) = (Ask::Pull { exchange }, Ask::Cancel { exchange });
        vec![begin(true), begin(false), push(true), push(false), pull, cancel, Ask::Live]
    }

    #[test]
    fn what_is_asked_arrives() {
        for ask in asks() {
            assert_eq!(Ask::decode(ask.encode().into()), Ok(ask));
        }
    }

    #[test]
    fn pieces_arrive() {
        for (has_head, has_trailers, is_last) in
            [(true, true, true), (true, false, false), (false, false, true)]
        {
            let piece = Piece {
                head: has_head.then(|| (StatusCode::OK, headers())),
                data: Bytes::from_static(b"data"),
                trailers: has_trailers.then(headers),
                is_last,
            };
            assert_eq!(Piece::decode(piece.encode().into()), Ok(piece));
        }
    }

    /// Of a peer's bytes none is believed: every beginning, and every change of one byte, is read or refused.
    #[test]
    fn bytes_of_a_hostile_peer_do_no_harm() {
        let piece =
            Piece { head: Some((StatusCode::OK, headers())), trailers: Some(headers()), ..Piece::default() };
        for bytes in asks().iter().map(Ask::encode).chain([piece.encode()]) {
            for length in 0..bytes.len() {
                let _read = (
                    Ask::decode(Bytes::copy_from_slice(&bytes[..length])),
                    Piece::decode(Bytes::copy_from_slice(&bytes[..length])),
                );
                for change in [1, 0x80, 0xff] {
                    let mut changed = bytes.clone();
                    changed[length] ^= change;
                    let _read = (Ask::decode(changed.clone().into()), Piece::decode(changed.into()));
                }
            }
        }
        assert_eq!(Ask::decode(Bytes::new()), Err(Malformed));
        assert_eq!(Piece::decode(Bytes::from_static(&[0x80])), Err(Malformed));
    }
}
