//! The words of an inline command.

use core::ops::Range;

use super::parse::ProtocolError;

/// Splits a line into words. Those in double quotes may have escapes, those in single quotes only `\'`.
pub fn split_words(
    line: &[u8],
    words: &mut Vec<u8>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = take_word(rest, words)?;
        ranges.push(start..words.len());
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

/// Appends a word; gives what follows it.
fn take_word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    while let Some((&byte, behind)) = rest.split_first() {
        if is_blank(byte) {
            break;
        }
        rest = match byte {
            b'"' => return take_quoted(behind, words, byte),
            b'\'' => return take_quoted(behind, words, byte),
            _ => {
                words.push(byte);
                behind
            }
        };
    }
    Ok(rest)
}

fn take_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>, quote: u8) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, behind) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [byte, behind @ ..] if *byte == quote => {
                let ends = behind.first().is_none_or(|byte| is_blank(*byte));
                return if ends { Ok(behind) } else { Err(ProtocolError::Quotes) };
            }
            [b'\\', b'\'', behind @ ..] if quote == b'\'' => (b'\'', behind),
            [b'\\', b'x', high, low, behind @ ..] if quote == b'"' && is_hex(*high) && is_hex(*low) => {
                (nibble(*high) << 4 | nibble(*low), behind)
            }
            [b'\\', escaped, behind @ ..] if quote == b'"' => (unescaped(*escaped), behind),
            [byte, behind @ ..] => (*byte, behind),
        };
        words.push(byte);
        rest = behind;
    }
}

fn unescaped(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn nibble(byte: u8) -> u8 {
    char::from(byte).to_digit(16).map_or(0, |digit| digit as u8)
}
