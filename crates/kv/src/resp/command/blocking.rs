//! Commands that take elements, and wait for some if there are none.

use core::ops::Range;

use super::call::{Call, Done, Refusal};
use super::lists::{self, End};
use super::sets::number_of_keys;
use super::sorted;
use super::waiting::{Nothing, check_timeout, wait};
use crate::store::{Kept, List, Sorted};

pub fn blpop(call: &mut Call<'_>) -> Done {
    pop_or_wait(call, End::Left)
}

pub fn brpop(call: &mut Call<'_>) -> Done {
    pop_or_wait(call, End::Right)
}

/// The first of some keys that is a collection of a kind. Of those of a client that waits only the key counts
/// which may have something now: it may be of another kind, and others may be.
fn first_kept<C: Kept>(call: &Call<'_>, mut keys: Range<usize>) -> Result<Option<usize>, Refusal> {
    let store = call.shard.store();
    if let Some(served) = call.engine.waiting.served() {
        let is_kept = |number: &usize| {
            let name = call.name(*number).ok().filter(|name| name.key() == served);
            name.is_some_and(|name| matches!(store.collection::<C>(name), Ok(Some(_))))
        };
        return Ok(keys.find(is_kept));
    }
    for number in keys {
        if store.collection::<C>(call.name(number)?)?.is_some() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn pop_or_wait(call: &mut Call<'_>, end: End) -> Done {
    let timeout_at = call.args.len() - 1;
    check_timeout(call, timeout_at)?;
    let Some(number) = first_kept::<List>(call, 1..timeout_at)? else {
        return wait(call, 1..timeout_at, timeout_at, Nothing::Array);
    };
    let name = call.name(number)?;
    let taken = lists::take(call, name, end, 1)?;
    call.reply.array(2);
    call.reply.bulk(name.key());
    taken.iter().for_each(|element| call.reply.bulk(element));
    Ok(())
}

pub fn blmove(call: &mut Call<'_>) -> Done {
    check_timeout(call, 5)?;
    let ends = (End::of(call, 3)?, End::of(call, 4)?);
    if first_kept::<List>(call, 1..2)?.is_some() && lists::move_one(call, ends)? {
        return Ok(());
    }
    wait(call, 1..2, 5, Nothing::String)
}

pub fn brpoplpush(call: &mut Call<'_>) -> Done {
    check_timeout(call, 3)?;
    if first_kept::<List>(call, 1..2)?.is_some() && lists::move_one(call, (End::Right, End::Left))? {
        return Ok(());
    }
    wait(call, 1..2, 3, Nothing::String)
}

/// The keys of a command that takes several elements, the argument behind them, and how many it takes.
fn several(call: &Call<'_>, count_at: usize) -> Result<(Range<usize>, usize, usize), Refusal> {
    let end = count_at + 1 + number_of_keys(call, count_at)?;
    let count = match call.args.len().checked_sub(end + 1) {
        Some(0) => 1,
        Some(2) if call.is(end + 1, "count") => {
            let count = call.integer(end + 2).ok().and_then(|count| usize::try_from(count).ok());
            count.filter(|count| *count > 0).ok_or(Refusal::of("ERR count should be greater than 0"))?
        }
        _ => return Err(Refusal::SYNTAX),
    };
    Ok((count_at + 1..end, end, count))
}

pub fn lmpop(call: &mut Call<'_>) -> Done {
    let done = take_several(call, 1)?;
    if done.is_some() {
        call.reply.null_array();
    }
    Ok(())
}

pub fn blmpop(call: &mut Call<'_>) -> Done {
    check_timeout(call, 1)?;
    match take_several(call, 2)? {
        None => Ok(()),
        Some(keys) => wait(call, keys, 1, Nothing::Array),
    }
}

/// Takes elements from the first list that is there; gives the keys if none is.
fn take_several(call: &mut Call<'_>, count_at: usize) -> Result<Option<Range<usize>>, Refusal> {
    let (keys, end_at, count) = several(call, count_at)?;
    let end = End::of(call, end_at)?;
    let Some(number) = first_kept::<List>(call, keys.clone())? else { return Ok(Some(keys)) };
    let name = call.name(number)?;
    let taken = lists::take(call, name, end, count)?;
    call.reply.array(2);
    call.reply.bulk(name.key());
    call.reply.array(taken.len());
    taken.iter().for_each(|element| call.reply.bulk(element));
    Ok(None)
}

pub fn bzpopmin(call: &mut Call<'_>) -> Done {
    pop_member_or_wait(call, false)
}

pub fn bzpopmax(call: &mut Call<'_>) -> Done {
    pop_member_or_wait(call, true)
}

fn pop_member_or_wait(call: &mut Call<'_>, is_highest: bool) -> Done {
    let timeout_at = call.args.len() - 1;
    check_timeout(call, timeout_at)?;
    let Some(number) = first_kept::<Sorted>(call, 1..timeout_at)? else {
        return wait(call, 1..timeout_at, timeout_at, Nothing::Array);
    };
    let name = call.name(number)?;
    let taken = sorted::take(call, name, (0, 1), is_highest)?;
    call.reply.array(3);
    call.reply.bulk(name.key());
    for (member, score) in &taken {
        call.reply.bulk(member);
        call.reply.double(*score);
    }
    Ok(())
}

pub fn zmpop(call: &mut Call<'_>) -> Done {
    let done = take_members(call, 1)?;
    if done.is_some() {
        call.reply.null_array();
    }
    Ok(())
}

pub fn bzmpop(call: &mut Call<'_>) -> Done {
    check_timeout(call, 1)?;
    match take_members(call, 2)? {
        None => Ok(()),
        Some(keys) => wait(call, keys, 1, Nothing::Array),
    }
}

/// Takes members from the first sorted set that is there; gives the keys if none is.
fn take_members(call: &mut Call<'_>, count_at: usize) -> Result<Option<Range<usize>>, Refusal> {
    let (keys, end_at, count) = several(call, count_at)?;
    let is_highest = match () {
        () if call.is(end_at, "min") => false,
        () if call.is(end_at, "max") => true,
        () => return Err(Refusal::SYNTAX),
    };
    let Some(number) = first_kept::<Sorted>(call, keys.clone())? else { return Ok(Some(keys)) };
    let name = call.name(number)?;
    let taken = sorted::take(call, name, (0, count), is_highest)?;
    call.reply.array(2);
    call.reply.bulk(name.key());
    call.reply.array(taken.len());
    for (member, score) in &taken {
        call.reply.array(2);
        call.reply.bulk(member);
        call.reply.double(*score);
    }
    Ok(None)
}
