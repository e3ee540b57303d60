//! Servers and clients that find each other by name, on threads of this process.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use common::places::free_port;
use common::{LONG, and_auto, settings, transports_without_launcher};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{
    Balance, CallError, Connection, Event, NamedCallError, NoServer, Node, NodeError, Service, TargetError,
    TransportKind, WatchError,
};

const ECHO: Service = Service(1);
/// Answers with the number of the server.
const WHO: Service = Service(2);
/// Is not answered before the server leaves.
const HOLD: Service = Service(3);

fn registry() -> Rendezvous {
    Rendezvous::bind_open("127.0.0.1:0").expect("a free port")
}

fn node(registry: &Rendezvous) -> Node {
    node_with(registry, &[])
}

fn node_with(registry: &Rendezvous, assignments: &[&str]) -> Node {
    let place = HostPort::from(registry.address());
    Node::new(Bootstrap::open(&place, LONG).expect("the registry is there"), settings(assignments))
}

/// A server of `orders` on a thread.
struct Server {
    stop: Arc<AtomicBool>,
    leave: Arc<AtomicBool>,
    ran: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(registry: &Rendezvous, kind: TransportKind, number: u64) -> Self {
        Self::start_with(node(registry), kind, number)
    }

    fn start_with(node: Node, kind: TransportKind, number: u64) -> Self {
        let (stop, leave) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let ran = Arc::new(AtomicU64::new(0));
        let (stopped, leaves, count) = (Arc::clone(&stop), Arc::clone(&leave), Arc::clone(&ran));
        let thread = std::thread::spawn(move || {
            let endpoint = node.endpoint_with(kind, node.settings()).expect("an endpoint");
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            endpoint.serve(WHO, move |_, reply| {
                count.fetch_add(1, Ordering::Relaxed);
                reply.send(&number.to_le_bytes());
            });
            let held = Arc::new(Mutex::new(None));
            let holds = Arc::clone(&held);
            endpoint.serve(HOLD, move |_, reply| {
                holds.lock().expect("no panic").replace(reply.defer().0);
            });
            let listener = endpoint.listen("orders").expect("the registry takes it");
            endpoint.run_while(|| !stopped.load(Ordering::Relaxed) && !leaves.load(Ordering::Relaxed));
            if leaves.load(Ordering::Relaxed) {
                let deferred = held.lock().expect("no panic").take();
                if let Some(deferred) = deferred {
                    endpoint.reply(deferred, b"answered while leaving");
                }
                let drained = listener.leave(&endpoint, LONG);
                assert_eq!(drained.unanswered, 0);
            }
        });
        Self { stop, leave, ran, thread: Some(thread) }
    }

    fn ran(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }

    fn end(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.join();
    }
}

/// The number of the server that answers.
fn who(connection: &Connection<'_>) -> u64 {
    let answer = connection.call(WHO, b"").within(LONG).wait().expect("a server is there");
    u64::from_le_bytes(answer[..].try_into().expect("eight bytes"))
}

#[test]
fn a_server_is_found_by_its_name_over_every_transport() {
    for kind in and_auto(transports_without_launcher()) {
        println!("over {kind}");
        let registry = registry();
        let client = node(&registry);
        let endpoint = client.endpoint_with(kind, client.settings()).expect("an endpoint");
        // The client is first.
        let orders = endpoint.connect("orders").expect("it can be asked for");
        let server = Server::start(&registry, kind, 7);
        let answer = orders.call(ECHO, b"hello").within(LONG).wait().expect("it is answered");
        assert_eq!(&answer[..], b"hello");
        drop(answer);
        assert_eq!(who(&orders), 7);
        let awaited = endpoint.block_on(async { orders.call(ECHO, b"again").within(LONG).begin().await });
        assert_eq!(&awaited.expect("it is answered")[..], b"again");
        server.end();
    }
}

