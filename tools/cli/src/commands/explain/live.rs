//! `farcall explain --pid`: what limits processes that run, read from outside for some seconds.

use core::time::Duration;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Instant;

use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::run::ways::Ways;

use super::shard::Shard;
use super::waits::{self, Party, Wait};
use crate::commands::processes::change::{Change, IN_FLIGHT, seconds};
use crate::commands::processes::cores::Taken;
use crate::commands::processes::read;
use crate::commands::processes::sample::Sample;
use crate::failure::Failure;

/// How often what changes all the time is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A cause that takes less of the time is not named.
const SHARE_MIN: f64 = 0.05;

/// The most causes that are named for one process.
const CAUSES_MAX: usize = 4;

/// From where the share of the time that a cause takes is read.
enum Reads {
    /// A counter of nanoseconds, of which as many pass at a time as calls are in flight.
    NanosOfCalls(&'static str),
    /// A counter of events, against the calls and requests of the same time.
    EventsOfCalls(&'static str),
    /// Time ready to run without a core.
    WaitedForCore,
    /// The share of looks at which a handler ran.
    Handlers,
    /// The share of the time on a core, while turns find something.
    BusyPolls,
    /// The share of the time for which the log of a shard flushes, as far as its own disk takes that.
    Disk,
    /// The same, as far as its replicas take it.
    Replicas,
}

/// A cause of a process that runs.
struct Rule {
    name: &'static str,
    reads: Reads,
    cause: &'static str,
    next: &'static str,
}

/// All of them. A new cause is a new row.
const RULES: &[Rule] = &[
    Rule {
        name: "core",
        reads: Reads::WaitedForCore,
        cause: "waiting for a core: by the kernel's account it was ready and did not run",
        next: "a core of its own (`taskset -pc`), or fewer threads on this one",
    },
    Rule {
        name: "loss",
        reads: Reads::NanosOfCalls("silence_time"),
        cause: "waits for what is sent again: packets are lost, or the peer is late",
        next: "where they are lost: `farcall stat` of both sides, and the drops of the interface",
    },
    Rule {
        name: "ring_room",
        reads: Reads::EventsOfCalls("waited_for_room"),
        cause: "room in rings, block memory or the peer's window: messages had to wait for it",
        next: "twice the `ring.ring_bytes`, or a peer that reads sooner",
    },
    Rule {
        name: "block_memory",
        reads: Reads::EventsOfCalls("blocks_full"),
        cause: "block memory: long payloads found none",
        next: "twice the `shm.block_bytes`",
    },
    Rule {
        name: "message_window",
        reads: Reads::EventsOfCalls("window_full"),
        cause: "the peer's window for tagged messages: it was full",
        next: "twice the `endpoint.unexpected_bytes` at the receiver, or a receiver that posts sooner",
    },
    Rule {
        name: "send_buffer",
        reads: Reads::EventsOfCalls("send_blocked"),
        cause: "the kernel's send buffer: it was full",
        next: "a larger `net.core.wmem_default`, or fewer packets at a time",
    },
    Rule {
        name: "receive_buffers",
        reads: Reads::EventsOfCalls("buffers_exhausted"),
        cause: "receive buffers: the caller held them all",
        next: "handlers that return sooner what they were lent",
    },
    Rule {
        name: "flush",
        reads: Reads::Disk,
        cause: "the flushes of a shard's log: durable writes wait for its disk",
        next: "more writes in flight, which share a flush, or a disk that flushes sooner (`--data` on another one)",
    },
    Rule {
        name: "replica_round_trip",
        reads: Reads::Replicas,
        cause: "the replicas of a shard: durable writes wait for their answers",
        next: "the slowest backup: `farcall explain --pid` of it, its disk if it flushes, and `farcall doctor --peer` of the path",
    },
    Rule {
        name: "handler",
        reads: Reads::Handlers,
        cause: "a handler",
        next: "the handler under a profiler, or its work in another thread (`Reply::defer`)",
    },
    Rule {
        name: "poll_loop",
        reads: Reads::BusyPolls,
        cause: "the poll loop: its turns find work all the time",
        next: "a second endpoint in a thread of its own, or fewer calls to this one",
    },
];

/// What one process did meanwhile.
struct Watched {
    then: Sample,
    now: Sample,
    /// At how many looks each service's handler ran.
    handlers: BTreeMap<u64, u32>,
    looks: u32,
}

/// Watches the processes for some time and says what limits each, and who waits for whom.
pub fn watch(pids: &[u32], lasting: Duration) -> Result<Vec<Finding>, Failure> {
    let first = |pid: &u32| {
        let then = read(*pid)?;
        Ok(Watched { now: then.clone(), then, handlers: BTreeMap::new(), looks: 0 })
    };
    let mut watched = pids.iter().map(first).collect::<Result<Vec<_>, Failure>>()?;
    let until = Instant::now() + lasting;
    while Instant::now() < until {
        sleep(LOOK_EVERY);
        watched.iter_mut().try_for_each(Watched::look)?;
    }
    let parties: Vec<_> = watched.iter().map(Watched::party).collect();
    let mut findings = waits::findings(&parties);
    findings.extend(watched.iter().flat_map(Watched::ways));
    findings.extend(watched.iter().filter_map(Watched::core_taken));
    findings.extend(watched.iter().flat_map(Watched::causes));
    findings.extend(
        watched
            .iter()
            .flat_map(|process| Shard::of(&process.then, &process.now))
            .flat_map(|shard| shard.said()),
    );
    findings.sort_by_key(|finding| finding.section);
    Ok(findings)
}

impl Watched {
    fn look(&mut self) -> Result<(), Failure> {
        self.now = read(self.then.pid)?;
        self.looks += 1;
        for service in running(&self.now) {
            *self.handlers.entry(service).or_default() += 1;
        }
        Ok(())
    }

    fn party(&self) -> Party {
        let changes = Change::of(&self.then, &self.now);
        let endpoints = changes.iter().filter(|change| change.is_endpoint());
        let incarnations = endpoints.clone().filter_map(|change| change.value("incarnation"));
        let waits = endpoints.filter_map(|change| {
            let nanos = change.value("stalled_time").filter(|nanos| *nanos > 0)?;
            Some(Wait {
                endpoint: change.now.label.clone(),
                on: change.value("stalled_on")?,
                service: change.value("stalled_service")?,
                seconds: nanos as f64 / 1e9,
            })
        });
        Party {
            pid: self.now.pid,
            incarnations: incarnations.collect(),
            waits: waits.collect(),
            handlers: running(&self.now),
        }
    }

    /// A core that it was put on and may not use any more.
    fn core_taken(&self) -> Option<Finding> {
        let taken = Taken::of(&self.now)?;
        let sentence = format!("{taken}; {}", Taken::ADVICE);
        let figures = [("core", taken.core as f64), ("threads", taken.threads as f64)];
        Some(Finding::new(Section::Caution, "core_taken", self.now.pid.to_string(), sentence).with(figures))
    }

    /// Which ways its sessions take, where there are several.
    fn ways(&self) -> Vec<Finding> {
        let about = self.now.pid.to_string();
        let said = Ways::of_process(&self.now.snapshot).into_iter().map(|ways| ways.to_string());
        said.map(|said| Finding::new(Section::Assumption, "ways", &about, said)).collect()
    }

    /// The causes of this process, those that take the most first.
    fn causes(&self) -> Vec<Finding> {
        let of_rule = |rule: &'static Rule| Some((rule, self.taken(&rule.reads)?));
        let mut causes: Vec<_> =
            RULES.iter().filter_map(of_rule).filter(|(_, (share, _))| *share >= SHARE_MIN).collect();
        causes.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        causes.truncate(CAUSES_MAX);
        let about = self.now.pid.to_string();
        let Some((first, _)) = causes.first() else { return vec![self.nothing(&about)] };
        let next = Finding::new(Section::NextExperiment, "change_the_first", &about, first.next.to_owned());
        let hypothesis = |(place, (rule, (share, figure))): (usize, &(&Rule, (f64, String)))| {
            let sentence =
                format!("{}. {}: {figure}; consistent with its counters, not tested", place + 1, rule.cause);
            let figures = [("rank", (place + 1) as f64), ("share_percent", share * 100.0)];
            Finding::new(Section::Hypothesis, rule.name, &about, sentence).with(figures)
        };
        causes.iter().enumerate().map(hypothesis).chain([next]).collect()
    }

    fn nothing(&self, about: &str) -> Finding {
        let sentence = format!(
            "none of the causes that I know: it ran {:.0} % of the time on a core, waited {:.0} % for one, and its turns found \
             something {:.0} % of the time",
            self.kernel(|schedule| schedule.ran_nanos).unwrap_or(0.0) * 100.0,
            self.kernel(|schedule| schedule.waited_nanos).unwrap_or(0.0) * 100.0,
            self.busy().unwrap_or(0.0) * 100.0
        );
        Finding::new(Section::NotIdentifiable, "none_known", about, sentence)
    }

    fn taken(&self, reads: &Reads) -> Option<(f64, String)> {
        match reads {
            Reads::NanosOfCalls(name) => {
                let nanos = self.rate(name);
                let in_flight = self.level(IN_FLIGHT).max(1.0);
                let share = nanos / 1e9 / in_flight;
                Some((
                    share.min(1.0),
                    format!(
                        "`{name}` grew by {:.0} ms a second with {in_flight:.0} calls in flight",
                        nanos / 1e6
                    ),
                ))
            }
            Reads::EventsOfCalls(name) => {
                let (events, calls) =
                    (self.rate(name), self.rate("calls") + self.rate("requests") + self.rate("received"));
                let share = if calls > 0.0 { (events / calls).min(1.0) } else { 0.0 };
                Some((
                    share,
                    format!(
                        "`{name}` counted {events:.0} a second beside {calls:.0} calls, requests and messages"
                    ),
                ))
            }
            Reads::WaitedForCore => {
                let share = self.kernel(|schedule| schedule.waited_nanos)?;
                Some((share, format!("{:.0} % of the time", share * 100.0)))
            }
            Reads::Handlers => {
                let (service, looks) = self.handlers.iter().max_by_key(|(_, looks)| **looks)?;
                let share = f64::from(*looks) / f64::from(self.looks.max(1));
                Some((share, format!("that of service {service} ran at {looks} of {} looks", self.looks)))
            }
            Reads::Disk => self.shard(Shard::disk),
            Reads::Replicas => self.shard(Shard::replicas),
            Reads::BusyPolls => {
                let share = self.busy()? * self.kernel(|schedule| schedule.ran_nanos)?.min(1.0);
                Some((share, format!("they found something {:.0} % of the time", self.busy()? * 100.0)))
            }
        }
    }

    /// The shard of this process for which something takes the most.
    fn shard(&self, taken: fn(&Shard) -> Option<(f64, String)>) -> Option<(f64, String)> {
        let shards = Shard::of(&self.then, &self.now);
        shards.iter().filter_map(taken).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The share of turns that found something.
    fn busy(&self) -> Option<f64> {
        let polls = self.rate("polls");
        (polls > 0.0).then(|| self.rate("busy_polls") / polls)
    }

    /// What the kernel counts of its time, as a share of the time that passed.
    fn kernel(&self, of: fn(&crate::commands::processes::sample::Schedule) -> u64) -> Option<f64> {
        let (then, now) = (self.then.schedule.as_ref()?, self.now.schedule.as_ref()?);
        Some(of(now).saturating_sub(of(then)) as f64 / 1e9 / seconds(&self.then, &self.now))
    }

    /// How much a counter grew in a second, of all groups together.
    fn rate(&self, name: &str) -> f64 {
        Change::of(&self.then, &self.now).iter().filter_map(|change| change.rate(name)).sum()
    }

    /// A level now, of all groups together.
    fn level(&self, name: &str) -> f64 {
        Change::of(&self.then, &self.now).iter().filter_map(|change| change.value(name)).sum::<u64>() as f64
    }
}

/// The services whose handlers run in a process now.
fn running(sample: &Sample) -> Vec<u64> {
    let handlers = sample.snapshot.groups.iter().flat_map(|group| &group.counters);
    let handlers = handlers.filter(|counter| counter.name == "handler" && counter.value > 0);
    handlers.map(|counter| counter.value - 1).collect()
}
