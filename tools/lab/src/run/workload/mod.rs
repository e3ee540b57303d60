//! clusterperf's `echo_workload`: messages of many lengths, sent when they are due and not when the last one
//! is done.
//!
//! Each client sends messages to random servers at the times of a Poisson process, as fast as a given part of
//! the links can carry. What counts is how much longer a message takes than one of its length takes when
//! nobody else sends anything: its *slowdown*. That best time is measured in the same run, before the load
//! begins.
//!
//! Only messages that are due within the measured window count. Before it the load runs for a while, so that
//! queues and what protocols learn from traffic are as they will stay; after it the load goes on while the
//! last messages of the window are in flight.

mod arrivals;
mod mix;
mod open_loop;
mod outcome;
mod prober;
mod processes;
mod recorded;
mod simulated;

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use farcall::parameters::PARAMETERS;
use farcall::{Service, TransportKind};
use serde::{Deserialize, Serialize};

pub use mix::{MixError, SizeClass, SizeMix};
pub use outcome::{SizeBand, WorkloadOutcome};
pub use processes::{WORKLOAD_COMMAND, work};
pub use recorded::{Recorded, RecordedError};

/// Takes messages.
const MESSAGE: Service = Service(1);

/// Length of the answer to a message that is not echoed.
pub const ACK_BYTES: usize = 8;

/// The most messages of one client in flight at a time. One that is due when there are that many waits, and
/// its waiting counts as part of its time.
pub const OUTSTANDING_MAX: usize = 1024;

/// How long the load runs before the window, as a part of the window.
const WARMUP_PART: f64 = 0.5;

/// How long it runs before the window at least: all sessions are open by then.
const WARMUP_MIN: Duration = Duration::from_micros(100);

/// How long it runs after the window.
const COOLDOWN_PART: f64 = 0.25;

/// A message that takes longer than this has failed.
const CALL_WITHIN: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadTest {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// Lengths of messages.
    pub mix: SizeMix,
    /// Messages that were recorded, in the place of those of a Poisson process.
    pub replay: Option<Replay>,
    /// The part of the links' rate that messages are to fill, without headers.
    pub load: f64,
    /// The rate of a link, in bits per second.
    pub link_bits_per_second: f64,
    /// The senders and the receivers.
    pub roles: Roles,
    /// What comes back.
    pub reply: Reply,
    /// The window ends when this many messages of each client are due, on average.
    pub messages: u64,
    /// The longest that the window lasts.
    pub lasting: Duration,
    /// Decides when messages are due, how long they are and where they go.
    pub seed: u64,
    /// Whether messages under load are traced.
    pub trace: bool,
}

/// Recorded messages, and how fast they are replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The messages.
    pub file: Arc<Recorded>,
    /// This many times as fast as they were recorded.
    pub speed: f64,
}

/// The senders and the receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Roles {
    /// This many ranks, each of which sends to all others.
    Everyone(usize),
    /// Servers, which are the first ranks, and clients.
    Apart {
        /// Ranks that send.
        clients: usize,
        /// Ranks that receive.
        servers: usize,
    },
}

impl Roles {
    /// The number of ranks.
    pub fn ranks(self) -> usize {
        match self {
            Self::Everyone(ranks) => ranks,
            Self::Apart { clients, servers } => clients + servers,
        }
    }

    /// How many ranks send.
    pub fn senders(self) -> usize {
        match self {
            Self::Everyone(ranks) => ranks,
            Self::Apart { clients, .. } => clients,
        }
    }

    /// How many ranks receive.
    pub fn receivers(self) -> usize {
        match self {
            Self::Everyone(ranks) => ranks,
            Self::Apart { servers, .. } => servers,
        }
    }

    /// Messages of a client that fill its part of the links, as a part of those that would fill its own link.
    fn messages_of_link(self, reply: Reply) -> f64 {
        match (self, reply) {
            // A link carries the messages of its own rank and what comes back for those of others.
            (Self::Everyone(_), Reply::Echo) => 0.5,
            (Self::Everyone(_), Reply::Ack) => 1.0,
            // With fewer servers than clients it is the servers' links that are filled.
            (Self::Apart { clients, servers }, _) => (servers as f64 / clients as f64).min(1.0),
        }
    }

    /// The first rank that sends.
    fn first_sender(self) -> u32 {
        (self.ranks() - self.senders()) as u32
    }

