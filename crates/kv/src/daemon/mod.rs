//! A daemon: one thread that polls for the processes of its host.
//!
//! A turn of its loop polls the network, where it serves its shard to others and gets their answers, and then
//! looks at the slots of its clients. What its own shard has is answered in place; other requests leave
//! together at the start of the next turn. Both halves of a turn are bounded: the transport reads a bounded
//! number of records from each peer, each slot holds one request, and of the requests for more than one
//! object one is done in a turn, so that neither side keeps the other waiting.

mod client;
mod counters;
pub(crate) mod flight;
mod host;
mod message;
mod moving;
mod observe;
mod shards;
mod waiting;

use core::cell::RefCell;
use core::time::Duration;
use std::io;

use farcall::{CallError, ConnectError, Context, Endpoint, Event, Outcome, Reply, Request, Service};
use farcall_base::Instant;
use farcall_driver::CounterFile;

pub use client::{DaemonClient, SlotFailure};
pub use counters::DaemonCounters;
pub use flight::{SlotCall, SlotCallFailure, SlotCalls, SlotOutcome, SlotRefusal};
pub use host::{DAEMONS_PER_HOST_MAX, attach_on_host, attach_on_host_within, listen_on_host, name_on_host};
pub use message::{SlotResponse, call_number};
pub use observe::{NobodyObserves, Observer, Phase};

use self::message::{NO_ANSWER, NOT_PASSED_ON, TOO_LONG, service_of};
use self::shards::Shards;
use self::waiting::WaitingRequests;
use crate::durable::{Parked, Released};
use crate::guard::{TableGuard, words_of};
use crate::placement::Mover;
use crate::replicated::Replicator;
use crate::shard::{Answer, NotHere, Shard, Turn};
use crate::shared::{Held, SharedShard};
use crate::slots::{Responder, SlotAddress, SlotServer};
use crate::wire::{Code, DELETE, GET, INCREMENT, LOOK_AT_MAP, ONCE, PUT};

/// So many turns after a request for one object the requests for many are still done in short turns: such a
/// client may ask again.
const SHORT_TURNS: u64 = 1024;

/// Clients that come and go are looked after once in this many turns: it takes system calls.
const ATTEND_EVERY: u64 = 4096;

/// The same while there are none and nothing happens: a turn may be a sleep then, out of which a new client
/// wakes us.
const ATTEND_EVERY_IDLE: u32 = 64;

/// Clients are looked after once in this time while nothing happens, however long a turn takes: on a busy
/// machine one that yields may take as long as all others together.
const ATTEND_WITHIN: Duration = Duration::from_millis(20);

/// The longest sleep of a daemon with a replicator, which has leases to renew.
const REPLICATOR_NAP: Duration = Duration::from_millis(5);

/// After this many turns that found nothing a daemon asks what to do meanwhile.
const IDLE_AFTER: u32 = 256;

/// A shard, its clients, and the way to the other shards.
pub struct Daemon<'e> {
    endpoint: &'e Endpoint,
    shard: Held<'e>,
    shards: Shards,
    slots: SlotServer,
    waiting: WaitingRequests,
    /// Carries what the shard's log says to its backups.
    replicator: Option<Replicator<'e>>,
    /// Follows the map of hash slots, and moves what is to go from here.
    mover: Option<Mover>,
    /// What its clients may do; `None` without a policy, so that they may do everything.
    guard: Option<TableGuard>,
    turns: u64,
    /// The last turn in which anybody asked for one object.
    object_turn: u64,
    /// Turns since one found something.
    idle_turns: u32,
    /// When clients are looked after next, if nothing happens.
    attend_at: Instant,
    counters: DaemonCounters,
}

impl<'e> Daemon<'e> {
    /// The daemon of shard `own` of `shards`. Shard n is endpoint 0 of rank n. It asks those that it has met.
    pub fn new(endpoint: &'e Endpoint, shard: Shard, of: (u32, u32), slots: SlotServer) -> Self {
        Self::with(endpoint, Held::Own(Box::new(shard)), of, slots)
    }

