//! Patterns of keys, as shells have them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash in front of what is
//! meant as it is.

/// The longest pattern. Matching one takes its length times that of a key at most, and nobody is served
/// meanwhile.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// How many keys a step looks at, of `most` with a short pattern: fewer with a long one.
pub fn looks(pattern: &[u8], most: usize) -> usize {
    const SHORT: usize = 32;
    (most * SHORT / pattern.len().max(SHORT)).max(1)
}

/// Whether a text matches a pattern. Takes time in proportion to the product of their lengths at most,
/// however many stars there are.
pub fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last star, and what it was last tried with. Only the last star needs to be tried again: what
    // earlier ones match can stay as it is.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        let matched = match pattern.split_first() {
            Some((b'*', behind)) => {
                star = Some((behind, text));
                pattern = behind;
                continue;
            }
            None if text.is_empty() => return true,
            None => None,
            Some(_) => text.split_first().and_then(|(&byte, rest)| Some((take_one(pattern, byte)?, rest))),
        };
        match (matched, &mut star) {
            (Some((behind, rest)), _) => (pattern, text) = (behind, rest),
            (None, Some((behind, tried))) if !tried.is_empty() => {
                *tried = &tried[1..];
                (pattern, text) = (behind, tried);
            }
            (None, _) => return false,
        }
    }
}

/// The rest of a pattern whose first part, which is no star, matches a byte.
fn take_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', behind @ ..] => Some(behind),
        [b'[', behind @ ..] => take_set(behind, byte),
        [b'\\', escaped, behind @ ..] => (*escaped == byte).then_some(behind),
        [first, behind @ ..] => (*first == byte).then_some(behind),
        [] => None,
    }
}

/// The same behind the bracket that opens a set. One that is not closed ends with the pattern.
fn take_set(set: &[u8], byte: u8) -> Option<&[u8]> {
    let (is_inverted, mut rest) = match set {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', escaped, behind @ ..] => {
                is_in |= *escaped == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                behind
            }
            [one, behind @ ..] => {
                is_in |= *one == byte;
                behind
            }
        };
    }
    (is_in != is_inverted).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a[bc", "ab", true),
            ("key:*:end", "key:1:2:end", true),
            ("?", "", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), text.as_bytes()), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!is_match(pattern.as_bytes(), "a".repeat(2_000).as_bytes()));
    }
}
