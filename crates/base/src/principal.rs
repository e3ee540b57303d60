//! Who is at the other end of a session, as far as its transport proves it.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use crate::printable;

/// What a cluster key is called: it says which key it is, and nothing else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(pub [u8; KeyName::BYTES]);

impl KeyName {
    /// Bytes of a name.
    pub const BYTES: usize = 8;
}

/// As 16 hexadecimal digits.
impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is no name of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is called by 16 hexadecimal digits, as `farcall key show` does")]
pub struct NoKeyName;

impl FromStr for KeyName {
    type Err = NoKeyName;

    fn from_str(digits: &str) -> Result<Self, NoKeyName> {
        let are_digits =
            digits.len() == 2 * Self::BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| are_digits).ok_or(NoKeyName)?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// Who the peer of a session is, as far as the transport proves it: what a peer only says of itself is not in
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Nothing is proven.
    #[default]
    Unproven,
    /// A process of this user of this machine, as the kernel says.
    User(u32),
    /// One of those that have this cluster key.
    Key(KeyName),
    /// The holder of a private key whose public half this side lists under this name.
    Identity(Arc<str>),
    /// The holder of a certificate of an authority that is believed, by the names that the certificate gives:
    /// of DNS in small letters, and URIs.
    Certificate(Arc<[String]>),
    /// One that knows the password of the door for Redis clients.
    Password,
}

impl Principal {
    /// Whether this peer has an identity that is asked for: the same one, or a certificate with all of the
    /// names that are asked for.
    pub fn has(&self, asked: &Self) -> bool {
        match (asked, self) {
            (Self::Certificate(asked), Self::Certificate(names)) => {
                asked.iter().all(|name| names.contains(name))
            }
            (asked, principal) => asked == principal,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unproven => f.write_str("a peer without an identity"),
            Self::User(user) => write!(f, "uid {user}"),
            Self::Key(name) => write!(f, "key {name}"),
            Self::Identity(name) => write!(f, "identity {}", printable(name)),
            Self::Certificate(names) => match names.split_first() {
                Some((first, others)) => {
                    write!(f, "certificate {}", printable(first))?;
                    others.iter().try_for_each(|name| write!(f, ", {}", printable(name)))
                }
                None => f.write_str("a certificate without names"),
            },
            Self::Password => f.write_str("password"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_are_sixteen_digits() {
        let name = KeyName([0x0a, 0, 0, 0, 0, 0, 0, 0xff]);
        assert_eq!(name.to_string(), "0a000000000000ff");
        assert_eq!("0A000000000000fF".parse(), Ok(name));
        for text in ["", "0a", "0a000000000000ff0", "+a000000000000ff", "0a000000000000fg"] {
            assert_eq!(text.parse::<KeyName>(), Err(NoKeyName), "{text}");
        }
    }

    #[test]
    fn what_a_certificate_says_is_text_that_can_be_shown() {
        let names = ["a.example".to_owned(), "\u{1b}[2J".to_owned()];
        let principal = Principal::Certificate(names.into());
        assert_eq!(principal.to_string(), "certificate a.example, \\u{1b}[2J");
        assert_eq!(Principal::User(1000).to_string(), "uid 1000");
    }

    #[test]
    fn a_certificate_has_each_of_its_names_and_others_are_what_they_are() {
        let certificate = |names: &[&str]| {
            Principal::Certificate(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>().into())
        };
        let holder = certificate(&["worker.example", "spiffe://example/web"]);
        assert!(holder.has(&certificate(&["worker.example"])) && holder.has(&holder));
        assert!(!holder.has(&certificate(&["worker.example", "other.example"])));
        assert!(!holder.has(&Principal::User(0)));
        assert!(Principal::User(1).has(&Principal::User(1)) && !Principal::User(1).has(&Principal::User(2)));
    }
}