    /// The same with a shard that another thread uses as well.
    pub fn sharing(
        endpoint: &'e Endpoint,
        shared: &'e SharedShard,
        of: (u32, u32),
        slots: SlotServer,
    ) -> Self {
        Self::with(endpoint, Held::Shared { shared, guard: None }, of, slots)
    }

    fn with(endpoint: &'e Endpoint, shard: Held<'e>, (own, shards): (u32, u32), slots: SlotServer) -> Self {
        let counters = DaemonCounters::new(CounterFile::process(), &format!("kv-daemon#{own}"));
        let shards = Shards::new(own, shards);
        let waiting = WaitingRequests::default();
        let (replicator, mover, guard) = (None, None, None);
        let (turns, object_turn, idle_turns, attend_at) = (0, 0, 0, Instant::ZERO);
        Self {
            endpoint,
            shard,
            shards,
            slots,
            waiting,
            replicator,
            mover,
            guard,
            turns,
            object_turn,
            idle_turns,
            attend_at,
            counters,
        }
    }

    /// Asks a policy what its clients may do, whichever way they come. The endpoint's own is asked about
    /// requests no longer.
    pub fn guard_by(&mut self, guard: TableGuard) {
        self.endpoint.leave_requests_to_caller();
        self.guard = Some(guard);
    }

    /// Carries the messages of the mirror that its shard's log has.
    pub fn replicate(&mut self, replicator: Replicator<'e>) {
        self.replicator = Some(replicator);
    }

    /// Why another process is the primary of its shard now; `None` while none is.
    pub fn replaced(&self) -> Option<String> {
        self.replicator.as_ref()?.mirror().deposed()
    }

    /// Whether its shard was asked to hand over, and has answered everything.
    pub fn is_handed_over(&mut self) -> bool {
        self.replicator.is_some() && self.shard.shard().is_handed_over()
    }

    /// Opens sessions to all other shards, and waits for each until it is known. Requests may come before the
    /// sessions are up.
    pub fn meet_all(&mut self) -> Result<(), ConnectError> {
        for rank in self.shards.others() {
            self.shards.met(self.endpoint.peer(rank)?);
        }
        Ok(())
    }

    /// Opens sessions to those of the other shards that are known already, which may take `within` to find
    /// out for each. Those that start later do the same, so that any two have met when both run. Sessions
    /// that are up by then are kept alive meanwhile, as long as one look is shorter than
    /// `endpoint.peer_timeout`.
    pub fn meet_present(&mut self, within: Duration) {
        for rank in self.shards.others() {
            if let Ok(peer) = self.endpoint.peer_within(rank, within) {
                self.shards.met(peer);
            }
            self.poll_network(false, &mut NobodyObserves);
        }
    }

    /// Lets [`turn_idle`](Self::turn_idle) wake from a sleep when a client comes. Once for a daemon's
    /// endpoint.
    pub fn wake_for_clients(&self) -> io::Result<()> {
        if let Some(waker) = self.slots.waker()? {
            self.endpoint.wake_for(waker);
        }
        if let Some(waker) = self.shard.waker() {
            self.endpoint.wake_for(waker?);
        }
        Ok(())
    }

    /// What it counts.
    pub fn counters(&self) -> &DaemonCounters {
        &self.counters
    }

    /// Its shard; one that is shared is held until the end of the next turn.
    pub fn shard(&mut self) -> &Shard {
        self.shard.shard()
    }

    /// What keeps the shard from being of use; see [`Shard::hindrance`].
    pub fn hindrance(&mut self) -> Option<Code> {
        let hindrance = self.shard.shard().hindrance();
        self.shard.release();
        hindrance
    }

