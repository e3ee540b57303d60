//! Tagged messages through farcall beside UCX's own, with both ends on one thread: what our layers add in
//! work, apart from what travels between caches.
//!
//! Both run in alternating blocks, so that a disturbance hits both: `cargo bench -p farcall-limit`. In each
//! round as many receives are posted as messages are sent, and both ends work until all have arrived.

use std::time::Duration;

use farcall_base::{Entropy, Identity, Instant, Principal};
use farcall_driver::CounterFile;
use farcall_limit::raw::{RawSlots, RawUcx, UcxCompletion};
use farcall_protocol::matching::Source;
use farcall_transport::{
    Arrived, DownReason, LibraryConfig, LibraryTransport, MatchedBatch, MessageBatch, MessageId, Origin,
    Outbox, Posted, RequestBatch, ResponseBatch, SendOutcome, SessionId, Sink, Submitted, Tag, Transport,
};
use farcall_ucx::{Reach, Ucx, UcxConfig};
use rustix::time::{ClockId, clock_gettime};

const BLOCKS: usize = 41;
const MESSAGES: usize = 20_000;
const CELLS: [(usize, usize); 6] = [(1, 1), (1, 10), (1, 1000), (1024, 1), (1024, 10), (1024, 1000)];

const CONFIG: LibraryConfig = LibraryConfig {
    message_bytes_max: 1 << 20,
    calls_max: 64,
    peer_timeout: Duration::from_secs(3600),
    unexpected_bytes: 8 << 20,
    loan_bytes_max: 1 << 20,
    ranks: u32::MAX,
    sessions_max: 4096,
    sessions_per_host: 1024,
    numbers: farcall_base::SessionNumbers::ALL,
};

/// Time stands still: nothing is to be due.
const NOW: Instant = Instant::from_nanos(1);

/// Counts what was received.
#[derive(Default)]
struct Count {
    received: usize,
    bytes: usize,
    up: Vec<SessionId>,
}

impl Sink for Count {
    fn requests(&mut self, _: &mut dyn Outbox, _: &mut RequestBatch<'_>) {}

    fn responses(&mut self, _: &mut dyn Outbox, _: &mut ResponseBatch<'_, '_>) {}

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        messages.take_while(|message| {
            self.received += 1;
            self.bytes += message.payload.as_slice().len();
            true
        });
    }

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {}

    fn sent(&mut self, _: &mut dyn Outbox, _: MessageId, _: SendOutcome) {}

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, _: Identity, _: &Principal) {
        self.up.push(session);
    }

    fn session_down(&mut self, _: &mut dyn Outbox, _: SessionId, reason: &DownReason) {
        panic!("{reason}");
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

struct Ours {
    from: LibraryTransport<Ucx>,
    to: LibraryTransport<Ucx>,
    way: SessionId,
    origin: Origin,
    sent: Count,
    seen: Count,
}

impl Ours {
    fn new() -> Self {
        let transport = |rank: u32| {
            let config = UcxConfig {
                payload_bytes_max: 1 << 20,
                may_sleep: false,
                error_handling: true,
                reach: Reach::Loopback,
            };
            let ucx = Ucx::new(&config).expect("a worker");
            let identity = Identity { incarnation: u64::from(rank) + 1, rank, endpoint: 0 };
            let (file, label) = (CounterFile::process(), format!("bench {rank}"));
            LibraryTransport::new(ucx, identity, Entropy::repeatable(3), &CONFIG, file, &label)
                .expect("a valid configuration")
        };
        let (mut from, mut to) = (transport(0), transport(1));
        let way = from.connect(&to.address(), None, NOW).expect("they reach each other");
        let (mut sent, mut seen) = (Count::default(), Count::default());
        while sent.up.is_empty() || seen.up.is_empty() {
            from.poll(NOW, &mut sent);
            to.poll(NOW, &mut seen);
        }
        let up = seen.up.pop().expect("it is up");
        let origin = Origin::new(Source::new(0, 0, up.0), up);
        Self { from, to, way, origin, sent, seen }
    }

    fn round(&mut self, slots: usize, payload: &[u8]) {
        let begun = self.seen.received;
        for slot in 0..slots {
            let tag = Some(Tag(slot as u32));
            let never = &mut |_: &mut dyn Outbox, _, _, _: Arrived<'_>| unreachable!("nothing is there yet");
            let posted = self.to.post(MessageId(slot as u32), Some(self.origin), tag, 0, never);
            assert_eq!(posted, Posted::Waiting);
        }
        for slot in 0..slots {
            let sent = self.from.send(self.way, MessageId(slot as u32), Tag(slot as u32), payload);
            assert!(!matches!(sent, Submitted::Refused(_)), "{sent:?}");
        }
        while self.seen.received - begun < slots {
            self.from.poll(NOW, &mut self.sent);
            self.to.poll(NOW, &mut self.seen);
        }
    }
}

/// The same on UCX itself.
fn raw_round(from: &mut RawUcx, to: &mut RawUcx, slots: usize) {
    (0..slots).for_each(|slot| to.receive(slot));
    (0..slots).for_each(|slot| from.send(slot));
    let (mut sent, mut received) = (0, 0);
    while sent < slots || received < slots {
        sent += usize::from(sent < slots && from.next_complete().is_some());
        received += usize::from(received < slots && to.next_complete().is_some());
    }
}

/// Of this thread's own time: others may want the processor.
fn nanos_a_message(slots: usize, mut round: impl FnMut()) -> f64 {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let rounds = (MESSAGES / slots).max(1);
    let begun = now();
    (0..rounds).for_each(|_| round());
    let taken = now() - begun;
    (taken.tv_sec * 1_000_000_000 + taken.tv_nsec) as f64 / (rounds * slots) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if let farcall_transport::Presence::Absent { why } = farcall_ucx::presence() {
        return println!("unsupported: {why}");
    }
    println!("bytes  in flight  farcall ns  UCX ns  ratio   (medians of {BLOCKS} blocks)");
    let mut ours = Ours::new();
    for (bytes, slots) in CELLS {
        let raw = || RawUcx::new(slots, bytes, UcxCompletion::Callbacks).expect("a worker");
        let (mut from, mut to) = (raw(), raw());
        from.connect(&to.address().expect("an address")).expect("they reach each other");
        to.connect(&from.address().expect("an address")).expect("they reach each other");
        let payload = vec![7; bytes];
        let (mut our_times, mut raw_times) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            our_times.push(nanos_a_message(slots, || ours.round(slots, &payload)));
            raw_times.push(nanos_a_message(slots, || raw_round(&mut from, &mut to, slots)));
        }
        let (ours, raw) = (median(our_times), median(raw_times));
        println!("{bytes:5}  {slots:9}  {ours:10.1}  {raw:6.1}  {:5.2}", ours / raw);
    }
}
