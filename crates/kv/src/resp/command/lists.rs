//! Commands on lists that wait for nothing.

use core::cmp::Ordering;

use super::call::{Call, Done, Refusal};
use super::long::{Shape, reply_elements};
use crate::Name;
use crate::store::{Changed, Growth, List};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

impl End {
    /// The end that an argument names.
    pub fn of(call: &Call<'_>, number: usize) -> Result<Self, Refusal> {
        match () {
            () if call.is(number, "left") => Ok(Self::Left),
            () if call.is(number, "right") => Ok(Self::Right),
            () => Err(Refusal::SYNTAX),
        }
    }

    /// The place at which an element is put.
    fn place(self, list: &List) -> usize {
        if self == Self::Left { 0 } else { list.len() }
    }

    /// Takes the element at this end.
    pub fn take(self, list: &mut List) -> Option<Box<[u8]>> {
        let place = if self == Self::Left { 0 } else { list.len().checked_sub(1)? };
        list.remove(place)
    }
}

/// The length of the list that the first argument names.
fn length(call: &Call<'_>) -> Result<usize, Refusal> {
    let name = call.name(1)?;
    Ok(call.shard.store().collection::<List>(name)?.map_or(0, List::len))
}

pub fn lpush(call: &mut Call<'_>) -> Done {
    push(call, End::Left)
}

pub fn rpush(call: &mut Call<'_>) -> Done {
    push(call, End::Right)
}

pub fn lpushx(call: &mut Call<'_>) -> Done {
    push_if_there(call, End::Left)
}

pub fn rpushx(call: &mut Call<'_>) -> Done {
    push_if_there(call, End::Right)
}

fn push_if_there(call: &mut Call<'_>, end: End) -> Done {
    if length(call)? == 0 {
        call.reply.integer(0);
        return Ok(());
    }
    push(call, end)
}

fn push(call: &mut Call<'_>, end: End) -> Done {
    let (name, args) = (call.name(1)?, call.args);
    let length = call.store().change_collection(name, Growth::of(args.from(2)), |list: &mut List| {
        args.from(2).for_each(|element| list.insert(end.place(list), element));
        (list.len(), Changed::Yes)
    })?;
    call.reply.count(length.unwrap_or(0));
    Ok(())
}

/// Puts an element at an end of a list.
pub fn push_one(call: &mut Call<'_>, name: Name<'_>, end: End, element: &[u8]) -> Done {
    let growth = Growth { elements: 1, bytes: element.len() };
    call.store().change_collection(name, growth, |list: &mut List| {
        list.insert(end.place(list), element);
        ((), Changed::Yes)
    })?;
    Ok(())
}

pub fn lpop(call: &mut Call<'_>) -> Done {
    pop(call, End::Left)
}

pub fn rpop(call: &mut Call<'_>) -> Done {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Done {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call, 2)?),
        _ => return Err(Refusal::arguments(if end == End::Left { "lpop" } else { "rpop" })),
    };
    let name = call.name(1)?;
    if length(call)? == 0 {
        match count {
            None => call.reply.null(),
            Some(_) => call.reply.null_array(),
        }
        return Ok(());
    }
    let elements = take(call, name, end, count.unwrap_or(1))?;
    match count {
        None => elements.iter().for_each(|element| call.reply.bulk(element)),
        Some(_) => {
            call.reply.array(elements.len());
            elements.iter().for_each(|element| call.reply.bulk(element));
        }
    }
    Ok(())
}

/// The count that an argument is.
pub fn positive(call: &Call<'_>, number: usize) -> Result<usize, Refusal> {
    let out_of_range = Refusal::of("ERR value is out of range, must be positive");
    usize::try_from(call.integer(number).map_err(|_| out_of_range.clone())?).map_err(|_| out_of_range)
}

/// Takes elements from an end of a list, as many as there are.
pub fn take(call: &mut Call<'_>, name: Name<'_>, end: End, count: usize) -> Result<Vec<Box<[u8]>>, Refusal> {
    let taken = call.store().change_collection(name, Growth::NONE, |list: &mut List| {
        let count = count.min(list.len());
        let taken: Vec<_> = (0..count).filter_map(|_| end.take(list)).collect();
        let changed = Changed::when(!taken.is_empty());
        (taken, changed)
    })?;
    Ok(taken.unwrap_or_default())
}