    /// To whom a rank sends; to nobody, if it does not send.
    fn receivers_of(self, rank: u32) -> Vec<u32> {
        match self {
            Self::Everyone(ranks) => (0..ranks as u32).filter(|&other| other != rank).collect(),
            Self::Apart { servers, .. } if rank >= servers as u32 => (0..servers as u32).collect(),
            Self::Apart { .. } => Vec::new(),
        }
    }
}

/// What comes back for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// A short answer: what is timed is nearly one message's way, as in the simulations of the Homa paper.
    Ack,
    /// The message itself: there and back, as in clusterperf and in the measurements of the Homa paper.
    Echo,
}

farcall_base::named!(Reply:
    Ack = "ack", "8 bytes: nearly the time of one message on its way";
    Echo = "echo", "The message itself, as in clusterperf";
);

/// What every rank is told. The same for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plan {
    transport: String,
    /// Parameters, each as `name=value`.
    settings: Vec<String>,
    classes: Vec<SizeClass>,
    replay: Option<ReplayPlan>,
    roles: Roles,
    reply: Reply,
    mean_gap_nanos: f64,
    window: Duration,
    seed: u64,
    trace: bool,
}

/// Recorded messages, for ranks that have the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReplayPlan {
    path: PathBuf,
    digest: u64,
    speed: f64,
}

impl Replay {
    /// The part of links of this rate that its messages fill.
    pub fn load(&self, link_bits_per_second: f64, roles: Roles, reply: Reply) -> f64 {
        let of_client = self.file.per_second(self.speed) / roles.senders() as f64;
        let bits = 8.0 * self.file.mix().mean_bytes();
        of_client * bits / link_bits_per_second / roles.messages_of_link(reply)
    }
}

impl WorkloadTest {
    /// Messages that each client sends in a second.
    pub fn messages_per_second(&self) -> f64 {
        let link = self.load * self.link_bits_per_second / 8.0 / self.mix.mean_bytes();
        link * self.roles.messages_of_link(self.reply)
    }

    /// How long the window lasts: those of recorded messages that are not in
    /// it come before and after it.
    fn window(&self) -> Duration {
        match &self.replay {
            Some(Replay { file, speed }) => file.lasts(*speed).div_f64(WARMUP_PART + 1.0 + COOLDOWN_PART),
            None => {
                let nanos = 1e9 / self.messages_per_second() * self.messages as f64;
                Duration::from_nanos(nanos as u64).min(self.lasting)
            }
        }
    }

    /// From the start of the load to its end, as it is planned.
    pub fn lasts(&self) -> Duration {
        self.window().mul_f64(WARMUP_PART + 1.0 + COOLDOWN_PART)
    }

    /// The parameters for it: messages may be as long as the mix has them.
    fn settings(&self) -> Vec<String> {
        let bytes_max = self.mix.bytes_max().next_power_of_two();
        let limits = PARAMETERS.iter().filter(|parameter| parameter.name.ends_with(".message_bytes_max"));
        let longest = limits.map(|parameter| format!("{}={bytes_max}", parameter.name));
        longest.chain(self.assignments.iter().cloned()).collect()
    }

    fn plan(&self, transport: TransportKind) -> Plan {
        let replay = self.replay.as_ref().map(|Replay { file, speed }| ReplayPlan {
            path: file.path().to_owned(),
            digest: file.digest(),
            speed: *speed,
        });
        Plan {
            transport: transport.name().to_owned(),
            settings: self.settings(),
            classes: self.mix.classes().to_vec(),
            replay,
            roles: self.roles,
            reply: self.reply,
            mean_gap_nanos: 1e9 / self.messages_per_second(),
            window: self.window(),
            seed: self.seed,
            trace: self.trace,
        }
    }
}

impl Plan {
    /// From the start of the load to the start of the window.
    fn warmup(&self) -> Duration {
        self.window.mul_f64(WARMUP_PART).max(WARMUP_MIN)
    }

    /// From the start of the load to the end of the window.
    fn window_end(&self) -> Duration {
        self.warmup() + self.window
    }

    /// From the start of the load to its end.
    fn load_end(&self) -> Duration {
        self.window_end() + self.window.mul_f64(COOLDOWN_PART)
    }

    /// The longest message.
    fn bytes_max(&self) -> usize {
        self.classes.iter().map(|class| class.bytes as usize).max().unwrap_or(0)
    }

    /// How long the answer to a message is.
    fn answer_bytes(&self, class: usize) -> usize {
        match self.reply {
            Reply::Ack => ACK_BYTES,
            Reply::Echo => self.classes[class].bytes as usize,
        }
    }

