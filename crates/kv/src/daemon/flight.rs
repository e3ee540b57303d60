//! Requests in flight through the slots of a daemon, each with a token of its caller's.
//!
//! Nothing here waits but [`SlotCalls::call`]: a request is put into a slot that is free, and what has come
//! of earlier ones is taken out later, in whatever order it came.

use core::time::Duration;

use farcall::Service;

use super::client::{CHECK_EVERY, DaemonClient, RESPONSE_WITHIN, SlotFailure, refused};
use super::message::{SlotResponse, call_number};
use crate::durable::Level;
use crate::slots::{AttachError, DaemonGone};
use crate::store::{Condition, IncrementError, ReadError};
use crate::wire::{
    Code, DELETE, DeleteRequest, GET, GetRequest, INCREMENT, IncrementRequest, IncrementResponse, PUT,
    PutRequest, WriteResponse, found,
};
use crate::{Name, Value};

/// Looks in a row that find the oldest request without its response before all are looked at once: responses
/// mostly come in order, and a look takes the line away from the daemon that is about to write it.
const LOOKS_AT_OLDEST: u32 = 8;

/// What a daemon is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCall<'a> {
    /// To read an object.
    Get(Name<'a>),
    /// To write an object if the one that is there fulfils the condition.
    Put(Name<'a>, Value<'a>, Condition),
    /// To delete an object if the one that is there fulfils the condition.
    Delete(Name<'a>, Condition),
    /// To add to the number that an object is.
    Increment(Name<'a>, i64),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOutcome<'a> {
    /// The object that was read.
    Found {
        /// Its version.
        version: u64,
        /// Its value.
        value: &'a [u8],
    },
    /// There is no object to read.
    Nothing,
    /// The object was written.
    Written {
        /// Its new version.
        version: u64,
        /// What the write survives.
        level: Level,
    },
    /// The object was deleted.
    Deleted {
        /// The version that it had, 0 if there was none.
        version: u64,
        /// What that survives.
        level: Level,
    },
    /// The number was added to.
    Counted {
        /// The object's new version.
        version: u64,
        /// The sum.
        sum: i64,
        /// What it survives.
        level: Level,
    },
}

/// Why the store refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// A read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Another one.
    #[error(transparent)]
    Write(#[from] IncrementError),
}

/// Why there is no outcome.
pub type SlotCallFailure = SlotFailure<SlotRefusal>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Put,
    Delete,
    Increment,
}

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    Free,
    /// Its outcome is for [`SlotCalls::next`].
    Asked {
        kind: Kind,
        token: u64,
    },
    /// It is waited for.
    Waited,
    /// It is waited for no more: what comes is dropped.
    Abandoned,
}

/// The slots of one client process, and what is in them.
#[derive(Debug)]
pub struct SlotCalls {
    client: DaemonClient,
    flights: Box<[Flight]>,
    /// The slot for the next request, if it is free; and the one that is looked at first.
    next: usize,
    oldest: usize,
    /// Outcomes that are owed.
    in_flight: usize,
    /// Looks that found nothing, since all were looked at and since the daemon was.
    looks: u32,
    tries: u32,
    is_gone: bool,
    request: Vec<u8>,
}

impl SlotCalls {
    /// Requests through the slots of a client that has none in flight.
    pub fn new(client: DaemonClient) -> Self {
        let flights = vec![Flight::Free; client.depth()].into();
        Self {
            client,
            flights,
            next: 0,
            oldest: 0,
            in_flight: 0,
            looks: 0,
            tries: 0,
            is_gone: false,
            request: Vec::new(),
        }
    }

    /// Attaches to the daemon that listens at that name, or will within the time.
    pub fn attach(name: &str, within: Duration) -> Result<Self, AttachError> {
        DaemonClient::attach(name, within).map(Self::new)
    }

    /// How many requests can be in flight.
    pub fn depth(&self) -> usize {
        self.flights.len()
    }

    /// How many outcomes [`SlotCalls::next`] owes.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Asks, if a slot is free; the outcome comes with the token.
    ///
    /// # Errors
    /// Nothing was asked: all slots are in use, the request is too long for one, or the daemon is gone.
    pub fn begin(&mut self, call: &SlotCall<'_>, token: u64) -> Result<(), SlotCallFailure> {
        let (slot, kind) = self.ask(call)?;
        self.flights[slot] = Flight::Asked { kind, token };
        self.in_flight += 1;
        Ok(())
    }

    /// What has come of a request, and its token; `None` when nothing has come since. Once the daemon is gone
    /// every request that has no response yet ends with that. Does not wait.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from this")]
    pub fn next(&mut self) -> Option<(u64, Result<SlotOutcome<'_>, SlotCallFailure>)> {
        let slot = self.find_done()?;
        let flight = core::mem::replace(&mut self.flights[slot], Flight::Free);
        let Flight::Asked { kind, token } = flight else { unreachable!("it was found by that") };
        self.in_flight -= 1;
        Some((token, self.take(slot, kind)))
    }

    /// From now on the outcome of a request is nobody's; it may happen nevertheless. A token that is not in
    /// flight is none's.
    pub fn forget(&mut self, token: u64) {
        let is_it = |flight: &&mut Flight| matches!(flight, Flight::Asked { token: of, .. } if *of == token);
        if let Some(flight) = self.flights.iter_mut().find(is_it) {
            *flight = Flight::Abandoned;
            self.in_flight -= 1;
        }
    }

    /// Asks and waits for the outcome, for at most so long; others stay where they are.
    pub fn call(
        &mut self,
        call: &SlotCall<'_>,
        within: Option<Duration>,
    ) -> Result<SlotOutcome<'_>, SlotCallFailure> {
        let within = within.unwrap_or(RESPONSE_WITHIN);
        let (slot, kind) = self.ask(call)?;
        self.flights[slot] = Flight::Waited;
        match self.client.wait_in(slot, within) {
            Ok(()) => {
                self.flights[slot] = Flight::Free;
                self.take(slot, kind)
            }
            Err(failure) => {
                self.flights[slot] = Flight::Abandoned;
                self.is_gone |= matches!(failure, SlotFailure::DaemonGone(_));
                Err(failure)
            }
        }
    }

    /// Whether the daemon still lives. Makes a system call.
    pub fn check(&mut self) -> Result<(), DaemonGone> {
        let lives = self.client.check();
        self.is_gone |= lives.is_err();
        lives
    }

    /// Puts a request into a free slot.
    fn ask(&mut self, call: &SlotCall<'_>) -> Result<(usize, Kind), SlotCallFailure> {
        if self.is_gone {
            return Err(DaemonGone.into());
        }
        // First: a caller that waits for room asks again and again.
        let Some(slot) = self.free_slot() else { return Err(self.full()) };
        self.request.clear();
        let (service, kind) = encode(call, &mut self.request);
        let (bytes, bytes_max) = (self.request.len(), self.client.request_bytes_max());
        if bytes > bytes_max {
            return Err(SlotFailure::RequestTooLong { bytes, bytes_max });
        }
        self.client.ask(slot, call_number(service), &self.request);
        self.next = self.behind(slot);
        Ok((slot, kind))
    }

    /// No slot is free. Where all are abandoned nobody else looks whether the daemon will ever answer.
    fn full(&mut self) -> SlotCallFailure {
        if self.in_flight == 0 && self.check().is_err() {
            return DaemonGone.into();
        }
        SlotFailure::Full { depth: self.flights.len() }
    }

    fn behind(&self, slot: usize) -> usize {
        if slot + 1 == self.flights.len() { 0 } else { slot + 1 }
    }

    /// A free slot, in their order: that is the order in which the daemon looks at them.
    fn free_slot(&mut self) -> Option<usize> {
        let mut slot = self.next;
        for _ in 0..self.flights.len() {
            if self.flights[slot] == Flight::Abandoned && self.client.take(slot).is_some() {
                self.flights[slot] = Flight::Free;
            }
            if self.flights[slot] == Flight::Free {
                return Some(slot);
            }
            slot = self.behind(slot);
        }
        None
    }

    /// A slot whose outcome is owed and there.
    fn find_done(&mut self) -> Option<usize> {
        if self.in_flight == 0 {
            return None;
        }
        let mut slot = self.oldest;
        for _ in 0..self.flights.len() {
            if let Flight::Asked { .. } = self.flights[slot] {
                if self.client.is_answered(slot) || self.is_gone {
                    self.oldest = self.behind(slot);
                    self.looks = 0;
                    return Some(slot);
                }
                if self.looks < LOOKS_AT_OLDEST {
                    break;
                }
            }
            slot = self.behind(slot);
        }
        self.looks = if self.looks < LOOKS_AT_OLDEST { self.looks + 1 } else { 0 };
        self.tries = self.tries.wrapping_add(1);
        if self.tries.is_multiple_of(CHECK_EVERY) {
            // What had come before is taken by the next looks, and the rest ends with the daemon.
            self.is_gone = self.client.check().is_err();
        }
        None
    }

    /// The outcome in a slot; that the daemon is gone if there is none.
    fn take(&mut self, slot: usize, kind: Kind) -> Result<SlotOutcome<'_>, SlotCallFailure> {
        let Some(response) = self.client.take(slot) else { return Err(DaemonGone.into()) };
        let answer = match response {
            SlotResponse::Answer(answer) => answer,
            SlotResponse::Refused(code) => return Err(refusal(kind, code, 0)),
            SlotResponse::NoAnswer => return Err(SlotFailure::NoAnswer),
            SlotResponse::NotPassedOn => return Err(SlotFailure::NotPassedOn),
            SlotResponse::TooLong => return Err(SlotFailure::AnswerTooLong),
            SlotResponse::Malformed => return Err(SlotFailure::Misunderstood),
        };
        decode(kind, answer)
    }
}

