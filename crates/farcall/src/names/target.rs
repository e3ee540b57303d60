//! What an endpoint connects to, read once.

use crate::bootstrap::{HostPort, NAME_BYTES_MAX, URL_SCHEME};
use crate::transports::TransportKind;

/// A name, a name at a certain registry, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `orders`.
    Name(String),
    /// `farcall://host:7117/orders`.
    At { registry: HostPort, name: String },
    /// `basic+udp://host:7001`.
    Address { transport: TransportKind, place: HostPort },
}

/// Why a text is nothing to connect to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Neither a name nor an address.
    #[error(
        "`{text}` is neither a name of 1 to {NAME_BYTES_MAX} bytes, nor farcall://host:port/name, \
         nor transport://host:port"
    )]
    Malformed {
        /// The text.
        text: String,
    },
    /// Peers of that transport cannot be named by host and port.
    #[error("{transport} has no addresses of the form host:port; listen under a name and connect to that")]
    NoPlaces {
        /// The transport.
        transport: TransportKind,
    },
    /// The endpoint has another transport.
    #[error(
        "`{text}` is reached over {wanted}, and this endpoint is {own}; use an endpoint of that transport"
    )]
    OtherTransport {
        /// The text.
        text: String,
        /// The transport that it names.
        wanted: TransportKind,
        /// The endpoint's.
        own: TransportKind,
    },
}

impl Target {
    /// Reads what an endpoint of `transport` is to connect to.
    pub(super) fn parse(text: &str, transport: TransportKind) -> Result<Self, TargetError> {
        let malformed = || TargetError::Malformed { text: text.to_owned() };
        if let Some(rest) = text.strip_prefix(URL_SCHEME) {
            let (place, name) = rest.split_once('/').ok_or_else(malformed)?;
            let registry = HostPort::parse(place).ok_or_else(malformed)?;
            return if is_name(name) {
                Ok(Self::At { registry, name: name.to_owned() })
            } else {
                Err(malformed())
            };
        }
        if text.contains("://") {
            let (wanted, place) = parse_address(text).ok_or_else(malformed)??;
            if wanted != transport && !transport.is_several() {
                return Err(TargetError::OtherTransport { text: text.to_owned(), wanted, own: transport });
            }
            return Ok(Self::Address { transport: wanted, place });
        }
        if is_name(text) { Ok(Self::Name(text.to_owned())) } else { Err(malformed()) }
    }
}

/// Reads `transport://host:port`; `None` for something else.
pub(super) fn parse_address(text: &str) -> Option<Result<(TransportKind, HostPort), TargetError>> {
    let (transport, place) = text.split_once("://")?;
    let transport: TransportKind = transport.parse().ok()?;
    let place = HostPort::parse(place)?;
    Some(if transport.has_places() {
        Ok((transport, place))
    } else {
        Err(TargetError::NoPlaces { transport })
    })
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        let place = |text| HostPort::parse(text).expect("a place");
        let kind = |name: &str| name.parse::<TransportKind>().expect("a transport");
        let own = kind("basic+udp");
        let parse = |text| Target::parse(text, own);
        assert_eq!(parse("orders"), Ok(Target::Name("orders".to_owned())));
        let at = Target::At { registry: place("[::1]:7117"), name: "eu/orders".to_owned() };
        assert_eq!(parse("farcall://[::1]:7117/eu/orders"), Ok(at));
        let address = Target::Address { transport: own, place: place("node-3:7001") };
        assert_eq!(parse("basic+udp://node-3:7001"), Ok(address));
        let wanted = kind("homa+udp");
        let other = TargetError::OtherTransport { text: "homa+udp://a:1".to_owned(), wanted, own };
        assert_eq!(parse("homa+udp://a:1"), Err(other));
        let over_one_of_several = Target::parse("homa+udp://a:1", TransportKind::AUTO);
        assert_eq!(over_one_of_several, Ok(Target::Address { transport: wanted, place: place("a:1") }));
        let no_places = TargetError::NoPlaces { transport: kind("ring+shm") };
        assert_eq!(parse("ring+shm://a:1"), Err(no_places));
        for text in [
            "",
            "two words",
            "farcall://a:1",
            "farcall://a:1/",
            "farcall://a/b",
            "pigeon://a:1",
            "basic+udp://a",
        ] {
            assert_eq!(parse(text), Err(TargetError::Malformed { text: text.to_owned() }), "{text}");
        }
    }
}
