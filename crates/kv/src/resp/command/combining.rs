//! Sorted sets, and sets whose members have the score 1, as one.

use super::call::{Call, Done, Refusal, check_length};
use super::long::show_member;
use super::sets::{counted_most, number_of_keys};
use super::{numbers, sorted};
use crate::resp::reply::Protocol;
use crate::store::{Collection, Sorted};

/// How they become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the scores of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Lowest,
    Highest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs are nothing.
            Self::Sum if (one + other).is_nan() => 0.0,
            Self::Sum => one + other,
            Self::Lowest => one.min(other),
            Self::Highest => one.max(other),
        }
    }
}

/// What a command asks for.
struct Asked {
    /// The first key, and the one behind the last.
    keys: (usize, usize),
    weights: Vec<f64>,
    aggregate: Aggregate,
    has_scores: bool,
}

/// How many keys follow an argument that says it, with the errors of these commands.
fn asked_keys(call: &Call<'_>, count_at: usize) -> Result<usize, Refusal> {
    number_of_keys(call, count_at).map_err(|refusal| match call.integer(count_at) {
        Ok(1..) => Refusal::SYNTAX,
        Ok(_) => {
            let command = String::from_utf8_lossy(call.args.at(0)).to_ascii_lowercase();
            Refusal::new(format!("ERR at least 1 input key is needed for '{command}' command"))
        }
        Err(_) => refusal,
    })
}

fn asked(call: &Call<'_>, how: How, count_at: usize, may_show: bool) -> Result<Asked, Refusal> {
    let keys = asked_keys(call, count_at)?;
    let (first, mut at) = (count_at + 1, count_at + 1 + keys);
    let mut asked =
        Asked { keys: (first, at), weights: vec![1.0; keys], aggregate: Aggregate::Sum, has_scores: false };
    while at < call.args.len() {
        match () {
            () if how != How::Difference && call.is(at, "weights") && at + keys < call.args.len() => {
                for (weight, text) in asked.weights.iter_mut().zip(call.args.from(at + 1)) {
                    *weight =
                        numbers::float(text).map_err(|_| Refusal::of("ERR weight value is not a float"))?;
                }
                at += keys;
            }
            () if how != How::Difference && call.is(at, "aggregate") && at + 1 < call.args.len() => {
                at += 1;
                asked.aggregate = match () {
                    () if call.is(at, "sum") => Aggregate::Sum,
                    () if call.is(at, "min") => Aggregate::Lowest,
                    () if call.is(at, "max") => Aggregate::Highest,
                    () => return Err(Refusal::SYNTAX),
                };
            }
            () if may_show && call.is(at, "withscores") => asked.has_scores = true,
            () => return Err(Refusal::SYNTAX),
        }
        at += 1;
    }
    Ok(asked)
}

/// A set or a sorted set.
struct Source<'s>(Option<&'s Collection>);

impl Source<'_> {
    fn len(&self) -> usize {
        self.0.map_or(0, Collection::len)
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self.0? {
            Collection::Set(set) => set.has(member).then_some(1.0),
            Collection::Sorted(sorted) => sorted.score(member),
            _ => None,
        }
    }

    fn at(&self, place: usize) -> (&[u8], f64) {
        match self.0 {
            Some(Collection::Set(set)) => (set.at(place), 1.0),
            Some(Collection::Sorted(sorted)) => sorted.at(place),
            _ => (b"", 0.0),
        }
    }
}

fn sources<'s>(call: &'s Call<'_>, (first, end): (usize, usize)) -> Result<Vec<Source<'s>>, Refusal> {
    let store = call.shard.store();
    let source = |number| {
        let name = call.name(number)?;
        match store.any_collection(name)? {
            Some(collection @ (Collection::Set(_) | Collection::Sorted(_))) => Ok(Source(Some(collection))),
            None if store.get(name)?.is_none() => Ok(Source(None)),
            _ => Err(Refusal::WRONG_TYPE),
        }
    };
    (first..end).map(source).collect()
}

fn smallest<'a, 's>(sources: &'a [Source<'s>]) -> &'a Source<'s> {
    sources.iter().min_by_key(|source| source.len()).expect("commands have a key")
}

fn combine(call: &Call<'_>, how: How, asked: &Asked) -> Result<Sorted, Refusal> {
    let (sources, aggregate) = (sources(call, asked.keys)?, asked.aggregate);
    let mut result = call.shard.store().empty::<Sorted>();
    let weighted = |score: f64, weight: f64| {
        let product = score * weight;
        if product.is_nan() { 0.0 } else { product }
    };
    match how {
        How::Union => {
            for (source, &weight) in sources.iter().zip(&asked.weights) {
                for (member, score) in (0..source.len()).map(|place| source.at(place)) {
                    let score = weighted(score, weight);
                    let known = result.score(member);
                    result.insert(member, known.map_or(score, |known| aggregate.of(known, score)));
                }
            }
        }
        How::Intersection => {
            let smallest = smallest(&sources);
            for (member, _) in (0..smallest.len()).map(|place| smallest.at(place)) {
                let mut scores = sources
                    .iter()
                    .zip(&asked.weights)
                    .map(|(source, &weight)| source.score(member).map(|score| weighted(score, weight)));
                let first = scores.next().flatten();
                let all = scores.try_fold(first, |known, score| Some(Some(aggregate.of(known?, score?))));
                if let Some(Some(score)) = all {
                    result.insert(member, score);
                }
            }
        }
        How::Difference => {
            let (first, others) = sources.split_first().expect("commands have a key");
            for (member, score) in (0..first.len()).map(|place| first.at(place)) {
                if others.iter().all(|source| source.score(member).is_none()) {
                    result.insert(member, score);
                }
            }
        }
    }
    Ok(result)
}

fn store(call: &mut Call<'_>, how: How) -> Done {
    let asked = asked(call, how, 2, false)?;
    let result = combine(call, how, &asked)?;
    sorted::put(call, 1, result)
}

fn show(call: &mut Call<'_>, how: How) -> Done {
    let asked = asked(call, how, 1, true)?;
    let result = combine(call, how, &asked)?;
    let is_flat = asked.has_scores && call.reply.protocol == Protocol::Resp2;
    let start = call.reply.len();
    call.reply.array(if is_flat { 2 * result.len() } else { result.len() });
    for (member, score) in result.from(0) {
        show_member(call.reply, member, asked.has_scores.then_some(score));
        check_length(call.reply, start)?;
    }
    Ok(())
}

pub fn zunion(call: &mut Call<'_>) -> Done {
    show(call, How::Union)
}

pub fn zinter(call: &mut Call<'_>) -> Done {
    show(call, How::Intersection)
}

pub fn zintercard(call: &mut Call<'_>) -> Done {
    let end = 2 + asked_keys(call, 1)?;
    let most = counted_most(call, end)?;
    let sources = sources(call, (2, end))?;
    let smallest = smallest(&sources);
    let members = (0..smallest.len()).map(|place| smallest.at(place).0);
    let common = members.filter(|member| sources.iter().all(|source| source.score(member).is_some()));
    let common = common.take(most).count();
    call.reply.count(common);
    Ok(())
}

pub fn zdiff(call: &mut Call<'_>) -> Done {
    show(call, How::Difference)
}

pub fn zunionstore(call: &mut Call<'_>) -> Done {
    store(call, How::Union)
}

pub fn zinterstore(call: &mut Call<'_>) -> Done {
    store(call, How::Intersection)
}

pub fn zdiffstore(call: &mut Call<'_>) -> Done {
    store(call, How::Difference)
}
