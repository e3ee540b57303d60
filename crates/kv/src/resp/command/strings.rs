//! Commands on strings.

use super::call::{Call, Done, Given, Refusal, string, value};
use super::expiry::{Unit, deadline};
use super::incoming::too_much_at_once;
use crate::resp::reading::Reading;
use crate::store::{Condition, Expiry};
use crate::{Name, VALUE_BYTES_MAX, Value};

pub fn get(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    reply_string(call, name)?;
    Ok(())
}

/// Replies with a string, or with nothing; says whether there is one.
#[inline]
fn reply_string(call: &mut Call<'_>, name: Name<'_>) -> Result<bool, Refusal> {
    match string(call.shard.store(), name)? {
        Some(object) => match object.version_and_value() {
            Some(bytes) => call.reply.bulk(&bytes[8..]),
            None if object.is_long() => reply_long(call, name, (0, object.value_bytes())),
            None => call.reply.bulk_filled(object.value_bytes(), |to| object.copy_value_to(to)),
        },
        None => {
            call.reply.null();
            return Ok(false);
        }
    }
    Ok(true)
}

/// Replies with a part of a long value, which the client gets piece by piece.
fn reply_long(call: &mut Call<'_>, name: Name<'_>, part: (usize, usize)) {
    match call.store().hold_long(name) {
        Some(held) => call.reply.bulk_long(Reading::new(held, part)),
        None => call.reply.null(),
    }
}

/// The options of `SET`.
#[derive(Clone, Copy, Debug)]
struct SetOptions {
    if_absent: bool,
    if_there: bool,
    gets: bool,
    expiry: Option<Expiry>,
}

