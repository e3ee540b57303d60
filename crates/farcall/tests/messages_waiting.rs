//! Messages that wait at their sender: for their session, and for the calls that have all the room.

mod common;

use common::{LONG, Pair, settings, transports};
use farcall::{Cancellation, DownReason, Endpoint, SendError, SendRefused, Service, Tag};

const ECHO: Service = Service(1);
const TAG: Tag = Tag(7);

/// Answers calls, and lets messages come.
fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.on_message(|_, _| {});
}

/// Every transport with room for two calls, of which messages take one.
fn pairs_with_two_calls(more: &[(&str, &str)]) -> impl Iterator<Item = Pair> {
    let both = ["basic.calls_max=2", "homa.calls_max=2"];
    let of = |side: fn(&(&str, &str)) -> String| {
        let all: Vec<String> = both.iter().map(ToString::to_string).chain(more.iter().map(side)).collect();
        settings(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (server, client) = (of(|sides| sides.0.to_owned()), of(|sides| sides.1.to_owned()));
    transports().map(move |kind| {
        println!("over {kind}");
        Pair::with_client_settings(kind, server.clone(), client.clone(), serve)
    })
}

#[test]
fn a_message_that_waited_for_its_session_and_is_over_its_limit_ends_it() {
    let limits = ["ring", "basic", "homa", "tcp", "ucx", "mpi", "ofi"]
        .map(|group| (format!("{group}.message_bytes_max=1K"), format!("{group}.message_bytes_max=1M")));
    let limits = limits.each_ref().map(|(server, client)| (server.as_str(), client.as_str()));
    for pair in pairs_with_two_calls(&limits) {
        let first = pair.client.send(pair.server, TAG, &[1; 8]).within(LONG).start().expect("room");
        let long =
            pair.client.send(pair.server, TAG, &[2; 1025]).within(LONG).start().expect("not known yet");
        let ended = long.wait();
        assert!(matches!(ended, Err(SendError::PeerDown(DownReason::Refused { .. }))), "{ended:?}");
        // Whether it left before the session ended depends on the transport.
        let _sent_or_not = first.wait();
        let server = pair.client.peer(0).expect("the server is still there");
        pair.client.wait_for(server).expect("and takes another session");
        let refused = pair.client.send(server, TAG, &[2; 1025]).wait();
        assert!(
            matches!(refused, Err(SendError::NotSent(SendRefused::TooLong { bytes: 1025, .. }))),
            "{refused:?}"
        );
        assert_eq!(pair.client.send(server, TAG, &[2; 1015]).within(LONG).wait(), Ok(()));
    }
}

#[test]
fn a_session_without_room_for_a_tag_refuses_messages() {
    let limits = ["basic", "homa"].map(|group| format!("{group}.message_bytes_max=7"));
    let limits = settings(&limits.each_ref().map(String::as_str));
    for kind in transports().filter(|kind| ["basic", "homa"].iter().any(|name| kind.name().starts_with(name)))
    {
        println!("over {kind}");
        let pair = Pair::new(kind, limits.clone(), serve);
        pair.client.wait_for(pair.server).expect("the server is there");
        let refused = pair.client.send(pair.server, TAG, b"").wait();
        let too_long = SendRefused::TooLong { bytes: 0, bytes_max: 0 };
        assert_eq!(refused, Err(SendError::NotSent(too_long)), "{kind}");
    }
}

#[test]
fn a_message_goes_when_a_call_has_been_answered() {
    for pair in pairs_with_two_calls(&[]) {
        let calls =
            [1, 2].map(|_| pair.client.call(pair.server, ECHO, b"").within(LONG).start().expect("room"));
        let sent = pair.client.send(pair.server, TAG, b"waits").within(LONG).wait();
        assert_eq!(sent, Ok(()));
        calls.into_iter().for_each(|call| drop(call.wait().expect("an answer")));
    }
}

#[test]
fn a_message_goes_when_a_call_was_given_up() {
    for pair in pairs_with_two_calls(&[]) {
        let post = |token| pair.client.call(pair.server, ECHO, b"").within(LONG).post(token).expect("room");
        pair.client.wait_for(pair.server).expect("the server is there");
        let calls = [post(1), post(2)];
        let sending = pair.client.send(pair.server, TAG, b"waits").within(LONG).start().expect("room");
        let cancelled = calls.map(|call| pair.client.cancel(call));
        assert_eq!(cancelled, [Cancellation::Cancelled; 2]);
        assert_eq!(sending.wait(), Ok(()));
    }
}