pub fn llen(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    call.reply.count(length);
    Ok(())
}

/// The places between two that arguments are, which count from the end when negative.
pub fn range(call: &Call<'_>, first: usize, length: usize) -> Result<(usize, usize), Refusal> {
    let place = |place: i64| if place < 0 { place.saturating_add(length as i64).max(0) } else { place };
    let (first, last) = (call.integer(first)?, call.integer(first + 1)?);
    let last = if last < 0 { last.saturating_add(length as i64) } else { last };
    let (from, end) = (place(first), last.saturating_add(1).clamp(0, length as i64));
    Ok(if from >= end { (0, 0) } else { (from as usize, end as usize) })
}

pub fn lrange(call: &mut Call<'_>) -> Done {
    let length = length(call)?;
    let range = range(call, 2, length)?;
    reply_elements(call, 1, Shape::Plain, range)
}

/// The place that an argument is, if the list has it.
fn place(call: &Call<'_>, number: usize, length: usize) -> Result<Option<usize>, Refusal> {
    let place = call.integer(number)?;
    let place = if place < 0 { place.saturating_add(length as i64) } else { place };
    Ok(usize::try_from(place).ok().filter(|place| *place < length))
}

pub fn lindex(call: &mut Call<'_>) -> Done {
    let (name, length) = (call.name(1)?, length(call)?);
    let place = place(call, 2, length)?;
    let list = call.shard.store().collection::<List>(name)?;
    match place.and_then(|place| list?.get(place)) {
        Some(element) => call.reply.bulk(element),
        None => call.reply.null(),
    }
    Ok(())
}

pub fn lset(call: &mut Call<'_>) -> Done {
    let (name, element, length) = (call.name(1)?, call.args.at(3), length(call)?);
    if length == 0 {
        return Err(Refusal::NO_SUCH_KEY);
    }
    let place = place(call, 2, length)?.ok_or(Refusal::of("ERR index out of range"))?;
    let growth = Growth { elements: 0, bytes: element.len() };
    call.store().change_collection(name, growth, |list: &mut List| {
        list.set(place, element);
        ((), Changed::Yes)
    })?;
    call.reply.ok();
    Ok(())
}

pub fn linsert(call: &mut Call<'_>) -> Done {
    let offset = match () {
        () if call.is(2, "before") => 0,
        () if call.is(2, "after") => 1,
        () => return Err(Refusal::SYNTAX),
    };
    let (name, pivot, element) = (call.name(1)?, call.args.at(3), call.args.at(4));
    let Some(list) = call.shard.store().collection::<List>(name)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let Some(place) = list.from(0).position(|element| element == pivot) else {
        call.reply.integer(-1);
        return Ok(());
    };
    let growth = Growth { elements: 1, bytes: element.len() };
    let length = call.store().change_collection(name, growth, |list: &mut List| {
        list.insert(place + offset, element);
        (list.len(), Changed::Yes)
    })?;
    call.reply.count(length.unwrap_or(0));
    Ok(())
}

pub fn lrem(call: &mut Call<'_>) -> Done {
    let (name, count, element) = (call.name(1)?, call.integer(2)?, call.args.at(3));
    let most =
        if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let removed = call.store().change_collection(name, Growth::NONE, |list: &mut List| {
        // From the end: those in front stay, of which there are more than are removed.
        let same = list.from(0).filter(|other| *other == element).count();
        let mut stay = if count.cmp(&0) == Ordering::Less { same.saturating_sub(most) } else { 0 };
        let before = list.len();
        let mut removed = 0;
        list.retain(|other| {
            if other != element || removed == most {
                return true;
            }
            if stay > 0 {
                stay -= 1;
                return true;
            }
            removed += 1;
            false
        });
        (before - list.len(), Changed::when(removed > 0))
    })?;
    call.reply.count(removed.unwrap_or(0));
    Ok(())
}