#[test]
fn a_name_at_another_registry_is_reached_by_its_address() {
    let (own, other) = (registry(), registry());
    let server = Server::start(&other, TransportKind::RING_SHM, 7);
    let client = node(&own);
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    let orders = endpoint.connect(&format!("farcall://{}/orders", other.address())).expect("an address");
    assert_eq!(who(&orders), 7);
    let absent = endpoint.connect("orders").expect("it can be asked for");
    while absent.peer().expect_err("nobody has it").to_string().ends_with("has not answered yet") {
        endpoint.turn();
    }
    let refused = absent.call(WHO, b"").within(Duration::from_millis(50)).wait().map(drop);
    let Err(NamedCallError::NoServer(why @ NoServer::NoneListens { .. })) = refused else {
        panic!("nothing listens there: {refused:?}")
    };
    assert_eq!(why.to_string(), "nothing listens under `orders` over ring+shm: no process has registered it");
    drop(server);
}

#[test]
fn calls_are_spread_over_the_servers_of_a_name() {
    let registry = registry();
    let servers: Vec<Server> =
        (0..3).map(|number| Server::start(&registry, TransportKind::RING_SHM, number)).collect();
    let client = node(&registry);
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    for balance in [Balance::RoundRobin, Balance::TwoChoices] {
        let orders = endpoint.connect("orders").expect("a name").balanced_by(balance);
        while orders.servers().len() < 3 {
            endpoint.turn();
        }
        let mut times = [0; 3];
        (0..90).for_each(|_| times[who(&orders) as usize] += 1);
        match balance {
            Balance::RoundRobin => assert_eq!(times, [30; 3]),
            Balance::TwoChoices => assert!(times.iter().all(|times| *times > 0), "{times:?}"),
        }
    }
    assert_eq!(servers.iter().map(Server::ran).sum::<u64>(), 180);
}

#[test]
fn a_server_that_starts_again_is_found_again_and_runs_nothing_twice() {
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP] {
        let registry = registry();
        let client = node(&registry);
        let endpoint = client.endpoint_with(kind, client.settings()).expect("an endpoint");
        let orders = endpoint.connect("orders").expect("a name");
        let mut ran = 0;
        for life in 0..3 {
            let server = Server::start(&registry, kind, life);
            // A call ends with an error only when its server may have run it.
            loop {
                match orders.call(WHO, b"").within(LONG).wait() {
                    Ok(answer) => {
                        assert_eq!(&answer[..], &life.to_le_bytes());
                        break;
                    }
                    Err(NamedCallError::Call(CallError::PeerDown(reason))) => println!("{kind}: {reason}"),
                    Err(error) => panic!("{error}"),
                }
            }
            ran += server.ran();
            server.end();
        }
        assert!(ran == 3, "{ran} ran for three answers over {kind}");
    }
}

#[test]
fn the_end_of_a_server_is_an_event() {
    let registry = registry();
    let server = Server::start(&registry, TransportKind::RING_SHM, 7);
    let client = node(&registry);
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name");
    let peer = orders.wait(LONG).expect("it is there");
    endpoint.wait_for(peer).expect("it comes up");
    server.end();
    let mut gone = None;
    while gone.is_none() {
        endpoint.poll_idle(|_, event| {
            if let Event::PeerDown { peer, .. } = event {
                gone = Some(peer);
            }
        });
    }
    assert_eq!(gone, Some(peer));
    while !orders.servers().is_empty() {
        endpoint.turn();
    }
}

#[test]
fn a_leaving_server_answers_what_it_has_and_takes_nothing_new() {
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP] {
        let registry = registry();
        let client = node(&registry);
        let endpoint = client.endpoint_with(kind, client.settings()).expect("an endpoint");
        let first = Server::start(&registry, kind, 1);
        let orders = endpoint.connect("orders").expect("a name");
        let peer = orders.wait(LONG).expect("it is there");
        let held = endpoint.call(peer, HOLD, b"").within(LONG).start().expect("it is sent");
        assert_eq!(who(&orders), 1);
        let second = Server::start(&registry, kind, 2);
        first.leave.store(true, Ordering::Relaxed);
        assert_eq!(&held.wait().expect("it is answered")[..], b"answered while leaving");
        // Whether the client knows already or the server says so: no call is lost, and soon all are
        // elsewhere.
        while who(&orders) != 2 {}
        let ran = first.ran();
        (0..100).for_each(|_| assert_eq!(who(&orders), 2));
        assert_eq!(first.ran(), ran);
        drop((first, second));
    }
}

