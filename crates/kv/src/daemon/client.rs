//! A process that uses the daemon of its host.

use core::time::Duration;
use std::time::Instant;

use crate::slots::{Access, AttachError, DaemonGone, ShortMessage, SlotClient, SlotMessage};
use farcall::Service;

use super::message::{SlotResponse, call_number};
use crate::client::FromCode;
use crate::store::{Condition, IncrementError, ReadError, WriteError};
use crate::wire::{
    Code, DELETE, DeleteRequest, GET, GetRequest, INCREMENT, IncrementRequest, IncrementResponse,
    NotReplicated, PUT, PutRequest, WriteResponse, found,
};
use crate::{Name, Value};

/// While a response is waited for, the daemon is looked for once in this many tries.
pub(super) const CHECK_EVERY: u32 = 1 << 14;

/// How long a response is waited for unless told otherwise. A daemon gives up on other shards after its own
/// time for calls, which is as long.
pub(super) const RESPONSE_WITHIN: Duration = Duration::from_secs(11);

/// Why a request through a slot did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotFailure<E> {
    /// The store refused. Nothing was changed.
    #[error(transparent)]
    Store(E),
    /// Use the network: slots are too short for the request.
    #[error("a request of {bytes} bytes is over the {bytes_max} of a slot")]
    RequestTooLong {
        /// Its length.
        bytes: usize,
        /// The slot's.
        bytes_max: usize,
    },
    /// Take what has come of earlier requests first. Nothing was changed.
    #[error("all {depth} slots are in use")]
    Full {
        /// How many there are.
        depth: usize,
    },
    /// Use the network: the value is longer than a slot.
    #[error("the answer is longer than a slot")]
    AnswerTooLong,
    /// The store's policy does not let this process do it. Nothing was changed: ask whoever keeps the policy.
    #[error("the store's policy does not allow it")]
    NotAllowed,
    /// The shard's replicas do not allow it. See there whether something was changed.
    #[error(transparent)]
    NotReplicated(NotReplicated),
    /// The shard that has the object did not answer. The operation may have happened.
    #[error("the shard that has the object does not answer")]
    NoAnswer,
    /// Start the shard that has the object. Nothing was changed.
    #[error("the daemon does not reach the shard that has the object; check that it runs")]
    NotPassedOn,
    /// Too much waits at the shard that has the object. Nothing was changed: ask again.
    #[error("too much waits at the shard that has the object; ask again, with fewer in flight")]
    Busy,
    /// The daemon is stopped, or too busy. The operation may have happened, or happen yet.
    #[error("the daemon did not respond within {within:?}")]
    TimedOut {
        /// The time that it had.
        within: Duration,
    },
    /// The daemon ended. The operation may have happened.
    #[error(transparent)]
    DaemonGone(#[from] DaemonGone),
    /// The daemon speaks another version of the protocol.
    #[error("the daemon and this client do not understand each other")]
    Misunderstood,
}

impl<E> SlotFailure<E> {
    /// The same, of a request whose refusals are others.
    pub(super) fn with<F: From<E>>(self) -> SlotFailure<F> {
        match self {
            Self::Store(refusal) => SlotFailure::Store(refusal.into()),
            Self::RequestTooLong { bytes, bytes_max } => SlotFailure::RequestTooLong { bytes, bytes_max },
            Self::Full { depth } => SlotFailure::Full { depth },
            Self::AnswerTooLong => SlotFailure::AnswerTooLong,
            Self::NotAllowed => SlotFailure::NotAllowed,
            Self::NotReplicated(why) => SlotFailure::NotReplicated(why),
            Self::NoAnswer => SlotFailure::NoAnswer,
            Self::NotPassedOn => SlotFailure::NotPassedOn,
            Self::Busy => SlotFailure::Busy,
            Self::TimedOut { within } => SlotFailure::TimedOut { within },
            Self::DaemonGone(gone) => SlotFailure::DaemonGone(gone),
            Self::Misunderstood => SlotFailure::Misunderstood,
        }
    }
}

/// The slots of one client process.
#[derive(Debug)]
pub struct DaemonClient {
    slots: SlotClient,
    request: Vec<u8>,
    within: Duration,
}

impl DaemonClient {
    /// Attaches to the daemon that listens at that name, or will within the time.
    pub fn attach(name: &str, within: Duration) -> Result<Self, AttachError> {
        SlotClient::attach(name, within).map(Self::new)
    }

