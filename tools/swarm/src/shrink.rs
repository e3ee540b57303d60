//! From a scenario that breaks a rule to a smaller one that still does.
//!
//! What is left out is named by its numbers in the drawn scenario, so that seed, transport and this list are
//! all that it takes to run it again. A part stays out if the rule is still broken without it.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;
use std::collections::BTreeSet;

use crate::explore::{Case, judge};
use crate::mail::ReceiveStart;
use crate::operations::{Serving, Start};
use crate::run::Findings;
use crate::scenario::Scenario;

/// The most scenarios that are tried for one that is smaller.
const ATTEMPTS_MAX: usize = 600;

/// Lengths are halved so often at most: by then all are the shortest.
const HALVINGS_MAX: u32 = 18;

/// The parts of a scenario that can be left out, by the letter that stands for them.
const PARTS: [char; 7] = ['c', 's', 'r', 't', 'f', 'g', 'v'];

/// What is left out of a drawn scenario: calls, sends, receives, troubles, farewells, collective operations
/// (`g`), operations of the store (`v`), the faults of packets; and how often the lengths of what is left are
/// halved.
///
/// As text `c0-17,20/t1/p/h3`: the calls 0 to 17 and 20, trouble 1 and the faults of packets are left out,
/// and lengths are an eighth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    parts: [BTreeSet<usize>; PARTS.len()],
    packets: bool,
    halvings: u32,
}

/// Why a text names nothing that can be left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a list of what is left out, such as c0-17,20/s3/r1/t1/f0/p/h3")]
pub struct LeftOutError(String);

/// A scenario from which nothing more can be left out.
#[derive(Clone, Debug)]
pub struct Minimal {
    /// What it was drawn from.
    pub case: Case,
    /// What is left out.
    pub left_out: LeftOut,
    /// What comes of it.
    pub findings: Findings,
}

impl Minimal {
    /// The command that runs it again.
    pub fn command(&self) -> String {
        format!("{} --without {}", self.case.command(), self.left_out)
    }
}

impl LeftOut {
    /// Leaves it out of a scenario.
    pub fn apply(&self, scenario: &mut Scenario) {
        let [calls, sends, receives, troubles, farewells, rounds, visits] = &self.parts;
        for (number, call) in scenario.operations.iter_mut().enumerate() {
            call.request_bytes >>= self.halvings;
            call.answer_bytes >>= self.halvings;
            if calls.contains(&number) {
                call.start = Start::Never;
            }
            if let Serving::CallOn(next) = call.serving
                && calls.contains(&next)
            {
                call.serving = Serving::Reply;
            }
        }
        for (number, send) in scenario.mail.sends.iter_mut().enumerate() {
            send.left_out = sends.contains(&number);
        }
        for (number, receive) in scenario.mail.receives.iter_mut().enumerate() {
            // What nobody asks for would be left, and that is no fault.
            receive.left_out = receive.start != ReceiveStart::Collect && receives.contains(&number);
        }
        for (number, round) in scenario.errands.rounds.iter_mut().enumerate() {
            round.left_out = rounds.contains(&number);
        }
        for (number, visit) in scenario.errands.visits.iter_mut().enumerate() {
            visit.left_out = visits.contains(&number);
        }
        retain(&mut scenario.faults.troubles, troubles);
        retain(&mut scenario.farewells, farewells);
        if self.packets {
            scenario.faults.packets = Default::default();
        }
    }

    fn is_out(&self, part: usize, number: usize) -> bool {
        self.parts[part].contains(&number)
    }
}

fn retain<T>(items: &mut Vec<T>, left_out: &BTreeSet<usize>) {
    let mut number = 0;
    items.retain(|_| {
        number += 1;
        !left_out.contains(&(number - 1))
    });
}

/// How many words of a violation say which rule it is of.
const WORDS_OF_RULE: usize = 6;

/// The rule that a violation is of: its first words, without numbers and times.
fn rule_of(violation: &str) -> Vec<&str> {
    let is_word = |word: &&str| !word.contains(|character: char| character.is_ascii_digit());
    violation.split_whitespace().filter(is_word).take(WORDS_OF_RULE).collect()
}

