//! Clients: many threads and async runtimes over one endpoint that a thread of its own polls.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{LONG, settings};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{
    AnySource, CLIENT_IDLE_CONNECTIONS_MAX, CallError, Client, ClientError, ClientPort, Deferred, Endpoint,
    Node, Peer, Service, Tag, TransportKind,
};
use tokio::runtime::{Builder, Runtime};

const ECHO: Service = Service(1);
/// Never answers.
const SILENT: Service = Service(2);
/// How many requests of `SILENT` have arrived.
const COUNT: Service = Service(3);
const TAG: Tag = Tag(5);

const KINDS: [TransportKind; 2] = [TransportKind::RING_SHM, TransportKind::BASIC_UDP];

/// A server and a client, each on a thread of its own.
struct World {
    client: Client,
    server: Peer,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    _node: Node,
    _rendezvous: Rendezvous,
}

impl World {
    fn new(kind: TransportKind, calls_max: usize) -> Self {
        println!("over {kind}");
        let (client, server, node, parts) = endpoint(kind);
        let client = Client::start_with(client, calls_max).expect("a thread");
        Self { client, server, stop: parts.0, thread: Some(parts.1), _node: node, _rendezvous: parts.2 }
    }

    /// How many silent requests have arrived, once one has come after those that are on their way.
    fn silent_arrived(&self) -> u64 {
        let count = self.client.call(self.server, COUNT, b"").within(LONG).wait().expect("it counts");
        u64::from_le_bytes(count[..].try_into().expect("a number"))
    }

    fn call(&self, service: Service) -> farcall::ClientCall {
        self.client.call(self.server, service, b"hello").within(LONG)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the server thread panicked");
        }
    }
}

type Parts = (Arc<AtomicBool>, std::thread::JoinHandle<()>, Rendezvous);

/// An endpoint of this thread, and the server that it knows.
fn endpoint(kind: TransportKind) -> (Endpoint, Peer, Node, Parts) {
    let settings = settings(&["endpoint.idle=block", "endpoint.spin_time=0us"]);
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, server_address, server_settings) = (Arc::clone(&stop), address.clone(), settings.clone());
    let thread = std::thread::spawn(move || {
        let bootstrap = Bootstrap::join(&server_address, 0, 2, LONG).expect("rank 0 joins");
        let node = Node::new(bootstrap, server_settings.clone());
        let endpoint = node.endpoint_with(kind, &server_settings).expect("the server's endpoint");
        serve(&endpoint);
        endpoint.run_while(|| !stopped.load(Relaxed));
    });
    let node = Node::new(Bootstrap::join(&address, 1, 2, LONG).expect("rank 1 joins"), settings.clone());
    let client = node.endpoint_with(kind, &settings).expect("the client's endpoint");
    let server = client.peer(0).expect("the server is known");
    client.wait_for(server).expect("the server is there");
    (client, server, node, (stop, thread, rendezvous))
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    let arrived = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&arrived);
    let mut kept: Vec<Deferred> = Vec::new();
    endpoint.serve(SILENT, move |_, reply| {
        arrived.fetch_add(1, Relaxed);
        kept.push(reply.defer().0);
    });
    endpoint.serve(COUNT, move |_, reply| reply.send(&counted.load(Relaxed).to_le_bytes()));
}

fn tokio(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("a runtime")
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn tasks_of_eight_threads_get_their_own_answers() {
    for kind in KINDS {
        let world = World::new(kind, 1000);
        let runtime = tokio(8);
        let tasks: Vec<_> = (0..8u32)
            .map(|task| {
                let (client, server) = (world.client.clone(), world.server);
                runtime.spawn(async move {
                    for number in 0..1000u32 {
                        let text = format!("{task} calls for the time {number}");
                        let answer = client.call(server, ECHO, text.clone()).within(LONG).await;
                        assert_eq!(&*answer.expect("an answer"), text.as_bytes());
                    }
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).expect("it does not panic");
        }
    }
}

#[test]
fn threads_without_a_runtime_wait() {
    let world = World::new(TransportKind::RING_SHM, 4);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let world = &world;
            scope.spawn(move || {
                for number in 0..100u8 {
                    let answer = world.client.call(world.server, ECHO, &[thread, number]).within(LONG).wait();
                    assert_eq!(&*answer.expect("an answer"), &[thread, number]);
                }
            });
        }
    });
}

