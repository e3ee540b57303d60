//! Peers that stand still, and whose processes answer for them.

use super::*;
use crate::wire::{Header, LIFE_PORT_BYTES, LifePort};

const TIMEOUT: Duration = Duration::from_secs(1);

/// An end at the address of its number, whose process answers at a port that says that number.
fn end(number: u8) -> Sessions {
    let mut end = Sessions::new(
        SessionConfig { peer_timeout: TIMEOUT, ..SessionConfig::default() },
        Protocol::Basic,
        Identity { incarnation: u64::from(number), rank: u32::from(number), endpoint: 0 },
        Entropy::repeatable(u64::from(number)),
    )
    .expect("the configuration is valid");
    end.set_life(Some(port(number)), None);
    end
}

fn port(number: u8) -> LifePort {
    LifePort([number; LIFE_PORT_BYTES])
}

/// Delivers the next packet of an end to the other.
fn deliver_one(from: &mut Sessions, number: u32, to: &mut Sessions, now: Instant) {
    let mut head = Head::new();
    from.poll_transmit(&mut head).expect("it has something to say");
    let header = Header::parse(head.as_bytes()).expect("it has a header");
    to.handle(PeerAddress(number), || None, &header, head.as_bytes(), now);
}

/// An end that hears nothing more in its only session: lets four peer timeouts pass, in which the peer's
/// process is found alive whenever it is asked. Gives the ports that were asked.
fn ports_asked(end: &mut Sessions, start: Instant) -> Vec<LifePort> {
    let Some(SessionEvent::Up { id, .. }) = end.poll_event() else { panic!("the session is up") };
    let mut asked = Vec::new();
    for step in 0..400 {
        let now = start + step * TIMEOUT / 100;
        end.handle_timeout(now);
        while let Some(question) = end.poll_question() {
            asked.push(question.port);
            end.found_alive(question.session, now);
        }
    }
    assert!(end.link(id).is_some(), "a late peer keeps its session");
    asked
}

#[test]
fn an_acceptor_that_stands_still_after_its_accept_is_asked_for_and_kept() {
    let (mut opener, mut acceptor, now) = (end(1), end(2), Instant::from_nanos(1));
    opener.connect(PeerAddress(2), now).expect("the first session fits");
    deliver_one(&mut opener, 1, &mut acceptor, now);
    deliver_one(&mut acceptor, 2, &mut opener, now);
    let asked = ports_asked(&mut opener, now);
    assert!(asked.len() > 4 && asked.iter().all(|at| *at == port(2)), "{} questions", asked.len());
}

#[test]
fn an_opener_that_stands_still_after_its_confirmation_is_asked_for_and_kept() {
    let (mut opener, mut acceptor, now) = (end(1), end(2), Instant::from_nanos(1));
    opener.connect(PeerAddress(2), now).expect("the first session fits");
    deliver_one(&mut opener, 1, &mut acceptor, now);
    deliver_one(&mut acceptor, 2, &mut opener, now);
    deliver_one(&mut opener, 1, &mut acceptor, now);
    let asked = ports_asked(&mut acceptor, now);
    assert!(asked.len() > 4 && asked.iter().all(|at| *at == port(1)), "{} questions", asked.len());
}
