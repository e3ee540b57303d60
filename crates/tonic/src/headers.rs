//! Metadata as bytes: what HTTP calls headers and trailers.

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::Malformed;

/// The most headers of one block, and with them the most of a map that a peer can ask for.
pub const HEADERS_MAX: usize = 1024;

/// Appends a block: a number, and for each header the lengths of its name and value, and these.
pub fn put(headers: &HeaderMap, to: &mut Vec<u8>) {
    // A map has less than 32,768; one with more than the most was refused before.
    to.put_u16_le(headers.len() as u16);
    for (name, value) in headers {
        let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
        to.put_u16_le(name.len() as u16);
        to.put_u32_le(value.len() as u32);
        to.put_slice(name);
        to.put_slice(value);
    }
}

/// Takes a block off.
pub fn take(from: &mut Bytes) -> Result<HeaderMap, Malformed> {
    let count = usize::from(from.try_get_u16_le()?);
    if count > HEADERS_MAX {
        return Err(Malformed);
    }
    let mut headers = HeaderMap::with_capacity(count);
    for _ in 0..count {
        let (name_bytes, value_bytes) = (from.try_get_u16_le()?, from.try_get_u32_le()?);
        let name = take_bytes(from, usize::from(name_bytes))?;
        let value = take_bytes(from, value_bytes as usize)?;
        let name = HeaderName::from_bytes(&name).map_err(|_| Malformed)?;
        headers.append(name, HeaderValue::from_bytes(&value).map_err(|_| Malformed)?);
    }
    Ok(headers)
}

/// Takes this many bytes off, without a copy.
pub fn take_bytes(from: &mut Bytes, length: usize) -> Result<Bytes, Malformed> {
    if length > from.len() {
        return Err(Malformed);
    }
    Ok(from.split_to(length))
}