#[test]
fn long_payloads_arrive_whole_both_ways() {
    for kind in KINDS {
        let world = World::new(kind, 100);
        for bytes in [0, 1, 4096, 4097, 300_000] {
            let payload: Vec<u8> = (0..bytes).map(|place| place as u8).collect();
            let answer = world.client.call(world.server, ECHO, payload.clone()).within(LONG).wait();
            assert!(answer.expect("an answer")[..] == payload, "{bytes} bytes");
        }
    }
}

#[test]
fn every_kind_of_payload_is_taken() {
    let world = World::new(TransportKind::RING_SHM, 100);
    let echo = |payload: farcall::Outgoing<'_>| {
        let answer = world.client.call(world.server, ECHO, payload).within(LONG).wait().expect("an answer");
        assert_eq!(&*answer, b"hello");
    };
    echo("hello".into());
    echo((&String::from("hello")).into());
    echo(String::from("hello").into());
    echo(b"hello".into());
    echo((&b"hello"[..]).into());
    echo(b"hello".to_vec().into());
    echo(Box::<[u8]>::from(*b"hello").into());
    echo(farcall::Payload::from(b"hello".to_vec()).into());
    #[cfg(feature = "bytes")]
    {
        let shared = bytes::Bytes::from_static(b"hello");
        echo((&shared).into());
        echo(shared.into());
    }
}

#[test]
fn calls_to_a_name_wait_for_its_server() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let address = registry.address().to_string();
    let endpoint = |kind: TransportKind| {
        let node = Node::open_at(&address).expect("the registry is there");
        node.endpoint(kind.name()).expect("an endpoint")
    };
    for kind in KINDS {
        println!("over {kind}");
        let client = Client::start(endpoint(kind)).expect("a thread");
        let name = format!("echo over {}", kind.name()).replace([' ', '+'], "-");
        let connection = client.connect(&name);
        let none = connection.call(ECHO, "hello").within(Duration::from_millis(20)).wait();
        assert!(matches!(none, Err(ClientError::NoServer(_))), "{none:?}");
        let waiting = connection.call(ECHO, "hello").within(LONG).into_future();
        let unwanted = connection.call(ECHO, "hello").within(LONG).into_future();
        let (server, stop) = (endpoint(kind), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve(&server);
            let _listener = server.listen(&name).expect("the registry takes it");
            server.run_while(|| !stopped.load(Relaxed));
        });
        drop(unwanted);
        assert_eq!(&*waiting.wait().expect("an answer"), b"hello");
        stop.store(true, Relaxed);
        thread.join().expect("it serves");
    }
}

/// Each address has a thread that looks it up.
#[test]
fn a_client_that_calls_many_addresses_in_its_life_keeps_few_of_their_threads() {
    let node = Node::open().expect("a node");
    let client = Client::start(node.endpoint("basic+udp").expect("an endpoint")).expect("a thread");
    let addresses = CLIENT_IDLE_CONNECTIONS_MAX + 60;
    for number in 1..=addresses {
        let nobody = client.connect(&format!("basic+udp://127.9.0.{number}:9"));
        let answer = nobody.call(ECHO, "hello").within(Duration::from_millis(1)).wait();
        assert!(answer.is_err(), "{answer:?}");
    }
    let begun = Instant::now();
    while threads_that_look_up() > CLIENT_IDLE_CONNECTIONS_MAX + 1 {
        assert!(begun.elapsed() < LONG, "{} threads for {addresses} addresses", threads_that_look_up());
        std::thread::yield_now();
    }
    let again = client.connect("basic+udp://127.9.0.1:9").call(ECHO, "hello");
    assert!(again.within(Duration::from_millis(1)).wait().is_err(), "it is looked up again");
}

fn threads_that_look_up() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.trim() == "names").count()
}

#[test]
fn a_deadline_passes_although_the_future_is_not_polled() {
    for kind in KINDS {
        let world = World::new(kind, 100);
        let pending = world.client.call(world.server, SILENT, b"").within(Duration::from_millis(20));
        let pending = is_send(pending.start().expect("room"));
        let begun = Instant::now();
        while !pending.is_complete() {
            assert!(begun.elapsed() < LONG, "nobody lets the deadline pass");
            std::thread::yield_now();
        }
        assert_eq!(pending.wait().expect_err("nobody answers"), CallError::TimedOut.into());
    }
}

