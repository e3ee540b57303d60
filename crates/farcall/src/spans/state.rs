//! The header `tracestate`: a list of what other tracing systems want handed on, checked and passed on as it
//! is.

use std::sync::Arc;

/// The longest `tracestate` that is passed on; the standard asks for at least as much.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// The most members of it.
pub const TRACESTATE_MEMBERS_MAX: usize = 32;

const KEY_BYTES_MAX: usize = 256;
const TENANT_BYTES_MAX: usize = 241;
const SYSTEM_BYTES_MAX: usize = 14;
const VALUE_BYTES_MAX: usize = 256;

/// The header, if all of it is well-formed; `Some(None)` of one that has no members.
pub(super) fn checked_state(header: &[u8]) -> Option<Option<Arc<str>>> {
    let text = core::str::from_utf8(header).ok().filter(|text| text.len() <= TRACESTATE_BYTES_MAX)?;
    let members = || text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|m| !m.is_empty());
    let mut keys = Vec::new();
    for member in members() {
        let (key, value) = member.split_once('=')?;
        if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == TRACESTATE_MEMBERS_MAX {
            return None;
        }
        keys.push(key);
    }
    Some((!keys.is_empty()).then(|| text.into()))
}

fn is_key(key: &str) -> bool {
    let rest = |part: &str| {
        part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/'))
    };
    let letter = |part: &str| part.starts_with(|first: char| first.is_ascii_lowercase());
    let digit = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    match key.split_once('@') {
        Some((tenant, system)) => {
            (letter(tenant) || digit(tenant))
                && letter(system)
                && rest(tenant)
                && rest(system)
                && tenant.len() <= TENANT_BYTES_MAX
                && system.len() <= SYSTEM_BYTES_MAX
        }
        None => letter(key) && rest(key) && key.len() <= KEY_BYTES_MAX,
    }
}

/// Visible characters and inner spaces, without what separates members and their values.
fn is_value(value: &str) -> bool {
    !value.is_empty()
        && value.len() <= VALUE_BYTES_MAX
        && value.bytes().all(|byte| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_good(header: &str) -> bool {
        checked_state(header.as_bytes()).is_some()
    }

    #[test]
    fn members_have_keys_and_values() {
        for good in ["a=b", "a=b,c=d", "a=b , c=d,\t,", "", "fw529a3039@dt=x", "0t@v=x", "a/*_-0=b c"] {
            assert!(is_good(good), "{good:?}");
        }
        for bad in
            ["a", "=b", "A=b", "0a=b", "a=", "a=b=c", "a=b,a=c", "a@0=b", "a@=b", "@v=b", "a=\u{7f}", "a=ä"]
        {
            assert!(!is_good(bad), "{bad:?}");
        }
        assert_eq!(checked_state(b" , "), Some(None));
        assert_eq!(checked_state(&[0xff]), None);
    }

    #[test]
    fn every_bound_holds_to_the_byte() {
        let members = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert!(is_good(&members(TRACESTATE_MEMBERS_MAX)) && !is_good(&members(TRACESTATE_MEMBERS_MAX + 1)));
        let key = |bytes: usize| format!("{}=v", "k".repeat(bytes));
        assert!(is_good(&key(KEY_BYTES_MAX)) && !is_good(&key(KEY_BYTES_MAX + 1)));
        let value = |bytes: usize| format!("k={}", "v".repeat(bytes));
        assert!(is_good(&value(VALUE_BYTES_MAX)) && !is_good(&value(VALUE_BYTES_MAX + 1)));
        let tenant =
            |tenant: usize, system: usize| format!("{}@{}=v", "t".repeat(tenant), "s".repeat(system));
        assert!(is_good(&tenant(TENANT_BYTES_MAX, SYSTEM_BYTES_MAX)));
        assert!(!is_good(&tenant(TENANT_BYTES_MAX + 1, 1)) && !is_good(&tenant(1, SYSTEM_BYTES_MAX + 1)));
        let padded = |bytes: usize| format!("k={},l={}", "v".repeat(200), "v".repeat(bytes - 205));
        assert!(is_good(&padded(TRACESTATE_BYTES_MAX - 60)));
        let long =
            |bytes: usize| format!("a={},b={}{}", "v".repeat(250), "v".repeat(250), " ".repeat(bytes - 505));
        assert!(is_good(&long(TRACESTATE_BYTES_MAX)) && !is_good(&long(TRACESTATE_BYTES_MAX + 1)));
    }
}