    /// Whether the registry did not answer when it was asked last: once the lease is over nobody is answered.
    pub fn is_registry_silent(&self) -> bool {
        self.replicator.as_ref().is_some_and(|replicator| replicator.mirror().status().silence.is_some())
    }

    /// Clients that are attached.
    pub fn clients(&self) -> usize {
        self.slots.attached()
    }

    /// One turn of the loop. Never blocks, but for the look at the directory for a shard that was lost, which
    /// is rare and takes ten milliseconds at most. Tells the observer when each phase ends and what it found.
    #[inline]
    pub fn turn<O: Observer>(&mut self, observer: &mut O) -> usize {
        self.counters.turns.increment();
        self.shard.begin_turn();
        if O::OBSERVES && self.endpoint.flush() {
            observer.ended(Phase::Flush, 1);
        }
        let mut received = self.poll_network(false, observer);
        observer.ended(Phase::Network, received);
        if !self.waiting.is_empty() {
            received += self.answer_waiting(observer);
        }
        let mut taken = self.scan_slots();
        if self.shard.wants_log_turn() {
            taken += self.turn_log();
        }
        if let Some(replicator) = &mut self.replicator {
            taken += replicator.turn();
        }
        taken += self.move_slots();
        observer.ended(Phase::Slots, taken);
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(ATTEND_EVERY) {
            observer.ended(Phase::Attendance, self.attend());
        }
        self.shard.release();
        observer.turn_ended();
        received + taken
    }

