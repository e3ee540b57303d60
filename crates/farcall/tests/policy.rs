//! Who a peer is, over each transport, and what the policy of its server lets it do.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use common::{LONG, Pair, settings};
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::policy::Principal;
use farcall::{AnySource, AnyTag, CallError, DownReason, Endpoint, Node, Service, Tag, TransportKind};

const WHO: Service = Service(1);
const OTHER: Service = Service(2);

/// A file that goes with the test.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, text: &str) -> Self {
        let this = Self(std::env::temp_dir().join(format!("farcall-policies-{}-{name}", std::process::id())));
        this.write(text);
        this
    }

    /// Replaces it at once, as an editor does.
    fn write(&self, text: &str) {
        let next = self.0.with_extension("next");
        fs::write(&next, text).expect("a file");
        fs::set_permissions(&next, Permissions::from_mode(0o600)).expect("it is ours");
        fs::rename(&next, &self.0).expect("it is ours");
    }

    fn key(name: &str, digit: char) -> Self {
        Self::new(name, &digit.to_string().repeat(64))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A transport whose peers have an identity, what it takes, and what a server takes this process for.
fn identified(name: &str) -> Vec<(TransportKind, Vec<String>, String, TestFile)> {
    let of_user = format!("uid {}", rustix::process::geteuid().as_raw());
    let mut cases = Vec::new();
    for kind in [TransportKind::RING_SHM, TransportKind::AUTO] {
        cases.push((kind, Vec::new(), of_user.clone(), TestFile::new(&format!("{name}-{kind}"), "")));
    }
    for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP, TransportKind::TCP_TLS] {
        let file = TestFile::key(&format!("{name}-{kind}"), '5');
        let names = farcall::names_of_keys(&file.0).expect("a key");
        let setting = format!("security.key_file={}", file.0.display());
        cases.push((kind, vec![setting], format!("key {}", names[0]), file));
    }
    cases
}

fn with(assignments: &[String], policy: Option<&TestFile>) -> Settings {
    let policy = policy.map(|file| format!("security.policy_file={}", file.0.display()));
    let all: Vec<&str> = assignments.iter().chain(&policy).map(String::as_str).collect();
    settings(&all)
}

/// Answers with who calls.
fn tell_callers(endpoint: &Endpoint) {
    endpoint.serve(WHO, |_, reply| {
        let principal = reply.principal().to_string();
        reply.send(principal.as_bytes());
    });
    endpoint
        .serve_blocking(OTHER, 1, |request, reply| reply.send(request.principal().to_string().into_bytes()))
        .expect("a thread");
}

fn ask(pair: &Pair, service: Service) -> Result<String, CallError> {
    let answer = pair.client.call(pair.server, service, b"").within(LONG).wait()?;
    Ok(String::from_utf8(answer.to_vec()).expect("text"))
}

#[test]
fn handlers_learn_who_calls_as_far_as_the_transport_proves_it() {
    for (kind, assignments, principal, _file) in identified("learn") {
        let pair = Pair::new(kind, with(&assignments, None), tell_callers);
        assert_eq!(ask(&pair, WHO), Ok(principal.clone()), "over {kind}");
        assert_eq!(ask(&pair, OTHER), Ok(principal.clone()), "over {kind}, on a thread");
        assert_eq!(pair.client.principal(pair.server).to_string(), principal, "of the server, over {kind}");
    }
    for kind in [TransportKind::BASIC_UDP, TransportKind::TCP] {
        let pair = Pair::new(kind, settings(&[]), tell_callers);
        assert_eq!(ask(&pair, WHO), Ok(Principal::Unproven.to_string()), "over {kind}");
    }
}