pub fn ltrim(call: &mut Call<'_>) -> Done {
    let (name, length) = (call.name(1)?, length(call)?);
    let (from, end) = range(call, 2, length)?;
    call.store().change_collection(name, Growth::NONE, |list: &mut List| {
        list.trim(from, end);
        ((), Changed::when(end - from < length))
    })?;
    call.reply.ok();
    Ok(())
}

/// The options of `LPOS`.
struct PosOptions {
    rank: i64,
    count: Option<usize>,
    looks_max: usize,
}

fn pos_options(call: &Call<'_>) -> Result<PosOptions, Refusal> {
    let mut options = PosOptions { rank: 1, count: None, looks_max: usize::MAX };
    let natural = |number, refusal| usize::try_from(call.integer(number)?).map_err(|_| Refusal::of(refusal));
    for number in (3..call.args.len()).step_by(2) {
        if number + 1 >= call.args.len() {
            return Err(Refusal::SYNTAX);
        }
        match () {
            () if call.is(number, "rank") => {
                options.rank = call.integer(number + 1)?;
                if options.rank == 0 || options.rank == i64::MIN {
                    return Err(Refusal::of(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                         or use negative to start from the end of the list",
                    ));
                }
            }
            () if call.is(number, "count") => {
                options.count = Some(natural(number + 1, "ERR COUNT can't be negative")?);
            }
            () if call.is(number, "maxlen") => {
                let most = natural(number + 1, "ERR MAXLEN can't be negative")?;
                options.looks_max = if most == 0 { usize::MAX } else { most };
            }
            () => return Err(Refusal::SYNTAX),
        }
    }
    Ok(options)
}

pub fn lpos(call: &mut Call<'_>) -> Done {
    let PosOptions { rank, count, looks_max } = pos_options(call)?;
    let (name, element) = (call.name(1)?, call.args.at(2));
    let list = call.shard.store().collection::<List>(name)?;
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let skipped = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let elements = list.map(|list| list.from(0).enumerate());
    let is_it = |(place, other): (usize, &[u8])| (other == element).then_some(place);
    let places: Vec<usize> = match elements {
        None => Vec::new(),
        Some(elements) if rank > 0 => {
            elements.take(looks_max).filter_map(is_it).skip(skipped).take(most).collect()
        }
        Some(elements) => elements.rev().take(looks_max).filter_map(is_it).skip(skipped).take(most).collect(),
    };
    match (count, places.first()) {
        (None, None) => call.reply.null(),
        (None, Some(place)) => call.reply.count(*place),
        (Some(_), _) => {
            call.reply.array(places.len());
            places.iter().for_each(|place| call.reply.count(*place));
        }
    }
    Ok(())
}

pub fn lmove(call: &mut Call<'_>) -> Done {
    let ends = (End::of(call, 3)?, End::of(call, 4)?);
    if !move_one(call, ends)? {
        call.reply.null();
    }
    Ok(())
}

pub fn rpoplpush(call: &mut Call<'_>) -> Done {
    if !move_one(call, (End::Right, End::Left))? {
        call.reply.null();
    }
    Ok(())
}

/// Moves an element between the lists that the first two arguments name, and replies with it; says whether
/// there was one.
pub fn move_one(call: &mut Call<'_>, (from_end, to_end): (End, End)) -> Result<bool, Refusal> {
    let (from, to) = (call.name(1)?, call.name(2)?);
    let Some(list) = call.shard.store().collection::<List>(from)? else { return Ok(false) };
    let place = if from_end == End::Left { 0 } else { list.len() - 1 };
    let element: Box<[u8]> = list.get(place).unwrap_or(b"").into();
    if from == to {
        call.store().change_collection(from, Growth::NONE, |list: &mut List| {
            let element = from_end.take(list).unwrap_or_default();
            list.insert(to_end.place(list), &element);
            ((), Changed::Yes)
        })?;
    } else {
        // Put before it is taken: what finds no room stays where it is.
        push_one(call, to, to_end, &element)?;
        take(call, from, from_end, 1)?;
    }
    call.reply.bulk(&element);
    Ok(true)
}