    /// Attaches to the daemon that listens at that name already; it may take `within` to answer.
    pub fn attach_present(name: &str, access: &Access, within: Duration) -> Result<Self, AttachError> {
        SlotClient::attach_present(name, access, within).map(Self::new)
    }

    fn new(slots: SlotClient) -> Self {
        let request = Vec::with_capacity(slots.layout().request_bytes);
        Self { slots, request, within: RESPONSE_WITHIN }
    }

    /// Sets how long [`get`](Self::get) and its like wait for the daemon, 11 s unless set.
    pub fn respond_within(&mut self, within: Duration) {
        self.within = within;
    }

    /// How many requests can be in flight.
    pub fn depth(&self) -> usize {
        self.slots.layout().slots
    }

    /// The longest request, in bytes.
    pub(super) fn request_bytes_max(&self) -> usize {
        self.slots.layout().request_bytes
    }

    /// Whether the response to what a slot asked is there.
    #[inline]
    pub(super) fn is_answered(&self, slot: usize) -> bool {
        self.slots.is_answered(slot)
    }

    /// Puts a request into a slot that is free: its [`call_number`] and its message.
    ///
    /// # Panics
    /// When the slot is not free, or the message is longer than a slot.
    #[inline]
    pub fn ask(&mut self, slot: usize, call: u8, request: &[u8]) {
        self.slots.ask(slot, call, request);
    }

    /// As [`ask`](Self::ask), for a message that was prepared.
    #[inline]
    pub fn ask_short(&mut self, slot: usize, call: u8, request: &ShortMessage) {
        self.slots.ask_short(slot, call, request);
    }

    /// The response in a slot, once it is there; the slot is free then.
    #[inline]
    pub fn take(&mut self, slot: usize) -> Option<SlotResponse<'_>> {
        self.slots.take(slot).map(|response| SlotResponse::decode(&response))
    }

    /// Whether the daemon still lives. Makes a system call: for now and then while waiting.
    pub fn check(&self) -> Result<(), DaemonGone> {
        self.slots.check()
    }

    /// Reads an object, and waits for it: its version and value, `None` when there is none.
    ///
    /// This and the operations below use the first slot, and wait until they have a response.
    pub fn get(&mut self, name: Name<'_>) -> Result<Option<(u64, Vec<u8>)>, SlotFailure<ReadError>> {
        let answer = self.call(GET, |to| GetRequest { name }.encode(to))?;
        let object = found(answer).map_err(|_| SlotFailure::Misunderstood)?;
        Ok(object.map(|(version, value)| (version, value.to_vec())))
    }

    /// Writes an object if the one that is there fulfils the condition; gives its version.
    pub fn put(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
    ) -> Result<u64, SlotFailure<WriteError>> {
        let put = PutRequest { name, value, condition };
        written(self.call(PUT, |to| put.encode(to))?)
    }

    /// Deletes an object if the one that is there fulfils the condition; gives the version that it had,
    /// `None` when there was none.
    pub fn delete(
        &mut self,
        name: Name<'_>,
        condition: Condition,
    ) -> Result<Option<u64>, SlotFailure<WriteError>> {
        let version = written(self.call(DELETE, |to| DeleteRequest { name, condition }.encode(to))?)?;
        Ok((version != 0).then_some(version))
    }

    /// Adds to the number that an object is, in decimal digits; one that does not exist counts as 0. Gives
    /// the new version and the sum.
    pub fn increment(
        &mut self,
        name: Name<'_>,
        amount: i64,
    ) -> Result<(u64, i64), SlotFailure<IncrementError>> {
        let answer = self.call(INCREMENT, |to| IncrementRequest { name, amount }.encode(to))?;
        let sum = IncrementResponse::decode(answer).map_err(|_| SlotFailure::Misunderstood)?;
        Ok((sum.version, sum.sum))
    }

    fn call<E: FromCode>(
        &mut self,
        service: Service,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<&[u8], SlotFailure<E>> {
        // What was asked before and not waited for to its end comes first.
        if self.slots.is_asked(0) {
            self.wait()?;
        }
        self.request.clear();
        encode(&mut self.request);
        let (bytes, bytes_max) = (self.request.len(), self.slots.layout().request_bytes);
        if bytes > bytes_max {
            return Err(SlotFailure::RequestTooLong { bytes, bytes_max });
        }
        self.slots.ask(0, call_number(service), &self.request);
        match SlotResponse::decode(&self.wait()?) {
            SlotResponse::Answer(answer) => Ok(answer),
            SlotResponse::Refused(code) => Err(refused(code, 0)),
            SlotResponse::NoAnswer => Err(SlotFailure::NoAnswer),
            SlotResponse::NotPassedOn => Err(SlotFailure::NotPassedOn),
            SlotResponse::TooLong => Err(SlotFailure::AnswerTooLong),
            SlotResponse::Malformed => Err(SlotFailure::Misunderstood),
        }
    }

    /// Waits for the response in the first slot.
    fn wait<E>(&mut self) -> Result<SlotMessage<'_>, SlotFailure<E>> {
        self.wait_in(0, self.within)?;
        Ok(self.slots.take(0).expect("the response is there"))
    }

    /// Waits until the response in a slot is there.
    pub(super) fn wait_in<E>(&self, slot: usize, within: Duration) -> Result<(), SlotFailure<E>> {
        wait_until(|| self.slots.is_answered(slot), || self.slots.check(), within)
    }
}

