//! Commands on strings.

use super::call::{Call, Done, Refusal, value};
use crate::resp::reply::Reply;
use crate::store::{Condition, Object};

pub fn get(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    match call.shard.store().get(name)? {
        Some(object) => reply_value(call.reply, &object),
        None => call.reply.null(),
    }
    Ok(())
}

/// Replies with an object's value.
#[inline]
pub fn reply_value(reply: &mut Reply, object: &Object<'_>) {
    match object.version_and_value() {
        Some(bytes) => reply.bulk(&bytes[8..]),
        None => reply.bulk_filled(object.value_bytes(), |to| object.copy_value_to(to)),
    }
}

pub fn set(call: &mut Call<'_>) -> Done {
    let (name, value) = (call.name(1)?, value(call.args.at(2))?);
    call.store().put(name, value, Condition::Always)?;
    call.reply.ok();
    Ok(())
}

pub fn del(call: &mut Call<'_>) -> Done {
    let mut deleted = 0;
    for key in call.args.from(1) {
        let name = call.named(key)?;
        deleted += usize::from(call.store().delete(name, Condition::Always)?.is_some());
    }
    call.reply.count(deleted);
    Ok(())
}

pub fn exists(call: &mut Call<'_>) -> Done {
    let mut there = 0;
    for key in call.args.from(1) {
        let name = call.named(key)?;
        there += usize::from(call.store().get(name)?.is_some());
    }
    call.reply.count(there);
    Ok(())
}

pub fn incr(call: &mut Call<'_>) -> Done {
    add(call, 1)
}

pub fn decr(call: &mut Call<'_>) -> Done {
    add(call, -1)
}

pub fn incrby(call: &mut Call<'_>) -> Done {
    let amount = call.integer(2)?;
    add(call, amount)
}

pub fn decrby(call: &mut Call<'_>) -> Done {
    let amount = call.integer(2)?.checked_neg();
    add(call, amount.ok_or(Refusal::of("ERR decrement would overflow"))?)
}

#[inline]
fn add(call: &mut Call<'_>, amount: i64) -> Done {
    let name = call.name(1)?;
    let (_, sum) = call.store().increment(name, amount)?;
    call.reply.integer(sum);
    Ok(())
}
