//! A client of the store: versioned objects in tables, on the shards of a cluster.

use core::cell::Cell;
use core::ffi::{c_char, c_void};
use std::fmt::Display;

use farcall::Endpoint;
use farcall_kv::durable::Level;
use farcall_kv::store::{Condition, CreateTableError, IncrementError, ReadError, WriteError};
use farcall_kv::wire::NotReplicated;
use farcall_kv::{
    Client, CreateTableAtError, Failure as StoreFailure, Name, Operation, Receipt, TableId, Value,
};

use crate::border::{ErrorText, Failure, bytes, give, guarded, reported, text, timeout};
use crate::endpoint::EndpointHandle;
use crate::payload::PayloadHandle;
use crate::status::Status::{
    self, FARCALL_DISK_FAILED, FARCALL_INVALID_ARGUMENT, FARCALL_LEVEL_REFUSED, FARCALL_MISUNDERSTOOD,
    FARCALL_NO_OBJECT, FARCALL_NOT_A_NUMBER, FARCALL_NOT_ALLOWED, FARCALL_NOT_REPLICATED, FARCALL_STORE_FULL,
    FARCALL_TIMED_OUT, FARCALL_TOO_MANY, FARCALL_UNKNOWN_PEER, FARCALL_UNKNOWN_TABLE, FARCALL_WRONG_VERSION,
};
use crate::status::of_call;

/// Writes whatever there is.
pub const FARCALL_ANY_VERSION: u64 = u64::MAX;
/// Writes only if there is no object.
pub const FARCALL_ABSENT: u64 = 0;

/// A write is on the disks of all processes that have it.
pub const FARCALL_LEVEL_FLUSHED: u32 = 1;
const _: () = assert!(Level::Flushed.to_wire() as u32 == FARCALL_LEVEL_FLUSHED, "levels have one number");

/// Waits for an operation, which may have a timeout.
macro_rules! wait {
    ($operation:expr, $timeout_ns:expr) => {
        match timeout($timeout_ns) {
            Some(within) => $operation.within(within).wait(),
            None => $operation.wait(),
        }
    };
}

/// A client of all shards of a store. Belongs to the endpoint's thread.
pub struct StoreHandle {
    client: Client<'static>,
    endpoint: *mut EndpointHandle,
    /// That of the last write that was answered.
    level: Cell<Level>,
}

impl StoreHandle {
    /// The handle behind a pointer, if the calling thread may use it, outside of callbacks.
    ///
    /// # Safety
    /// `store` is null or open.
    unsafe fn of<'a>(store: *mut Self) -> Result<(&'a Client<'static>, &'a EndpointHandle), Status> {
        // SAFETY: as promised; the endpoint cannot be closed before.
        unsafe {
            let handle = store.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?;
            Ok((&handle.client, EndpointHandle::outside(handle.endpoint)?))
        }
    }

    /// The result of a write, whose level is kept.
    ///
    /// # Safety
    /// `store` is open.
    unsafe fn keep<T>(store: *mut Self, receipt: Receipt<T>) -> T {
        // SAFETY: as promised; its thread is this one.
        unsafe { (*store).level.set(receipt.level) };
        receipt.result
    }
}

/// Makes a client of the shards on these ranks of the node's world: shard 0 on the first, and so on. To be
/// closed before the endpoint.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_open(
    endpoint: *mut EndpointHandle,
    ranks: *const u32,
    shards: usize,
    store: *mut *mut StoreHandle,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        if store.is_null()
            || ranks.is_null()
            || !(1..=farcall_kv::wire::SHARDS_MAX as usize).contains(&shards)
        {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        let ranks = core::slice::from_raw_parts(ranks, shards).iter().copied();
        // It is closed before the endpoint, which lives until then in one place.
        let lasting: &'static Endpoint = &*core::ptr::from_ref(&*handle.endpoint);
        let client = Client::new(lasting, ranks);
        handle.add_child();
        give(store, Box::into_raw(Box::new(StoreHandle { client, endpoint, level: Cell::default() })));
        Ok(())
    })
}

/// Ends the use of a store. Null is allowed.
///
/// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_close(store: *mut StoreHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if store.is_null() {
            return Ok(());
        }
        let (_, endpoint) = StoreHandle::of(store)?;
        drop(Box::from_raw(store));
        endpoint.remove_child();
        Ok(())
    })
}