/// Looks until something is there, and now and then for the time and whether the daemon lives.
fn wait_until<E>(
    is_there: impl Fn() -> bool,
    check: impl Fn() -> Result<(), DaemonGone>,
    within: Duration,
) -> Result<(), SlotFailure<E>> {
    let begun = Instant::now();
    loop {
        for _ in 0..CHECK_EVERY {
            if is_there() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        let failure = match check() {
            Err(gone) => Some(gone.into()),
            Ok(()) => (begun.elapsed() >= within).then_some(SlotFailure::TimedOut { within }),
        };
        if let Some(failure) = failure {
            // What came before the daemon ended, or while this thread did not run, is there nevertheless.
            return if is_there() { Ok(()) } else { Err(failure) };
        }
        // With fewer cores than processes the daemon needs this one.
        std::thread::yield_now();
    }
}

/// The version that the answer to a write has.
fn written(answer: &[u8]) -> Result<u64, SlotFailure<WriteError>> {
    match WriteResponse::decode(answer) {
        Ok(WriteResponse { code: Code::Done, version, .. }) => Ok(version),
        Ok(WriteResponse { code, version, .. }) => Err(refused(code, version)),
        Err(_) => Err(SlotFailure::Misunderstood),
    }
}

pub(super) fn refused<E: FromCode>(code: Code, version: u64) -> SlotFailure<E> {
    match code {
        Code::NotAllowed => SlotFailure::NotAllowed,
        Code::Busy => SlotFailure::Busy,
        code => match NotReplicated::from_code(code) {
            Some(refusal) => SlotFailure::NotReplicated(refusal),
            None => E::from_code(code, version).map_or(SlotFailure::Misunderstood, SlotFailure::Store),
        },
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn what_a_shard_refuses_is_what_a_slot_says() {
        let refused: fn(Code) -> SlotFailure<WriteError> = |code| refused(code, 0);
        assert_eq!(refused(Code::Busy), SlotFailure::Busy);
        assert_eq!(refused(Code::NotAllowed), SlotFailure::NotAllowed);
        assert_eq!(refused(Code::LogFull), SlotFailure::Store(WriteError::LogFull));
        assert_eq!(refused(Code::NotPrimary), SlotFailure::NotReplicated(NotReplicated::NotPrimary));
        assert_eq!(refused(Code::NotANumber), SlotFailure::Misunderstood, "no write is refused so");
    }

    const LONG: Duration = Duration::from_secs(60);

    fn wait(
        within: Duration,
        comes_before_the_check: bool,
        lives: bool,
    ) -> Result<(), SlotFailure<ReadError>> {
        let is_there = Cell::new(false);
        let check = || {
            is_there.set(comes_before_the_check);
            if lives { Ok(()) } else { Err(DaemonGone) }
        };
        wait_until(|| is_there.get(), check, within)
    }

    #[test]
    fn a_response_that_came_last_is_taken_although_the_daemon_is_gone_or_the_time_is_over() {
        assert_eq!(wait(LONG, true, false), Ok(()));
        assert_eq!(wait(Duration::ZERO, true, true), Ok(()));
        assert_eq!(wait(LONG, true, true), Ok(()));
        assert_eq!(wait(LONG, false, false), Err(DaemonGone.into()));
        assert_eq!(wait(Duration::ZERO, false, true), Err(SlotFailure::TimedOut { within: Duration::ZERO }));
    }
}
