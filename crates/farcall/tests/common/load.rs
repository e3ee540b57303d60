//! Closed loops of calls between hosts of a simulated fabric.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Fabric, Profile, Program};
use farcall::{CallError, Endpoint, Event, Instant, Peer, Service, TransportKind};

const SINK: Service = Service(1);
/// Bytes of each packet that are carried: all headers, and what names a request.
const CARRIED_BYTES: usize = 256;

/// What a host sends.
#[derive(Clone, Debug)]
pub struct Load {
    pub to: Vec<u32>,
    pub bytes: usize,
    /// The length of the answer to each.
    pub answer_bytes: usize,
    /// Messages to each of the targets at a time.
    pub in_flight: usize,
    /// Messages to each of the targets in all.
    pub count: usize,
    pub starts_at: Duration,
    pub timeout: Duration,
}

impl Load {
    /// One message of `bytes` after another to host 0, as long as the run lasts.
    pub fn endless(bytes: usize) -> Self {
        let forever = Duration::from_secs(1000);
        Self {
            to: vec![0],
            bytes,
            answer_bytes: 0,
            in_flight: 1,
            count: usize::MAX,
            starts_at: Duration::ZERO,
            timeout: forever,
        }
    }
}

/// A call that is over.
#[derive(Clone, Debug)]
pub struct Ended {
    pub began: Instant,
    pub lasted: Duration,
    pub outcome: Result<(), CallError>,
}

/// What happened.
pub struct Report {
    /// The calls of each host that are over, in the order of their ends.
    pub ended: Vec<Rc<RefCell<Vec<Ended>>>>,
    /// The requests that hosts ran, by caller and number, as often as they ran.
    pub ran: Arc<Mutex<Vec<(u32, u32)>>>,
    pub fabric: Fabric,
}

impl Report {
    /// How many calls of a host are over.
    pub fn count(&self, host: usize) -> usize {
        self.ended[host].borrow().len()
    }

    /// How long the calls of a host took, the shortest first.
    pub fn sorted(&self, host: usize) -> Vec<Duration> {
        let mut lasted: Vec<Duration> = self.ended[host].borrow().iter().map(|call| call.lasted).collect();
        lasted.sort();
        lasted
    }

    /// How the calls of all hosts ended.
    pub fn outcomes(&self) -> impl Iterator<Item = Result<(), CallError>> {
        self.ended.iter().flat_map(|ended| ended.borrow().clone()).map(|call| call.outcome)
    }

    /// How many calls of all hosts are over.
    pub fn total(&self) -> usize {
        (0..self.ended.len()).map(|host| self.count(host)).sum()
    }
}

/// Host by host, what it sends; all of them serve. Runs until all counts are reached or `until` has passed.
pub struct Run<'a> {
    pub transport: TransportKind,
    pub settings: Vec<&'a str>,
    /// Overrides of the ideal profile.
    pub fabric: Vec<&'a str>,
    pub loads: Vec<Option<Load>>,
    pub until: Duration,
}

impl Run<'_> {
    pub fn run(self) -> Report {
        self.run_with(|_| {})
    }

    /// As `run`, after `prepare` has had the fabric.
    pub fn run_with(self, prepare: impl FnOnce(&Fabric)) -> Report {
        let mut cluster = self.cluster();
        prepare(cluster.fabric());
        let (ran, fabric) = (Arc::default(), cluster.fabric().clone());
        let report = Report { ended: self.loads.iter().map(|_| Rc::default()).collect(), ran, fabric };
        let in_all = |load: &Load| load.count.saturating_mul(load.to.len());
        let wanted = self.loads.iter().flatten().map(in_all).fold(0, usize::saturating_add);
        let until = Instant::from_nanos(self.until.as_nanos() as u64);
        for (rank, load) in self.loads.into_iter().enumerate() {
            let (ended, ran) = (Rc::clone(&report.ended[rank]), Arc::clone(&report.ran));
            cluster.start(rank as u32, move |node| {
                let endpoint = node.endpoint(self.transport.name()).expect("a simulated host");
                serve(&endpoint, Arc::clone(&ran));
                Box::new(Sender::new(rank as u32, endpoint, load.clone(), Rc::clone(&ended)))
            });
        }
        cluster.run_while_until(|| report.total() < wanted, until);
        report
    }

    fn cluster(&self) -> Cluster {
        let profile = Profile::load_with("ideal", &self.fabric).unwrap_or_else(|error| panic!("{error}"));
        // Most of a payload is not carried, so its sum would not be right.
        let settings = self.settings.iter().chain(&["homa.checksum=false", "basic.checksum=false"]);
        let settings = Settings::load(settings.map(|setting| (*setting).to_owned()));
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        let cluster = Cluster::new(profile, self.loads.len() as u32, 1, settings).expect("it has places");
        cluster.fabric().carry_at_most(CARRIED_BYTES);
        cluster
    }
}

