//! The life of a client: closed loops through its slots.

use core::time::Duration;

use farcall::{Clock, Instant, Node};
use farcall_kv::daemon::{DaemonClient, SlotResponse};

use super::Job;
use super::control::{Meeting, meet};
use super::pattern::{PatternRequest, pattern};
use super::report::{ClientReport, ClientRun};
use super::slot_times::{SlotTimes, SlotUse};
use crate::statistics::histogram::LatencyHistogram;
use crate::statistics::warmup::WarmupDetector;

/// The longest warm-up.
const WARMUP_MAX: Duration = Duration::from_secs(1);

/// The shortest.
const WARMUP_MIN: Duration = Duration::from_millis(50);

/// While nothing comes, the daemon is looked for once in this many looks at the slots.
const CHECK_EVERY: u32 = 1 << 16;

/// Looks at a slot before the next one is looked at. The own rank answers in the order of the slots, and
/// looking at one that its daemon is about to write takes the line away: that is to happen only when the
/// daemon does something else.
const LOOKS_FOR_LOCAL: u32 = 128;

/// The same for what another rank answers, which takes long: others are answered meanwhile.
const LOOKS_FOR_REMOTE: u32 = 8;

/// Looks that find nothing after which others may have the core, when it is shared.
const LOOKS_BEFORE_YIELD: u32 = 8;

/// Answers that are taken one after the other, before the clock is read once for all of them and their slots
/// ask again. A latency ends when its answer has been taken and begins before its request is put into the
/// slot, so what the others of a group take makes it longer, and never shorter.
const GROUP: usize = 4;

/// Makes all runs.
pub(super) fn call(job: &Job, node: &Node, within: Duration) -> Result<ClientReport, String> {
    let bench = &job.bench;
    let number = node.rank() as usize - bench.ranks;
    let (rank, client) = (number / bench.clients, number % bench.clients);
    let slots = DaemonClient::attach(&job.slots_name(rank), within).map_err(|error| error.to_string())?;
    let requests = pattern(bench, rank, client);
    let mut slots = Loops::new(slots, &requests, job.shares_cores);
    let mut runs = Vec::with_capacity(bench.runs);
    for run in 0..bench.runs {
        let mut detector = WarmupDetector::new();
        let begun = slots.clock.now();
        let mut warm = None;
        slots.run(|now, nanos| {
            warm = warm.or_else(|| detector.observe(nanos));
            now - begun >= WARMUP_MAX || (warm.is_some() && now - begun >= WARMUP_MIN)
        })?;
        meet(node, Meeting::Warm, run, within)?;
        meet(node, Meeting::Go, run, within)?;
        let begun = slots.clock.now();
        let run_result = slots.run(|now, _| now - begun >= bench.lasting)?;
        meet(node, Meeting::Done, run, within)?;
        meet(node, Meeting::End, run, within)?;
        runs.push(ClientRun { warm: warm.is_some_and(|warm| warm.steady), ..run_result });
    }
    Ok(ClientReport { rank, runs })
}

/// One loop in each slot.
struct Loops<'a> {
    slots: DaemonClient,
    requests: &'a [PatternRequest],
    next: usize,
    clock: Clock,
    /// For each slot, its request's place in the pattern, and when it was asked.
    asked: Vec<Option<(usize, Instant)>>,
    yields: bool,
}

impl<'a> Loops<'a> {
    fn new(slots: DaemonClient, requests: &'a [PatternRequest], yields: bool) -> Self {
        let asked = vec![None; slots.depth()];
        Self { slots, requests, next: 0, clock: Clock::new(), asked, yields }
    }

    /// Asks in every slot, again and again until `is_last` says so of an answer: it gets the time and the
    /// latency. Requests that are in flight then are waited for, and counted.
    fn run(&mut self, mut is_last: impl FnMut(Instant, u64) -> bool) -> Result<ClientRun, String> {
        let mut classes = [LatencyHistogram::new(), LatencyHistogram::new()];
        let begun = self.clock.now();
        let mut times = SlotTimes::new(self.asked.len(), begun);
        for slot in 0..self.asked.len() {
            times.change(SlotUse::Idle, self.ask(slot, begun), begun);
        }
        let (mut in_flight, mut over, mut ended, mut idle) = (self.asked.len(), false, begun, 0_u32);
        let mut slot = 0;
        while in_flight > 0 {
            let Some((place, _)) = self.asked[slot] else {
                slot = self.slot_after(slot);
                continue;
            };
            let answered = self.take_answers(slot)?;
            if answered == 0 {
                self.wait(&mut idle)?;
                let looks = if self.requests[place].remote { LOOKS_FOR_REMOTE } else { LOOKS_FOR_LOCAL };
                if idle.is_multiple_of(looks) {
                    slot = self.slot_after(slot);
                }
                continue;
            }
            idle = 0;
            let now = self.clock.now();
            for _ in 0..answered {
                let (place, asked_at) = self.asked[slot].expect("it was answered");
                let nanos = now.as_nanos() - asked_at.as_nanos();
                let was = self.requests[place].class();
                classes[was as usize].record(nanos);
                over = over || is_last(now, nanos);
                if over {
                    self.asked[slot] = None;
                    times.change(was, SlotUse::Idle, now);
                    in_flight -= 1;
                    ended = now;
                } else {
                    let class = self.ask(slot, now);
                    times.change(was, class, now);
                }
                slot = self.slot_after(slot);
            }
        }
        let [local, remote] = classes.map(|class| class.to_counts());
        Ok(ClientRun {
            local,
            remote,
            slot_nanos: times.nanos(),
            begun_nanos: begun.as_nanos(),
            ended_nanos: ended.as_nanos(),
            warm: false,
        })
    }

    /// Takes the answers that are there in the slots from `first` on; gives how many.
    #[inline]
    fn take_answers(&mut self, first: usize) -> Result<usize, String> {
        let (mut slot, group) = (first, GROUP.min(self.asked.len()));
        for taken in 0..group {
            let Some((place, _)) = self.asked[slot] else { return Ok(taken) };
            match self.slots.take(slot) {
                None => return Ok(taken),
                Some(SlotResponse::Answer(answer)) if self.requests[place].good.is(answer) => {}
                Some(response) => return Err(format!("a request was answered by {response:?}")),
            }
            slot = self.slot_after(slot);
        }
        Ok(group)
    }

    /// Asks the next request in a slot; gives its class.
    #[inline]
    fn ask(&mut self, slot: usize, now: Instant) -> SlotUse {
        let place = self.next;
        self.next += 1;
        if self.next == self.requests.len() {
            self.next = 0;
        }
        let request = &self.requests[place];
        self.slots.ask_short(slot, request.call, &request.message);
        self.asked[slot] = Some((place, now));
        request.class()
    }

    #[inline]
    fn slot_after(&self, slot: usize) -> usize {
        if slot + 1 == self.asked.len() { 0 } else { slot + 1 }
    }

    /// Another look found nothing.
    #[inline]
    fn wait(&mut self, idle: &mut u32) -> Result<(), String> {
        *idle = idle.wrapping_add(1);
        if self.yields && idle.is_multiple_of(LOOKS_BEFORE_YIELD) {
            std::thread::yield_now();
        }
        if idle.is_multiple_of(CHECK_EVERY) {
            self.slots.check().map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