#[test]
fn a_leaving_server_says_so_to_callers_that_do_not_ask_by_name() {
    for kind in and_auto(transports_without_launcher()) {
        println!("over {kind}");
        let registry = registry();
        let server = node(&registry);
        let serving = server.endpoint_with(kind, server.settings()).expect("an endpoint");
        serving.serve(ECHO, |request, reply| reply.send(request.payload()));
        let listener = serving.listen("orders").expect("a name");
        assert_eq!(listener.name(), "orders");
        let client = node(&registry);
        let endpoint = client.endpoint_with(kind, client.settings()).expect("an endpoint");
        let orders = endpoint.connect("orders").expect("a name");
        let peer = loop {
            serving.poll_once();
            if let Ok(peer) = orders.peer() {
                break peer;
            }
            endpoint.poll_once();
        };
        let early = endpoint.call(peer, ECHO, b"early").start().expect("it is sent");
        while !early.is_complete() {
            endpoint.poll_once();
            serving.poll_once();
        }
        let late = endpoint.call(peer, ECHO, b"late").start().expect("it is sent");
        let leaving = std::thread::spawn(move || listener.leave(&serving, LONG));
        assert_eq!(late.wait().map(drop), Err(CallError::Leaving));
        leaving.join().expect("it leaves");
        drop(early);
    }
}

#[test]
fn addresses_that_are_written_down_need_no_registry() {
    let port = free_port();
    let registry = registry();
    let fixed = [format!("udp.port={port}"), "udp.bind_address=127.0.0.1".to_owned()];
    let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
    let server = Server::start_with(node_with(&registry, &fixed), TransportKind::BASIC_UDP, 7);
    let client = node(&registry);
    let endpoint = client.endpoint("basic+udp").expect("an endpoint");
    let orders = endpoint.connect(&format!("basic+udp://127.0.0.1:{port}")).expect("an address");
    assert_eq!(who(&orders), 7);
    let error = endpoint.connect("ring+shm://127.0.0.1:1").map(drop);
    assert!(matches!(error, Err(WatchError::Target(TargetError::NoPlaces { .. }))), "{error:?}");
    drop(server);
}

#[test]
fn a_server_over_another_transport_is_named_as_the_reason() {
    let registry = registry();
    let server = Server::start(&registry, TransportKind::BASIC_UDP, 7);
    let client = node(&registry);
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name");
    let mut why = String::new();
    while !why.contains("basic+udp") {
        why = orders.peer().expect_err("ring+shm leads to no server").to_string();
        endpoint.turn();
    }
    assert_eq!(
        why,
        "nothing listens under `orders` over ring+shm: it is served over basic+udp; \
         use an endpoint of that transport"
    );
    drop(server);
}

#[test]
fn the_reason_why_no_server_could_be_reached_is_in_the_error() {
    let registry = registry();
    // The name stays registered although its endpoint is gone.
    let stale = node(&registry);
    let endpoint = stale.endpoint("basic+udp").expect("an endpoint");
    let _listener = endpoint.listen("orders").expect("a name");
    drop(endpoint);
    let client = node(&registry);
    let endpoint = client.endpoint("basic+udp").expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name");
    let (mut reasons, mut why) = (Vec::new(), None);
    while why.is_none() {
        match orders.call(ECHO, b"").within(Duration::from_millis(100)).wait().map(drop) {
            Err(NamedCallError::NoServer(NoServer::AllAvoided { why: reason, .. })) => why = Some(reason),
            Err(NamedCallError::Call(error)) => reasons.push(error),
            Err(NamedCallError::NoServer(NoServer::NoneListens { .. })) => {}
            Ok(()) => panic!("nobody is there"),
        }
        println!("{reasons:?}, {why:?}");
    }
    let peer = orders.wait(LONG).expect("it is listed");
    let error = endpoint.call(peer, ECHO, b"").within(LONG).wait().map(drop).expect_err("nobody is there");
    assert!(matches!(error, CallError::PeerDown(_)), "{error:?}");
    assert_eq!(why, Some(error.to_string()));
}

