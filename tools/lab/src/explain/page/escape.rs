//! Text of others within a page and within an address.

use farcall_base::is_printable;

/// Text as it may stand between tags and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_printable(c) || c == '\n' => escaped.push(c),
            c => escaped.extend(c.escape_unicode()),
        }
    }
    escaped
}

/// The same of a sentence, with what stands between backticks as code. What is short is not broken between
/// lines.
pub fn prose(sentence: &str) -> String {
    const SHORT: usize = 30;
    let escaped = escape(sentence);
    let parts: Vec<_> = escaped.split('`').collect();
    // A backtick without its counterpart is one.
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(place, part): (usize, &&str)| match place % 2 {
        0 => (*part).to_owned(),
        _ if part.chars().count() <= SHORT => format!("<code class=\"short\">{part}</code>"),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Text as it may stand in an address (RFC 3986).
pub fn of_address(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
