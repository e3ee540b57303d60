//! Commands on sorted sets.

use super::call::{Call, Done, Refusal};
use super::long::{Shape, reply_elements, show_member};
use super::numbers;
use super::ranges::{By, limit, ranks};
use super::walks;
use crate::Name;
use crate::store::{Changed, Expiry, Growth, Kept, Sorted};

/// The sorted set that an argument names.
pub fn sorted<'s>(call: &'s Call<'_>, number: usize) -> Result<Option<&'s Sorted>, Refusal> {
    Ok(call.shard.store().collection::<Sorted>(call.name(number)?)?)
}

/// The options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    only_new: bool,
    only_known: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    adds_up: bool,
}

/// The options, and where the scores begin.
fn add_options(call: &Call<'_>) -> Result<(AddOptions, usize), Refusal> {
    let (mut options, mut at) = (AddOptions::default(), 2);
    while at < call.args.len() {
        match () {
            () if call.is(at, "nx") => options.only_new = true,
            () if call.is(at, "xx") => options.only_known = true,
            () if call.is(at, "gt") => options.only_greater = true,
            () if call.is(at, "lt") => options.only_less = true,
            () if call.is(at, "ch") => options.counts_changed = true,
            () if call.is(at, "incr") => options.adds_up = true,
            () => break,
        }
        at += 1;
    }
    let AddOptions { only_new, only_known, only_greater, only_less, .. } = options;
    let rest = call.args.len() - at;
    if rest == 0 || !rest.is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    if only_new && only_known {
        return Err(Refusal::of("ERR XX and NX options at the same time are not compatible"));
    }
    let excluding = [only_new, only_greater, only_less];
    if excluding.into_iter().filter(|option| *option).count() > 1 {
        return Err(Refusal::of("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if options.adds_up && rest > 2 {
        return Err(Refusal::of("ERR INCR option supports a single increment-element pair"));
    }
    Ok((options, at))
}

/// What became of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scored {
    New(f64),
    Changed(f64),
    Same(f64),
    /// The options did not let it.
    Not,
}

fn score_one(sorted: &mut Sorted, member: &[u8], given: f64, options: AddOptions) -> Scored {
    let Some(old) = sorted.score(member) else {
        if options.only_known {
            return Scored::Not;
        }
        sorted.insert(member, given);
        return Scored::New(given);
    };
    let new = if options.adds_up { old + given } else { given };
    if options.only_new || options.only_greater && new <= old || options.only_less && new >= old {
        return Scored::Not;
    }
    if new == old {
        return Scored::Same(old);
    }
    sorted.insert(member, new);
    Scored::Changed(new)
}

pub fn zadd(call: &mut Call<'_>) -> Done {
    let (options, first) = add_options(call)?;
    let (name, args) = (call.name(1)?, call.args);
    let scores = args.from(first).step_by(2).map(numbers::float).collect::<Result<Vec<_>, _>>()?;
    if options.adds_up {
        return add_up(call, args.at(first + 1), scores[0], options);
    }
    let members = args.from(first + 1).step_by(2);
    let is_there = sorted(call, 1)?.is_some();
    let growth = if options.only_known && !is_there { Growth::NONE } else { Growth::of(members.clone()) };
    let done = call.store().change_collection(name, growth, |sorted: &mut Sorted| {
        let (mut new, mut changed) = (0, 0);
        for (member, score) in members.zip(scores) {
            match score_one(sorted, member, score, options) {
                Scored::New(_) => new += 1,
                Scored::Changed(_) => changed += 1,
                Scored::Same(_) | Scored::Not => {}
            }
        }
        ((new, changed), Changed::when(new + changed > 0))
    })?;
    let (new, changed) = done.unwrap_or((0, 0));
    call.reply.count(if options.counts_changed { new + changed } else { new });
    Ok(())
}

pub fn zincrby(call: &mut Call<'_>) -> Done {
    let (amount, member) = (numbers::float(call.args.at(2))?, call.args.at(3));
    add_up(call, member, amount, AddOptions { adds_up: true, ..AddOptions::default() })
}

fn add_up(call: &mut Call<'_>, member: &[u8], amount: f64, options: AddOptions) -> Done {
    let name = call.name(1)?;
    let known = sorted(call, 1)?;
    if (known.and_then(|sorted| sorted.score(member)).unwrap_or(0.0) + amount).is_nan() {
        return Err(Refusal::of("ERR resulting score is not a number (NaN)"));
    }
    let growth = match known {
        None if options.only_known => Growth::NONE,
        _ => Growth { elements: 1, bytes: member.len() },
    };
    let done = call.store().change_collection(name, growth, |sorted: &mut Sorted| {
        let scored = score_one(sorted, member, amount, options);
        (scored, Changed::when(matches!(scored, Scored::New(_) | Scored::Changed(_))))
    })?;
    match done.unwrap_or(Scored::Not) {
        Scored::New(score) | Scored::Changed(score) | Scored::Same(score) => call.reply.double(score),
        Scored::Not => call.reply.null(),
    }
    Ok(())
}

pub fn zrem(call: &mut Call<'_>) -> Done {
    let (name, args) = (call.name(1)?, call.args);
    let removed = call.store().change_collection(name, Growth::NONE, |sorted: &mut Sorted| {
        let removed = args.from(2).filter(|member| sorted.remove(member).is_some()).count();
        (removed, Changed::when(removed > 0))
    })?;
    call.reply.count(removed.unwrap_or(0));
    Ok(())
}

pub fn zcard(call: &mut Call<'_>) -> Done {
    let members = sorted(call, 1)?.map_or(0, Sorted::len);
    call.reply.count(members);
    Ok(())
}

pub fn zscore(call: &mut Call<'_>) -> Done {
    match sorted(call, 1)?.and_then(|sorted| sorted.score(call.args.at(2))) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub fn zmscore(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let sorted = call.shard.store().collection::<Sorted>(name)?;
    call.reply.array(call.args.len() - 2);
    for member in call.args.from(2) {
        match sorted.and_then(|sorted| sorted.score(member)) {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub fn zrank(call: &mut Call<'_>) -> Done {
    rank(call, "zrank", |_, rank| rank)
}

pub fn zrevrank(call: &mut Call<'_>) -> Done {
    rank(call, "zrevrank", |members, rank| members - 1 - rank)
}

fn rank(call: &mut Call<'_>, command: &str, shown: fn(usize, usize) -> usize) -> Done {
    let has_score = call.args.len() == 4 && call.is(3, "withscore");
    if call.args.len() > 3 && !has_score {
        return Err(if call.args.len() > 4 { Refusal::arguments(command) } else { Refusal::SYNTAX });
    }
    let member = call.args.at(2);
    let found = sorted(call, 1)?
        .and_then(|sorted| Some((shown(sorted.len(), sorted.rank(member)?), sorted.score(member)?)));
    match found {
        Some((rank, score)) if has_score => {
            call.reply.array(2);
            call.reply.count(rank);
            call.reply.double(score);
        }
        Some((rank, _)) => call.reply.count(rank),
        None if has_score => call.reply.null_array(),
        None => call.reply.null(),
    }
    Ok(())
}

pub fn zcount(call: &mut Call<'_>) -> Done {
    count(call, By::Score)
}

pub fn zlexcount(call: &mut Call<'_>) -> Done {
    count(call, By::Member)
}

fn count(call: &mut Call<'_>, by: By) -> Done {
    let (from, end) = ranks(call, sorted(call, 1)?, (by, false), 2)?;
    call.reply.count(end - from);
    Ok(())
}

/// The options of a range.
#[derive(Clone, Copy, Debug)]
struct RangeOptions {
    by: By,
    is_reversed: bool,
    limit: Option<(i64, i64)>,
    has_scores: bool,
}

impl RangeOptions {
    const fn of(by: By, is_reversed: bool) -> Self {
        Self { by, is_reversed, limit: None, has_scores: false }
    }

    /// Reads the options from an argument on; `is_free` if they say by what the range is.
    fn read(mut self, call: &Call<'_>, mut at: usize, is_free: bool) -> Result<Self, Refusal> {
        while at < call.args.len() {
            match () {
                () if is_free && call.is(at, "byscore") => self.by = By::Score,
                () if is_free && call.is(at, "bylex") => self.by = By::Member,
                () if is_free && call.is(at, "rev") => self.is_reversed = true,
                () if call.is(at, "withscores") => self.has_scores = true,
                () if call.is(at, "limit") && at + 2 < call.args.len() => {
                    self.limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                    at += 2;
                }
                () => return Err(Refusal::SYNTAX),
            }
            at += 1;
        }
        if self.limit.is_some() && self.by == By::Rank {
            return Err(Refusal::of(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if self.has_scores && self.by == By::Member {
            return Err(Refusal::of("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        Ok(self)
    }

    /// The ranks of a range of the sorted set that `key` names, whose limits are the arguments behind it.
    fn ranks(self, call: &Call<'_>, key: usize) -> Result<(usize, usize), Refusal> {
        let ranks = ranks(call, sorted(call, key)?, (self.by, self.is_reversed), key + 1)?;
        Ok(self.limit.map_or(ranks, |(offset, count)| limit(ranks, self.is_reversed, offset, count)))
    }
}

pub fn zrange(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Rank, false).read(call, 4, true)?;
    show(call, options)
}

pub fn zrevrange(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Rank, true).read(call, 4, false)?;
    show(call, options)
}

pub fn zrangebyscore(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Score, false).read(call, 4, false)?;
    show(call, options)
}

pub fn zrevrangebyscore(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Score, true).read(call, 4, false)?;
    show(call, options)
}

pub fn zrangebylex(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Member, false).read(call, 4, false)?;
    show(call, options)
}

pub fn zrevrangebylex(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Member, true).read(call, 4, false)?;
    show(call, options)
}

fn show(call: &mut Call<'_>, options: RangeOptions) -> Done {
    let (from, end) = options.ranks(call, 1)?;
    let members = sorted(call, 1)?.map_or(0, Sorted::len);
    let (shape, range) = match (options.is_reversed, options.has_scores) {
        (false, false) => (Shape::Plain, (from, end)),
        (false, true) => (Shape::Scores, (from, end)),
        (true, false) => (Shape::Backwards, (members - end, members - from)),
        (true, true) => (Shape::ScoresBackwards, (members - end, members - from)),
    };
    reply_elements(call, 1, shape, range)
}

pub fn zrangestore(call: &mut Call<'_>) -> Done {
    let options = RangeOptions::of(By::Rank, false).read(call, 5, true)?;
    if options.has_scores {
        return Err(Refusal::SYNTAX);
    }
    let (from, end) = options.ranks(call, 2)?;
    let mut part = call.shard.store().empty::<Sorted>();
    if let Some(sorted) = sorted(call, 2)? {
        sorted.from(from).take(end - from).for_each(|(member, score)| _ = part.insert(member, score));
    }
    put(call, 1, part)
}

/// Puts a sorted set where an argument says, and replies with its size.
pub fn put(call: &mut Call<'_>, number: usize, sorted: Sorted) -> Done {
    let (name, members) = (call.name(number)?, sorted.len());
    call.store().put_collection(name, sorted.into_collection(), Expiry::Never)?;
    call.reply.count(members);
    Ok(())
}

pub fn zremrangebyrank(call: &mut Call<'_>) -> Done {
    remove_range(call, By::Rank)
}

pub fn zremrangebyscore(call: &mut Call<'_>) -> Done {
    remove_range(call, By::Score)
}

pub fn zremrangebylex(call: &mut Call<'_>) -> Done {
    remove_range(call, By::Member)
}

fn remove_range(call: &mut Call<'_>, by: By) -> Done {
    let (from, end) = ranks(call, sorted(call, 1)?, (by, false), 2)?;
    let name = call.name(1)?;
    let removed = take(call, name, (from, end - from), false)?.len();
    call.reply.count(removed);
    Ok(())
}

/// Members with their scores.
pub type Ranked = Vec<(Box<[u8]>, f64)>;

/// Takes so many members from a rank on, or, backwards, below the last rank but `from`.
pub fn take(
    call: &mut Call<'_>,
    name: Name<'_>,
    (from, count): (usize, usize),
    backwards: bool,
) -> Result<Ranked, Refusal> {
    let taken = call.store().change_collection(name, Growth::NONE, |sorted: &mut Sorted| {
        let owned = |(member, score): (&[u8], f64)| (Box::from(member), score);
        let taken: Ranked = if backwards {
            sorted.back_from(sorted.len().saturating_sub(from)).take(count).map(owned).collect()
        } else {
            sorted.from(from).take(count).map(owned).collect()
        };
        taken.iter().for_each(|(member, _)| _ = sorted.remove(member));
        let changed = Changed::when(!taken.is_empty());
        (taken, changed)
    })?;
    Ok(taken.unwrap_or_default())
}

pub fn zpopmin(call: &mut Call<'_>) -> Done {
    pop(call, false)
}

pub fn zpopmax(call: &mut Call<'_>) -> Done {
    pop(call, true)
}

fn pop(call: &mut Call<'_>, is_highest: bool) -> Done {
    let count = match call.args.len() {
        2 => None,
        3 => Some(super::lists::positive(call, 2)?),
        _ => return Err(Refusal::SYNTAX),
    };
    let name = call.name(1)?;
    let taken = take(call, name, (0, count.unwrap_or(1)), is_highest)?;
    let are_pairs = count.is_some() && call.reply.protocol == crate::resp::reply::Protocol::Resp3;
    call.reply.array(if are_pairs { taken.len() } else { 2 * taken.len() });
    for (member, score) in &taken {
        if are_pairs {
            show_member(call.reply, member, Some(*score));
        } else {
            call.reply.bulk(member);
            call.reply.double(*score);
        }
    }
    Ok(())
}

pub fn zrandmember(call: &mut Call<'_>) -> Done {
    let has_scores = call.args.len() == 4 && call.is(3, "withscores");
    if call.args.len() > 4 || call.args.len() == 4 && !has_scores {
        return Err(Refusal::SYNTAX);
    }
    let members = sorted(call, 1)?.map_or(0, Sorted::len);
    let drawn = walks::draw(call, 2, members)?;
    let name = call.name(1)?;
    let sorted = call.shard.store().collection::<Sorted>(name)?;
    walks::reply_drawn(call.reply, &drawn, has_scores, |reply, place, with_score| {
        let Some((member, score)) = sorted.map(|sorted| sorted.at(place)) else { return };
        reply.bulk(member);
        if with_score {
            reply.double(score);
        }
    })
}

pub fn zscan(call: &mut Call<'_>) -> Done {
    let options = walks::options(call)?;
    let name = call.name(1)?;
    let sorted = call.shard.store().collection::<Sorted>(name)?;
    walks::walk(call.reply, &options, sorted.map_or(0, Sorted::len), |reply, place, is_wanted| {
        let Some((member, score)) = sorted.map(|sorted| sorted.at(place)) else { return 0 };
        if !is_wanted(member) {
            return 0;
        }
        reply.bulk(member);
        reply.bulk(crate::resp::reply::double_text(score).as_bytes());
        2
    });
    Ok(())
}
