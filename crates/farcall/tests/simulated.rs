//! Endpoints on a simulated fabric: the same calls, deadlines and futures, many hosts in one thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, Program, Tasks};
use farcall::{CallError, Clock, Endpoint, Event, Instant, Node, Service, TransportKind};

const ECHO: Service = Service(1);

fn cluster(size: u32, seed: u64) -> Cluster {
    let profile = Profile::load("ideal").expect("an embedded profile");
    Cluster::new(profile, size, seed, Settings::load([]).expect("defaults")).expect("it has places")
}

/// A host that echoes what it is sent, for ever.
fn echo_server(node: &Node) -> Box<Tasks> {
    let endpoint = node.endpoint("basic+sim").expect("a simulated host");
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    Box::new(Tasks::new(endpoint, |_| async {}))
}

/// All hosts call all others, with messages of many lengths. Returns the trace's fingerprint and the time it
/// took.
fn all_to_all(kind: TransportKind, size: u32, seed: u64) -> (u64, u64) {
    let mut cluster = cluster(size, seed);
    let done = Rc::new(Cell::new(0));
    for rank in 0..size {
        let done = Rc::clone(&done);
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint(kind.name()).expect("a simulated host");
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            let done = Rc::clone(&done);
            Box::new(Tasks::new(endpoint, move |endpoint| async move {
                for distance in 1..size {
                    let to = (rank + distance) % size;
                    let peer = endpoint.peer(to).expect("all endpoints were made before the first turn");
                    let request = vec![to as u8; (to as usize * 977) % 50_000];
                    let answer = endpoint.call(peer, ECHO, &request).await.expect("nothing is lost");
                    assert_eq!(&answer[..], &request[..]);
                }
                done.set(done.get() + 1);
            }))
        });
    }
    let outcome = cluster.run_while(|| done.get() < size);
    assert_eq!(outcome, Outcome::Done);
    (cluster.fabric().trace_hash(), cluster.fabric().now().0)
}

#[test]
fn hosts_call_each_other_and_the_same_seed_gives_the_same_run() {
    for &kind in TransportKind::SIMULATED {
        assert_eq!(all_to_all(kind, 24, 7), all_to_all(kind, 24, 7), "{kind}");
    }
}

#[test]
fn a_deadline_passes_in_simulated_time() {
    let mut cluster = cluster(2, 1);
    cluster.start(0, |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let mut never_answered = Vec::new();
        endpoint.serve(ECHO, move |_, reply| never_answered.push(reply.defer().0));
        Box::new(Tasks::new(endpoint, |_| async {}))
    });
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    cluster.start(1, move |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let clock = endpoint.clock();
        let seen = Rc::clone(&seen);
        Box::new(Tasks::new(endpoint, move |endpoint| async move {
            let peer = endpoint.peer(0).expect("it was started before");
            let begun = clock.now();
            let error = endpoint
                .call(peer, ECHO, b"?")
                .within(Duration::from_millis(300))
                .await
                .expect_err("no answer");
            *seen.borrow_mut() = Some((error, clock.now() - begun));
        }))
    });
    assert_eq!(cluster.run_while(|| outcome.borrow().is_none()), Outcome::Done);
    let (error, lasted) = outcome.take().expect("it is there");
    assert_eq!(error, CallError::TimedOut);
    assert!((300..302).contains(&lasted.as_millis()), "{lasted:?}");
}

/// Posts one call after another to a server that never answers, with pauses in between.
struct Poster {
    endpoint: Endpoint,
    clock: Clock,
    begun: Instant,
    next_at: Instant,
    /// How much later than its deadline each call was over.
    late: Rc<RefCell<Vec<Duration>>>,
}

const WITHIN: Duration = Duration::from_micros(200);

impl Program for Poster {
    fn turn(&mut self) -> usize {
        let mut posted = 0;
        if self.clock.now() >= self.next_at {
            let peer = self.endpoint.peer(0).expect("it was started before");
            self.begun = self.clock.now();
            self.endpoint.call(peer, ECHO, b"?").within(WITHIN).post(0).expect("there is room");
            self.next_at = Instant::NEVER;
            posted = 1;
        }
        let Self { clock, begun, next_at, late, .. } = self;
        let done = self.endpoint.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                assert_eq!(outcome.as_ref().err(), Some(&CallError::TimedOut));
                late.borrow_mut().push(clock.now() - (*begun + WITHIN));
                *next_at = clock.now() + Duration::from_micros(50);
            }
        });
        posted + done
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = (self.next_at < Instant::NEVER).then_some(self.next_at);
        own.into_iter().chain(self.endpoint.next_deadline()).min()
    }
}

