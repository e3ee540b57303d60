//! Commands on sets.

use super::call::{Call, Done, Refusal, check_length};
use super::long::{Shape, reply_elements};
use super::walks;
use crate::Name;
use crate::decimal;
use crate::store::{Changed, Expiry, Growth, Kept, Set};

/// The size of the set that the first argument names.
fn size(call: &Call<'_>) -> Result<usize, Refusal> {
    let name = call.name(1)?;
    Ok(call.shard.store().collection::<Set>(name)?.map_or(0, Set::len))
}

pub fn sadd(call: &mut Call<'_>) -> Done {
    let (name, args) = (call.name(1)?, call.args);
    let added = call.store().change_collection(name, Growth::of(args.from(2)), |set: &mut Set| {
        let added = args.from(2).filter(|member| set.insert(member)).count();
        (added, Changed::when(added > 0))
    })?;
    call.reply.count(added.unwrap_or(0));
    Ok(())
}

pub fn srem(call: &mut Call<'_>) -> Done {
    let (name, args) = (call.name(1)?, call.args);
    let removed = call.store().change_collection(name, Growth::NONE, |set: &mut Set| {
        let removed = args.from(2).filter(|member| set.remove(member)).count();
        (removed, Changed::when(removed > 0))
    })?;
    call.reply.count(removed.unwrap_or(0));
    Ok(())
}

pub fn scard(call: &mut Call<'_>) -> Done {
    let size = size(call)?;
    call.reply.count(size);
    Ok(())
}

pub fn smembers(call: &mut Call<'_>) -> Done {
    let size = size(call)?;
    reply_elements(call, 1, Shape::Members, (0, size))
}

pub fn sismember(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let set = call.shard.store().collection::<Set>(name)?;
    call.reply.integer(i64::from(set.is_some_and(|set| set.has(call.args.at(2)))));
    Ok(())
}

pub fn smismember(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let set = call.shard.store().collection::<Set>(name)?;
    call.reply.array(call.args.len() - 2);
    for member in call.args.from(2) {
        call.reply.integer(i64::from(set.is_some_and(|set| set.has(member))));
    }
    Ok(())
}

pub fn smove(call: &mut Call<'_>) -> Done {
    let (from, to, member) = (call.name(1)?, call.name(2)?, call.args.at(3));
    let store = call.shard.store();
    let set = store.collection::<Set>(from)?;
    if set.is_some() {
        store.collection::<Set>(to)?;
    }
    let is_there = set.is_some_and(|set| set.has(member));
    if is_there && from != to {
        let growth = Growth { elements: 1, bytes: member.len() };
        call.store().change_collection(to, growth, |set: &mut Set| {
            let is_new = set.insert(member);
            ((), Changed::when(is_new))
        })?;
        call.store()
            .change_collection(from, Growth::NONE, |set: &mut Set| (set.remove(member), Changed::Yes))?;
    }
    call.reply.integer(i64::from(is_there));
    Ok(())
}

pub fn spop(call: &mut Call<'_>) -> Done {
    let count = match call.args.len() {
        2 => None,
        3 => Some(super::lists::positive(call, 2)?),
        _ => return Err(Refusal::SYNTAX),
    };
    let (name, mut size) = (call.name(1)?, size(call)?);
    let mut draws = Vec::new();
    while size > 0 && draws.len() < count.unwrap_or(1) {
        draws.push((call.engine.draw() % size as u64) as usize);
        size -= 1;
    }
    let popped = call.store().change_collection(name, Growth::NONE, |set: &mut Set| {
        let popped: Vec<_> = draws.into_iter().map(|place| set.remove_at(place)).collect();
        let changed = Changed::when(!popped.is_empty());
        (popped, changed)
    })?;
    let popped = popped.unwrap_or_default();
    match (count, popped.first()) {
        (None, None) => call.reply.null(),
        (None, Some(member)) => call.reply.bulk(member),
        (Some(_), _) => {
            call.reply.set(popped.len());
            popped.iter().for_each(|member| call.reply.bulk(member));
        }
    }
    Ok(())
}

pub fn srandmember(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 {
        return Err(Refusal::SYNTAX);
    }
    let size = size(call)?;
    let drawn = walks::draw(call, 2, size)?;
    let name = call.name(1)?;
    let set = call.shard.store().collection::<Set>(name)?;
    walks::reply_drawn(call.reply, &drawn, false, |reply, place, _| {
        if let Some(set) = set {
            reply.bulk(set.at(place));
        }
    })
}

pub fn sscan(call: &mut Call<'_>) -> Done {
    let options = walks::options(call)?;
    let name = call.name(1)?;
    let set = call.shard.store().collection::<Set>(name)?;
    walks::walk(call.reply, &options, set.map_or(0, Set::len), |reply, place, is_wanted| {
        let Some(member) = set.map(|set| set.at(place)).filter(|member| is_wanted(member)) else { return 0 };
        reply.bulk(member);
        1
    });
    Ok(())
}

