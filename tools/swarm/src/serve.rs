//! What the servers of a scenario do with requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::{
    Clock, Context, Deferred, Endpoint, Instant, Outgoing, Payload, Peer, Reply, Request, Service,
};

use crate::ledger::{NO_FURTHER, SharedLedger};
use crate::operations::{Memory, Operation, Serving};
use crate::payload::{self, Role};
use crate::scenario::Scenario;

/// What the handlers of a host share with its program.
#[derive(Clone)]
pub struct Desk {
    pub scenario: Arc<Scenario>,
    pub ledger: SharedLedger,
    pub clock: Clock,
    rank: u32,
    later: Arc<Mutex<Later>>,
}

/// What handlers left to the program.
#[derive(Default)]
struct Later {
    /// Answers that are due at a time.
    answers: Vec<(Instant, usize, Deferred)>,
    /// Hosts that handlers call.
    peers: Vec<Peer>,
}

impl Desk {
    pub fn new(scenario: Arc<Scenario>, ledger: SharedLedger, rank: u32, clock: Clock) -> Self {
        Self { scenario, ledger, rank, clock, later: Arc::default() }
    }

    /// Serves every call to this host.
    pub fn serve(&self, endpoint: &Endpoint) {
        let mut shared = BTreeMap::new();
        for (call, operation) in self.scenario.operations.iter().enumerate() {
            if operation.callee != self.rank || operation.serving == Serving::Unserved {
                continue;
            }
            if is_shared(operation) {
                shared
                    .insert(beginning_of(payload::bytes(call, Role::Request, operation.request_bytes)), call);
                continue;
            }
            let desk = self.clone();
            let service = service_of(call, operation);
            endpoint.serve(service, move |request, reply| desk.handle(call, &request, reply));
        }
        let desk = self.clone();
        endpoint.serve(SHARED, move |request, reply| match shared.get(&beginning_of(request.payload())) {
            Some(call) => desk.handle(*call, &request, reply),
            None => {
                let what = format!("host {} got a request that nobody has made", desk.rank);
                desk.ledger.lock().violation(desk.clock.now(), what);
            }
        });
    }

    /// The answers that are due.
    pub fn due(&self, now: Instant) -> Vec<(usize, Deferred)> {
        let answers = &mut self.later().answers;
        let (due, waiting): (Vec<_>, Vec<_>) = answers.drain(..).partition(|(at, ..)| *at <= now);
        *answers = waiting;
        due.into_iter().map(|(_, call, deferred)| (call, deferred)).collect()
    }

    /// When the next answer is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.later().answers.iter().map(|(at, ..)| *at).min()
    }

    /// Says which sessions handlers may use.
    pub fn set_peers(&self, peers: Vec<Peer>) {
        self.later().peers = peers;
    }

    fn later(&self) -> MutexGuard<'_, Later> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, call: usize, request: &Request<'_>, mut reply: Reply<'_>) {
        let now = self.clock.now();
        self.ledger.lock().run(call, self.rank, request.peer().rank(), request.payload(), now);
        let operation = &self.scenario.operations[call];
        match operation.serving {
            Serving::Reply => {
                let answer = answer(call, operation, |bytes| reply.context().loan(bytes).ok());
                reply.send(answer);
            }
            Serving::ReplyTooLong => {
                let bytes = self.scenario.tuning.message_bytes_max + 1;
                reply.send(payload::bytes(call, Role::Answer, bytes));
            }
            Serving::Refuse(code) => reply.refuse(code),
            Serving::Abandon | Serving::Unserved => drop(reply),
            Serving::ReplyLater(after) | Serving::RefuseLater(after, _) | Serving::AbandonLater(after) => {
                let (deferred, _) = reply.defer();
                self.later().answers.push((now + after, call, deferred));
            }
            Serving::CallOn(next) => {
                let (deferred, mut context) = reply.defer();
                self.call_on(call, next, deferred, &mut context);
            }
        }
    }

    /// Makes the next call of a chain. Where there is no session the request is let go without an answer.
    fn call_on(&self, call: usize, next: usize, deferred: Deferred, context: &mut Context<'_>) {
        let operation = &self.scenario.operations[next];
        let peer = self.later().peers.iter().copied().find(|peer| peer.rank() == operation.callee);
        let Some(peer) = peer else { return };
        if self.ledger.lock().was_begun(next) {
            return; // the request ran twice, which is in the ledger already
        }
        self.ledger.lock().begin(next, self.clock.now());
        let request = message(next, Role::Request, operation.request_bytes, operation.memory[0], |bytes| {
            context.loan(bytes).ok()
        });
        let desk = self.clone();
        let made = context.call(peer, service_of(next, operation), request).within(operation.within).then(
            move |context, outcome| {
                let result = outcome.as_ref().map(|answer| &answer[..]);
                desk.ledger.lock().end(next, result, desk.clock.now());
                if outcome.is_err() {
                    return context.refuse(deferred, NO_FURTHER);
                }
                let operation = &desk.scenario.operations[call];
                let answer = answer(call, operation, |bytes| context.loan(bytes).ok());
                context.reply(deferred, answer);
            },
        );
        if let Err(error) = made {
            self.ledger.lock().refused(next, &error, self.clock.now());
        }
    }
}

/// The service of calls that are told apart by their first bytes, so that several are one batch.
const SHARED: Service = Service(40_000);

/// The first bytes that tell the requests of a scenario apart.
const BEGINNING_BYTES: usize = 8;

fn is_shared(operation: &Operation) -> bool {
    operation.serving == Serving::Reply && operation.request_bytes >= BEGINNING_BYTES
}

fn beginning_of(request: &[u8]) -> Option<[u8; BEGINNING_BYTES]> {
    request.first_chunk().copied()
}

/// The service of a call: there is one for each but for those that share one.
pub fn service_of(call: usize, operation: &Operation) -> Service {
    if is_shared(operation) { SHARED } else { Service(call as u16) }
}

/// The answer of a call.
pub fn answer(
    call: usize,
    operation: &Operation,
    loan: impl FnOnce(usize) -> Option<farcall::Loan>,
) -> Outgoing<'static> {
    message(call, Role::Answer, operation.answer_bytes, operation.memory[1], loan)
}

/// The bytes of a message, in memory of that kind; as a slice where nothing can be lent.
pub fn message(
    call: usize,
    role: Role,
    length: usize,
    memory: Memory,
    loan: impl FnOnce(usize) -> Option<farcall::Loan>,
) -> Outgoing<'static> {
    let bytes = payload::bytes(call, role, length);
    match memory {
        Memory::Slice => Outgoing::Slice(bytes),
        Memory::Shared => Outgoing::Shared(Payload::from(bytes.to_vec())),
        Memory::Loan => match loan(length) {
            Some(mut loan) => {
                loan.copy_from_slice(bytes);
                Outgoing::Loan(loan)
            }
            None => Outgoing::Slice(bytes),
        },
    }
}