#[test]
fn who_polls_only_when_it_is_time_sees_timeouts_in_time() {
    for &kind in TransportKind::SIMULATED {
        let mut cluster = cluster(2, 1);
        cluster.start(0, move |node| {
            let endpoint = node.endpoint(kind.name()).expect("a simulated host");
            let mut never_answered = Vec::new();
            endpoint.serve(ECHO, move |_, reply| never_answered.push(reply.defer().0));
            Box::new(Tasks::new(endpoint, |_| async {}))
        });
        let late = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&late);
        cluster.start(1, move |node| {
            let endpoint = node.endpoint(kind.name()).expect("a simulated host");
            let (clock, begun, next_at) = (endpoint.clock(), Instant::ZERO, Instant::ZERO);
            Box::new(Poster { endpoint, clock, begun, next_at, late: Rc::clone(&seen) })
        });
        // Endpoints do not read the clock at each poll; the calls come at different times between two
        // readings.
        assert_eq!(cluster.run_while(|| late.borrow().len() < 40), Outcome::Done);
        let latest = late.borrow().iter().max().copied().expect("there are some");
        assert!(latest < Duration::from_micros(10), "{kind}: {latest:?} late");
    }
}

#[test]
fn an_endpoint_that_was_not_made_is_not_waited_for() {
    let mut cluster = cluster(2, 1);
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    cluster.start(0, |node| echo_server(&node));
    cluster.run_until(Instant::from_nanos(1_000));
    cluster.start(1, move |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let seen = Rc::clone(&seen);
        Box::new(Tasks::new(endpoint, move |endpoint| async move {
            *seen.borrow_mut() =
                Some(endpoint.peer_endpoint(0, 1).expect_err("it has one endpoint").to_string());
        }))
    });
    assert_eq!(cluster.run_while(|| outcome.borrow().is_none()), Outcome::Done);
    assert!(outcome.take().expect("it is there").contains("basic+sim#1"));
}

#[test]
#[should_panic(expected = "a simulated host cannot wait")]
fn waiting_on_a_simulated_host_is_a_clear_mistake() {
    let mut cluster = cluster(2, 1);
    cluster.start(0, |node| echo_server(&node));
    cluster.start(1, |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        Box::new(Tasks::new(endpoint, |endpoint| async move {
            let peer = endpoint.peer(0).expect("it was started before");
            let _ = endpoint.call(peer, ECHO, b"?").wait();
        }))
    });
    cluster.run_until(Instant::from_nanos(1_000_000_000));
}

#[test]
fn a_process_has_no_simulated_transports_and_a_simulated_host_no_others() {
    let error = Node::alone().expect("alone").endpoint("basic+sim").expect_err("no fabric");
    assert!(error.to_string().contains("needs a simulated fabric"), "{error}");
    let mut cluster = cluster(1, 1);
    cluster.start(0, |node| {
        let error = node.endpoint("ring+shm").expect_err("no shared memory");
        assert!(error.to_string().contains("simulated hosts have no ring+shm"), "{error}");
        echo_server(&node)
    });
}

/// A host that keeps this many calls in flight, each completion starting the next.
struct Caller {
    endpoint: Endpoint,
    peer: Option<farcall::Peer>,
    in_flight: u64,
    completed: Rc<Cell<u64>>,
}

impl Program for Caller {
    fn turn(&mut self) -> usize {
        let peer = match self.peer {
            Some(peer) => peer,
            None => {
                let peer = self.endpoint.peer(0).expect("it was started before");
                for slot in 0..self.in_flight {
                    self.endpoint.call(peer, ECHO, &[1; 100]).post(slot).expect("within the limit");
                }
                *self.peer.insert(peer)
            }
        };
        let completed = Rc::clone(&self.completed);
        self.endpoint.poll(|context, event| {
            if let Event::Completed { token, outcome } = event {
                assert!(outcome.is_ok(), "nothing is lost: {:?}", outcome.as_ref().map(drop));
                completed.set(completed.get() + 1);
                context.call(peer, ECHO, &[1; 100]).post(token).expect("within the limit");
            }
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.endpoint.next_deadline()
    }
}

#[test]
fn many_calls_in_flight_between_two_hosts_never_stand_still() {
    for &kind in TransportKind::SIMULATED {
        for in_flight in [1, 3, 4, 8, 64] {
            println!("{kind}, {in_flight} in flight");
            let mut cluster = cluster(2, 3);
            cluster.start(0, move |node| {
                let endpoint = node.endpoint(kind.name()).expect("a simulated host");
                endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
                Box::new(Tasks::new(endpoint, |_| async {}))
            });
            let completed = Rc::new(Cell::new(0));
            let count = Rc::clone(&completed);
            cluster.start(1, move |node| {
                let endpoint = node.endpoint(kind.name()).expect("a simulated host");
                Box::new(Caller { endpoint, peer: None, in_flight, completed: Rc::clone(&count) })
            });
            assert_eq!(cluster.run_while(|| completed.get() < 1000), Outcome::Done);
            assert!(cluster.fabric().now().0 < 100_000_000_000, "a tenth of a second is a long time");
        }
    }
}
