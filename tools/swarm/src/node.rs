//! The program of a host: makes its calls when they are due, in every way that there is, and answers what its
//! handlers left to it.

use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;

use farcall::simulated::{Host, Program};
use farcall::{CallError, CallRefused, Cancellation, Endpoint, Event, Instant, Operation as Handle, Peer};

use crate::errands::Runner;
use crate::mailbox::{Mailbox, RECEIVE_TOKENS, SEND_TOKENS};
use crate::operations::{Completion, Operation, Serving, Start};
use crate::payload::Role;
use crate::serve::{Desk, answer, message, service_of};

/// After which time a call is made again that was one too many.
const POSTPONED_FOR: Duration = Duration::from_micros(40);

/// How often a call is made that is one too many; then it is left out.
const ATTEMPTS_MAX: u32 = 40;

/// Turns in a row that may do nothing although something is due, if they take longer than
/// [`IDLE_TIME_MAX`], too.
const IDLE_TURNS_MAX: u32 = 20_000;

/// How long turns may do nothing although something is due. A host waits so for a place in the queue of its
/// card, which no fabric announces, and the card may have a full queue of each host of the machine to send
/// before.
const IDLE_TIME_MAX: Duration = Duration::from_millis(5);

/// The program.
pub struct Node {
    rank: u32,
    endpoint: Rc<Endpoint>,
    desk: Desk,
    /// Calls to be made, and how often that was tried. The next is the last.
    due: Vec<(Instant, usize, u32)>,
    /// Hosts to part with. The next is the last.
    farewells: Vec<(Instant, u32)>,
    /// Calls to be cancelled.
    cancels: Vec<(Instant, Handle)>,
    futures: Vec<Running>,
    mailbox: Mailbox,
    errands: Option<Runner>,
    /// Hosts that the handlers call.
    partners: Vec<u32>,
    /// What its packets are counted by.
    host: Host,
    idle: Cell<Idle>,
    /// Whether the last turn did something.
    did_something: bool,
    /// Whether the handlers' sessions must be looked at.
    partners_changed: bool,
}

/// Turns in a row that did nothing although something was due.
#[derive(Clone, Copy)]
struct Idle {
    turns: u32,
    since: Instant,
    /// Packets that the host had sent by then. To send is to do something, although no turn says so.
    packets_sent: u64,
}

impl Idle {
    const NONE: Self = Self { turns: 0, since: Instant::ZERO, packets_sent: 0 };

    /// A turn at `now` did nothing; `packets_sent` is what the host has sent so far.
    fn turned(&mut self, now: Instant, packets_sent: u64) {
        if self.turns == 0 || packets_sent != self.packets_sent {
            *self = Self { turns: 0, since: now, packets_sent };
        }
        self.turns += 1;
    }

    /// Whether this goes on for too long; said again after as many turns.
    fn is_endless(&self, now: Instant) -> bool {
        self.turns.is_multiple_of(IDLE_TURNS_MAX) && now - self.since > IDLE_TIME_MAX
    }
}

/// A call whose end is a future.
struct Running {
    call: usize,
    attempts: u32,
    future: Pin<Box<dyn Future<Output = Result<(), CallError>>>>,
    cancel_at: Instant,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Set when a future was woken.
struct Signal(AtomicBool);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Node {
    /// The program of a life that begins now; `errands` are those of its second endpoint.
    pub fn new(rank: u32, endpoint: Rc<Endpoint>, desk: Desk, host: Host, errands: Option<Runner>) -> Self {
        desk.serve(&endpoint);
        let now = desk.clock.now();
        let scenario = Arc::clone(&desk.scenario);
        let calls = scenario.operations.iter().enumerate().filter(|(_, operation)| operation.caller == rank);
        let at = |operation: &Operation| match operation.start {
            Start::At(at) => Some(Instant::ZERO + at),
            Start::Probe => Some(Instant::ZERO + scenario.probes_at()),
            Start::InHandler | Start::Never => None,
        };
        // What a former life has not done stays undone.
        let planned = calls.filter_map(|(call, operation)| Some((at(operation)?, call, 0)));
        let mut due: Vec<_> = planned.filter(|(at, ..)| *at >= now).collect();
        due.sort_unstable_by(|a, b| b.cmp(a));
        let farewells = scenario.farewells.iter().filter(|farewell| farewell.from == rank);
        let farewells = farewells.map(|farewell| (Instant::ZERO + farewell.at, farewell.to));
        let mut farewells: Vec<_> = farewells.filter(|(at, _)| *at >= now).collect();
        farewells.sort_unstable_by(|a, b| b.cmp(a));
        let partners = partners_of(rank, &scenario.operations);
        let partners_changed = !partners.is_empty();
        let (cancels, futures) = (Vec::new(), Vec::new());
        let mailbox = Mailbox::new(rank, Rc::clone(&endpoint), desk.clone());
        Self {
            rank,
            endpoint,
            desk,
            due,
            farewells,
            cancels,
            futures,
            mailbox,
            errands,
            host,
            idle: Cell::new(Idle::NONE),
            did_something: true,
            partners,
            partners_changed,
        }
    }