pub fn set(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    if call.args.len() == 3 && call.session.longs.is_empty() {
        let value = value(call.args.at(2))?;
        call.store().put(name, value, Condition::Always)?;
        call.reply.ok();
        return Ok(());
    }
    let options = set_options(call)?;
    let is_there = match options.gets {
        true => reply_string(call, name)?,
        false => (options.if_absent || options.if_there) && call.store().get(name)?.is_some(),
    };
    let sets = !(options.if_absent && is_there || options.if_there && !is_there);
    if sets {
        put(call, 1, 2, options.expiry.unwrap_or(Expiry::Never))?;
    }
    match (options.gets, sets) {
        (true, _) => {}
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

fn set_options(call: &Call<'_>) -> Result<SetOptions, Refusal> {
    let mut options = SetOptions { if_absent: false, if_there: false, gets: false, expiry: None };
    let mut at = 3;
    while at < call.args.len() {
        match () {
            () if call.is(at, "nx") && !options.if_there => options.if_absent = true,
            () if call.is(at, "xx") && !options.if_absent => options.if_there = true,
            () if call.is(at, "get") => options.gets = true,
            () if call.is(at, "keepttl") && options.expiry.is_none() => options.expiry = Some(Expiry::Keep),
            () if options.expiry.is_none() && at + 1 < call.args.len() => {
                let unit = Unit::of_option(call.args.at(at)).ok_or(Refusal::SYNTAX)?;
                options.expiry = Some(Expiry::At(deadline(call, at + 1, unit, "set")?));
                at += 1;
            }
            () => return Err(Refusal::SYNTAX),
        }
        at += 1;
    }
    Ok(options)
}

/// Writes the value that an argument is. One whose time is over already is deleted.
fn put(call: &mut Call<'_>, key: usize, value_at: usize, expiry: Expiry) -> Result<(), Refusal> {
    let (name, given) = (call.name(key)?, call.given(value_at)?);
    if let Expiry::At(deadline) = expiry
        && deadline <= call.store().clock()
    {
        call.store().delete(name, Condition::Always)?;
        return Ok(());
    }
    match given {
        Given::Short(value) => call.store().put_until(name, value, Condition::Always, expiry)?,
        Given::Long(held) => call.store().put_long(name, &held, expiry)?,
    };
    Ok(())
}

pub fn setnx(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let sets = call.store().get(name)?.is_none();
    if sets {
        put(call, 1, 2, Expiry::Never)?;
    }
    call.reply.integer(i64::from(sets));
    Ok(())
}

pub fn setex(call: &mut Call<'_>) -> Done {
    set_for(call, Unit::Seconds, "setex")
}

pub fn psetex(call: &mut Call<'_>) -> Done {
    set_for(call, Unit::Milliseconds, "psetex")
}

fn set_for(call: &mut Call<'_>, unit: Unit, command: &str) -> Done {
    let deadline = deadline(call, 2, unit, command)?;
    put(call, 1, 3, Expiry::At(deadline))?;
    call.reply.ok();
    Ok(())
}

pub fn getset(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    reply_string(call, name)?;
    put(call, 1, 2, Expiry::Never)
}

pub fn getdel(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    reply_string(call, name)?;
    call.store().delete(name, Condition::Always)?;
    Ok(())
}

pub fn getex(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let change = match call.args.len() {
        2 => None,
        3 if call.is(2, "persist") => Some(None),
        4 => {
            let unit = Unit::of_option(call.args.at(2)).ok_or(Refusal::SYNTAX)?;
            Some(Some(deadline(call, 3, unit, "getex")?))
        }
        _ => return Err(Refusal::SYNTAX),
    };
    let object = string(call.shard.store(), name)?;
    let changes = object.is_some_and(|object| change.is_some_and(|change| change != object.deadline()));
    reply_string(call, name)?;
    match change {
        Some(Some(deadline)) if changes && deadline <= call.store().clock() => {
            call.store().delete(name, Condition::Always)?;
        }
        Some(deadline) if changes => {
            call.store().set_deadline(name, deadline)?;
        }
        _ => {}
    }
    Ok(())
}

pub fn mget(call: &mut Call<'_>) -> Done {
    let start = call.reply.len();
    call.reply.array(call.args.len() - 1);
    for key in call.args.from(1) {
        let name = call.named(key)?;
        match call.shard.store().get(name)? {
            Some(object) if object.is_collection() => call.reply.null(),
            _ => _ = reply_string(call, name)?,
        }
        call.check_reply(start)?;
    }
    Ok(())
}

pub fn mset(call: &mut Call<'_>) -> Done {
    check_pairs(call, "mset")?;
    put_pairs(call)?;
    call.reply.ok();
    Ok(())
}

pub fn msetnx(call: &mut Call<'_>) -> Done {
    check_pairs(call, "msetnx")?;
    for key in call.args.from(1).step_by(2) {
        if call.shard.store().get(call.named(key)?)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    put_pairs(call)?;
    call.reply.integer(1);
    Ok(())
}

/// Nothing is written before all of it is known to be good.
fn check_pairs(call: &Call<'_>, command: &str) -> Done {
    if call.args.len().is_multiple_of(2) {
        return Err(Refusal::arguments(command));
    }
    for number in (1..call.args.len()).step_by(2) {
        call.name(number)?;
        value(call.args.at(number + 1))?;
    }
    Ok(())
}

fn put_pairs(call: &mut Call<'_>) -> Done {
    for number in (1..call.args.len()).step_by(2) {
        put(call, number, number + 1, Expiry::Never)?;
    }
    Ok(())
}

pub fn strlen(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let bytes = string(call.shard.store(), name)?.map_or(0, |object| object.value_bytes());
    call.reply.count(bytes);
    Ok(())
}

pub fn append(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let bytes = string(call.shard.store(), name)?.map_or(0, |object| object.value_bytes());
    let length = splice(call, bytes, call.args.at(2))?;
    call.reply.count(length);
    Ok(())
}

pub fn setrange(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let offset = usize::try_from(call.integer(2)?).map_err(|_| Refusal::of("ERR offset is out of range"))?;
    let part = call.args.at(3);
    if part.is_empty() {
        let bytes = string(call.shard.store(), name)?.map_or(0, |object| object.value_bytes());
        call.reply.count(bytes);
        return Ok(());
    }
    let length = splice(call, offset, part)?;
    call.reply.count(length);
    Ok(())
}

/// Writes a part of the first argument's value, with zeros in front where there was nothing; gives its
/// length.
fn splice(call: &mut Call<'_>, offset: usize, part: &[u8]) -> Result<usize, Refusal> {
    let value_bytes_max = call.engine.value_bytes_max;
    let end =
        offset.checked_add(part.len()).filter(|end| *end <= value_bytes_max).ok_or(Refusal::TOO_LONG)?;
    let name = call.name(1)?;
    let object = string(call.shard.store(), name)?;
    let length = object.map_or(0, |object| object.value_bytes());
    if end.saturating_sub(length).max(part.len()) > VALUE_BYTES_MAX {
        return Err(too_much_at_once());
    }
    if length > VALUE_BYTES_MAX {
        return splice_long(call, (name, length), offset, part);
    }
    let mut bytes = object.map_or_else(Vec::new, |object| object.to_vec());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(part);
    match Value::new(&bytes) {
        Ok(value) => call.store().put_until(name, value, Condition::Always, Expiry::Keep)?,
        Err(_) => {
            // The log gets its pieces with what else the command does: it was admitted with them.
            let mut held = call.shard.begin_long(name.table());
            call.store().extend_long(&mut held, &bytes)?;
            call.store().put_long(name, &held, Expiry::Keep)?
        }
    };
    Ok(bytes.len())
}

/// The same of a long value: what it has is not copied.
fn splice_long(
    call: &mut Call<'_>,
    (name, length): (Name<'_>, usize),
    offset: usize,
    part: &[u8],
) -> Result<usize, Refusal> {
    let (within, behind) = part.split_at(part.len().min(length.saturating_sub(offset)));
    if !within.is_empty() && call.engine.is_in_transaction {
        // A reply of the same transaction may wait to be read from there.
        return Err(Refusal::of(
            "ERR SETRANGE within a string of more than 1 MiB is no part of a transaction",
        ));
    }
    if !behind.is_empty() {
        let mut more = vec![0; offset.saturating_sub(length)];
        more.extend_from_slice(behind);
        call.store().append_long(name, &more)?;
    }
    if !within.is_empty() {
        call.store().overwrite_long(name, offset, within)?;
    }
    Ok(length.max(offset + part.len()))
}

pub fn getrange(call: &mut Call<'_>) -> Done {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let name = call.name(1)?;
    match string(call.shard.store(), name)? {
        None => call.reply.bulk(b""),
        Some(object) => {
            let (from, end) = range(first, last, object.value_bytes());
            if end - from > VALUE_BYTES_MAX {
                reply_long(call, name, (from, end));
                return Ok(());
            }
            call.reply.bulk_filled(end - from, |mut to| {
                object.pieces(from, end, |piece| {
                    let (part, rest) = core::mem::take(&mut to).split_at_mut(piece.len());
                    part.copy_from_slice(piece);
                    to = rest;
                });
            });
        }
    }
    Ok(())
}

/// The range of a value between two places, both included; negative ones count from its end.
fn range(first: i64, last: i64, length: usize) -> (usize, usize) {
    let length = length as i64;
    if first < 0 && last < 0 && first > last {
        return (0, 0);
    }
    let place = |place: i64| if place < 0 { (length.saturating_add(place)).max(0) } else { place };
    let (from, end) = (place(first), place(last).saturating_add(1).min(length));
    if from >= end { (0, 0) } else { (from as usize, end as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_either_end() {
        for (first, last, expected) in [
            (0, -1, (0, 5)),
            (1, 3, (1, 4)),
            (-3, -1, (2, 5)),
            (-100, 100, (0, 5)),
            (5, 9, (0, 0)),
            (3, 1, (0, 0)),
            (-1, -3, (0, 0)),
            (0, i64::MAX, (0, 5)),
            (i64::MIN, -1, (0, 5)),
        ] {
            assert_eq!(range(first, last, 5), expected, "{first} {last}");
        }
        assert_eq!(range(0, -1, 0), (0, 0));
    }
}
