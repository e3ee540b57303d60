//! What calls promise over a network that loses, doubles, overtakes, delays, damages and cuts packets: each
//! completes once, with the right answer, and each request runs once.
//!
//! The faults of a run are drawn from its seed. The random one can be run again with
//! `FARCALL_TEST_FAULT_SEED`; the calls are `FARCALL_TEST_FAULT_TIMES` times as many (`make test-faults`).

mod common;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::counters::sum_of;
use common::{LONG, Pair, settings, transports};
use farcall::bootstrap::random_incarnation;
use farcall::{Context, Endpoint, Event, Peer, Service, TransportKind};
use farcall_base::Random;

/// Answers with bytes that depend on the request's number.
const NUMBERED: Service = Service(1);
/// Takes and gives nothing.
const EMPTY: Service = Service(2);

const SEED_VARIABLE: &str = "FARCALL_TEST_FAULT_SEED";
const TIMES_VARIABLE: &str = "FARCALL_TEST_FAULT_TIMES";
const LONGEST_BYTES: usize = 1 << 20;
const NUMBER_BYTES: usize = size_of::<u64>();
const IN_FLIGHT: usize = 64;

/// What one call carries there and back; follows from its number.
#[derive(Clone, Copy)]
enum Errand {
    Empty,
    Numbered { request_bytes: usize, answer_bytes: usize },
}

/// The calls of one seed, and the bytes that all messages are cut from.
struct Plan {
    seed: u64,
    calls: usize,
    sea: Vec<u8>,
}

impl Plan {
    fn new(seed: u64, calls: usize) -> Self {
        let mut random = Random::new(seed);
        let sea = (0..LONGEST_BYTES / 4).flat_map(|_| random.bits().to_le_bytes()).collect();
        Self { seed, calls, sea }
    }

    fn random(&self, number: usize) -> Random {
        Random::new(self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn errand(&self, number: usize) -> Errand {
        let mut random = self.random(number);
        let mut bytes = || match random.below(10_000) {
            0..3 => LONGEST_BYTES,
            3..1_000 => random.below(40_000) as usize,
            1_000..3_000 => random.below(4_000) as usize,
            _ => random.below(300) as usize,
        };
        match (bytes(), bytes()) {
            (request_bytes, answer_bytes) if request_bytes >= NUMBER_BYTES => {
                Errand::Numbered { request_bytes, answer_bytes }
            }
            _ => Errand::Empty,
        }
    }

    /// Bytes that no other message has, except by chance.
    fn bytes(&self, random: &mut Random, length: usize) -> &[u8] {
        let start = random.below((self.sea.len() - length) as u64) as usize;
        &self.sea[start..start + length]
    }

    fn request(&self, number: usize, length: usize) -> Vec<u8> {
        let rest = self.bytes(&mut Random::new(number as u64), length - NUMBER_BYTES);
        [&(number as u64).to_le_bytes(), rest].concat()
    }

    fn answer(&self, number: usize, length: usize) -> &[u8] {
        self.bytes(&mut Random::new(!(number as u64)), length)
    }
}

/// How often each request ran; those without a number together.
struct Runs {
    numbered: Vec<u32>,
    empty: usize,
}

fn serve(endpoint: &Endpoint, plan: Arc<Plan>, runs: Arc<Mutex<Runs>>) {
    let runs_of_empty = Arc::clone(&runs);
    endpoint.serve(NUMBERED, move |request, reply| {
        let payload = request.payload();
        let number = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes) as usize);
        let number = number.filter(|number| *number < plan.calls).expect("the number of a call");
        let Errand::Numbered { request_bytes, answer_bytes } = plan.errand(number) else {
            panic!("request {number} has no bytes")
        };
        assert!(payload == plan.request(number, request_bytes), "request {number} arrived altered");
        runs.lock().expect("nobody panicked").numbered[number] += 1;
        reply.send(plan.answer(number, answer_bytes));
    });
    endpoint.serve(EMPTY, move |request, reply| {
        assert!(request.payload().is_empty());
        runs_of_empty.lock().expect("nobody panicked").empty += 1;
        reply.send(b"");
    });
}

fn post(context: &mut Context<'_>, peer: Peer, plan: &Plan, number: usize) {
    let posted = match plan.errand(number) {
        Errand::Empty => context.call(peer, EMPTY, b"").within(LONG).post(number as u64),
        Errand::Numbered { request_bytes, .. } => {
            let request = plan.request(number, request_bytes);
            context.call(peer, NUMBERED, &request).within(LONG).post(number as u64)
        }
    };
    posted.unwrap_or_else(|error| panic!("call {number} was not taken: {error}"));
}

