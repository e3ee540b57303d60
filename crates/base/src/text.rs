//! Text of others, made fit to be shown: on a terminal, in a page, in a line of a report.
//!
//! Names of tables and machines, refusals, recorded arguments come from whoever sent or wrote them. As they
//! are they could move the cursor, change a title, or look like something else than they are.

use core::fmt::Write;
use std::borrow::Cow;

/// Whether a character shows what it is, and does nothing else. Control characters (both sets), what turns
/// the direction of writing, what takes no room and what breaks lines does not.
#[inline]
pub fn is_printable(c: char) -> bool {
    !matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        // Without width, or marks of direction.
        | '\u{200b}'..='\u{200f}'
        // Separators of lines and paragraphs, embeddings and overrides of direction.
        | '\u{2028}'..='\u{202e}'
        // Word joiner, invisible operators, isolates of direction, deprecated format characters.
        | '\u{2060}'..='\u{206f}'
        // Byte order mark, interlinear annotations, tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with every other character than printable ones as `\u{…}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_printable)
}

/// The same of text of several lines, whose line ends and tabs are its own.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_printable(c) || matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_good: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Nearly all text is printable ASCII.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') || byte.is_ascii() && is_good(char::from(byte));
    if text.bytes().all(is_plain) || text.chars().all(&is_good) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_good(c) {
            escaped.push(c);
        } else {
            write!(escaped, "{}", c.escape_unicode()).expect("a string takes everything");
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_control_a_terminal_or_turn_a_line_is_shown_as_its_number() {
        let hostile = "a\x1b]0;title\x07b\u{9b}2J\u{202e}txt.exe\u{200b}\u{feff}\u{e0041}\r\n\tend\u{7f}";
        let shown = printable(hostile);
        assert_eq!(
            shown,
            "a\\u{1b}]0;title\\u{7}b\\u{9b}2J\\u{202e}txt.exe\\u{200b}\\u{feff}\\u{e0041}\\u{d}\\u{a}\\u{9}end\\u{7f}"
        );
        assert!(shown.chars().all(is_printable));
        assert_eq!(printable_lines("a\tb\n\u{1b}c"), "a\tb\n\\u{1b}c");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        for text in ["", "ring+shm", "Größe 3 µs", "日本語", "עברית", "naïve – “quoted” …", "👍"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn every_control_and_format_character_of_the_lower_planes_is_covered() {
        for c in (0..0xa0_u32).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(!is_printable(c), "{c:?}");
        }
        // Those of Unicode's category Cf that change what a line looks like.
        for c in
            "\u{ad}\u{61c}\u{180e}\u{200b}\u{200e}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}".chars()
        {
            assert!(!is_printable(c), "{c:?}");
        }
    }
}
