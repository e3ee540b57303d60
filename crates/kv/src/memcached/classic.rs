//! The text commands.

use super::call::{Call, End, Refusal, push_value, value_of};
use super::parse::{Direction, Mode, Store, number};
use crate::VALUE_BYTES_MAX;
use crate::store::{Condition, Tail};

/// The longest value that is read as a number.
const NUMBER_BYTES_MAX: usize = 64;

/// What became of a value that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It has this version, unless it has expired already.
    Yes(Option<u64>),
    /// The condition of the command does not hold.
    No,
    /// The object has another version.
    Exists,
    /// There is no object.
    NotFound,
}

/// Answers with the value of a key, if there is one.
pub fn get(call: &mut Call<'_>, key: &[u8], has_unique: bool, exptime: Option<i64>) {
    call.engine.memcached.counters.gets.increment();
    let (start, name) = (call.out.len(), call.name(key));
    let Some(object) = value_of(call.shard.store(), name) else { return };
    call.out.extend_from_slice(b"VALUE ");
    call.out.extend_from_slice(key);
    let (flags, bytes) = (object.tail().flags, object.value_bytes());
    let unique = if has_unique { format!(" {}", object.version()) } else { String::new() };
    call.out.extend_from_slice(format!(" {flags} {bytes}{unique}\r\n").as_bytes());
    push_value(call.out, &object);
    call.engine.memcached.counters.hits.increment();
    call.count_use(key);
    let touched = exptime.map_or(Ok(true), |exptime| expire(call, key, exptime));
    if let Err(refusal) = touched {
        // Its time is as it was: the client would think otherwise.
        call.out.truncate(start);
        call.line(&refusal.to_string());
    }
}

pub fn store(call: &mut Call<'_>, store: &Store<'_>) {
    call.engine.memcached.counters.writes.increment();
    let text = match try_store(call, store) {
        Ok(Stored::Yes(_)) => "STORED",
        Ok(Stored::No) => "NOT_STORED",
        Ok(Stored::Exists) => "EXISTS",
        Ok(Stored::NotFound) => "NOT_FOUND",
        Err(refusal) => return call.line(&refusal.to_string()),
    };
    call.line(text);
}

fn try_store(call: &mut Call<'_>, store: &Store<'_>) -> Result<Stored, Refusal> {
    let &Store { mode, key, flags, exptime, value } = store;
    let found = call.version_and_tail(key).map(|(version, _)| version);
    match mode {
        Mode::Append | Mode::Prepend => return extend(call, key, value, mode),
        Mode::Add if found.is_some() => return Ok(Stored::No),
        Mode::Replace if found.is_none() => return Ok(Stored::No),
        Mode::Compare(_) if found.is_none() => return Ok(Stored::NotFound),
        Mode::Compare(version) if found != Some(version) => return Ok(Stored::Exists),
        _ => {}
    }
    let end = End::of(exptime, call.shard.store().clock());
    let stored = put(call, key, value, end, Tail { flags, ..Tail::default() });
    forget_unless_stored(call, key, mode, stored)
}

/// Of a value that was to be set and cannot be stored, the one before goes as well: nobody is to take it for
/// the new one.
pub fn forget_unless_stored(
    call: &mut Call<'_>,
    key: &[u8],
    mode: Mode,
    stored: Result<Stored, Refusal>,
) -> Result<Stored, Refusal> {
    if stored == Err(Refusal::OutOfMemory) && mode == Mode::Set {
        call.delete(key)?;
    }
    stored
}

/// Stores a value whatever is there.
pub fn put(call: &mut Call<'_>, key: &[u8], value: &[u8], end: End, tail: Tail) -> Result<Stored, Refusal> {
    let put = call.put(key, value, end, |_| tail)?;
    call.count_use(key);
    Ok(Stored::Yes(put))
}

