//! Why sessions do not take a way, where others can read it: a counter for each reason, whose text is its
//! meaning.

use farcall_driver::{Counter, CounterFile, CounterGroup};

/// The most reasons of one way that are kept; the one that was given longest ago goes first.
const REASONS_MAX: usize = 8;

/// What the labels of these counters end with, behind the way's.
const NOT_TAKEN: &str = "not taken";

/// What separates a reason from the advice behind it in an error's sentence. Readers put reasons into
/// sentences of their own, so the advice is left to whatever shows the error.
const BEFORE_ADVICE: &str = "; ";

/// The reason alone, of an error's sentence. What stands in parentheses is part of it.
fn reason_of(why: &str) -> &str {
    let is_open = |before: &str| before.matches('(').count() > before.matches(')').count();
    let mut ends = why.match_indices(BEFORE_ADVICE).map(|(end, _)| &why[..end]);
    ends.find(|reason| !is_open(reason)).unwrap_or(why)
}

/// The reasons for which a way was not taken.
#[derive(Debug)]
pub struct WhyNot {
    file: CounterFile,
    label: String,
    /// Each with its sessions.
    reasons: Vec<(String, u64)>,
    /// When each was given last, as a number that rises.
    used: Vec<u64>,
    /// What counts them, in that order. Another group whenever there is another reason.
    group: Option<CounterGroup>,
}

impl WhyNot {
    /// No reason was given yet, for the way that counts under `label`.
    pub fn new(file: &CounterFile, label: &str) -> Self {
        Self {
            file: *file,
            label: format!("{label} {NOT_TAKEN}"),
            reasons: Vec::new(),
            used: Vec::new(),
            group: None,
        }
    }

    /// As [`WhyNot::new`], of a way that is not there.
    pub fn absent(file: &CounterFile, label: &str, why: &str) -> Self {
        let mut absent = Self::new(file, label);
        absent.reasons.push((reason_of(why).to_owned(), 0));
        absent.used.push(0);
        absent.publish();
        absent
    }

    /// A session is up, and does not take this way for that reason.
    pub fn note(&mut self, why: &str) {
        let why = reason_of(why);
        if let Some(place) = self.reasons.iter().position(|(known, _)| known == why) {
            self.reasons[place].1 += 1;
            self.used[place] = self.next_use();
            if let Some(counter) = self.counters().nth(place) {
                counter.increment();
            }
            return;
        }
        if self.reasons.len() == REASONS_MAX {
            let oldest = (0..REASONS_MAX).min_by_key(|place| self.used[*place]).unwrap_or(0);
            self.reasons.remove(oldest);
            self.used.remove(oldest);
        }
        let now = self.next_use();
        self.used.push(now);
        self.reasons.push((why.to_owned(), 1));
        self.publish();
    }

    fn next_use(&self) -> u64 {
        self.used.iter().max().map_or(0, |last| last + 1)
    }

    fn counters(&self) -> impl Iterator<Item = Counter> {
        self.group.iter().flat_map(CounterGroup::counters)
    }

    fn publish(&mut self) {
        self.group = None;
        let names: Vec<String> = (1..=self.reasons.len()).map(|number| format!("reason_{number}")).collect();
        let texts = names.iter().zip(&self.reasons).map(|(name, (why, _))| (&**name, "sessions", &**why));
        self.group = Some(self.file.open_described(&self.label, &texts.collect::<Vec<_>>()));
        for (counter, (_, sessions)) in self.counters().zip(&self.reasons) {
            counter.set(*sessions);
        }
    }
}

#[cfg(test)]
mod tests {
    use farcall_driver::CounterFile;

    use super::*;

    fn read(label: &str) -> Vec<(String, u64)> {
        let snapshot = CounterFile::open_process(std::process::id()).expect("this process counts");
        let group = snapshot.groups.into_iter().find(|group| group.label == label);
        let counters = group.into_iter().flat_map(|group| group.counters);
        counters.map(|counter| (counter.doc, counter.value)).collect()
    }

    #[test]
    fn reasons_are_read_from_outside_with_their_sessions() {
        let mut why = WhyNot::new(CounterFile::process(), "why#0 tcp");
        assert_eq!(read("why#0 tcp not taken"), []);
        for reason in ["first (a; b); do this", "second", "first (a; b); or do that"] {
            why.note(reason);
        }
        assert_eq!(read("why#0 tcp not taken"), [("first (a; b)".to_owned(), 2), ("second".to_owned(), 1)]);
        for number in 0..REASONS_MAX {
            why.note(&format!("{number} {}", "long ".repeat(100)));
        }
        let last = read("why#0 tcp not taken");
        assert!(last.len() == REASONS_MAX && last[0].0.starts_with("0 long"), "{last:?}");
        let absent = WhyNot::absent(CounterFile::process(), "why#0 ring+verbs", "no device; buy one");
        assert_eq!(read("why#0 ring+verbs not taken"), [("no device".to_owned(), 0)]);
        drop(absent);
        assert_eq!(read("why#0 ring+verbs not taken"), []);
    }
}
