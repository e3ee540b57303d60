//! Keys and values as people write them, and bytes as JSON has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::arguments::kv::KvWritten;
use crate::failure::Failure;

impl KvWritten {
    /// The bytes that an argument stands for.
    pub fn bytes(&self, argument: &str) -> Result<Vec<u8>, Failure> {
        if !self.escaped {
            return Ok(argument.as_bytes().to_vec());
        }
        unescaped(argument).map_err(Failure::Usage)
    }
}

/// What was escaped as `scan` does.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let wrong = |written: &str| {
        format!("`{written}` escapes nothing; give `\\xff`, `\\t`, `\\n`, `\\r`, `\\'`, `\\\"` or `\\\\`")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some(place) = left.find('\\') {
        bytes.extend_from_slice(&left.as_bytes()[..place]);
        let written = &left[place..];
        let mut characters = written.chars().skip(1);
        let (byte, length) = match characters.next() {
            Some('t') => (b'\t', 2),
            Some('n') => (b'\n', 2),
            Some('r') => (b'\r', 2),
            Some(same @ ('\\' | '\'' | '"')) => (same as u8, 2),
            Some('x') => {
                let digits = written.get(2..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (byte.ok_or_else(|| wrong(&written.chars().take(4).collect::<String>()))?, 4)
            }
            _ => return Err(wrong(&written.chars().take(2).collect::<String>())),
        };
        bytes.push(byte);
        left = &written[length..];
    }
    bytes.extend_from_slice(left.as_bytes());
    Ok(bytes)
}

/// Writes bytes into an object: as text under this name, or, when they are no UTF-8, in base64 under
/// `NAME_base64`.
pub fn set_bytes(object: &mut Value, name: &str, bytes: &[u8]) {
    match core::str::from_utf8(bytes) {
        Ok(text) => object[name] = text.into(),
        Err(_) => object[base64_name(name)] = STANDARD.encode(bytes).into(),
    }
}

fn base64_name(name: &str) -> String {
    format!("{name}_base64")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_scan_prints_is_taken_back() {
        let all: Vec<u8> = (0..=255).chain("\\x41 \\".bytes()).collect();
        assert_eq!(unescaped(&all.escape_ascii().to_string()).as_deref(), Ok(&all[..]));
        assert_eq!(unescaped("größe").as_deref(), Ok("größe".as_bytes()), "text is itself");
    }

    #[test]
    fn what_escapes_nothing_is_refused() {
        for wrong in ["\\", "a\\q", "\\x", "\\x4", "\\xg0", "\\x+1", "\\ü", "\\x4ü"] {
            let error = unescaped(wrong).expect_err(wrong);
            assert!(error.contains("escapes nothing"), "{error}");
        }
    }

    #[test]
    fn bytes_go_through_json() {
        let mut object = json!({});
        set_bytes(&mut object, "key", b"text");
        set_bytes(&mut object, "value", b"\xff\0");
        assert_eq!(object, json!({ "key": "text", "value_base64": "/wA=" }));
    }
}