    fn now(&self) -> Instant {
        self.desk.clock.now()
    }

    fn make_due_calls(&mut self) -> usize {
        let mut made = 0;
        while self.due.last().is_some_and(|(at, ..)| *at <= self.now()) {
            if let Some((_, call, attempts)) = self.due.pop() {
                self.make(call, attempts + 1);
                made += 1;
            }
        }
        made
    }

    fn make(&mut self, call: usize, attempts: u32) {
        let scenario = Arc::clone(&self.desk.scenario);
        let operation = &scenario.operations[call];
        let now = self.now();
        self.desk.ledger.lock().begin(call, now);
        match self.endpoint.peer(operation.callee) {
            Ok(peer) => self.make_to(peer, call, operation, attempts),
            Err(error) => self.desk.ledger.lock().nobody(call, &error, now),
        }
    }

    fn make_to(&mut self, peer: Peer, call: usize, operation: &Operation, attempts: u32) {
        let request = message(call, Role::Request, operation.request_bytes, operation.memory[0], |bytes| {
            self.endpoint.loan(bytes).ok()
        });
        let cancel_at = operation.cancel_after.map_or(Instant::NEVER, |after| self.now() + after);
        let desk = self.desk.clone();
        let prepared =
            self.endpoint.call(peer, service_of(call, operation), request).within(operation.within);
        let handle = match operation.completion {
            Completion::Event => prepared.post(call as u64),
            Completion::Callback => prepared.then(move |_, outcome| {
                let result = outcome.as_ref().map(|answer| &answer[..]);
                desk.ledger.lock().end(call, result, desk.clock.now());
            }),
            Completion::Future => return self.make_future(peer, call, operation, attempts, cancel_at),
        };
        match handle {
            Ok(handle) if cancel_at < Instant::NEVER => self.cancels.push((cancel_at, handle)),
            Ok(_) => {}
            Err(error) => self.not_made(call, attempts, &error),
        }
    }

    fn make_future(
        &mut self,
        peer: Peer,
        call: usize,
        operation: &Operation,
        attempts: u32,
        cancel_at: Instant,
    ) {
        let (endpoint, desk, operation) = (Rc::clone(&self.endpoint), self.desk.clone(), operation.clone());
        let future = async move {
            let memory = operation.memory[0];
            let request = message(call, Role::Request, operation.request_bytes, memory, |bytes| {
                endpoint.loan(bytes).ok()
            });
            let pending = endpoint
                .call(peer, service_of(call, &operation), request)
                .within(operation.within)
                .start()?;
            let result = pending.await;
            let result = result.as_ref().map(|answer| &answer[..]);
            desk.ledger.lock().end(call, result, desk.clock.now());
            Ok(())
        };
        let signal = Arc::new(Signal(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&signal));
        self.futures.push(Running { call, attempts, future: Box::pin(future), cancel_at, signal, waker });
    }