#[test]
fn what_no_rule_allows_is_refused_with_a_reason() {
    for (kind, assignments, principal, _file) in identified("refused") {
        let policy = TestFile::new(&format!("rule-{kind}"), &format!("service 1: call by {principal}"));
        let server = with(&assignments, Some(&policy));
        let pair = Pair::with_client_settings(kind, server, with(&assignments, None), tell_callers);
        assert_eq!(ask(&pair, WHO), Ok(principal.clone()), "over {kind}");
        let refused = ask(&pair, OTHER).expect_err("no rule allows it").to_string();
        let why = format!("the server's policy does not allow the call: {principal} may not call service 2");
        assert_eq!(refused, why, "over {kind}");
        assert_eq!(ask(&pair, WHO), Ok(principal), "and the session goes on, over {kind}");
    }
}

#[test]
fn whoever_proves_nothing_may_do_what_anybody_may() {
    let policy = TestFile::new("anybody", "service 1: call by any\nservice 2: call by uid 0, uid 1000\n");
    for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP, TransportKind::TCP] {
        let pair = Pair::with_client_settings(kind, with(&[], Some(&policy)), settings(&[]), tell_callers);
        assert!(ask(&pair, WHO).is_ok(), "over {kind}");
        assert!(matches!(ask(&pair, OTHER), Err(CallError::NotAllowed { .. })), "over {kind}");
    }
}

#[test]
fn a_key_that_is_believed_gives_no_rights_of_another_one() {
    let (server_keys, client_keys) = (TestFile::key("two", '1'), TestFile::key("second", '2'));
    server_keys.write(&format!("{}\n{}\n", "1".repeat(64), "2".repeat(64)));
    let names = farcall::names_of_keys(&server_keys.0).expect("keys");
    let policy = TestFile::new(
        "by-key",
        &format!("service 1: call by key {}\nservice 2: call by key {}", names[1], names[0]),
    );
    let keys = |file: &TestFile| vec![format!("security.key_file={}", file.0.display())];
    for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP] {
        let server = with(&keys(&server_keys), Some(&policy));
        let pair = Pair::with_client_settings(kind, server, with(&keys(&client_keys), None), tell_callers);
        assert_eq!(ask(&pair, WHO), Ok(format!("key {}", names[1])), "over {kind}");
        assert!(matches!(ask(&pair, OTHER), Err(CallError::NotAllowed { .. })), "over {kind}");
    }
}

#[test]
fn a_message_that_is_not_allowed_ends_its_session_and_reaches_no_receive() {
    let user = rustix::process::geteuid().as_raw();
    for (rule, is_allowed) in [("any", true), ("uid 4294967294", false)] {
        let policy = TestFile::new(
            &format!("messages-{is_allowed}"),
            &format!("messages: send by {rule}\nservice *: call by any, uid {user}"),
        );
        for kind in [
            TransportKind::RING_SHM,
            TransportKind::BASIC_UDP,
            TransportKind::HOMA_UDP,
            TransportKind::TCP,
            TransportKind::AUTO,
        ] {
            let received = Arc::new(AtomicU32::new(0));
            let receives = Arc::clone(&received);
            let serve = move |endpoint: &Endpoint| {
                tell_callers(endpoint);
                for _ in 0..2 {
                    let receives = Arc::clone(&receives);
                    let count = move |_: &mut farcall::Context<'_>, outcome: &farcall::ReceiveOutcome<'_>| {
                        receives.fetch_add(u32::from(outcome.is_ok()), Ordering::Relaxed);
                    };
                    endpoint.receive(AnySource, AnyTag).then(count).expect("room");
                }
            };
            let pair = Pair::with_client_settings(kind, with(&[], Some(&policy)), settings(&[]), serve);
            assert!(ask(&pair, WHO).is_ok(), "the session is up over {kind}");
            // Short and long ones take different ways.
            for length in [8, 100_000] {
                let _ended = pair.client.send(pair.server, Tag(7), vec![1; length]).within(LONG).wait();
            }
            let outcome = ask(&pair, WHO);
            if is_allowed {
                assert!(outcome.is_ok(), "over {kind}");
                wait_until(&pair, || received.load(Ordering::Relaxed) == 2);
            } else {
                let is_down = matches!(
                    outcome,
                    Err(CallError::PeerDown(DownReason::Closed | DownReason::Dead) | CallError::NotSent(_))
                );
                assert!(is_down, "over {kind}: {outcome:?}");
                assert_eq!(received.load(Ordering::Relaxed), 0, "over {kind}");
            }
        }
    }
}

