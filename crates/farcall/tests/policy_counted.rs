//! What the policy refuses is counted. A process of its own: other tests would count as well.

mod common;

use std::fs;

use common::counters::sum_of;
use common::{LONG, Pair, settings};
use farcall::{AnySource, AnyTag, CallError, Service, Tag, TransportKind};

#[test]
fn each_refused_request_and_each_ended_session_is_counted() {
    let path = std::env::temp_dir().join(format!("farcall-policy-counted-{}", std::process::id()));
    fs::write(&path, "service 2: call by any").expect("a file");
    let server = settings(&[&format!("security.policy_file={}", path.display())]);
    let pair = Pair::with_client_settings(TransportKind::RING_SHM, server, settings(&[]), |endpoint| {
        endpoint.serve(Service(1), |_, reply| reply.send(b"no handler runs"));
        endpoint.receive(AnySource, AnyTag).post(7).expect("room");
    });
    for _ in 0..3 {
        let refused = pair.client.call(pair.server, Service(1), b"").within(LONG).wait().map(drop);
        assert!(matches!(refused, Err(CallError::NotAllowed { .. })), "{refused:?}");
    }
    assert_eq!(sum_of("ring+shm", "not_allowed"), 3);
    pair.client.send(pair.server, Tag(1), b"one").wait().expect("it leaves");
    while pair.client.call(pair.server, Service(2), b"").within(LONG).wait().map(drop)
        == Err(CallError::UnknownService)
    {}
    assert_eq!(sum_of("ring+shm", "not_allowed"), 4);
    drop(pair);
    fs::remove_file(&path).expect("it is ours");
}