    /// A call was not accepted. One too many may be made later.
    fn not_made(&mut self, call: usize, attempts: u32, error: &CallError) {
        let now = self.now();
        let too_many = matches!(error, CallError::NotSent(CallRefused::TooManyCalls { .. }));
        if !too_many || attempts >= ATTEMPTS_MAX {
            return self.desk.ledger.lock().refused(call, error, now);
        }
        self.desk.ledger.lock().postponed(call);
        let at = now + POSTPONED_FOR;
        let place = self.due.partition_point(|(other, ..)| *other > at);
        self.due.insert(place, (at, call, attempts));
    }

    /// Who has crashed cannot be parted with.
    fn part(&mut self) -> usize {
        let mut parted = 0;
        while let Some((_, peer)) = self.farewells.pop_if(|(at, _)| *at <= self.desk.clock.now()) {
            if let Ok(peer) = self.endpoint.peer(peer) {
                self.endpoint.close(peer);
                parted += 1;
            }
        }
        parted
    }

    fn cancel_due_calls(&mut self) -> usize {
        let now = self.now();
        let (due, waiting): (Vec<_>, Vec<_>) = self.cancels.drain(..).partition(|(at, _)| *at <= now);
        self.cancels = waiting;
        due.iter().filter(|(_, handle)| self.endpoint.cancel(*handle) == Cancellation::Cancelled).count()
    }

    fn answer_due_requests(&mut self) -> usize {
        let due = self.desk.due(self.now());
        let answered = due.len();
        for (call, deferred) in due {
            let operation = &self.desk.scenario.operations[call];
            match operation.serving {
                Serving::RefuseLater(_, code) => self.endpoint.refuse(deferred, code),
                Serving::AbandonLater(_) => drop(deferred),
                _ => {
                    let answer = answer(call, operation, |bytes| self.endpoint.loan(bytes).ok());
                    self.endpoint.reply(deferred, answer);
                }
            }
        }
        answered
    }

    fn poll_endpoint(&mut self) -> usize {
        let (desk, rank, changed) = (&self.desk, self.rank, &mut self.partners_changed);
        self.endpoint.poll(|_, event| match event {
            Event::Completed { token, outcome } => {
                let result = outcome.as_ref().map(|answer| &answer[..]);
                desk.ledger.lock().end(token as usize, result, desk.clock.now());
            }
            Event::PeerDown { peer, reason } => {
                let mut ledger = desk.ledger.lock();
                ledger.peer_down(desk.scenario.transport, rank, peer.rank(), &reason, desk.clock.now());
                ledger.way_ends(rank, peer);
                *changed = true;
            }
            Event::Sent { token, outcome } => {
                let (number, now) = ((token - SEND_TOKENS) as usize, desk.clock.now());
                desk.ledger.lock().send_ends(number, outcome.as_ref().copied(), now);
            }
            Event::Received { token, outcome } => {
                let number = (token - RECEIVE_TOKENS) as usize;
                let result =
                    outcome.as_ref().map(|message| (message.peer().rank(), message.tag().0, &message[..]));
                desk.ledger.lock().receive_ends(number, result, desk.clock.now());
            }
        })
    }

    /// Runs the futures that were woken, and drops those that are to be cancelled.
    fn run_futures(&mut self) -> usize {
        let now = self.now();
        let mut woken = 0;
        for mut running in core::mem::take(&mut self.futures) {
            if running.cancel_at <= now {
                self.cancel_future(running, now);
                continue;
            }
            if !running.signal.0.swap(false, Ordering::Relaxed) {
                self.futures.push(running);
                continue;
            }
            woken += 1;
            match running.future.as_mut().poll(&mut TaskContext::from_waker(&running.waker)) {
                Poll::Pending => self.futures.push(running),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => self.not_made(running.call, running.attempts, &error),
            }
        }
        woken
    }

    fn cancel_future(&self, running: Running, now: Instant) {
        drop(running.future);
        self.desk.ledger.lock().end(running.call, Err(&CallError::Cancelled), now);
    }