/// Leaves out of a case that breaks a rule whatever it breaks the same one without.
pub fn shrink(case: Case) -> Minimal {
    let mut search = Search { case, best: LeftOut::default(), findings: case.judge(), attempts: 0 };
    let scenario = Scenario::draw(case.seed, case.transport);
    search.try_once(|left_out| left_out.packets = true);
    loop {
        let before = search.best.clone();
        let lengths = [
            scenario.operations.len(),
            scenario.mail.sends.len(),
            scenario.mail.receives.len(),
            scenario.faults.troubles.len(),
            scenario.farewells.len(),
            scenario.errands.rounds.len(),
            scenario.errands.visits.len(),
        ];
        // Few troubles first: without them runs are short and deadlines are met.
        for part in [3, 4, 0, 1, 2, 5, 6] {
            search.without_part(part, lengths[part]);
        }
        if search.best == before || search.attempts >= ATTEMPTS_MAX {
            break;
        }
    }
    while search.best.halvings < HALVINGS_MAX && search.try_once(|left_out| left_out.halvings += 1) {}
    Minimal { case, left_out: search.best, findings: search.findings }
}

struct Search {
    case: Case,
    best: LeftOut,
    findings: Findings,
    attempts: usize,
}

impl Search {
    /// Tries to leave out more; keeps to it if the rule is still broken. Says whether.
    fn try_once(&mut self, leave_out: impl FnOnce(&mut LeftOut)) -> bool {
        if self.attempts >= ATTEMPTS_MAX {
            return false;
        }
        self.attempts += 1;
        let mut left_out = self.best.clone();
        leave_out(&mut left_out);
        let mut scenario = Scenario::draw(self.case.seed, self.case.transport);
        left_out.apply(&mut scenario);
        let findings = judge(&scenario);
        let rules: Vec<_> = self.findings.violations.iter().map(|violation| rule_of(violation)).collect();
        let is_broken = findings.violations.iter().any(|violation| rules.contains(&rule_of(violation)));
        if is_broken {
            (self.best, self.findings) = (left_out, findings);
        }
        is_broken
    }

    /// Leaves out as much of a part as it can, in halves, quarters and so on.
    fn without_part(&mut self, part: usize, length: usize) {
        let mut size = length;
        while size > 0 {
            for begin in (0..length).step_by(size) {
                let range = begin..(begin + size).min(length);
                if range.clone().any(|number| !self.best.is_out(part, number)) {
                    self.try_once(|left_out| left_out.parts[part].extend(range));
                }
            }
            size /= 2;
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        for (letter, numbers) in PARTS.iter().zip(&self.parts).filter(|(_, numbers)| !numbers.is_empty()) {
            let ranges = ranges(numbers).into_iter().map(|range| match range.len() {
                1 => range.start.to_string(),
                _ => format!("{}-{}", range.start, range.end - 1),
            });
            words.push(format!("{letter}{}", ranges.collect::<Vec<_>>().join(",")));
        }
        words.extend(self.packets.then(|| "p".to_owned()));
        words.extend((self.halvings > 0).then(|| format!("h{}", self.halvings)));
        write!(f, "{}", words.join("/"))
    }
}

/// Numbers as ranges.
fn ranges(numbers: &BTreeSet<usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

impl FromStr for LeftOut {
    type Err = LeftOutError;

    fn from_str(text: &str) -> Result<Self, LeftOutError> {
        let mut left_out = Self::default();
        for word in text.split('/').filter(|word| !word.is_empty()) {
            left_out.read(word).ok_or_else(|| LeftOutError(text.to_owned()))?;
        }
        Ok(left_out)
    }
}

impl LeftOut {
    fn read(&mut self, word: &str) -> Option<()> {
        let (letter, rest) = word.split_at_checked(1)?;
        match letter {
            "p" if rest.is_empty() => self.packets = true,
            "h" => self.halvings = rest.parse().ok().filter(|halvings| *halvings <= HALVINGS_MAX)?,
            _ => {
                let part = PARTS.iter().position(|part| letter.starts_with(*part))?;
                for range in rest.split(',') {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                    // No scenario has as many of anything.
                    if last > u16::MAX.into() {
                        return None;
                    }
                    self.parts[part].extend(first..=last);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_one_rule_are_alike_whatever_their_numbers() {
        let dead =
            |rank| format!("at {rank}.125 us: host {rank} lost host 3 over basic+sim without cause: dead");
        assert_eq!(rule_of(&dead(1)), rule_of(&dead(7)));
        assert_ne!(rule_of(&dead(1)), rule_of("at 9.000 us: call 3 of 2.5ms never completed"));
    }

    #[test]
    fn what_is_left_out_is_written_as_it_is_read() {
        for text in ["", "c0-17,20/s3/r1,3/t1/f0/p/h3", "p", "c5", "h18"] {
            assert_eq!(LeftOut::from_str(text).map(|left_out| left_out.to_string()), Ok(text.to_owned()));
        }
        for text in ["x1", "c", "c1-", "c99999999", "p1", "h19", "h"] {
            assert!(LeftOut::from_str(text).is_err(), "{text}");
        }
    }
}
