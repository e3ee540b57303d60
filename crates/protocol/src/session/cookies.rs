//! Proof of an address without keeping anything: what is given to an address must come back from there.
//!
//! A cookie is a code over the address, the opener's number and the time, under a key that this process
//! alone has. The key is drawn anew every minute, and the one before it still counts, so that no cookie is
//! void sooner than it is too old.

use core::time::Duration;

use crate::wire::{Cookie, WireSession};
use farcall_base::{Entropy, Instant, SipKey};

use super::PeerAddress;

/// How long a key is used for new cookies.
const KEY_LIFETIME: Duration = Duration::from_secs(60);

/// How long a cookie counts: longer than any opener tries, unless its limit of silence is as long.
const COOKIE_LIFETIME: Duration = Duration::from_secs(30);

/// Gives cookies and knows them again.
#[derive(Debug)]
pub(super) struct Cookies {
    entropy: Entropy,
    current: Key,
    previous: Key,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    since: Instant,
    key: SipKey,
}

impl Cookies {
    pub(super) fn new(mut entropy: Entropy) -> Self {
        let key = |entropy: &mut Entropy| Key { since: Instant::ZERO, key: entropy.key() };
        let (current, previous) = (key(&mut entropy), key(&mut entropy));
        Self { entropy, current, previous }
    }

    /// A cookie for whoever is at `to` and numbered its session `opener`.
    pub(super) fn issue(&mut self, to: PeerAddress, opener: WireSession, now: Instant) -> Cookie {
        if now.since(self.current.since) >= KEY_LIFETIME {
            self.previous = self.current;
            self.current = Key { since: now, key: self.entropy.key() };
        }
        let issued_at_nanos = now.as_nanos();
        Cookie { issued_at_nanos, code: code(&self.current, to, opener, issued_at_nanos) }
    }

    /// Whether this very cookie was given to `from`, not too long ago.
    pub(super) fn accepts(
        &self,
        cookie: Cookie,
        from: PeerAddress,
        opener: WireSession,
        now: Instant,
    ) -> bool {
        let issued_at = Instant::from_nanos(cookie.issued_at_nanos);
        let key = if issued_at >= self.current.since { &self.current } else { &self.previous };
        issued_at <= now
            && now.since(issued_at) <= COOKIE_LIFETIME
            && code(key, from, opener, cookie.issued_at_nanos) == cookie.code
    }
}

fn code(key: &Key, address: PeerAddress, opener: WireSession, issued_at_nanos: u64) -> u64 {
    key.key.authenticate(&[u64::from(address.0), opener.0, issued_at_nanos])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENER: WireSession = WireSession(77);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cookie_counts_for_the_address_the_number_and_the_time_that_it_was_given_for() {
        let mut cookies = Cookies::new(Entropy::repeatable(1));
        let cookie = cookies.issue(PeerAddress(1), OPENER, at(100));
        assert!(cookies.accepts(cookie, PeerAddress(1), OPENER, at(101)));
        assert!(!cookies.accepts(cookie, PeerAddress(2), OPENER, at(101)));
        assert!(!cookies.accepts(cookie, PeerAddress(1), WireSession(78), at(101)));
        assert!(!cookies.accepts(cookie, PeerAddress(1), OPENER, at(99)), "it is from the future");
        assert!(!cookies.accepts(cookie, PeerAddress(1), OPENER, at(131)), "it is too old");
        let younger = Cookie { issued_at_nanos: cookie.issued_at_nanos + 1, ..cookie };
        assert!(!cookies.accepts(younger, PeerAddress(1), OPENER, at(101)));
        assert!(!cookies.accepts(Cookie::NONE, PeerAddress(1), OPENER, at(1)));
    }

    #[test]
    fn a_cookie_outlives_the_key_that_it_was_made_with() {
        let mut cookies = Cookies::new(Entropy::repeatable(1));
        cookies.issue(PeerAddress(1), OPENER, at(100));
        let cookie = cookies.issue(PeerAddress(1), OPENER, at(159));
        cookies.issue(PeerAddress(2), OPENER, at(161));
        assert!(cookies.accepts(cookie, PeerAddress(1), OPENER, at(162)));
    }
}
