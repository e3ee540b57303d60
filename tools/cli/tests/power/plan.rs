//! What is written, round by round, so that both sides of the border know it, and what must be there.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use farcall_base::{Random, seed_of_stream};

/// Objects that are written and deleted; one more is added to.
pub const KEYS: u64 = 24;

/// Operations of a round, all in flight at once.
const OPERATIONS: usize = 8;

/// The number to which each round adds one.
pub const SUM: &str = "sum";

/// What is in the store: sums of values, by keys. The sum of the number is the number.
pub type Found = BTreeMap<String, u64>;

/// An operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Put(String, Vec<u8>),
    Delete(String),
}

impl Step {
    fn key(&self) -> &str {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    fn apply(&self, found: &mut Found) {
        match self {
            Self::Put(key, value) => _ = found.insert(key.clone(), sum_of(value)),
            Self::Delete(key) => _ = found.remove(key),
        }
    }
}

/// The sum of a value.
pub fn sum_of(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The operations of a round, each on another object.
pub fn round(seed: u64, number: u64) -> Vec<Step> {
    let mut random = Random::new(seed_of_stream(seed, number));
    let mut keys: Vec<u64> = (0..KEYS).collect();
    let step = |_| {
        let key = format!("key{}", keys.swap_remove(random.index(keys.len())));
        if random.chance(0.2) {
            return Step::Delete(key);
        }
        let bytes = if random.chance(0.3) { 100_000 } else { 200 };
        let mut value = format!("{number} {key} ").into_bytes();
        value.resize(value.len() + random.below(bytes) as usize, number as u8);
        Step::Put(key, value)
    };
    (0..OPERATIONS).map(step).collect()
}

/// What the machine has told, and what it may have done besides.
pub struct Ledger {
    seed: u64,
    /// What was there, before the round with this number.
    state: Found,
    pub next: u64,
}

impl Ledger {
    pub fn new(seed: u64) -> Self {
        Self { seed, state: Found::new(), next: 1 }
    }

    /// Rounds up to this one were answered, and the power was cut in the next one. What is there now must
    /// fit; it says what does not.
    pub fn reopen(&mut self, answered: u64, found: Found) -> Option<String> {
        let mut sum = self.state.get(SUM).copied().unwrap_or(0);
        for number in self.next..=answered {
            round(self.seed, number).iter().for_each(|step| step.apply(&mut self.state));
            sum += 1;
        }
        let mut later = self.state.clone();
        let in_flight = round(self.seed, answered + 1);
        in_flight.iter().for_each(|step| step.apply(&mut later));
        let keys = (0..KEYS).map(|key| format!("key{key}"));
        let wrong = keys.filter(|key| {
            let is = found.get(key);
            let may_be_later = in_flight.iter().any(|step| step.key() == key);
            is != self.state.get(key) && !(may_be_later && is == later.get(key))
        });
        let mut wrong: Vec<String> = wrong.collect();
        let found_sum = found.get(SUM).copied().unwrap_or(0);
        if found_sum != sum && found_sum != sum + 1 {
            wrong.push(format!("{SUM}, which is {found_sum} and not {sum} or one more"));
        }
        // A round that was cut is not done again: the next one begins from what is there.
        (self.state, self.next) = (found, answered + 2);
        (!wrong.is_empty()).then(|| format!("after {answered} rounds were answered: {}", wrong.join(", ")))
    }
}