fn wait_until(pair: &Pair, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    pair.client.run_while(|| !is_so() && begun.elapsed() < LONG);
    assert!(is_so(), "it never is");
}

#[test]
fn a_changed_policy_holds_for_sessions_that_are_up_and_a_broken_one_changes_nothing() {
    let user = rustix::process::geteuid().as_raw();
    let policy = TestFile::new("changing", &format!("service 1: call by uid {user}"));
    let server = with(&[], Some(&policy));
    let pair = Pair::with_client_settings(TransportKind::RING_SHM, server, settings(&[]), tell_callers);
    assert!(ask(&pair, WHO).is_ok());
    policy.write("service 1: call by nobody in particular");
    policy.write(&format!("# of another length\nservice 2: call by uid {user}"));
    let begun = Instant::now();
    while ask(&pair, WHO).is_ok() {
        assert!(begun.elapsed() < LONG, "the right is never taken away");
    }
    assert!(ask(&pair, OTHER).is_ok(), "the new right holds");
    policy.write("broken");
    // Two looks later nothing has changed.
    let begun = Instant::now();
    while begun.elapsed().as_secs() < 2 {
        assert!(ask(&pair, OTHER).is_ok());
    }
    assert!(matches!(ask(&pair, WHO), Err(CallError::NotAllowed { .. })));
}

#[test]
fn without_a_good_policy_there_is_no_endpoint() {
    let policy = TestFile::new("bad", "service 1: call by any\nservice 1: read by any\n");
    let node = Node::new(Bootstrap::alone(), with(&[], Some(&policy)));
    let refused = node.endpoint("ring+shm").map(drop).expect_err("line 2 is no rule").to_string();
    assert!(refused.starts_with("security.policy_file: "), "{refused}");
    assert!(refused.ends_with("line 2: `call` is wanted instead of `read`"), "{refused}");
    fs::set_permissions(&policy.0, Permissions::from_mode(0o622)).expect("it is ours");
    let refused = node.endpoint("ring+shm").map(drop).expect_err("others can write it").to_string();
    assert!(refused.contains("others can write"), "{refused}");
}

#[cfg(feature = "typed")]
#[test]
fn a_typed_service_learns_who_calls() {
    use farcall::typed::TypedService;

    struct Whoami;

    impl TypedService for Whoami {
        const SERVICE: Service = Service(3);
        type Request = ();
        type Reply = String;
        type Error = ();
    }

    let pair = Pair::new(TransportKind::RING_SHM, settings(&[]), |endpoint| {
        endpoint.serve_typed_by_caller::<Whoami>(|caller, ()| Ok(caller.principal.to_string()));
    });
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(pair.client.call_typed::<Whoami>(pair.server, &(), LONG), Ok(format!("uid {user}")));
}

/// Peers ask for the first endpoint by its number.
#[test]
fn an_endpoint_that_is_refused_takes_no_number() {
    let useless = TestFile::new("useless", "what is no rule\n");
    let pair = Pair::new(TransportKind::BASIC_UDP, settings(&[]), tell_callers);
    let kind = TransportKind::HOMA_UDP;
    pair.node.endpoint_with(kind, &with(&[], Some(&useless))).expect_err("the policy is of no use");
    let first = pair.node.endpoint_with(kind, &settings(&[])).expect("an endpoint");
    let own_rank = pair.node.rank();
    assert!(first.peer_endpoint(own_rank, 0).is_ok(), "it is the one that is looked for");
}