/// Makes all calls, many at a time; returns how often each completed.
fn make_calls(pair: &Pair, plan: &Plan) -> Vec<u32> {
    let mut completions = vec![0; plan.calls];
    let (mut next, mut done) = (0, 0);
    let first = pair.client.call(pair.server, EMPTY, b"").within(LONG).post(u64::MAX);
    first.expect("the first call is taken");
    while done < plan.calls {
        pair.client.poll_idle(|context, event| {
            let Event::Completed { token, outcome } = event else { panic!("{event:?}") };
            let answer = outcome.as_ref().unwrap_or_else(|error| panic!("call {token} failed: {error}"));
            if token != u64::MAX {
                let number = token as usize;
                let expected = match plan.errand(number) {
                    Errand::Empty => &[],
                    Errand::Numbered { answer_bytes, .. } => plan.answer(number, answer_bytes),
                };
                assert!(answer[..] == *expected, "the answer to call {number} arrived altered");
                completions[number] += 1;
                done += 1;
            }
            while next < plan.calls && context.calls_in_flight() < IN_FLIGHT {
                post(context, pair.server, plan, next);
                next += 1;
            }
        });
    }
    completions
}

/// Makes `calls` calls, or a multiple of that, over every packet transport with the faults that `kinds`
/// names, a tenth of the packets each.
fn survive(seed: u64, calls: usize, kinds: &[&str]) {
    let _alone = one_at_a_time();
    let times = std::env::var(TIMES_VARIABLE).map_or(1, |text| text.parse().expect("how many times"));
    let calls = calls * times;
    println!("{SEED_VARIABLE}={seed} replays the faults of this run");
    let faults = kinds.iter().map(|kind| format!("fault.{kind}_permille=100"));
    let assignments: Vec<_> = faults.chain([format!("fault.seed={seed}")]).collect();
    let fixed = ["endpoint.peer_timeout=20s", "udp.mtu_bytes=4000"];
    let assignments: Vec<_> = assignments.iter().map(String::as_str).chain(fixed).collect();
    let settings = settings(&assignments);
    let of_packets =
        |kind: &TransportKind| ["basic+", "homa+"].iter().any(|group| kind.name().starts_with(group));
    for kind in transports().filter(of_packets) {
        println!("over {kind}");
        let plan = Arc::new(Plan::new(seed, calls));
        let runs = Arc::new(Mutex::new(Runs { numbered: vec![0; calls], empty: 0 }));
        let (their_plan, their_runs) = (Arc::clone(&plan), Arc::clone(&runs));
        let pair = Pair::new(kind, settings.clone(), move |endpoint| serve(endpoint, their_plan, their_runs));
        let began = std::time::Instant::now();
        let completions = make_calls(&pair, &plan);
        println!("{calls} calls in {:?}", began.elapsed());
        assert!(completions.iter().all(|times| *times == 1), "each call completes once");
        pair.client.poll(|_, event| panic!("{event:?} after all calls were complete"));
        for (counter, kind) in FAULTS {
            let injected = sum_of("fault ", counter);
            println!("{injected} packets {counter}");
            assert_eq!(injected > 0, kinds.contains(&kind), "{injected} packets {counter}");
        }
        drop(pair);
        check_runs(&plan, &runs.lock().expect("nobody panicked"));
    }
}

/// The counters of faults and the parameters that cause them.
const FAULTS: [(&str, &str); 6] = [
    ("dropped", "drop"),
    ("duplicated", "duplicate"),
    ("reordered", "reorder"),
    ("delayed", "delay"),
    ("corrupted", "corrupt"),
    ("truncated", "truncate"),
];

fn check_runs(plan: &Plan, runs: &Runs) {
    let mut empty = 1; // the first call
    for (number, times) in runs.numbered.iter().enumerate() {
        match plan.errand(number) {
            Errand::Empty => empty += 1,
            Errand::Numbered { .. } => assert_eq!(*times, 1, "the request of call {number} runs once"),
        }
    }
    assert_eq!(runs.empty, empty, "each empty request runs once");
}

/// The counters are those of the process: runs beside each other would be taken for one.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn calls_survive_lost_doubled_overtaken_and_damaged_packets() {
    survive(1, 12_000, &["drop", "duplicate", "reorder", "corrupt"]);
}

#[test]
fn calls_survive_delayed_and_cut_packets_as_well() {
    survive(2, 5_000, &["drop", "duplicate", "reorder", "corrupt", "delay", "truncate"]);
}

#[test]
fn calls_survive_the_faults_of_a_random_seed() {
    let given = std::env::var(SEED_VARIABLE).ok();
    let seed = given.map_or_else(random_incarnation, |text| text.parse().expect("a seed is a number"));
    survive(seed, 3_000, &["drop", "duplicate", "reorder", "corrupt", "delay", "truncate"]);
}