fn encode(call: &SlotCall<'_>, to: &mut Vec<u8>) -> (Service, Kind) {
    match *call {
        SlotCall::Get(name) => {
            GetRequest { name }.encode(to);
            (GET, Kind::Get)
        }
        SlotCall::Put(name, value, condition) => {
            PutRequest { name, value, condition }.encode(to);
            (PUT, Kind::Put)
        }
        SlotCall::Delete(name, condition) => {
            DeleteRequest { name, condition }.encode(to);
            (DELETE, Kind::Delete)
        }
        SlotCall::Increment(name, amount) => {
            IncrementRequest { name, amount }.encode(to);
            (INCREMENT, Kind::Increment)
        }
    }
}

fn decode(kind: Kind, answer: &[u8]) -> Result<SlotOutcome<'_>, SlotCallFailure> {
    let written = |answer| match WriteResponse::decode(answer) {
        Ok(WriteResponse { code: Code::Done, version, level }) => Ok((version, level)),
        Ok(WriteResponse { code, version, .. }) => Err(refusal(kind, code, version)),
        Err(_) => Err(SlotFailure::Misunderstood),
    };
    match kind {
        Kind::Get => match found(answer) {
            Ok(Some((version, value))) => Ok(SlotOutcome::Found { version, value }),
            Ok(None) => Ok(SlotOutcome::Nothing),
            Err(_) => Err(SlotFailure::Misunderstood),
        },
        Kind::Put => written(answer).map(|(version, level)| SlotOutcome::Written { version, level }),
        Kind::Delete => written(answer).map(|(version, level)| SlotOutcome::Deleted { version, level }),
        Kind::Increment => match IncrementResponse::decode(answer) {
            Ok(IncrementResponse { version, sum, level }) => Ok(SlotOutcome::Counted { version, sum, level }),
            Err(_) => Err(SlotFailure::Misunderstood),
        },
    }
}

fn refusal(kind: Kind, code: Code, version: u64) -> SlotCallFailure {
    match kind {
        Kind::Get => refused::<ReadError>(code, version).with(),
        Kind::Put | Kind::Delete | Kind::Increment => refused::<IncrementError>(code, version).with(),
    }
}

/// Takes some bytes for each of the responses that a hostile daemon could give.
pub(crate) fn fuzz_slot_answers(bytes: &[u8]) {
    for kind in [Kind::Get, Kind::Put, Kind::Delete, Kind::Increment] {
        if let Ok(SlotOutcome::Found { version, value }) = decode(kind, bytes) {
            assert!(version != 0 && value.len() + 8 == bytes.len());
        }
    }
}
