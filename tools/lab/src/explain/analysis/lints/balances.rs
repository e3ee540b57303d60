//! Balances: equalities of sums of products of figures. Unknowns are solved for, sides that differ get the
//! name of their ratio, and what no balance mentions is listed.

use std::collections::{BTreeMap, BTreeSet};

use super::{little, rates, ratio};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Assumption, Balance, Document, Table, figures_table};

/// Everything that the single figures of a document say.
pub fn check(document: &Document) -> Vec<Finding> {
    let mut figures = document.figures.clone();
    let mut findings = solve(document, &mut figures);
    for balance in &document.balances {
        if names(balance).iter().all(|name| document.figures.contains_key(*name)) {
            findings.push(agreement(balance, &figures, document.tolerances.balance));
        } else if names(balance).iter().all(|name| figures.contains_key(*name)) {
            let checked = agreement(balance, &figures, document.tolerances.balance);
            findings.extend((checked.section == Section::Contradiction).then_some(checked));
        } else {
            findings.push(open(balance, &figures));
        }
    }
    findings.extend(inferred(document));
    findings.extend(unused(document));
    findings
}

fn names(balance: &Balance) -> BTreeSet<&String> {
    balance.left.iter().chain(&balance.right).flatten().collect()
}

/// Solves balances with one unknown until none is left, and adds what was found to the figures.
fn solve(document: &Document, figures: &mut BTreeMap<String, f64>) -> Vec<Finding> {
    let mut findings = Vec::new();
    loop {
        let solved = document.balances.iter().find_map(|balance| {
            let names = names(balance);
            let mut unknown = names.into_iter().filter(|name| !figures.contains_key(*name));
            let (name, None) = (unknown.next()?.clone(), unknown.next()) else { return None };
            let value = root(balance, &name, figures)?;
            Some((balance, name, value))
        });
        let Some((balance, name, value)) = solved else { return findings };
        findings.push(solution(balance, &name, value, &document.figures));
        figures.insert(name, value);
    }
}

/// The unknown of a balance: the products that have it are a multiple of a power of it, the others a number.
fn root(balance: &Balance, unknown: &str, figures: &BTreeMap<String, f64>) -> Option<f64> {
    let (mut factor, mut rest, mut power) = (0.0, 0.0, None);
    for (sign, products) in [(1.0, &balance.left), (-1.0, &balance.right)] {
        for product in products {
            let times = product.iter().filter(|name| *name == unknown).count();
            let known: f64 =
                product.iter().filter(|name| *name != unknown).map(|name| figures[name]).product();
            match times {
                0 => rest += sign * known,
                times if power.is_none_or(|power| power == times) => {
                    power = Some(times);
                    factor += sign * known;
                }
                _ => return None,
            }
        }
    }
    let value = (-rest / factor).powf(1.0 / power? as f64);
    value.is_finite().then_some(value)
}

fn solution(balance: &Balance, name: &str, value: f64, figures: &BTreeMap<String, f64>) -> Finding {
    let unit = |name: &str| name.rsplit_once('_').map_or(String::new(), |(_, unit)| unit.to_owned());
    let beside = figures
        .iter()
        .filter(|(known, _)| unit(known) == unit(name) && !unit(name).is_empty())
        .find_map(|(known, other)| {
            Some(format!(", {} {known}", ratio::meaning(value / other).map(|_| ratio::words(value / other))?))
        });
    let (section, possible) = match value > 0.0 {
        true => (Section::Agreement, ""),
        false => (Section::Contradiction, ", which cannot be"),
    };
    let sentence = format!(
        "{name} is {} by this balance{possible}{}",
        six(value),
        beside.map_or(String::new(), |words| format!("{words} times"))
    );
    Finding::new(section, "solved", &balance.name, sentence).with([("value", value)])
}