/// How sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

/// The sets that these arguments name; `None` for one that is not there.
fn sets<'s>(call: &'s Call<'_>, first: usize, end: usize) -> Result<Vec<Option<&'s Set>>, Refusal> {
    let store = call.shard.store();
    (first..end).map(|number| Ok(store.collection::<Set>(call.name(number)?)?)).collect()
}

/// Calls `visit` with the members of the sets as one, each once, until it is false.
fn combine<'s>(sets: &[Option<&'s Set>], how: How, union: &'s mut Set, mut visit: impl FnMut(&[u8]) -> bool) {
    let has = |set: &Option<&Set>, member| set.is_some_and(|set| set.has(member));
    let (first, others) = sets.split_first().expect("commands have a key");
    match how {
        How::Union => {
            let mut members = sets.iter().flatten().flat_map(|set| set.iter());
            members.all(|member| !union.insert(member) || visit(member));
        }
        How::Intersection => {
            let smallest = sets.iter().min_by_key(|set| set.map_or(0, Set::len)).and_then(|set| *set);
            let mut members = smallest.into_iter().flat_map(Set::iter);
            members.all(|member| !sets.iter().all(|set| has(set, member)) || visit(member));
        }
        How::Difference => {
            let mut members = first.iter().flat_map(|set| set.iter());
            members.all(|member| others.iter().any(|set| has(set, member)) || visit(member));
        }
    }
}

/// Replies with the members of the sets from the second word on as one.
fn show(call: &mut Call<'_>, how: How) -> Done {
    let mut result = call.shard.store().empty::<Set>();
    let mut union = call.shard.store().empty::<Set>();
    combine(&sets(call, 1, call.args.len())?, how, &mut union, |member| result.insert(member));
    let start = call.reply.len();
    call.reply.set(result.len());
    for member in result.iter() {
        call.reply.bulk(member);
        check_length(call.reply, start)?;
    }
    Ok(())
}

/// Puts them where the first argument says.
fn store(call: &mut Call<'_>, how: How) -> Done {
    let mut result = call.shard.store().empty::<Set>();
    let mut union = call.shard.store().empty::<Set>();
    combine(&sets(call, 2, call.args.len())?, how, &mut union, |member| result.insert(member));
    let (name, members): (Name<'_>, _) = (call.name(1)?, result.len());
    call.store().put_collection(name, result.into_collection(), Expiry::Never)?;
    call.reply.count(members);
    Ok(())
}

pub fn sunion(call: &mut Call<'_>) -> Done {
    show(call, How::Union)
}

pub fn sinter(call: &mut Call<'_>) -> Done {
    show(call, How::Intersection)
}

pub fn sdiff(call: &mut Call<'_>) -> Done {
    show(call, How::Difference)
}

pub fn sunionstore(call: &mut Call<'_>) -> Done {
    store(call, How::Union)
}

pub fn sinterstore(call: &mut Call<'_>) -> Done {
    store(call, How::Intersection)
}

pub fn sdiffstore(call: &mut Call<'_>) -> Done {
    store(call, How::Difference)
}

/// How many keys follow an argument that says it.
pub fn number_of_keys(call: &Call<'_>, at: usize) -> Result<usize, Refusal> {
    let keys = decimal::parse(call.args.at(at)).and_then(|keys| usize::try_from(keys).ok());
    let keys = keys.filter(|keys| *keys > 0).ok_or(Refusal::of("ERR numkeys should be greater than 0"))?;
    if keys > call.args.len() - at - 1 {
        return Err(Refusal::of("ERR Number of keys can't be greater than number of args"));
    }
    Ok(keys)
}

/// How many common members are counted at most, as what follows the keys says.
pub fn counted_most(call: &Call<'_>, at: usize) -> Result<usize, Refusal> {
    match call.args.len() - at {
        0 => Ok(usize::MAX),
        2 if call.is(at, "limit") => {
            let limit = call.integer(at + 1).ok().and_then(|limit| usize::try_from(limit).ok());
            match limit.ok_or(Refusal::of("ERR LIMIT can't be negative"))? {
                0 => Ok(usize::MAX),
                limit => Ok(limit),
            }
        }
        _ => Err(Refusal::SYNTAX),
    }
}

pub fn sintercard(call: &mut Call<'_>) -> Done {
    let end = 2 + number_of_keys(call, 1)?;
    let most = counted_most(call, end)?;
    let (mut common, mut union) = (0, call.shard.store().empty::<Set>());
    combine(&sets(call, 2, end)?, How::Intersection, &mut union, |_| {
        common += 1;
        common < most
    });
    call.reply.count(common);
    Ok(())
}
