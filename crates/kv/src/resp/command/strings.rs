//! Commands on strings.

use super::call::{Call, Done, Refusal, string, value};
use super::expiry::{Unit, deadline};
use crate::VALUE_BYTES_MAX;
use crate::resp::reply::Reply;
use crate::store::{Condition, Expiry, Object, WriteError};

pub fn get(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    reply_value(call.reply, string(call.shard.store(), name)?);
    Ok(())
}

/// Replies with an object's value, or with nothing.
#[inline]
pub fn reply_value(reply: &mut Reply, object: Option<Object<'_>>) {
    match object {
        Some(object) => match object.version_and_value() {
            Some(bytes) => reply.bulk(&bytes[8..]),
            None => reply.bulk_filled(object.value_bytes(), |to| object.copy_value_to(to)),
        },
        None => reply.null(),
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
    let (name, value) = (call.name(1)?, value(call.args.at(2))?);
    if call.args.len() == 3 {
        call.store().put(name, value, Condition::Always)?;
        call.reply.ok();
        return Ok(());
    }
    let options = set_options(call)?;
    let is_there = match options.gets {
        true => {
            let object = string(call.shard.store(), name)?;
            reply_value(call.reply, object);
            object.is_some()
        }
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
    let (name, value) = (call.name(key)?, value(call.args.at(value_at))?);
    if let Expiry::At(deadline) = expiry
        && deadline <= call.store().clock()
    {
        call.store().delete(name, Condition::Always)?;
        return Ok(());
    }
    call.store().put_until(name, value, Condition::Always, expiry)?;
    Ok(())
}

pub fn setnx(call: &mut Call<'_>) -> Done {
    let (name, value) = (call.name(1)?, value(call.args.at(2))?);
    let set = match call.store().put(name, value, Condition::Absent) {
        Ok(_) => 1,
        Err(WriteError::WrongVersion { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    call.reply.integer(set);
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
    reply_value(call.reply, string(call.shard.store(), name)?);
    put(call, 1, 2, Expiry::Never)
}

pub fn getdel(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    reply_value(call.reply, string(call.shard.store(), name)?);
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
    reply_value(call.reply, object);
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
        let object = call.shard.store().get(call.named(key)?)?;
        reply_value(call.reply, object.filter(|object| !object.is_collection()));
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
    let end =
        offset.checked_add(part.len()).filter(|end| *end <= VALUE_BYTES_MAX).ok_or(Refusal::TOO_LONG)?;
    let name = call.name(1)?;
    let mut bytes = string(call.shard.store(), name)?.map_or_else(Vec::new, |object| object.to_vec());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(part);
    call.store().put_until(name, value(&bytes)?, Condition::Always, Expiry::Keep)?;
    Ok(bytes.len())
}

pub fn getrange(call: &mut Call<'_>) -> Done {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let name = call.name(1)?;
    match string(call.shard.store(), name)? {
        None => call.reply.bulk(b""),
        Some(object) => {
            let (from, end) = range(first, last, object.value_bytes());
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