#[test]
fn connections_of_an_endpoint_share_the_session_to_a_server() {
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP] {
        let registry = registry();
        let server = Server::start(&registry, kind, 7);
        let client = node(&registry);
        let endpoint = client.endpoint_with(kind, client.settings()).expect("an endpoint");
        let first = endpoint.connect("orders").expect("a name").wait(LONG).expect("it is there");
        for _ in 0..100 {
            let orders = endpoint.connect("orders").expect("a name");
            assert_eq!(who(&orders), 7);
            assert_eq!(orders.peer(), Ok(first));
        }
        endpoint.close(first);
        let again = endpoint.connect("orders").expect("a name");
        assert_eq!(who(&again), 7);
        assert_ne!(again.peer(), Ok(first), "that session has ended");
        drop(server);
    }
}

#[test]
fn a_listener_that_is_replaced_leaves_its_endpoint_listed() {
    let registry = registry();
    let (server, client) = (node(&registry), node(&registry));
    let serving = server.endpoint("ring+shm").expect("an endpoint");
    let mut listener = serving.listen("orders").expect("a name");
    for _ in 0..3 {
        listener = serving.listen("orders").expect("a name");
    }
    // What the process registers last is known after all that it said before.
    let last = serving.listen("last").expect("a name");
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    let connection = |name| endpoint.connect(name).expect("a name");
    connection("last").wait(LONG).expect("it is listed");
    let orders = connection("orders");
    orders.wait(LONG).expect("it is listed still");
    drop((listener, last));
    while !orders.servers().is_empty() {
        endpoint.turn();
    }
}

#[test]
fn another_process_at_an_address_is_not_taken_for_the_server() {
    let port = free_port();
    let fixed = [format!("udp.port={port}"), "udp.bind_address=127.0.0.1".to_owned()];
    let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
    let registry = registry();
    // The name stays registered although its endpoint is gone, and another process has the port.
    let stale = node_with(&registry, &fixed);
    let endpoint = stale.endpoint("basic+udp").expect("an endpoint");
    let _listener = endpoint.listen("orders").expect("a name");
    drop(endpoint);
    let other = server_of_another_registry(&fixed);
    let client = node(&registry);
    let endpoint = client.endpoint("basic+udp").expect("an endpoint");
    let orders = endpoint.connect("orders").expect("a name");
    let peer = orders.wait(LONG).expect("it is listed");
    let outcome = endpoint.call(peer, ECHO, b"secret").within(LONG).wait().map(drop);
    assert!(matches!(outcome, Err(CallError::PeerDown(_))), "{outcome:?}");
    drop(other);
}

/// A server that has nothing to do with the registry of a test.
fn server_of_another_registry(assignments: &[&str]) -> (Rendezvous, Server) {
    let other = registry();
    let server = Server::start_with(node_with(&other, assignments), TransportKind::BASIC_UDP, 8);
    // It is there when its name is.
    let watcher = node(&other);
    let endpoint = watcher.endpoint("basic+udp").expect("an endpoint");
    endpoint.connect("orders").expect("a name").wait(LONG).expect("it listens");
    (other, server)
}

#[test]
fn processes_agree_by_a_register() {
    let registry = registry();
    let (one, two) = (node(&registry), node(&registry));
    let first = one.compare_and_set("leader", 0, b"one", LONG).expect("it answers");
    assert!(first.was_set);
    let second = two.compare_and_set("leader", 0, b"two", LONG).expect("it answers");
    assert_eq!((second.was_set, &second.value[..]), (false, &b"one"[..]));
}

#[test]
fn a_service_of_one_server_keeps_its_own_names() {
    let serving = Node::serving_names("127.0.0.1:0").expect("a free port");
    let place = serving.registry_address().expect("it serves one");
    let server = Server::start_with(serving, TransportKind::RING_SHM, 7);
    let client = Node::open_at(&format!("farcall://{place}")).expect("the registry is there");
    let endpoint = client.endpoint("ring+shm").expect("an endpoint");
    assert_eq!(who(&endpoint.connect("orders").expect("a name")), 7);
    assert!(matches!(Node::open_at("nowhere"), Err(NodeError::Registry { .. })));
    drop(server);
}