/// Six digits that count.
fn six(value: f64) -> String {
    let decimals = (5 - value.abs().max(1e-300).log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Whether two sides of a law agree.
fn agreement(balance: &Balance, figures: &BTreeMap<String, f64>, default: f64) -> Finding {
    let side = |products: &[Vec<String>]| -> f64 {
        let factor = |name: &String| figures.get(name).copied().unwrap_or(f64::NAN);
        products.iter().map(|product| product.iter().map(factor).product::<f64>()).sum()
    };
    let tolerance = balance.tolerance.unwrap_or(default);
    let (left, right) = (side(&balance.left), side(&balance.right));
    let ratio = if left == right { 1.0 } else { left / right };
    let agree = (ratio - 1.0).abs() <= tolerance;
    let section = if agree { Section::Agreement } else { Section::Contradiction };
    let off = (ratio - 1.0) * 100.0;
    let verdict = match agree {
        true => format!("agree: {off:+.2} % apart, {:.1} % is allowed", tolerance * 100.0),
        false => format!(
            "cannot both be true over one window: the left is {} times the right, {:.1} % is allowed{}",
            ratio::words(ratio),
            tolerance * 100.0,
            would_hold(balance, figures, ratio)
        ),
    };
    let sentence = format!("{} and {} {verdict}", six(left), six(right));
    let figures = [("left", left), ("right", right), ("ratio", ratio), ("off_percent", off)];
    Finding::new(section, "balance", &balance.name, sentence).with(figures)
}

/// What single figures would have to be for the balance to hold.
fn would_hold(balance: &Balance, figures: &BTreeMap<String, f64>, ratio: f64) -> String {
    if let ([left], [right]) = (balance.left.as_slice(), balance.right.as_slice())
        && let ([left], [right]) = (left.as_slice(), right.as_slice())
    {
        return format!("; that is {} of {left} for each of {right}", six(ratio));
    }
    // A figure in every product of a side scales that side.
    let common = |products: &[Vec<String>]| -> Vec<String> {
        let first = products.first().cloned().unwrap_or_default();
        let once = |name: &&String| {
            products.iter().all(|product| product.iter().filter(|own| own == name).count() == 1)
        };
        first.iter().filter(once).cloned().collect()
    };
    let left = common(&balance.left).into_iter().map(|name| (name, 1.0 / ratio));
    let right = common(&balance.right).into_iter().map(|name| (name, ratio));
    let would: Vec<_> = left
        .chain(right)
        .filter_map(|(name, factor)| {
            Some(format!(
                "{name} {} instead of {}",
                six(figures.get(&name)? * factor),
                six(*figures.get(&name)?)
            ))
        })
        .collect();
    if would.is_empty() { String::new() } else { format!("; it would hold with {}", would.join(", or ")) }
}

/// A balance with more than one unknown.
fn open(balance: &Balance, figures: &BTreeMap<String, f64>) -> Finding {
    let unknown: Vec<_> = names(balance)
        .into_iter()
        .filter(|name| !figures.contains_key(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    let sentence = match unknown.as_slice() {
        [one] => format!("{one} has no solution here: it is in products of different powers, or they cancel"),
        many => format!(
            "{} cannot be told apart by this balance: one more figure, the cheapest of them to measure, gives the rest",
            many.join(" and ")
        ),
    };
    Finding::new(Section::NotIdentifiable, "unsolved", &balance.name, sentence)
        .with([("unknowns", unknown.len() as f64)])
}

/// The laws of rows, held against figures whose names say what they are.
fn inferred(document: &Document) -> Vec<Finding> {
    if document.struck.contains(&Assumption::FiguresFit) {
        return Vec::new();
    }
    let Some(table) = figures_table(&document.figures) else { return Vec::new() };
    row_laws(&table, document)
}

/// What the laws that bind the rates of a row say, but for those that were struck.
pub fn row_laws(table: &Table, document: &Document) -> Vec<Finding> {
    let kept = |assumption: &Assumption| !document.struck.contains(assumption);
    let mut findings = Vec::new();
    for (assumption, law) in rates::LAWS {
        if kept(&assumption) {
            findings.extend(assumed(assumption, law(table, &document.tolerances)));
        }
    }
    if kept(&Assumption::ClosedLoop) {
        findings.extend(assumed(Assumption::ClosedLoop, little::check(table, &document.tolerances)));
    }
    findings
}

/// Findings that rest on an assumption, and the assumption where there are any.
pub fn assumed(assumption: Assumption, mut findings: Vec<Finding>) -> Vec<Finding> {
    if let Some(first) = findings.first() {
        let sentence =
            format!("{}; `--strike {assumption}` leaves out what follows from it", assumption.law());
        findings.push(Finding::new(Section::Assumption, "assumed", first.about.clone(), sentence));
    }
    findings
}

/// Figures that no balance mentions and whose names say nothing.
fn unused(document: &Document) -> Option<Finding> {
    let mentioned: BTreeSet<_> = document.balances.iter().flat_map(|balance| names(balance)).collect();
    let table = figures_table(&document.figures);
    let inferred =
        |name: &str| table.iter().flat_map(|table| &table.columns).any(|column| column.heading == name);
    let unused: Vec<_> = document
        .figures
        .keys()
        .filter(|name| !mentioned.contains(name) && !inferred(name))
        .map(|name| format!("`{name}`"))
        .collect();
    (!unused.is_empty()).then(|| {
        let sentence =
            format!("no balance mentions {}, and no name says what law binds it", unused.join(", "));
        Finding::new(Section::NotIdentifiable, "unused_figure", "figures", sentence)
            .with([("figures", unused.len() as f64)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn findings(text: &str) -> Vec<Finding> {
        let text = format!("schema = 'farcall.audit.v1'\nsource = ''\n{text}");
        let none = |_: &Path| -> Result<String, _> { unreachable!("no files are named") };
        check(&Document::parse(&text, none).expect("a document"))
    }

    const LAW: &str = "[[balance]]\nname = 'b'\nleft = [['done']]\nright = [['rate', 'window_s']]\n";

    #[test]
    fn sides_that_differ_are_named_by_their_ratio() {
        let off = findings(&format!("[figures]\ndone = 100\nrate = 10\nwindow_s = 5\n{LAW}"));
        let words = &off[0].sentence;
        assert!(words.contains("2 (both directions, or two windows?) times the right"), "{words}");
        assert!(words.contains("window_s 10 instead of 5"), "{words}");
        let close =
            findings(&format!("[figures]\ndone = 100\nrate = 10\nwindow_s = 10.2\n{LAW}tolerance = 0.05"));
        assert_eq!(close[0].section, Section::Agreement);
    }

    #[test]
    fn unknowns_are_solved_one_after_the_other() {
        let chain =
            "[[balance]]\nname = 'c'\nleft = [['batches', 'batch_size']]\nright = [['rate', 'window_s']]\n";
        let found = findings(&format!(
            "unknown = ['window_s', 'batch_size']\n[figures]\ndone = 100\nrate = 10\nother_s = 20\nbatches = 50\n{chain}{LAW}"
        ));
        let of = |name: &str| found.iter().find(|one| one.sentence.starts_with(name)).expect("solved");
        assert_eq!(of("window_s").figure("value"), Some(10.0));
        assert!(
            of("window_s").sentence.contains("0.5 (both directions, or two windows?) times other_s")
                || of("window_s").sentence.contains("other_s"),
            "{}",
            of("window_s").sentence
        );
        assert_eq!(of("batch_size").figure("value"), Some(2.0));
    }

    #[test]
    fn what_cannot_be_solved_is_said() {
        let found = findings(&format!("unknown = ['window_s', 'rate']\n[figures]\ndone = 100\n{LAW}"));
        assert!(
            found.iter().any(|one| one.rule == "unsolved" && one.sentence.contains("`rate` and `window_s`")),
            "{found:?}"
        );
    }

    #[test]
    fn laws_are_inferred_from_names_and_can_be_struck() {
        let text = "[figures]\niterations = 1000\nseconds = 10\nops_per_s = 200\nmagic = 3\n";
        let found = findings(text);
        assert!(
            found.iter().any(|one| one.rule == "count_over_duration" && one.section == Section::Caution),
            "{found:?}"
        );
        assert!(found.iter().any(|one| one.rule == "unused_figure" && one.sentence.contains("`magic`")));
        let struck = findings(&format!("strike = ['figures_fit']\n{text}"));
        assert!(!struck.iter().any(|one| one.rule == "count_over_duration"));
    }

    #[test]
    fn two_figures_that_differ_give_one_for_each_other() {
        let law = "[[balance]]\nname = 'm'\nleft = [['messages']]\nright = [['batches']]\n";
        let found = findings(&format!("[figures]\nmessages = 121\nbatches = 100\n{law}"));
        assert!(found[0].sentence.contains("1.21 of messages for each of batches"), "{}", found[0].sentence);
    }
}
