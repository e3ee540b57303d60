//! Two columns that should agree row by row: which reading of their units makes most rows agree, and which
//! rows no reading saves.

use super::{LINES_SHOWN, lines, ratio};
use crate::explain::analysis::finding::{Finding, Section};

/// A row of two figures: the left one over the right one by the plainest reading, and by how much of itself
/// rounding may put the ratio off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The line of the row.
    pub line: usize,
    /// Left over right.
    pub ratio: f64,
    /// By what part rounding may put it off.
    pub rounding: f64,
}

/// A reading of units or of what is counted, which makes the ratio another one than 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The ratio that it explains.
    pub ratio: f64,
    /// The reading in words, as a statement.
    pub words: String,
    /// Whether a unit that leaves this open is the reason, and nothing else.
    pub is_unit: bool,
}

/// The law that is held against the rows.
#[derive(Clone, Copy, Debug)]
pub struct Law<'a> {
    /// The rule of the findings.
    pub rule: &'static str,
    /// The table.
    pub table: &'a str,
    /// The law in words, such as `size x rate = throughput`.
    pub words: &'a str,
    /// What the sides may differ by, as a part.
    pub tolerance: f64,
}

/// A reading explains rows when it meets this share of them.
const MET_SHARE: f64 = 0.5;

/// Ratios with more rounding than this say nothing.
const ROUNDING_MAX: f64 = 0.2;

/// Judges the rows. Among readings that meet as many rows the earlier one stands, and the plain one before
/// all.
pub fn judge(law: Law<'_>, pairs: &[Pair], readings: &[Reading]) -> Vec<Finding> {
    let pairs: Vec<_> = pairs.iter().filter(|pair| pair.rounding < ROUNDING_MAX).copied().collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let plain = Reading { ratio: 1.0, words: String::new(), is_unit: true };
    let met = |reading: &Reading| pairs.iter().filter(|pair| meets(law, pair, reading.ratio)).count();
    let best =
        [&plain].into_iter().chain(readings).rev().max_by_key(|reading| met(reading)).unwrap_or(&plain);
    let count = met(best);
    if (count as f64) < MET_SHARE * pairs.len() as f64 {
        return vec![broken(law, &pairs)];
    }
    let others: Vec<_> = pairs.iter().filter(|pair| !meets(law, pair, best.ratio)).copied().collect();
    // Of two halves neither is the exception, and figures that go with each other accuse none alone.
    let ratio = others.first().map_or(1.0, |pair| pair.ratio);
    if others.len() == count && others.iter().all(|pair| meets(law, pair, ratio)) {
        return vec![tie(law, best, &pairs, &others, readings)];
    }
    let mut findings = vec![explained(law, best, count, pairs.len())];
    if !others.is_empty() {
        findings.push(different(law, best, &others, readings));
    }
    findings
}

/// Rows by which a law that nothing states is inferred: so many, and this share of all.
const INFERRED_ROWS: f64 = 3.0;
const INFERRED_SHARE: f64 = 0.7;

/// Whether what was found first says that a law holds in enough rows that the others are the exceptions.
pub fn holds_mostly(first: &Finding) -> bool {
    let figure = |name: &str| first.figures.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    let (rows, of) = (figure("rows").unwrap_or(0.0), figure("of").unwrap_or(f64::INFINITY));
    first.section != Section::Contradiction && rows >= INFERRED_ROWS && rows >= INFERRED_SHARE * of
}

fn meets(law: Law<'_>, pair: &Pair, ratio: f64) -> bool {
    (pair.ratio / ratio - 1.0).abs() <= law.tolerance + pair.rounding
}

fn explained(law: Law<'_>, reading: &Reading, count: usize, all: usize) -> Finding {
    let rows = if count == all { format!("all {all} rows") } else { format!("{count} of {all} rows") };
    let section = if reading.is_unit { Section::Agreement } else { Section::Caution };
    let how = match reading.words.as_str() {
        "" => String::new(),
        words if reading.is_unit => format!(" when {words}"),
        words => format!(", {} times it: {words}", ratio::words(reading.ratio)),
    };
    let sentence = format!("{} in {rows} within {:.1} %{how}", law.words, law.tolerance * 100.0);
    let figures = [("rows", count as f64), ("of", all as f64), ("ratio", reading.ratio)];
    Finding::new(section, law.rule, law.table, sentence).with(figures)
}

/// As many rows are by one reading as by another.
fn tie(law: Law<'_>, best: &Reading, pairs: &[Pair], others: &[Pair], readings: &[Reading]) -> Finding {
    let is_other = |pair: &&Pair| others.contains(pair);
    let lines_of = |pairs: Vec<&Pair>| lines(&pairs.iter().map(|pair| pair.line).collect::<Vec<_>>());
    let ratio = others[0].ratio / best.ratio;
    let reading =
        readings.iter().find(|reading| !reading.words.is_empty() && meets(law, &others[0], reading.ratio));
    let why = reading.map_or_else(String::new, |reading| format!(", as if {}", reading.words));
    let sentence = format!(
        "{} in half of {} rows ({}), and in the others {} times that{why} ({}): which half is right these figures do \
         not say",
        law.words,
        pairs.len(),
        lines_of(pairs.iter().filter(|pair| !is_other(pair)).collect()),
        ratio::words(ratio),
        lines_of(others.iter().collect()),
    );
    let figures = [("rows", others.len() as f64), ("of", pairs.len() as f64), ("ratio", ratio)];
    Finding::new(Section::Contradiction, law.rule, law.table, sentence).with(figures)
}