    /// Answers messages as the plan asks for.
    fn serve(&self, endpoint: &farcall::Endpoint) {
        let reply_kind = self.reply;
        endpoint.serve(MESSAGE, move |request, reply| match reply_kind {
            Reply::Ack => reply.send(&[0; ACK_BYTES]),
            Reply::Echo => reply.send(request.payload()),
        });
    }
}

/// Why a rank could not send its messages.
#[derive(Debug, thiserror::Error)]
enum SenderError {
    /// A message failed.
    #[error("a message failed: {0}")]
    Call(#[from] farcall::CallError),
    /// An answer was not what was asked for.
    #[error("an answer had the wrong length")]
    WrongLength,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(roles: Roles, reply: Reply) -> WorkloadTest {
        WorkloadTest {
            assignments: vec!["homa.overcommit=4".to_owned()],
            mix: SizeMix::parse("test", "1000 1").expect("it is a mix"),
            replay: None,
            load: 0.8,
            link_bits_per_second: 1e9,
            roles,
            reply,
            messages: 500,
            lasting: Duration::from_secs(1),
            seed: 1,
            trace: false,
        }
    }

    #[test]
    fn the_links_that_have_most_to_carry_get_the_load() {
        let rate = |roles, reply| test(roles, reply).messages_per_second().round();
        assert_eq!(rate(Roles::Everyone(16), Reply::Ack), 100_000.0);
        assert_eq!(rate(Roles::Everyone(16), Reply::Echo), 50_000.0);
        assert_eq!(rate(Roles::Apart { clients: 4, servers: 1 }, Reply::Echo), 25_000.0);
        assert_eq!(rate(Roles::Apart { clients: 1, servers: 4 }, Reply::Ack), 100_000.0);
    }

    #[test]
    fn the_window_ends_by_messages_or_by_time() {
        let plan = test(Roles::Everyone(2), Reply::Ack).plan(TransportKind::HOMA_SIM);
        assert_eq!((plan.window, plan.load_end()), (Duration::from_millis(5), Duration::from_micros(8_750)));
        let short =
            WorkloadTest { lasting: Duration::from_millis(2), ..test(Roles::Everyone(2), Reply::Ack) };
        assert_eq!(short.plan(TransportKind::HOMA_SIM).window, Duration::from_millis(2));
        for group in ["ring", "basic", "homa", "tcp", "ucx", "mpi"] {
            assert!(plan.settings.contains(&format!("{group}.message_bytes_max=1024")), "{group}");
        }
        let last = plan.settings.last().map(String::as_str);
        assert_eq!(last, Some("homa.overcommit=4"), "what the user says comes last");
    }

    #[test]
    fn recorded_messages_have_the_load_and_the_time_that_their_file_gives_them() {
        let lines =
            (0..1_751).map(|number| format!("{{\"time\": {}, \"size\": 1000}}\n", f64::from(number) / 1e6));
        let text: String = lines.collect();
        let file = Recorded::read(std::path::Path::new("a"), text.as_bytes()).expect("it is right");
        let replay = Replay { file: Arc::new(file), speed: 0.5 };
        let roles = Roles::Apart { clients: 2, servers: 1 };
        // 500,000 messages of 1000 bytes a second to one server.
        let load = replay.load(8e9, roles, Reply::Ack);
        assert!((load - 0.5).abs() < 1e-3, "{load}");
        let test = WorkloadTest {
            mix: replay.file.mix(),
            replay: Some(replay),
            load,
            link_bits_per_second: 8e9,
            ..test(roles, Reply::Ack)
        };
        assert!((test.messages_per_second() / 250_000.0 - 1.0).abs() < 1e-3);
        assert_eq!(test.plan(TransportKind::BASIC_SIM).window, Duration::from_millis(2));
        assert_eq!(test.lasts(), Duration::from_micros(3_500));
    }

    #[test]
    fn everyone_sends_to_all_others_and_clients_to_all_servers() {
        assert_eq!(Roles::Everyone(3).receivers_of(1), [0, 2]);
        let apart = Roles::Apart { clients: 2, servers: 2 };
        assert_eq!(apart.receivers_of(3), [0, 1]);
        assert!(apart.receivers_of(1).is_empty());
        assert_eq!((apart.first_sender(), Roles::Everyone(3).first_sender()), (2, 0));
    }
}
