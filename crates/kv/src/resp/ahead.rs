//! A look ahead in a pipeline. What the next requests will read is fetched into the caches for all of them at
//! once; each by itself would wait for memory three times, one wait after the other: for a part of the index,
//! for the slot there, for the object
//! ([0208](../../../../docs/decisions/0208-looking-ahead-in-pipelines.md)).
//!
//! Only what most requests are is understood here: an array of a few bulk strings, of which the second is a
//! key. Anything else ends the look. A word that is no key is looked up without result, which costs time
//! and nothing else.

use crate::store::{FETCHED_KEYS_MAX, Store};
use crate::{TableId, decimal};

/// The most words of a request that is understood: a `SET` with its options.
const WORDS_MAX: i64 = 8;

/// The most digits of a count or a length.
const DIGITS_MAX: usize = 9;

/// Fetches what is read for the requests that these bytes begin with; gives how many requests that are.
pub fn fetch(store: &Store, table: TableId, bytes: &[u8]) -> usize {
    let mut found = [&[][..]; FETCHED_KEYS_MAX];
    let keys = keys(bytes, &mut found);
    // Nothing would be in flight beside the only one.
    if keys.len() > 1 {
        store.fetch(table, keys);
    }
    keys.len()
}

/// The second words of the requests that these bytes begin with.
fn keys<'a, 'b>(bytes: &'b [u8], found: &'a mut [&'b [u8]; FETCHED_KEYS_MAX]) -> &'a [&'b [u8]] {
    let (mut rest, mut count) = (bytes, 0);
    while count < FETCHED_KEYS_MAX
        && let Some((key, behind)) = key(rest)
    {
        found[count] = key;
        (rest, count) = (behind, count + 1);
    }
    &found[..count]
}

/// The second word of a request, and what follows the request.
#[inline]
fn key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (words, rest) = number(bytes, b'*')?;
    if !(2..=WORDS_MAX).contains(&words) {
        return None;
    }
    let (_, rest) = word(rest)?;
    let (key, mut rest) = word(rest)?;
    for _ in 2..words {
        (_, rest) = word(rest)?;
    }
    Some((key, rest))
}

#[inline]
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes, b'$')?;
    let (word, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((word, rest.strip_prefix(b"\r\n")?))
}

/// The number on a line with this mark, and what follows the line.
#[inline]
fn number(bytes: &[u8], mark: u8) -> Option<(i64, &[u8])> {
    let rest = bytes.strip_prefix(&[mark])?;
    let digits = rest.iter().take(DIGITS_MAX).position(|&byte| byte == b'\r')?;
    Some((decimal::parse(&rest[..digits])?, rest[digits..].strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Vec<&[u8]> {
        keys(bytes, &mut [&[][..]; FETCHED_KEYS_MAX]).to_vec()
    }

    #[test]
    fn the_keys_of_a_pipeline_are_found_up_to_what_is_not_understood() {
        let get = b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n".to_vec();
        let set = b"*3\r\n$3\r\nSET\r\n$2\r\nk2\r\n$4\r\nv\r\n$\r\n".to_vec();
        assert_eq!(found(&[&get[..], &set, &get].concat()), [&b"key1"[..], b"k2", b"key1"]);
        for end in [
            &b"PING\r\n"[..],
            b"*1\r\n$4\r\nPING\r\n",
            b"*9\r\n",
            b"*-1\r\n",
            b"*2\r\n$3\r\nGET\r\n$99999999\r\n",
            b"*2\r\n$3\r\nGET\r\n$-1\r\n",
            b"*2\r\n$3\r\nGETS$1\r\nk\r\n",
            b"*2\r\n$00000000000000000003\r\n",
        ] {
            assert_eq!(found(&[&get[..], end, &get].concat()), [b"key1"], "{}", end.escape_ascii());
        }
    }

    #[test]
    fn a_request_that_has_not_all_come_has_no_key_yet() {
        let set = b"*3\r\n$3\r\nSET\r\n$2\r\nk2\r\n$4\r\nv\r\n$\r\n";
        for length in 0..set.len() {
            assert_eq!(found(&set[..length]), Vec::<&[u8]>::new(), "{length} bytes");
        }
        assert_eq!(found(set), [b"k2"]);
    }

    #[test]
    fn a_look_has_an_end() {
        let pipeline = b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n".repeat(FETCHED_KEYS_MAX + 1);
        assert_eq!(found(&pipeline).len(), FETCHED_KEYS_MAX);
    }
}