/// Takes requests, writes down whose they are and which, and answers as long as they ask for.
fn serve(endpoint: &Endpoint, ran: Arc<Mutex<Vec<(u32, u32)>>>) {
    endpoint.serve(SINK, move |request, reply| {
        let word =
            |at: usize| u32::from_le_bytes(request.payload()[at..at + 4].try_into().expect("four bytes"));
        ran.lock().expect("no panic").push((word(0), word(4)));
        reply.send(vec![0; word(8) as usize]);
    });
}

/// A host's part: keeps its messages on their way.
struct Sender {
    rank: u32,
    endpoint: Endpoint,
    load: Option<Load>,
    /// The targets, with the messages on their way and those not yet sent; none before the beginning.
    targets: Vec<Target>,
    /// When each call began, and to which target, by number.
    began: Vec<(Instant, usize)>,
    ended: Rc<RefCell<Vec<Ended>>>,
}

struct Target {
    peer: Peer,
    in_flight: usize,
    left: usize,
}

impl Sender {
    fn new(rank: u32, endpoint: Endpoint, load: Option<Load>, ended: Rc<RefCell<Vec<Ended>>>) -> Self {
        Self { rank, endpoint, load, targets: Vec::new(), began: Vec::new(), ended }
    }

    fn starts_at(&self) -> Option<Instant> {
        let load = self.load.as_ref().filter(|_| self.targets.is_empty())?;
        Some(Instant::from_nanos(load.starts_at.as_nanos() as u64))
    }

    /// Sends what is due; how many messages.
    fn send(&mut self) -> usize {
        let now = self.endpoint.clock().now();
        let Some(load) = &self.load else { return 0 };
        if self.targets.is_empty() {
            if now.as_nanos() < load.starts_at.as_nanos() as u64 {
                return 0;
            }
            let target = |&rank: &u32| {
                let peer = self.endpoint.peer(rank).expect("all endpoints were made before the first turn");
                Target { peer, in_flight: 0, left: load.count }
            };
            self.targets = load.to.iter().map(target).collect();
        }
        let (mut payload, before) = (vec![0; load.bytes], self.began.len());
        payload[..4].copy_from_slice(&self.rank.to_le_bytes());
        payload[8..12].copy_from_slice(&(load.answer_bytes as u32).to_le_bytes());
        for (place, target) in self.targets.iter_mut().enumerate() {
            while target.in_flight < load.in_flight && target.left > 0 {
                let number = self.began.len();
                payload[4..8].copy_from_slice(&(number as u32).to_le_bytes());
                let call = self.endpoint.call(target.peer, SINK, &payload).within(load.timeout);
                call.post(number as u64).expect("the session has room");
                self.began.push((now, place));
                (target.in_flight, target.left) = (target.in_flight + 1, target.left - 1);
            }
        }
        self.began.len() - before
    }
}

impl Program for Sender {
    fn turn(&mut self) -> usize {
        let sent = self.send();
        let now = self.endpoint.clock().now();
        let (began, targets, ended) = (&self.began, &mut self.targets, &self.ended);
        let polled = self.endpoint.poll(|_, event| {
            if let Event::Completed { token, outcome } = event {
                let (began, target) = began[token as usize];
                targets[target].in_flight -= 1;
                let outcome = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
                ended.borrow_mut().push(Ended { began, lasted: now.since(began), outcome });
            }
        });
        sent + polled
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.starts_at().into_iter().chain(self.endpoint.next_deadline()).min()
    }
}