/// Creates a table on all shards, unless there is one of that name; `table` is its number.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for
/// `endpoint.call_timeout` at most. Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_create_table(
    store: *mut StoreHandle,
    name: *const c_char,
    table: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, endpoint) = StoreHandle::of(store)?;
            let name = text(name, "the name of the table")?;
            let created = endpoint.endpoint.block_on(client.create_table(name)).map_err(explained)?;
            give(table, created.0);
            Ok(())
        })
    }
}

/// As `farcall_store_create_table`, of a table whose writes survive what `level` says, as
/// `farcall_store_level` has it: FARCALL_LEVEL_FLUSHED, or `2 << 1` for two other processes that have them,
/// or both. A table that exists and survives as much stays as it is. A shard that cannot give the level
/// refuses, with a sentence: FARCALL_LEVEL_REFUSED. Of several shards others may have created the table then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_create_table_at(
    store: *mut StoreHandle,
    name: *const c_char,
    level: u32,
    table: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, endpoint) = StoreHandle::of(store)?;
            let name = text(name, "the name of the table")?;
            let level = u8::try_from(level).ok().and_then(Level::from_wire);
            let level = level.ok_or_else(|| Failure::argument("there is no such level"))?;
            let created = endpoint.endpoint.block_on(client.create_table_at(name, level));
            give(table, created.map_err(explained)?.0);
            Ok(())
        })
    }
}

/// The number of the table of a name, whether or not there is one.
///
/// From any thread. Neither polls, blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_table_number(name: *const c_char, table: *mut u64) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let name = text(name, "the name of the table").map_err(|_| FARCALL_INVALID_ARGUMENT)?;
        give(table, TableId::of(name).map_err(|_| FARCALL_INVALID_ARGUMENT)?.0);
        Ok(())
    })
}

/// Reads an object: its value, to be released with `farcall_payload_release`, and its version, which may be
/// null. FARCALL_NO_OBJECT if there is none.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
/// Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_get(
    store: *mut StoreHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    timeout_ns: u64,
    value: *mut *mut PayloadHandle,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, _) = StoreHandle::of(store)?;
            let get = client.get(name(table, key, key_length)?);
            let found = wait!(get, timeout_ns).map_err(explained)?;
            let object = found.ok_or(FARCALL_NO_OBJECT)?;
            give(version, object.version());
            if !value.is_null() {
                give(value, PayloadHandle::copied(object.value()));
            }
            Ok(())
        })
    }
}

/// Writes an object if the one that is there has version `expected`, FARCALL_ABSENT or FARCALL_ANY_VERSION.
/// `version`, which may be null, is that of the object afterwards; with FARCALL_WRONG_VERSION that of the one
/// that is there, 0 if there is none.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
/// Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_put(
    store: *mut StoreHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    expected: u64,
    timeout_ns: u64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, _) = StoreHandle::of(store)?;
            let (name, value) = (name(table, key, key_length)?, value_of(value, value_length)?);
            let put = client.put(name, value, condition(expected)).with_receipt();
            give(version, StoreHandle::keep(store, write(put, timeout_ns, version)?));
            Ok(())
        })
    }
}

/// Deletes an object if the one that is there has version `expected`, or FARCALL_ANY_VERSION. `version`,
/// which may be null, is that which it had, 0 if there was none.
///
/// As `farcall_store_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_remove(
    store: *mut StoreHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    expected: u64,
    timeout_ns: u64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, _) = StoreHandle::of(store)?;
            let delete = client.delete(name(table, key, key_length)?, condition(expected)).with_receipt();
            let deleted = StoreHandle::keep(store, write(delete, timeout_ns, version)?);
            give(version, deleted.unwrap_or(0));
            Ok(())
        })
    }
}

/// Adds to the number that an object is, in decimal digits; one that does not exist counts as 0. `sum` and
/// `version` may be null.
///
/// As `farcall_store_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_increment(
    store: *mut StoreHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    amount: i64,
    timeout_ns: u64,
    sum: *mut i64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (client, _) = StoreHandle::of(store)?;
            let add = client.increment(name(table, key, key_length)?, amount).with_receipt();
            let (after, total) = StoreHandle::keep(store, wait!(add, timeout_ns).map_err(explained)?);
            give(version, after);
            give(sum, total);
            Ok(())
        })
    }
}

/// What the last write through this handle survives that was answered: that of its table when it was written.
/// 0 is nothing. Bit 0 is FARCALL_LEVEL_FLUSHED: the disks of the processes that have it. The bits above it
/// are a number: `level >> 1` other processes have it.
///
/// From the endpoint's thread, not inside a callback. Neither polls, blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_store_level(store: *mut StoreHandle, level: *mut u32) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        StoreHandle::of(store)?;
        give(level, u32::from((*store).level.get().to_wire()));
        Ok(())
    })
}