/// Writes a value behind one that is there, or in front of it.
pub fn extend(call: &mut Call<'_>, key: &[u8], part: &[u8], mode: Mode) -> Result<Stored, Refusal> {
    let Some(object) = call.value(key) else { return Ok(Stored::No) };
    if object.value_bytes() + part.len() > VALUE_BYTES_MAX {
        return Err(Refusal::LongValue);
    }
    let old = object.to_vec();
    let value = if mode == Mode::Prepend { [part, &old].concat() } else { [&old, part].concat() };
    let version = call.change(key, &value)?;
    call.count_use(key);
    Ok(Stored::Yes(Some(version)))
}

pub fn delete(call: &mut Call<'_>, key: &[u8]) {
    call.engine.memcached.counters.deletes.increment();
    match call.delete(key) {
        Ok(true) => call.line("DELETED"),
        Ok(false) => call.line("NOT_FOUND"),
        Err(refusal) => call.line(&refusal.to_string()),
    }
}

pub fn add(call: &mut Call<'_>, key: &[u8], amount: u64, direction: Direction) {
    match sum(call, key, amount, direction) {
        Ok(None) => call.line("NOT_FOUND"),
        Ok(Some((sum, _))) => call.line(&sum.to_string()),
        Err(refusal) => call.line(&refusal.to_string()),
    }
}

/// Adds to a number, or subtracts from it; gives what it is then, and its version.
pub fn sum(
    call: &mut Call<'_>,
    key: &[u8],
    amount: u64,
    direction: Direction,
) -> Result<Option<(u64, u64)>, Refusal> {
    call.engine.memcached.counters.sums.increment();
    let Some(object) = call.value(key) else { return Ok(None) };
    if object.value_bytes() > NUMBER_BYTES_MAX {
        return Err(Refusal::NotANumber);
    }
    // It may have zeros in front, and others may have padded it with blanks.
    let old = number(object.to_vec().trim_ascii_end()).ok_or(Refusal::NotANumber)?;
    let sum = match direction {
        Direction::Up => old.wrapping_add(amount),
        Direction::Down => old.saturating_sub(amount),
    };
    let version = call.change(key, sum.to_string().as_bytes())?;
    call.count_use(key);
    Ok(Some((sum, version)))
}

pub fn touch(call: &mut Call<'_>, key: &[u8], exptime: i64) {
    match expire(call, key, exptime) {
        Ok(true) => call.line("TOUCHED"),
        Ok(false) => call.line("NOT_FOUND"),
        Err(refusal) => call.line(&refusal.to_string()),
    }
}

/// Lets an object with a value expire at another time; says whether there is one.
fn expire(call: &mut Call<'_>, key: &[u8], exptime: i64) -> Result<bool, Refusal> {
    call.engine.memcached.counters.touches.increment();
    let Some(tail) = call.value(key).map(|object| object.tail()) else { return Ok(false) };
    expire_tail(call, key, exptime, tail)?;
    Ok(true)
}

/// The same for an object that is there, with what it has beside its value otherwise.
pub fn expire_tail(call: &mut Call<'_>, key: &[u8], exptime: i64, tail: Tail) -> Result<(), Refusal> {
    match End::of(exptime, call.shard.store().clock()).deadline() {
        Some(deadline) => call.change_tail(key, Tail { deadline, ..tail }),
        None => {
            let name = call.name(key);
            call.store().delete(name, Condition::Always)?;
            Ok(())
        }
    }
}

/// Deletes everything, now or after some seconds. A later one takes the place of one that was to come.
pub fn flush(call: &mut Call<'_>, delay: i64) {
    call.engine.memcached.counters.flushes.increment();
    let now_ms = call.shard.store().clock();
    if let End::At(at) = End::of(delay, now_ms) {
        call.engine.memcached.flush_at = Some(at);
        return call.line("OK");
    }
    call.engine.memcached.flush_at = None;
    let table = call.engine.memcached.table;
    match call.shard.store_mut().clear_table(table) {
        Ok(()) => call.line("OK"),
        Err(error) => call.line(&format!("SERVER_ERROR {error}")),
    }
}