#[test]
fn a_deadline_that_passes_in_the_queue_ends_the_call_once() {
    for kind in KINDS {
        let (endpoint, server, _node, parts) = endpoint(kind);
        let (client, mut port) = Client::over(&endpoint, 10);
        let late = client.call(server, ECHO, b"late").within(Duration::ZERO).start().expect("room");
        let in_time = client.call(server, ECHO, b"in time").within(LONG).start().expect("room");
        while !in_time.is_complete() {
            port.turn();
        }
        assert_eq!(late.wait().expect_err("its time is over"), CallError::TimedOut.into());
        assert_eq!(&*in_time.wait().expect("an answer"), b"in time");
        parts.0.store(true, Relaxed);
        parts.1.join().expect("the server ends");
    }
}

#[test]
fn a_dropped_future_cancels_its_call_and_gives_its_place_back() {
    for kind in KINDS {
        let world = World::new(kind, 2);
        for _ in 0..100 {
            let pending = world.call(SILENT).start();
            // The place of the last one is on its way back.
            drop(pending.or_else(|_| world.call(SILENT).start()));
        }
        // Both places are free again, or this would wait for the deadlines of calls that are never answered.
        let both = [world.call(ECHO).into_future(), world.call(ECHO).into_future()];
        for call in both {
            assert_eq!(&*call.wait().expect("an answer"), b"hello");
        }
        world.silent_arrived();
    }
}

#[test]
fn a_full_client_says_so_or_lets_the_caller_wait() {
    for kind in KINDS {
        let world = World::new(kind, 2);
        let first = world.call(SILENT).start().expect("room");
        let second = world.call(SILENT).start().expect("room");
        assert_eq!(world.call(ECHO).start().expect_err("full"), ClientError::Full { calls_max: 2 });
        let late = world.client.call(world.server, ECHO, b"").within(Duration::from_millis(20));
        assert_eq!(late.wait().expect_err("full until its deadline"), ClientError::Full { calls_max: 2 });
        let runtime = tokio(2);
        let waiting: Vec<_> = (0..10).map(|_| runtime.spawn(world.call(ECHO).into_future())).collect();
        let given_up = world.call(ECHO).into_future();
        assert!(waiting.iter().all(|task| !task.is_finished()), "there is no room");
        drop((first, given_up));
        for task in waiting {
            let answer = runtime.block_on(task).expect("it does not panic");
            assert_eq!(&*answer.expect("an answer"), b"hello");
        }
        drop(second);
    }
}

#[test]
fn a_client_with_nothing_in_flight_is_not_full() {
    for kind in KINDS {
        let world = World::new(kind, 1);
        for _ in 0..1000 {
            let call = world.call(ECHO).start().expect("the one before has ended");
            assert_eq!(&*call.wait().expect("an answer"), b"hello");
        }
    }
}

#[test]
fn a_call_that_waited_for_room_goes_on_although_its_future_is_not_polled() {
    for kind in KINDS {
        let world = World::new(kind, 1);
        let first = world.call(SILENT).start().expect("room");
        let (second, third) = (world.call(ECHO).into_future(), world.call(ECHO).into_future());
        assert!(!second.is_complete() && !third.is_complete(), "there is no room");
        drop(first);
        assert_eq!(&*third.wait().expect("an answer"), b"hello");
        assert!(second.is_complete(), "it was the first in line");
        let late = world.call(SILENT).start().expect("room");
        let refused = world.client.call(world.server, ECHO, b"").within(Duration::ZERO).into_future();
        let begun = Instant::now();
        while !refused.is_complete() {
            assert!(begun.elapsed() < LONG, "nobody lets the deadline pass");
            std::thread::yield_now();
        }
        assert_eq!(refused.wait().expect_err("no room in time"), ClientError::Full { calls_max: 1 });
        drop(late);
        assert_eq!(&*second.wait().expect("an answer"), b"hello");
    }
}

#[test]
fn a_call_that_nobody_waits_for_is_made() {
    for kind in KINDS {
        let world = World::new(kind, 2);
        let held = world.call(SILENT).start().expect("room");
        world.call(SILENT).start().expect("room").detach();
        world.call(SILENT).into_future().detach();
        assert_eq!(world.call(ECHO).start().expect_err("full"), ClientError::Full { calls_max: 2 });
        drop(held);
        // The one that waited has the place now, and the first that was detached goes on.
        let late = world.client.call(world.server, ECHO, b"").within(Duration::from_millis(20));
        assert_eq!(late.wait().expect_err("full"), ClientError::Full { calls_max: 2 });
    }
}