/// # Safety
/// `key` has `length` bytes.
pub unsafe fn name<'a>(table: u64, key: *const c_void, length: usize) -> Result<Name<'a>, Failure> {
    // SAFETY: as promised.
    let key = unsafe { bytes(key, length)? };
    Name::new(TableId(table), key).map_err(|error| Failure::new(FARCALL_INVALID_ARGUMENT, error))
}

/// # Safety
/// `value` has `length` bytes.
pub unsafe fn value_of<'a>(value: *const c_void, length: usize) -> Result<Value<'a>, Failure> {
    // SAFETY: as promised.
    let value = unsafe { bytes(value, length)? };
    Value::new(value).map_err(|error| Failure::new(FARCALL_INVALID_ARGUMENT, error))
}

pub fn condition(expected: u64) -> Condition {
    match expected {
        FARCALL_ANY_VERSION => Condition::Always,
        FARCALL_ABSENT => Condition::Absent,
        version => Condition::Version(version),
    }
}

/// What a store's refusal is in C.
pub trait Refusal: Display {
    fn status(&self) -> Status;
}

impl Refusal for ReadError {
    fn status(&self) -> Status {
        match self {
            Self::UnknownTable => FARCALL_UNKNOWN_TABLE,
            Self::DiskFailed => FARCALL_DISK_FAILED,
            Self::Collection | Self::TooLong => FARCALL_INVALID_ARGUMENT,
        }
    }
}

impl Refusal for WriteError {
    fn status(&self) -> Status {
        match self {
            Self::UnknownTable => FARCALL_UNKNOWN_TABLE,
            Self::WrongVersion { .. } => FARCALL_WRONG_VERSION,
            Self::OutOfMemory | Self::LogFull => FARCALL_STORE_FULL,
            Self::DiskFailed => FARCALL_DISK_FAILED,
            Self::SameHash | Self::TooLong => FARCALL_INVALID_ARGUMENT,
        }
    }
}

impl Refusal for IncrementError {
    fn status(&self) -> Status {
        match self {
            Self::Write(error) => error.status(),
            Self::NotANumber | Self::Overflow => FARCALL_NOT_A_NUMBER,
        }
    }
}

impl Refusal for CreateTableError {
    fn status(&self) -> Status {
        match self {
            Self::Limit(_) | Self::SameNumber => FARCALL_INVALID_ARGUMENT,
            Self::TooMany => FARCALL_STORE_FULL,
        }
    }
}

impl Refusal for CreateTableAtError {
    fn status(&self) -> Status {
        match self {
            Self::Table(error) => error.status(),
            Self::NoLog | Self::WeakLog | Self::WeakTable | Self::OlderStore => FARCALL_LEVEL_REFUSED,
            Self::LogFull => FARCALL_STORE_FULL,
            Self::DiskFailed => FARCALL_DISK_FAILED,
        }
    }
}

fn explained<E: Refusal + core::error::Error>(failure: StoreFailure<E>) -> Failure {
    let status = match &failure {
        StoreFailure::Store(error) => error.status(),
        StoreFailure::WrongShard => FARCALL_INVALID_ARGUMENT,
        StoreFailure::Busy => FARCALL_TOO_MANY,
        StoreFailure::NotAllowed { .. } => FARCALL_NOT_ALLOWED,
        StoreFailure::NotReplicated(why) => of_not_replicated(*why),
        StoreFailure::Forgotten => FARCALL_TIMED_OUT,
        StoreFailure::NotConnected(_) => FARCALL_UNKNOWN_PEER,
        StoreFailure::NoAnswer(error) => of_call(error).0,
        StoreFailure::Misunderstood => FARCALL_MISUNDERSTOOD,
    };
    Failure::new(status, failure)
}

/// Whether a write that did not reach its level may have happened.
pub fn of_not_replicated(why: NotReplicated) -> Status {
    if why.passes() { FARCALL_NOT_REPLICATED } else { FARCALL_TIMED_OUT }
}

/// Waits for a write, and says which version is there instead of the expected one.
///
/// # Safety
/// `version` is null or may be written to.
unsafe fn write<T>(
    operation: Operation<'_, T, WriteError>,
    timeout_ns: u64,
    version: *mut u64,
) -> Result<T, Failure> {
    wait!(operation, timeout_ns).map_err(|failure| {
        if let StoreFailure::Store(WriteError::WrongVersion { version: found }) = &failure {
            // SAFETY: as promised.
            unsafe { give(version, *found) };
        }
        explained(failure)
    })
}
