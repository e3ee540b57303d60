//! What the policy of a store lets its clients do, through each door.

mod common;
mod memcached;
mod redis;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{LONG, endpoint, settings, value};
use farcall::TransportKind;
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall_kv::daemon::{Daemon, DaemonClient, SlotFailure};
use farcall_kv::durable::Level;
use farcall_kv::resp::Options;
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::{Client, Failure, Name, Shard, TableGuard, TableId};
use memcached::Memcached;
use redis::Served;

const LAYOUT: SlotLayout = SlotLayout { slots: 2, request_bytes: 120, response_bytes: 120 };

/// A file with rules, which goes with the test.
struct Rules(PathBuf);

impl Rules {
    fn new(name: &str, text: &str) -> Self {
        let this = Self(std::env::temp_dir().join(format!("farcall-rules-{}-{name}", std::process::id())));
        this.write(text);
        this
    }

    fn write(&self, text: &str) {
        let next = self.0.with_extension("next");
        fs::write(&next, text.replace("ME", &me())).expect("a file");
        fs::set_permissions(&next, Permissions::from_mode(0o600)).expect("it is ours");
        fs::rename(&next, &self.0).expect("it is ours");
    }

    fn served(&self, password: Option<&str>) -> Served {
        let (policy, password) = (Some(self.0.clone()), password.map(str::to_owned));
        Served::with(MEMORY_BYTES_MIN, Options { policy, password, ..Options::default() })
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// This process, as rules name it.
fn me() -> String {
    use std::os::unix::fs::MetadataExt;
    format!("uid {}", fs::metadata("/proc/self").expect("this process").uid())
}

fn no_permission(what: &str) -> String {
    format!("-NOPERM {} may not {what}", me())
}

#[test]
fn a_redis_client_of_a_unix_socket_has_the_rights_of_its_user() {
    let rules = Rules::new("unix", "table default: read by ME\ntable db1: read, write by ME");
    let served = rules.served(None);
    let mut client = served.unix_client();
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(client.ask("GET key"), "$-1");
    for command in ["SET key value", "DEL key", "LPUSH list a", "PUBLISH channel message", "EXPIRE key 1"] {
        assert_eq!(client.ask(command), no_permission("write the table `default`"), "{command}");
    }
    assert_eq!(client.ask("SELECT 1"), "+OK");
    assert_eq!(client.ask("SET key value"), "+OK");
    assert_eq!(client.ask("SELECT 2"), "+OK");
    assert_eq!(client.ask("GET key"), no_permission("read the table `db2`"));
    let of_the_store = [
        "CLIENT LIST",
        "CLIENT NO-EVICT on",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "CLIENT KILL 1.2.3.4:5",
    ];
    for command in of_the_store {
        assert_eq!(client.ask(command), no_permission("administer the store"), "{command}");
    }
}

#[test]
fn no_command_reaches_a_table_around_the_policy() {
    let rules = Rules::new("around", "table default: write by ME\ntable db1: read, write by ME");
    let served = rules.served(None);
    let mut client = served.unix_client();
    assert_eq!(client.ask("SET key secret"), "+OK");
    // Moved or copied to where it may be read, it would be read.
    for command in ["COPY key other DB 1", "MOVE key 1"] {
        assert_eq!(client.ask(command), no_permission("read the table `default`"), "{command}");
    }
    assert_eq!(client.ask("FLUSHALL"), no_permission("write the table `db2`"));
    assert_eq!(client.ask("SELECT 1"), "+OK");
    assert_eq!(client.ask("SET key mine"), "+OK");
    assert_eq!(client.ask("COPY key other DB 2"), no_permission("write the table `db2`"));
    assert_eq!(client.ask("COPY key other DB 1 DB 2"), no_permission("write the table `db2`"));
    // A transaction may change the database on its way.
    assert_eq!(client.ask("MULTI"), "+OK");
    for command in ["SELECT 0", "GET key", "SELECT 1", "GET key"] {
        assert_eq!(client.ask(command), "+QUEUED");
    }
    let refused = no_permission("read the table `default`");
    assert_eq!(client.ask("EXEC"), format!("*4|+OK|{refused}|+OK|$4|mine"));
    assert_eq!(client.ask("SELECT 0"), "+OK");
    assert_eq!(client.ask("WATCH key"), no_permission("read the table `default`"));
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 1"), no_permission("read the table `default`"));
    assert_eq!(client.ask("SUBSCRIBE channel"), no_permission("read the table `default`"));
}

#[test]
fn over_tcp_the_password_is_all_that_a_client_proves() {
    let rules = Rules::new("tcp", "table default: read by any\ntable default: write by password, uid 0");
    let served = rules.served(Some("open sesame"));
    let mut client = served.client();
    assert_eq!(client.ask("GET key"), "-NOAUTH Authentication required.");
    client.send(&[b"AUTH", b"open sesame"]);
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.ask("SET key value"), "+OK");
    let open = rules.served(None);
    let mut nobody = open.client();
    assert_eq!(nobody.ask("GET key"), "$-1");
    let refused = "-NOPERM a peer without an identity may not write the table `default`";
    assert_eq!(nobody.ask("SET key value"), refused);
    // A name that a client gives itself proves nothing.
    assert_eq!(nobody.ask("CLIENT SETNAME uid:0"), "+OK");
    assert_eq!(nobody.ask("SET key value"), refused);
}

#[test]
fn memcached_clients_have_the_rights_of_their_table() {
    let rules = Rules::new("memcached", "table default: read by any\ntable db1: write by any");
    let served = rules.served(None);
    let mut client = Memcached::of(&served);
    assert_eq!(client.ask("get key"), "END|");
    assert_eq!(client.ask("mg key v"), "EN|");
    let refused = "CLIENT_ERROR a peer without an identity may not write the table `default`|";
    for request in [
        "set key 0 0 5|value",
        "delete key",
        "incr key 1",
        "touch key 10",
        "gat 10 key",
        "flush_all",
        "ms key 5|value",
        "md key",
        "ma key",
        "mg key v T10",
        "mg key v N10",
    ] {
        assert_eq!(client.ask(request), refused, "{request}");
    }
    assert_eq!(client.ask("set key 0 0 5 noreply|value|get key"), "END|", "who wants no answer gets none");
    let rules = Rules::new("memcached-write", "table default: write by any");
    assert_eq!(Memcached::of(&rules.served(None)).ask("get key"), refused.replace("write", "read"));
}

#[test]
fn a_changed_policy_holds_for_clients_that_are_connected() {
    let rules = Rules::new("changed", "table *: read, write by ME");
    let served = rules.served(None);
    let mut client = served.unix_client();
    assert_eq!(client.ask("SET key value"), "+OK");
    rules.write("# less than before\ntable *: read by ME");
    let begun = Instant::now();
    while client.ask("SET key value") == "+OK" {
        assert!(begun.elapsed() < LONG, "the right is never taken away");
    }
    assert_eq!(client.ask("GET key"), "$5|value");
}

#[test]
fn calls_and_slots_have_the_rights_of_their_user() {
    let text = "table table: read, write by ME\ntable \"read only\": read by ME";
    let rules = Rules::new("doors", text);
    let name_of_slots = format!("farcall-test-policy-{}", std::process::id());
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        scope.spawn(|| {
            let endpoint = endpoint(&address, 0, 2, TransportKind::RING_SHM, &settings(&[]));
            let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
            for table in ["table", "read only", "other"] {
                shard.create_table(table).expect("room");
            }
            let slots = SlotServer::bind(&name_of_slots, LAYOUT, 2).expect("a free name");
            let mut daemon = Daemon::new(&endpoint, shard, (0, 1), slots);
            daemon.guard_by(TableGuard::open(&rules.0).expect("rules"));
            while !stop.load(Ordering::Relaxed) {
                daemon.turn_idle();
            }
        });
        by_slots(&name_of_slots);
        by_calls(&address);
    });
}