#[test]
fn what_has_not_ended_when_the_client_stops_ends_then() {
    for kind in KINDS {
        let world = World::new(kind, 100);
        let pending: Vec<_> = (0..99).map(|_| world.call(SILENT).start().expect("room")).collect();
        let job = world.client.run(async |endpoint| {
            endpoint.receive(AnySource, TAG).within(LONG).await.map(|message| message.to_vec())
        });
        let waiting = world.call(ECHO).into_future();
        world.client.stop();
        for pending in pending.into_iter().chain([waiting]) {
            assert_eq!(pending.wait().expect_err("it stops"), ClientError::Stopped);
        }
        assert_eq!(tokio(1).block_on(job).map(drop).expect_err("it stops"), ClientError::Stopped);
        assert_eq!(world.call(ECHO).start().map(drop).expect_err("stopped"), ClientError::Stopped);
        assert_eq!(world.call(ECHO).wait().expect_err("stopped"), ClientError::Stopped);
    }
}

#[test]
fn a_handler_that_panics_ends_what_is_in_flight_once() {
    let world = World::new(TransportKind::RING_SHM, 100);
    let pending = world.call(SILENT).start().expect("room");
    let job = world.client.run(async |_: &Endpoint| -> () { panic!("as the test wants") });
    assert_eq!(pending.wait().expect_err("its thread is gone"), ClientError::Stopped);
    assert_eq!(tokio(1).block_on(job).expect_err("its thread is gone"), ClientError::Stopped);
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    let world = World::new(TransportKind::RING_SHM, 100);
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let runtime = tokio(1);
    runtime.block_on(async {
        let serving = async move |endpoint: &Endpoint| {
            endpoint.serve(Service(9), move |_, reply| reply.send(&[Arc::strong_count(&held) as u8]));
        };
        world.client.run(serving).await.expect("it runs");
    });
    let pending = world.call(SILENT).into_future();
    let World { client, .. } = &world;
    let other = client.clone();
    drop(other);
    assert_eq!(Arc::strong_count(&alive), 2, "the endpoint lives");
    assert!(!pending.is_complete());
    drop(pending);
    let begun = Instant::now();
    drop(world);
    while Arc::strong_count(&alive) > 1 {
        assert!(begun.elapsed() < LONG, "the endpoint lives for ever");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_no_call_runs_on_the_thread_of_the_endpoint() {
    let world = World::new(TransportKind::RING_SHM, 100);
    let runtime = tokio(2);
    let same = runtime.block_on(world.client.run(async |endpoint| endpoint.peer(0)));
    assert_eq!(same.expect("it runs").expect("it is known"), world.server);
    // It waits on the endpoint's thread while calls go on, and ends when it is not wanted.
    let server = world.server;
    let silent = world.client.run(async move |endpoint| {
        endpoint.call(server, SILENT, b"").within(LONG).await.map(|answer| answer.to_vec())
    });
    let in_flight = || runtime.block_on(world.client.run(async |endpoint| endpoint.calls_in_flight()));
    assert_eq!(&*world.call(ECHO).wait().expect("an answer"), b"hello");
    assert_eq!(in_flight(), Ok(1));
    drop(silent);
    assert_eq!(in_flight(), Ok(0));
}

#[test]
fn work_that_another_thread_wakes_is_not_slept_through() {
    let world = World::new(TransportKind::RING_SHM, 100);
    let runtime = tokio(1);
    let times = (0..50).map(|_| {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work = world.client.run(async move |_: &Endpoint| receiver.await.expect("it is sent"));
        // By now the endpoint is most likely asleep.
        runtime.block_on(world.client.run(async |_: &Endpoint| ())).expect("it runs");
        let begun = Instant::now();
        sender.send(()).expect("it waits");
        runtime.block_on(work).expect("it runs");
        begun.elapsed()
    });
    let least = times.min().expect("there are fifty");
    // An endpoint that is not woken sleeps for 100 ms at a time; one of fifty is faster on any machine.
    assert!(least < Duration::from_millis(90), "it is not woken: {least:?} at least");
}

#[test]
fn a_program_that_polls_its_endpoint_itself_has_clients_too() {
    for kind in KINDS {
        println!("over {kind}");
        let (endpoint, server, _node, parts) = endpoint(kind);
        let (client, mut port): (_, ClientPort<'_>) = Client::over(&endpoint, 10);
        let caller = std::thread::spawn(move || {
            for number in 0..100u32 {
                let answer = client.call(server, ECHO, &number.to_le_bytes()).within(LONG).wait();
                assert_eq!(&*answer.expect("an answer"), &number.to_le_bytes());
            }
        });
        while !port.is_stopping() {
            port.turn();
        }
        caller.join().expect("it got its answers");
        parts.0.store(true, Relaxed);
        parts.1.join().expect("the server ends");
    }
}
