//! A process that uses the daemon of its host.

use core::time::Duration;

use farcall::Service;
use farcall_driver_shm::slots::{AttachError, DaemonGone, SlotClient};

use super::message::{SlotResponse, call_number};
use crate::store::{Condition, ReadError, WriteError};
use crate::wire::{Code, GET, GetRequest, PUT, PutRequest, WriteResponse, found};
use crate::{Name, Value};

/// While a response is waited for, the daemon is looked for once in so many tries.
const CHECK_EVERY: u32 = 1 << 14;

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
    /// Use the network: the value is longer than a slot.
    #[error("the answer is longer than a slot")]
    AnswerTooLong,
    /// The shard that has the object cannot be reached or did not answer. The operation may have happened.
    #[error("the shard that has the object does not answer")]
    NoAnswer,
    /// The daemon ended. The operation may have happened.
    #[error(transparent)]
    DaemonGone(#[from] DaemonGone),
    /// The daemon speaks another version of the protocol.
    #[error("the daemon and this client do not understand each other")]
    Misunderstood,
}

/// The slots of one client process.
#[derive(Debug)]
pub struct DaemonClient {
    slots: SlotClient,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl DaemonClient {
    /// Attaches to the daemon that listens at that abstract name, or will within the time.
    pub fn attach(name: &str, within: Duration) -> Result<Self, AttachError> {
        let slots = SlotClient::attach(name, within)?;
        let layout = slots.layout();
        let request = Vec::with_capacity(layout.request_bytes);
        Ok(Self { slots, request, response: vec![0; layout.response_bytes] })
    }

    /// How many requests can be under way.
    pub fn depth(&self) -> usize {
        self.slots.layout().slots
    }

    /// Puts a request into a slot that is free: the call's number and its message.
    ///
    /// # Panics
    /// When the slot is not free, or the request is longer than a slot.
    #[inline]
    pub fn ask(&mut self, slot: usize, request: &[u8]) {
        self.slots.ask(slot, request);
    }

    /// The response in a slot, once it is there; the slot is free then.
    #[inline]
    pub fn take(&mut self, slot: usize) -> Option<SlotResponse<'_>> {
        let length = self.slots.take(slot, &mut self.response)?;
        Some(SlotResponse::decode(&self.response[..length]))
    }

    /// Whether the daemon still lives. Makes a system call: for now and then while waiting.
    pub fn check(&self) -> Result<(), DaemonGone> {
        self.slots.check()
    }

    /// Reads an object through the first slot, and waits for it: its version and value, `None` when there is none.
    pub fn get(&mut self, name: Name<'_>) -> Result<Option<(u64, Vec<u8>)>, SlotFailure<ReadError>> {
        let answer = self.call(
            GET,
            |to| GetRequest { name }.encode(to),
            |code| match code {
                Code::UnknownTable => Some(ReadError::UnknownTable),
                _ => None,
            },
        )?;
        let object = found(&answer).map_err(|_| SlotFailure::Misunderstood)?;
        Ok(object.map(|(version, value)| (version, value.to_vec())))
    }

    /// Writes an object through the first slot, and waits for its version.
    pub fn put(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
    ) -> Result<u64, SlotFailure<WriteError>> {
        let put = PutRequest { name, value, condition };
        let answer = self.call(
            PUT,
            |to| put.encode(to),
            |code| match code {
                Code::UnknownTable => Some(WriteError::UnknownTable),
                Code::OutOfMemory => Some(WriteError::OutOfMemory),
                _ => None,
            },
        )?;
        match WriteResponse::decode(&answer) {
            Ok(WriteResponse { code: Code::Done, version }) => Ok(version),
            Ok(WriteResponse { code: Code::WrongVersion, version }) => {
                Err(SlotFailure::Store(WriteError::WrongVersion { version }))
            }
            _ => Err(SlotFailure::Misunderstood),
        }
    }

    fn call<E>(
        &mut self,
        service: Service,
        encode: impl FnOnce(&mut Vec<u8>),
        refusal: impl FnOnce(Code) -> Option<E>,
    ) -> Result<Vec<u8>, SlotFailure<E>> {
        self.request.clear();
        self.request.push(call_number(service));
        encode(&mut self.request);
        let (bytes, bytes_max) = (self.request.len(), self.slots.layout().request_bytes);
        if bytes > bytes_max {
            return Err(SlotFailure::RequestTooLong { bytes, bytes_max });
        }
        self.slots.ask(0, &self.request);
        match SlotResponse::decode(self.wait()?) {
            SlotResponse::Answer(answer) => Ok(answer.to_vec()),
            SlotResponse::Refused(code) => {
                Err(refusal(code).map_or(SlotFailure::Misunderstood, SlotFailure::Store))
            }
            SlotResponse::NoAnswer => Err(SlotFailure::NoAnswer),
            SlotResponse::TooLong => Err(SlotFailure::AnswerTooLong),
            SlotResponse::Malformed => Err(SlotFailure::Misunderstood),
        }
    }

    /// The response in the first slot.
    fn wait(&mut self) -> Result<&[u8], DaemonGone> {
        let mut tries = 0_u32;
        loop {
            if let Some(length) = self.slots.take(0, &mut self.response) {
                return Ok(&self.response[..length]);
            }
            tries = tries.wrapping_add(1);
            if tries.is_multiple_of(CHECK_EVERY) {
                self.slots.check()?;
                // With fewer cores than processes the daemon needs this one.
                std::thread::yield_now();
            }
            core::hint::spin_loop();
        }
    }
}
