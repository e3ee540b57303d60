//! What a tagged message costs both sides together: two endpoints in one thread, so that nothing waits for
//! anything.
//!
//! Each figure is the least of many rounds of one batch, which other load on the machine can hardly disturb.
//! It says what the code costs; what distance between cores adds is seen by `farcall msgrate`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use farcall::{Endpoint, Event, Node, Peer, Receiving, Tag};

const ROUNDS: usize = 20_000;

fn main() {
    for batch in [1, 10, 100, 1000] {
        let node = Node::alone().expect("this process");
        let (sender, receiver) = (
            node.endpoint("ring+shm").expect("an endpoint"),
            node.endpoint("ring+shm").expect("an endpoint"),
        );
        let to = sender.peer_endpoint(0, 1).expect("it is there");
        let from = receiver.peer_endpoint(0, 0).expect("it is there");
        sender.wait_for(to).expect("up");
        receiver.wait_for(from).expect("up");
        let bench = Bench { sender, receiver, to, from, batch };
        bench.futures();
        bench.events();
        bench.callbacks();
        bench.handler();
    }
}

struct Bench {
    sender: Endpoint,
    receiver: Endpoint,
    to: Peer,
    from: Peer,
    batch: usize,
}

impl Bench {
    fn send(&self) {
        for slot in 0..self.batch {
            drop(self.sender.send(self.to, Tag(slot as u32), &[1; 8]).start().expect("sent"));
        }
        self.sender.poll(|_, _| {});
    }

    /// The least time of a message in `take`, and in sending.
    fn report(&self, name: &str, prepare: impl FnMut(), take: impl FnMut()) {
        self.report_of(name, prepare, || self.send(), take);
    }

    fn report_of(
        &self,
        name: &str,
        mut prepare: impl FnMut(),
        mut send: impl FnMut(),
        mut take: impl FnMut(),
    ) {
        let (mut send_nanos, mut receive_nanos) = (u128::MAX, u128::MAX);
        for _ in 0..ROUNDS.div_ceil(self.batch).max(300) {
            let begun = Instant::now();
            prepare();
            let prepared = begun.elapsed().as_nanos();
            let begun = Instant::now();
            send();
            send_nanos = send_nanos.min(begun.elapsed().as_nanos());
            let begun = Instant::now();
            take();
            receive_nanos = receive_nanos.min(prepared + begun.elapsed().as_nanos());
        }
        let each = |nanos: u128| nanos as f64 / self.batch as f64;
        println!(
            "{name:<10} {:>5} in a batch: sending {:>6.1} ns, receiving {:>6.1} ns",
            self.batch,
            each(send_nanos),
            each(receive_nanos)
        );
    }

    fn futures(&self) {
        let receivings = std::cell::RefCell::new(Vec::<Receiving<'_>>::with_capacity(self.batch));
        self.report(
            "futures",
            || {
                let mut receivings = receivings.borrow_mut();
                for slot in 0..self.batch {
                    receivings
                        .push(self.receiver.receive(self.from, Tag(slot as u32)).start().expect("posted"));
                }
            },
            || {
                for receiving in receivings.borrow_mut().drain(..) {
                    while !receiving.is_complete() {
                        self.receiver.poll(|_, _| {});
                    }
                    black_box(&receiving.wait().expect("a message")[..]);
                }
            },
        );
    }

    fn events(&self) {
        self.report(
            "events",
            || {
                for slot in 0..self.batch {
                    self.receiver.receive(self.from, Tag(slot as u32)).post(slot as u64).expect("posted");
                }
            },
            || {
                let mut left = self.batch;
                while left > 0 {
                    self.receiver.poll(|_, event| {
                        if let Event::Received { outcome, .. } = event {
                            black_box(&outcome.as_ref().expect("a message")[..]);
                            left -= 1;
                        }
                    });
                }
            },
        );
    }

    /// Each end of a send and of a receive runs a callback, which needs memory of its own.
    fn callbacks(&self) {
        static SENT: AtomicUsize = AtomicUsize::new(0);
        static RECEIVED: AtomicUsize = AtomicUsize::new(0);
        let count = |counter: &AtomicUsize| counter.store(counter.load(Relaxed) + 1, Relaxed);
        self.report_of(
            "callbacks",
            || {
                RECEIVED.store(0, Relaxed);
                for slot in 0..self.batch {
                    let receive = self.receiver.receive(self.from, Tag(slot as u32));
                    let posted = receive.then(move |_, outcome| {
                        black_box(&outcome.as_ref().expect("a message")[..]);
                        count(&RECEIVED);
                    });
                    posted.expect("posted");
                }
            },
            || {
                SENT.store(0, Relaxed);
                for slot in 0..self.batch {
                    let send = self.sender.send(self.to, Tag(slot as u32), &[1; 8]);
                    let begun = send.then(move |_, outcome| {
                        outcome.expect("sent");
                        count(&SENT);
                    });
                    begun.expect("sent");
                }
                while SENT.load(Relaxed) < self.batch {
                    self.sender.poll(|_, _| {});
                }
            },
            || {
                while RECEIVED.load(Relaxed) < self.batch {
                    self.receiver.poll(|_, _| {});
                }
            },
        );
    }

    fn handler(&self) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        self.receiver.on_message(move |_, message| {
            black_box(&message[..]);
            counted.store(counted.load(Relaxed) + 1, Relaxed);
        });
        self.report(
            "handler",
            || count.store(0, Relaxed),
            || {
                while count.load(Relaxed) < self.batch {
                    self.receiver.poll(|_, _| {});
                }
            },
        );
    }
}