    /// Nobody holds more than the agreed limits admit: two sessions a peer, where both have connected at
    /// once.
    fn check_holdings(&self) {
        let (scenario, held) = (&self.desk.scenario, self.endpoint.holdings());
        let calls_max = 2 * scenario.hosts as usize * scenario.tuning.calls_max;
        if held.calls > calls_max || held.requests > calls_max || held.backlog > 2 * calls_max {
            let what = format!("host {} holds {held:?}, more than {calls_max} calls", self.rank);
            self.desk.ledger.lock().violation(self.now(), what);
        }
    }

    /// Turns that do nothing although something is due do not go on for ever.
    fn check_progress(&self, next: Option<Instant>) {
        let now = self.now();
        if self.did_something || next.is_none_or(|at| at > now) {
            return self.idle.set(Idle::NONE);
        }
        let mut idle = self.idle.get();
        idle.turned(now, self.host.usage().packets_sent);
        self.idle.set(idle);
        if idle.is_endless(now) {
            let (turns, lasts) = (idle.turns, now - idle.since);
            let what = format!("host {} was turned {turns} times in {lasts:?} for nothing", self.rank);
            self.desk.ledger.lock().violation(now, what);
        }
    }

    /// Sees to it that handlers find sessions to those whom they call.
    fn renew_partners(&mut self) {
        if core::mem::take(&mut self.partners_changed) {
            let peers = self.partners.iter().filter_map(|rank| self.endpoint.peer(*rank).ok());
            self.desk.set_peers(peers.collect());
        }
    }
}

impl Program for Node {
    fn turn(&mut self) -> usize {
        self.renew_partners();
        let done = self.make_due_calls() + self.part() + self.cancel_due_calls() + self.answer_due_requests();
        let done = done + self.mailbox.turn() + self.errands.as_mut().map_or(0, Runner::turn);
        let done = done + self.poll_endpoint() + self.run_futures() + self.mailbox.run_futures();
        self.did_something = done > 0;
        if self.did_something {
            self.check_holdings();
        }
        done
    }

    fn next_deadline(&self) -> Option<Instant> {
        let woken = self.futures.iter().any(|running| running.signal.0.load(Ordering::Relaxed));
        let calls = self.due.last().map(|(at, ..)| *at);
        let farewells = self.farewells.last().map(|(at, _)| *at);
        let cancels = self.cancels.iter().map(|(at, _)| *at);
        let futures = self.futures.iter().map(|running| running.cancel_at);
        let own = cancels.chain(futures).chain(calls).chain(farewells).chain(self.desk.next_due());
        let own = own.chain(self.mailbox.next_deadline());
        let errands = self.errands.as_ref().and_then(Runner::next_deadline);
        let own = own.chain(errands).filter(|at| *at < Instant::NEVER);
        let next = own.chain(self.endpoint.next_deadline()).chain(woken.then_some(Instant::ZERO)).min();
        self.check_progress(next);
        next
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.desk.ledger.lock().life_ended(self.rank);
    }
}

/// The hosts that the handlers of a host call.
fn partners_of(rank: u32, operations: &[Operation]) -> Vec<u32> {
    let further = operations.iter().filter(|operation| operation.start == Start::InHandler);
    let mut partners: Vec<_> =
        further.filter(|operation| operation.caller == rank).map(|operation| operation.callee).collect();
    partners.sort_unstable();
    partners.dedup();
    partners
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in twice as many turns as may do nothing, of so many nanoseconds each, if a packet
    /// leaves after every `turns_per_packet` of them.
    fn is_endless(turn_ns: u64, turns_per_packet: u32) -> bool {
        let mut idle = Idle::NONE;
        (0..2 * IDLE_TURNS_MAX).any(|turn| {
            let now = Instant::from_nanos(u64::from(turn) * turn_ns);
            idle.turned(now, u64::from(turn / turns_per_packet));
            idle.is_endless(now)
        })
    }

    #[test]
    fn a_host_that_sends_or_waits_for_its_card_is_not_turned_for_nothing() {
        let never = u32::MAX;
        assert!(is_endless(500, never));
        assert!(!is_endless(10, never), "all turns take less time than a card may need");
        assert!(!is_endless(500, 100), "a packet leaves in each hundred turns");
    }
}