    /// A turn, followed by what the endpoint's idle policy says when nothing has happened for a while. A
    /// request in a slot wakes nobody: while there are clients the daemon yields where it would sleep.
    pub fn turn_idle(&mut self) {
        if self.turn(&mut NobodyObserves) > 0 {
            self.idle_turns = 0;
            return;
        }
        let has_more = self.shard.shard().sweep();
        self.shard.release();
        if has_more {
            self.idle_turns = 0;
            return;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        if self.idle_turns < IDLE_AFTER {
            return;
        }
        let is_due = self.clients() == 0 && self.idle_turns.is_multiple_of(ATTEND_EVERY_IDLE);
        let now = self.endpoint.clock().now();
        if is_due || now >= self.attend_at {
            self.attend_at = now + ATTEND_WITHIN;
            self.attend();
        }
        // Neither a lease that is due nor the registry's answer wakes anybody: what else a replicator waits
        // for comes over the network.
        let moves = self.mover.as_ref().is_some_and(Mover::is_working);
        self.endpoint.stay_awake(moves || self.clients() > 0 || self.shard.is_flushing());
        self.endpoint.sleep_at_most(if self.replicator.is_some() { REPLICATOR_NAP } else { Duration::MAX });
        // It may sleep now, and others use the shard meanwhile.
        self.shard.release();
        // On a busy machine a turn that yields takes milliseconds: looking at one slot in each would take
        // seconds.
        if self.poll_network(true, &mut NobodyObserves) > 0 || self.slots.seek() {
            self.idle_turns = 0;
        }
        self.shard.release();
    }

    /// Serves the network and passes answers back; `idles` when the endpoint may wait for something to do.
    #[inline]
    fn poll_network(&mut self, idles: bool, observer: &mut impl Observer) -> usize {
        let Self { endpoint, shard, shards, slots, waiting, turns, object_turn, counters, .. } = self;
        let (replicator, mover, guard) = (&mut self.replicator, &self.mover, &mut self.guard);
        // The events are seen after the requests: both need what waits.
        let waiting = RefCell::new(waiting);
        let on_request = |request: Request<'_>, reply: Reply<'_>| {
            observer.ended(Phase::Network, 0);
            counters.incoming.increment();
            if let Some(guard) = guard
                && let Some(why) = refusal(guard, shard, &request, &reply)
            {
                counters.not_allowed.increment();
                return reply.refuse_because(Code::NotAllowed as u8, &why);
            }
            if is_for_one_object(request.service()) || request.service() == ONCE {
                *object_turn = *turns;
                shard.shard().handle(request, reply);
            } else if request.service() == LOOK_AT_MAP
                && let Some(mover) = mover
            {
                mover.look();
                reply.send(&[]);
            } else {
                waiting.borrow_mut().push(request, reply);
            }
            observer.ended(Phase::Incoming, 1);
        };
        let on_event = |_: &mut Context<'_>, event: Event<'_>| match event {
            Event::Completed { token, outcome } => {
                let to = SlotAddress::from_bits(token);
                if mover.is_some() && moving::is_elsewhere(outcome) {
                    // Nothing was changed, and the map will say where it is.
                    slots.take_again(to);
                } else {
                    pass_back(slots, to, outcome, counters);
                }
            }
            Event::PeerDown { peer, .. } => {
                shards.lost(peer);
                if let Some(replicator) = replicator {
                    replicator.lost(peer);
                }
                waiting.borrow_mut().forget(peer);
            }
            Event::Sent { .. } | Event::Received { .. } => {
                unreachable!("a daemon neither sends nor receives messages")
            }
        };
        if idles {
            endpoint.poll_requests_idle(on_request, on_event)
        } else {
            endpoint.poll_requests(on_request, on_event)
        }
    }

    /// Answers one of the requests that wait, in a short turn while others ask for single objects. Removes a
    /// few objects of dropped tables: clients that create and drop tables would otherwise keep a busy daemon
    /// from having room for others.
    fn answer_waiting(&mut self, observer: &mut impl Observer) -> usize {
        let others_ask = self.turns.wrapping_sub(self.object_turn) < SHORT_TURNS;
        self.shard.shard().take_turns(if others_ask { Turn::SHORT } else { Turn::LONG });
        let answered = usize::from(self.waiting.answer_one(self.endpoint, self.shard.shard()));
        self.shard.shard().sweep();
        observer.ended(Phase::Incoming, answered);
        answered
    }

    #[inline]
    fn scan_slots(&mut self) -> usize {
        let Self { endpoint, shard, shards, slots, guard, counters, .. } = self;
        let response_bytes_max = slots.layout().response_bytes;
        let not_here = not_answered_here(counters);
        let mut taken = 0;
        for place in 0..slots.places() {
            let mut guard = guard.as_mut().map(|guard| (guard, slots.principal(place)));
            taken += slots.scan(place, |address, request, responder| {
                let service = service_of(&request);
                if let Some((guard, principal)) = &mut guard
                    && let Some(missing) = guard.missing(principal, service, request.bytes)
                {
                    counters.not_allowed.increment();
                    guard.refuse(principal, &words_of(missing, shard.shard().store()));
                    return responder.respond(Code::NotAllowed as u8, &[]);
                }
                let answer = SlotAnswer { responder, address, response_bytes_max, counters };
                shard.shard().answer_object(service, request.bytes, answer, |_, not_here, answer| {
                    let NotHere::At(owner) = not_here else { return answer.responder.leave() };
                    counters.remote.increment();
                    if !shards.pass_on(endpoint, owner, service, request.bytes, address) {
                        counters.unanswered.increment();
                        answer.responder.respond(NOT_PASSED_ON, &[]);
                    }
                });
            });
        }
        let not_here = not_answered_here(counters) - not_here;
        if taken > 0 {
            self.object_turn = self.turns;
        }
        counters.local.add(taken as u64 - not_here);
        counters.slot_requests.add(taken as u64);
        taken
    }

    /// A turn of the log of durable tables; gives how many answers it released.
    fn turn_log(&mut self) -> usize {
        let before = self.shard.shard().log_outcome();
        let mut answered = usize::from(self.shard.shard().turn_log());
        let is_news = self.shard.shard().log_outcome() != before;
        self.shard.log_turned(is_news);
        while let Some(Released { to, answer }) = self.shard.shard().release() {
            answered += 1;
            match (to, answer.answer()) {
                (Parked::Call(call), Ok(bytes)) => self.endpoint.reply(call, bytes),
                (Parked::Call(call), Err(code)) => self.endpoint.refuse(call, code as u8),
                (Parked::Slot(slot), Ok(bytes)) if bytes.len() <= self.slots.layout().response_bytes => {
                    self.slots.respond(slot, Code::Done as u8, bytes);
                }
                (Parked::Slot(slot), Ok(_)) => {
                    self.counters.too_long.increment();
                    self.slots.respond(slot, TOO_LONG, &[]);
                }
                (Parked::Slot(slot), Err(code)) => self.slots.respond(slot, code as u8, &[]),
                (Parked::Numbered(_), _) => unreachable!("a daemon numbers nothing"),
            }
        }
        answered
    }

    #[cold]
    fn attend(&mut self) -> usize {
        let attendance = self.slots.attend();
        self.counters.attached.add(attendance.attached as u64);
        self.counters.detached.add(attendance.detached as u64);
        self.counters.refused.add(attendance.refused as u64);
        self.shard.shard().update_counters();
        self.shards.look_for_lost(self.endpoint);
        if let Some(guard) = &mut self.guard {
            guard.renew();
        }
        attendance.attached + attendance.detached + attendance.refused
    }
}

/// Why a policy does not allow a call, if it does not.
fn refusal(
    guard: &mut TableGuard,
    shard: &mut Held<'_>,
    request: &Request<'_>,
    reply: &Reply<'_>,
) -> Option<String> {
    let principal = reply.principal();
    let missing = guard.missing(&principal, request.service(), request.payload())?;
    Some(guard.refuse(&principal, &words_of(missing, shard.shard().store())))
}

/// Requests of slots that the shard of this daemon has not answered.
fn not_answered_here(counters: &DaemonCounters) -> u64 {
    counters.remote.get() + counters.malformed.get() + counters.not_allowed.get()
}

/// Whether a request is at once answered: others are for many objects, or for tables.
#[inline]
fn is_for_one_object(service: Service) -> bool {
    matches!(service, GET | PUT | DELETE | INCREMENT)
}

/// Gives a client the answer of another shard.
fn pass_back(slots: &mut SlotServer, to: SlotAddress, outcome: &Outcome<'_>, counters: &DaemonCounters) {
    let answered = !matches!(outcome, Err(error) if !matches!(error, CallError::Refused { .. }));
    if answered {
        counters.responses.increment()
    } else {
        counters.unanswered.increment()
    }
    match outcome {
        Ok(answer) if answer.len() <= slots.layout().response_bytes => {
            slots.respond(to, Code::Done as u8, answer);
        }
        Ok(_) => {
            counters.too_long.increment();
            slots.respond(to, TOO_LONG, &[]);
        }
        Err(CallError::Refused { code, .. }) => slots.respond(to, *code, &[]),
        Err(CallError::NotSent(_)) => slots.respond(to, NOT_PASSED_ON, &[]),
        Err(_) => slots.respond(to, NO_ANSWER, &[]),
    }
}

/// The answer of the daemon's own shard to a slot.
struct SlotAnswer<'a, 'r> {
    responder: &'a mut Responder<'r>,
    address: SlotAddress,
    response_bytes_max: usize,
    counters: &'a DaemonCounters,
}

impl Answer for SlotAnswer<'_, '_> {
    #[inline(always)]
    fn send(self, message: &[u8]) {
        if message.len() > self.response_bytes_max {
            self.counters.too_long.increment();
            return self.responder.respond(TOO_LONG, &[]);
        }
        self.responder.respond(Code::Done as u8, message);
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    #[cold]
    fn refuse(self, code: Code) {
        if code == Code::Malformed {
            self.counters.malformed.increment();
        }
        self.responder.respond(code as u8, &[]);
    }

    /// The slot is owed its response.
    fn park(self) -> Parked {
        Parked::Slot(self.address)
    }
}
