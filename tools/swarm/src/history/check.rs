//! Whether an order explains a history.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::search::{Effect, Found, Search, Step, Value};
use super::{Asked, Operation, Told};

/// What is to be said of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Keys that were looked at.
    pub keys: usize,
    /// Operations.
    pub operations: usize,
    /// Operations of which nobody knows whether they have happened.
    pub unknown: usize,
    /// Keys for which there is no order.
    pub unexplained: Vec<Unexplained>,
    /// Keys for which it takes too long to say.
    pub undecided: Vec<String>,
}

/// A key for which there is no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained {
    /// The key.
    pub key: String,
    /// The operation, by its place in the history, before which every order ends.
    pub operation: usize,
}

/// Looks for an order of the operations on each key.
pub fn check(history: &[Operation]) -> Verdict {
    let mut keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, operation) in history.iter().enumerate() {
        keys.entry(&operation.key).or_default().push(place);
    }
    let unknown = history.iter().filter(|operation| operation.told.is_none()).count();
    let mut verdict = Verdict { keys: keys.len(), operations: history.len(), unknown, ..Verdict::default() };
    for (key, places) in keys {
        match Search::new(steps(history, &places)).run() {
            Found::Order => {}
            Found::None { stuck_at } => {
                verdict.unexplained.push(Unexplained { key: key.to_owned(), operation: stuck_at });
            }
            Found::TooLong => verdict.undecided.push(key.to_owned()),
        }
    }
    verdict
}

/// The operations on one key as steps. Left out is what explains nothing: a read without an answer, and a
/// put without an answer whose value nobody has found, unless others say whether something was there.
fn steps(history: &[Operation], places: &[usize]) -> Vec<Step> {
    let on_key = || places.iter().map(|&place| &history[place]);
    let only_gets_and_puts = on_key().all(|operation| matches!(operation.asked, Asked::Get | Asked::Put(_)));
    let found: HashSet<&str> = on_key()
        .filter_map(|operation| match &operation.told {
            Some((_, Told::Found(value))) => Some(&**value),
            _ => None,
        })
        .collect();
    let mut words = HashMap::new();
    let mut value = |word: &str| match word.parse::<i64>() {
        Ok(number) if number.to_string() == word => Value::Number(number),
        _ => {
            let number = words.len() as u32;
            Value::Word(*words.entry(word.to_owned()).or_insert(number))
        }
    };
    let mut steps = Vec::with_capacity(places.len());
    for &number in places {
        let Operation { began, told, asked, .. } = &history[number];
        let told = told.as_ref();
        let effect = match (asked, told.map(|(_, told)| told)) {
            (Asked::Get, Some(Told::Found(word))) => Effect::Get(Some(value(word))),
            (Asked::Get, Some(_)) => Effect::Get(None),
            (Asked::Get, None) => continue,
            (Asked::Put(word), None) if only_gets_and_puts && !found.contains(&**word) => continue,
            (Asked::Put(word), _) => Effect::Put(value(word)),
            (Asked::Delete, told) => Effect::Delete(told.map(|told| *told == Told::Done)),
            (Asked::Add(amount), Some(Told::Sum(sum))) => Effect::Add(*amount, Some(*sum)),
            (Asked::Add(amount), _) => Effect::Add(*amount, None),
        };
        let ended = told.map_or(u64::MAX, |(ended, _)| (*ended).min(u64::MAX - 1));
        steps.push(Step { began: *began, ended, effect, number });
    }
    steps
}
