//! Commands on hashes.

use super::call::{Call, Done, Refusal};
use super::long::{Shape, reply_elements};
use super::numbers;
use super::walks;
use crate::decimal;
use crate::store::{Changed, Growth, Hash};

/// The length of the hash that the first argument names.
fn length(call: &Call<'_>) -> Result<usize, Refusal> {
    let name = call.name(1)?;
    Ok(call.shard.store().collection::<Hash>(name)?.map_or(0, Hash::len))
}

pub fn hset(call: &mut Call<'_>) -> Done {
    let new = set_pairs(call, "hset")?;
    call.reply.count(new);
    Ok(())
}

pub fn hmset(call: &mut Call<'_>) -> Done {
    set_pairs(call, "hmset")?;
    call.reply.ok();
    Ok(())
}

/// Sets the fields that the arguments name; gives how many of them are new.
fn set_pairs(call: &mut Call<'_>, command: &str) -> Result<usize, Refusal> {
    if !call.args.len().is_multiple_of(2) {
        return Err(Refusal::arguments(command));
    }
    let (name, args) = (call.name(1)?, call.args);
    let both = Growth::of(args.from(2));
    let growth = Growth { elements: both.elements / 2, ..both };
    let new = call.store().change_collection(name, growth, |hash: &mut Hash| {
        let pairs = args.from(2).step_by(2).zip(args.from(3).step_by(2));
        let new = pairs.filter(|(field, value)| hash.insert(field, value)).count();
        (new, Changed::Yes)
    })?;
    Ok(new.unwrap_or(0))
}

pub fn hsetnx(call: &mut Call<'_>) -> Done {
    let (name, field, value) = (call.name(1)?, call.args.at(2), call.args.at(3));
    let is_there = call.shard.store().collection::<Hash>(name)?.is_some_and(|hash| hash.get(field).is_some());
    if !is_there {
        set(call, field, value)?;
    }
    call.reply.integer(i64::from(!is_there));
    Ok(())
}

/// Sets one field of the hash that the first argument names.
fn set(call: &mut Call<'_>, field: &[u8], value: &[u8]) -> Done {
    let name = call.name(1)?;
    let growth = Growth { elements: 1, bytes: field.len() + value.len() };
    call.store().change_collection(name, growth, |hash: &mut Hash| {
        hash.insert(field, value);
        ((), Changed::Yes)
    })?;
    Ok(())
}

pub fn hget(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let hash = call.shard.store().collection::<Hash>(name)?;
    match hash.and_then(|hash| hash.get(call.args.at(2))) {
        Some(value) => call.reply.bulk(value),
        None => call.reply.null(),
    }
    Ok(())
}

pub fn hmget(call: &mut Call<'_>) -> Done {
    let (name, start) = (call.name(1)?, call.reply.len());
    let hash = call.shard.store().collection::<Hash>(name)?;
    call.reply.array(call.args.len() - 2);
    for field in call.args.from(2) {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => call.reply.bulk(value),
            None => call.reply.null(),
        }
        super::call::check_length(call.reply, start)?;
    }
    Ok(())
}

pub fn hdel(call: &mut Call<'_>) -> Done {
    let (name, args) = (call.name(1)?, call.args);
    let removed = call.store().change_collection(name, Growth::NONE, |hash: &mut Hash| {
        let removed = args.from(2).filter(|field| hash.remove(field)).count();
        (removed, Changed::when(removed > 0))
    })?;
    call.reply.count(removed.unwrap_or(0));
    Ok(())
}

pub fn hlen(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    call.reply.count(length);
    Ok(())
}

pub fn hexists(call: &mut Call<'_>) -> Done {
    let value = value_length(call)?;
    call.reply.integer(i64::from(value.is_some()));
    Ok(())
}

pub fn hstrlen(call: &mut Call<'_>) -> Done {
    let value = value_length(call)?;
    call.reply.count(value.unwrap_or(0));
    Ok(())
}

fn value_length(call: &Call<'_>) -> Result<Option<usize>, Refusal> {
    let name = call.name(1)?;
    let hash = call.shard.store().collection::<Hash>(name)?;
    Ok(hash.and_then(|hash| hash.get(call.args.at(2))).map(<[u8]>::len))
}

pub fn hgetall(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    reply_elements(call, 1, Shape::Both, (0, length))
}

pub fn hkeys(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    reply_elements(call, 1, Shape::Plain, (0, length))
}

pub fn hvals(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    reply_elements(call, 1, Shape::Values, (0, length))
}

pub fn hincrby(call: &mut Call<'_>) -> Done {
    let amount = call.integer(3)?;
    let (name, field) = (call.name(1)?, call.args.at(2));
    let old = call.shard.store().collection::<Hash>(name)?.and_then(|hash| hash.get(field));
    let old = old.map_or(Some(0), decimal::parse).ok_or(Refusal::of("ERR hash value is not an integer"))?;
    let sum = old.checked_add(amount).ok_or(Refusal::OVERFLOW)?;
    set(call, field, decimal::write(sum, &mut [0; decimal::DIGITS_MAX]))?;
    call.reply.integer(sum);
    Ok(())
}

pub fn hincrbyfloat(call: &mut Call<'_>) -> Done {
    let (name, field) = (call.name(1)?, call.args.at(2));
    if !numbers::float(call.args.at(3))?.is_finite() {
        return Err(Refusal::of("ERR value is NaN or Infinity"));
    }
    let old = call.shard.store().collection::<Hash>(name)?.and_then(|hash| hash.get(field)).unwrap_or(b"0");
    numbers::float(old).map_err(|_| Refusal::of("ERR hash value is not a float"))?;
    let sum = numbers::sum(old, call.args.at(3))?;
    set(call, field, sum.as_bytes())?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

pub fn hrandfield(call: &mut Call<'_>) -> Done {
    let has_values = call.args.len() == 4 && call.is(3, "withvalues");
    if call.args.len() > 4 || call.args.len() == 4 && !has_values {
        return Err(Refusal::SYNTAX);
    }
    let length = length(call)?;
    let drawn = walks::draw(call, 2, length)?;
    let name = call.name(1)?;
    let hash = call.shard.store().collection::<Hash>(name)?;
    walks::reply_drawn(call.reply, &drawn, has_values, |reply, place, with_value| {
        let Some((field, value)) = hash.map(|hash| hash.at(place)) else { return };
        reply.bulk(field);
        if with_value {
            reply.bulk(value);
        }
    })
}

pub fn hscan(call: &mut Call<'_>) -> Done {
    let options = walks::options(call)?;
    let name = call.name(1)?;
    let hash = call.shard.store().collection::<Hash>(name)?;
    walks::walk(call.reply, &options, hash.map_or(0, Hash::len), |reply, place, is_wanted| {
        let Some((field, value)) = hash.map(|hash| hash.at(place)) else { return 0 };
        if !is_wanted(field) {
            return 0;
        }
        reply.bulk(field);
        reply.bulk(value);
        2
    });
    Ok(())
}
