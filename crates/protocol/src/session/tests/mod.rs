//! Sessions without messages. How they live and end over a network is tested with the basic protocol.

use core::time::Duration;

mod golden_keys;
mod late;
mod strangers;

use super::config::{PEER_TIMEOUT_MIN, agree};
use super::*;

fn sessions(config: SessionConfig) -> Result<Sessions, ConfigError> {
    Sessions::new(
        config,
        Protocol::Basic,
        Identity { incarnation: 1, rank: 0, endpoint: 0 },
        Entropy::repeatable(7),
    )
}

#[test]
fn unusable_configurations_are_refused_with_the_value_that_is_wrong() {
    let good = SessionConfig::default();
    let offer = good.offer;
    let with = |offer| SessionConfig { offer, ..good };
    let refusals = [
        (with(Offer { mtu_bytes: 255, ..offer }), ConfigError::MtuTooShort { mtu_bytes: 255 }),
        (with(Offer { unscheduled_bytes: 0, ..offer }), ConfigError::Zero),
        (with(Offer { calls_max: 0, ..offer }), ConfigError::Zero),
        (SessionConfig { sessions_max: 0, ..good }, ConfigError::Sessions { sessions_max: 0 }),
        (SessionConfig { sessions_max: 32_769, ..good }, ConfigError::Sessions { sessions_max: 32_769 }),
        (
            SessionConfig { peer_timeout: PEER_TIMEOUT_MIN - Duration::from_nanos(1), ..good },
            ConfigError::PeerTimeout,
        ),
    ];
    for (config, error) in refusals {
        assert_eq!(sessions(config).err(), Some(error));
    }
    let nobody = Identity { incarnation: 0, rank: 0, endpoint: 0 };
    let refused = Sessions::new(good, Protocol::Basic, nobody, Entropy::repeatable(7));
    assert_eq!(refused.err(), Some(ConfigError::IncarnationZero));
}

#[test]
fn limits_that_leave_nothing_are_not_agreed_to() {
    let ours = SessionConfig::default().offer;
    assert_eq!(agree(&ours, &ours), Ok(ours));
    for theirs in [Offer { unscheduled_bytes: 0, ..ours }, Offer { mtu_bytes: 100, ..ours }] {
        assert_eq!(agree(&ours, &theirs), Err(RefuseReason::Limits));
    }
}

#[test]
fn session_numbers_are_never_used_again() {
    let config = SessionConfig { sessions_max: 2, half_open_max: 1, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    let (mut seen, now) = (std::collections::BTreeSet::new(), Instant::from_nanos(1));
    for _ in 0..3 << 16 {
        let id = sessions.connect(PeerAddress(1), now).expect("the last one was closed");
        assert!(seen.insert(id), "{id:?} was used before");
        sessions.close(id);
        while sessions.poll_event().is_some() {}
    }
    // All numbers of the three places are used up.
    assert_eq!(sessions.connect(PeerAddress(1), now), Err(SessionsFull { sessions_max: 2 }));
}

#[test]
fn a_handshake_is_not_given_up_for_time_in_which_nobody_asked_for_the_answer() {
    let mut sessions = sessions(SessionConfig::default()).expect("the configuration is valid");
    let timeout = SessionConfig::default().peer_timeout;
    let begun = Instant::from_nanos(1);
    let id = sessions.connect(PeerAddress(1), begun).expect("there is room");
    // As after a stop of the process, or with a clock that was read long before.
    let mut now = begun + timeout * 3;
    sessions.handle_timeout(now);
    assert!(!sessions.has_events());
    let resumed = now;
    while !sessions.has_events() {
        now = sessions.next_deadline().expect("it is tried again, or given up");
        sessions.handle_timeout(now);
    }
    assert_eq!(sessions.poll_event(), Some(SessionEvent::Down { id, reason: EndReason::Unreachable }));
    let waited = now.since(resumed);
    assert!(waited > timeout / 2 && waited <= timeout, "{waited:?}");
}
