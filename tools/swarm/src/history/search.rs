//! The search for an order of the operations on one key.
//!
//! It is that of Wing and Gong ("Testing and verifying concurrent objects", JPDC 1993) with the memory of
//! Lowe ("Testing for linearizability", 2017): what was done and what is there then were tried once, and
//! are not tried again.

use std::collections::HashSet;

/// The most steps for one key: some seconds.
const STEPS_MAX: u64 = 20_000_000;

/// The value of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The number of a word.
    Word(u32),
    Number(i64),
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// What it found.
    Get(Option<Value>),
    Put(Value),
    /// Whether there was something, if that is known.
    Delete(Option<bool>),
    /// The amount, and the sum if that is known.
    Add(i64, Option<i64>),
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub began: u64,
    /// `u64::MAX` if nobody knows whether it has happened.
    pub ended: u64,
    pub effect: Effect,
    /// Which one it is, to its caller.
    pub number: usize,
}

impl Effect {
    /// What is there afterwards; `None` if it cannot have happened here.
    fn apply(self, object: Option<Value>) -> Option<Option<Value>> {
        match self {
            Self::Get(found) => (found == object).then_some(object),
            Self::Put(value) => Some(Some(value)),
            Self::Delete(found) => found.is_none_or(|found| found == object.is_some()).then_some(None),
            Self::Add(amount, sum) => {
                let before = match object {
                    None => 0,
                    Some(Value::Number(number)) => number,
                    // It is refused, which is no answer, or not known at all.
                    Some(Value::Word(_)) => return sum.is_none().then_some(object),
                };
                let after = before.wrapping_add(amount);
                sum.is_none_or(|sum| sum == after).then_some(Some(Value::Number(after)))
            }
        }
    }
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An order.
    Order,
    /// There is none. Of all attempts the longest ended at this operation.
    None { stuck_at: usize },
    /// It takes too long to say.
    TooLong,
}

/// A choice that can be taken back.
struct Choice {
    step: usize,
    before: Option<Value>,
    /// Where the steps begin that were not done before it.
    low: usize,
}

pub struct Search {
    /// Those that have happened, by their beginnings, and behind them those of which nobody knows.
    steps: Vec<Step>,
    known: usize,
    done: Vec<u64>,
    low: usize,
    object: Option<Value>,
    choices: Vec<Choice>,
    tried: HashSet<(Vec<u64>, Option<Value>)>,
}

impl Search {
    pub fn new(mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| (step.ended == u64::MAX, step.began, step.ended));
        let known = steps.iter().take_while(|step| step.ended != u64::MAX).count();
        let done = vec![0; steps.len().div_ceil(64)];
        Self { steps, known, done, low: 0, object: None, choices: Vec::new(), tried: HashSet::new() }
    }

    fn is_done(&self, step: usize) -> bool {
        self.done[step / 64] >> (step % 64) & 1 == 1
    }

    pub fn run(mut self) -> Found {
        let (mut next, mut deepest, mut stuck_at) = (0, 0, 0);
        for _ in 0..STEPS_MAX {
            if self.low == self.known {
                return Found::Order;
            }
            let (end, first_to_end) = self.horizon();
            if self.low >= deepest {
                (deepest, stuck_at) = (self.low, self.steps[first_to_end].number);
            }
            if self.choose(next, end) {
                next = 0;
                continue;
            }
            match self.choices.pop() {
                Some(choice) => next = self.take_back(choice) + 1,
                None => return Found::None { stuck_at },
            }
        }
        Found::TooLong
    }

    /// When the first of those that are not done ends, and which it is: what begins later comes behind it.
    fn horizon(&self) -> (u64, usize) {
        let (mut end, mut first) = (u64::MAX, self.low);
        for step in self.low..self.known {
            if self.steps[step].began > end {
                break;
            }
            if !self.is_done(step) && self.steps[step].ended < end {
                (end, first) = (self.steps[step].ended, step);
            }
        }
        (end, first)
    }

    /// Does the next one, from this one on, that can be done and leads to something new.
    fn choose(&mut self, from: usize, end: u64) -> bool {
        let known = (from.max(self.low)..self.known).take_while(|&step| self.steps[step].began <= end);
        let unknown =
            (from.max(self.known)..self.steps.len()).take_while(|&step| self.steps[step].began <= end);
        let steps: Vec<usize> = known.chain(unknown).filter(|&step| !self.is_done(step)).collect();
        for step in steps {
            let Some(after) = self.steps[step].effect.apply(self.object) else { continue };
            self.done[step / 64] |= 1 << (step % 64);
            if !self.tried.insert((self.done.clone(), after)) {
                self.done[step / 64] &= !(1 << (step % 64));
                continue;
            }
            self.choices.push(Choice { step, before: self.object, low: self.low });
            self.object = after;
            while self.low < self.known && self.is_done(self.low) {
                self.low += 1;
            }
            return true;
        }
        false
    }

    fn take_back(&mut self, choice: Choice) -> usize {
        self.done[choice.step / 64] &= !(1 << (choice.step % 64));
        (self.object, self.low) = (choice.before, choice.low);
        choice.step
    }
}