fn named(table: &str) -> Name<'static> {
    Name::new(TableId::of(table).expect("short"), b"key").expect("short")
}

fn by_slots(name: &str) {
    let mut client = DaemonClient::attach(name, LONG).expect("a place");
    client.respond_within(LONG);
    client.put(named("table"), value(b"value"), Condition::Always).expect("it may");
    assert_eq!(client.get(named("read only")), Ok(None));
    let refused = client.put(named("read only"), value(b"value"), Condition::Always);
    assert_eq!(refused, Err(SlotFailure::NotAllowed));
    assert_eq!(client.get(named("other")), Err(SlotFailure::NotAllowed));
    assert_eq!(client.increment(named("other"), 1), Err(SlotFailure::NotAllowed));
}

fn by_calls(address: &HostPort) {
    let endpoint = endpoint(address, 1, 2, TransportKind::RING_SHM, &settings(&[]));
    let client = Client::new(&endpoint, [0]);
    let found = client.get(named("table")).wait().expect("it may").expect("it is there");
    assert_eq!(found.value(), b"value");
    let refused = client.put(named("read only"), value(b"value"), Condition::Always).wait();
    let refused = refused.expect_err("it may not");
    let why = format!("the store's policy does not allow it: {} may not write the table `read only`", me());
    assert_eq!(refused.to_string(), why);
    assert!(matches!(client.get(named("other")).wait(), Err(Failure::NotAllowed { .. })));
    assert!(matches!(endpoint.block_on(client.create_table("another")), Err(Failure::NotAllowed { .. })));
    let durable = endpoint.block_on(client.create_table_at("another", Level::Flushed));
    let refused = durable.expect_err("it may not").to_string();
    assert!(refused.contains("may not create or drop the table"), "{refused}");
    assert!(matches!(endpoint.block_on(client.drop_table("table")), Err(Failure::NotAllowed { .. })));
}

struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
