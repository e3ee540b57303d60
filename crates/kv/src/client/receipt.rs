//! Receipts: what a write survives, with its result.

use farcall::Payload;

use super::failure::Failure;
use super::operation::{Decode, Operation};
use super::written;
use crate::durable::Level;
use crate::store::{IncrementError, WriteError};
use crate::wire::{IncrementResponse, WriteResponse};

/// The result of a write, and what it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt<T> {
    /// The result.
    pub result: T,
    /// The level that the write has reached: that of its table, never less.
    pub level: Level,
}

impl<'c, T, E> Operation<'c, T, E> {
    fn decoded_by<U>(self, decode: Decode<U, E>) -> Operation<'c, U, E> {
        let Self { client, shard, route, service, message, repeat, timeout, decode: _ } = self;
        Operation { client, shard, route, service, message, repeat, timeout, decode }
    }
}

impl<'c> Operation<'c, u64, WriteError> {
    /// The same put, whose result also says what it survives.
    pub fn with_receipt(self) -> Operation<'c, Receipt<u64>, WriteError> {
        self.decoded_by(|answer| of_write(answer, |version| version))
    }
}

impl<'c> Operation<'c, Option<u64>, WriteError> {
    /// The same delete, whose result also says what it survives.
    pub fn with_receipt(self) -> Operation<'c, Receipt<Option<u64>>, WriteError> {
        self.decoded_by(|answer| of_write(answer, |version| (version != 0).then_some(version)))
    }
}

impl<'c> Operation<'c, (u64, i64), IncrementError> {
    /// The same increment, whose result also says what it survives.
    pub fn with_receipt(self) -> Operation<'c, Receipt<(u64, i64)>, IncrementError> {
        self.decoded_by(|answer| {
            let IncrementResponse { version, sum, level } = IncrementResponse::decode(&answer)?;
            Ok(Receipt { result: (version, sum), level })
        })
    }
}

fn of_write<T>(answer: Payload, result: fn(u64) -> T) -> Result<Receipt<T>, Failure<WriteError>> {
    let level = WriteResponse::decode(&answer)?.level;
    Ok(Receipt { result: result(written(answer)?), level })
}