/// Rows that a reading which meets most does not meet.
fn different(law: Law<'_>, best: &Reading, others: &[Pair], readings: &[Reading]) -> Finding {
    let by = |pair: &Pair| {
        let ratio = pair.ratio / best.ratio;
        let reading =
            readings.iter().find(|reading| !reading.words.is_empty() && meets(law, pair, reading.ratio));
        let why = match reading {
            Some(reading) => format!("{:.3}, as if {}", ratio, reading.words),
            None => ratio::words(ratio),
        };
        format!("line {}: {why}", pair.line)
    };
    let shown: Vec<_> = others.iter().take(LINES_SHOWN).map(by).collect();
    let lines: Vec<_> = others.iter().map(|pair| pair.line).collect();
    let rows = match others.len() {
        1 => "1 row is".to_owned(),
        many => format!("{many} rows are"),
    };
    let sentence = format!(
        "{rows} not as the others by {} ({}); times what the others have: {}",
        law.words,
        super::lines(&lines),
        shown.join("; ")
    );
    Finding::new(Section::Contradiction, law.rule, law.table, sentence).with([("rows", others.len() as f64)])
}

/// No reading meets most rows.
fn broken(law: Law<'_>, pairs: &[Pair]) -> Finding {
    let wrong: Vec<_> = pairs.iter().filter(|pair| !meets(law, pair, 1.0)).collect();
    let shown: Vec<_> = wrong
        .iter()
        .take(LINES_SHOWN)
        .map(|pair| format!("line {}: {}", pair.line, ratio::words(pair.ratio)))
        .collect();
    let line_numbers: Vec<_> = wrong.iter().map(|pair| pair.line).collect();
    let sentence = format!(
        "{} does not hold within {:.1} % in {} of {} rows ({}); the right side by the left: {}",
        law.words,
        law.tolerance * 100.0,
        wrong.len(),
        pairs.len(),
        lines(&line_numbers),
        shown.join("; "),
    );
    let figures = [
        ("rows", wrong.len() as f64),
        ("of", pairs.len() as f64),
        ("ratio", wrong.first().map_or(1.0, |pair| pair.ratio)),
    ];
    Finding::new(Section::Contradiction, law.rule, law.table, sentence).with(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Law<'_> = Law { rule: "law", table: "t", words: "a = b", tolerance: 0.01 };

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        let pair = |(index, ratio): (usize, &f64)| Pair { line: index + 2, ratio: *ratio, rounding: 0.001 };
        ratios.iter().enumerate().map(pair).collect()
    }

    fn readings() -> Vec<Reading> {
        let reading = |ratio, words: &str, is_unit| Reading { ratio, words: words.to_owned(), is_unit };
        vec![reading(0.954, "1 MB is 2^20 bytes", true), reading(2.0, "both directions are counted", false)]
    }

    fn judged(ratios: &[f64]) -> Vec<(Section, String)> {
        let findings = judge(LAW, &pairs(ratios), &readings());
        findings.into_iter().map(|finding| (finding.section, finding.sentence)).collect()
    }

    #[test]
    fn rows_that_agree_agree() {
        let found = judged(&[1.0, 1.002, 0.999]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Section::Agreement);
    }

    #[test]
    fn a_reading_explains_most_rows_and_the_rest_is_named() {
        let found = judged(&[2.0, 2.0, 1.0, 2.0]);
        assert_eq!(
            found.iter().map(|(section, _)| *section).collect::<Vec<_>>(),
            [Section::Caution, Section::Contradiction]
        );
        assert!(found[0].1.contains("both directions"), "{found:?}");
        assert!(found[1].1.contains("line 4: 0.5"), "{found:?}");
        assert_eq!(judged(&[0.954, 0.953])[0].0, Section::Agreement);
    }

    #[test]
    fn of_two_halves_none_is_accused() {
        let found = judged(&[1.0, 0.125]);
        assert_eq!((found.len(), found[0].0), (1, Section::Contradiction));
        assert!(found[0].1.contains("(line 2)") && found[0].1.contains("(line 3): which half"), "{found:?}");
        assert_eq!(judged(&[1.0, 1.0, 0.125]).len(), 2, "two of three are no half");
    }

    #[test]
    fn what_no_reading_explains_is_a_contradiction() {
        let found = judged(&[1.4, 3.0, 0.2]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Section::Contradiction);
        assert!(found[0].1.contains("line 3: 3 (3 for one?)"), "{found:?}");
    }
}
