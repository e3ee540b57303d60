//! Laws that hold for every system: conservation, Little's, and that no link carries more than its rate.

use std::collections::BTreeMap;

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Balance, Class, Latency, Observation, Table, ThroughputUnit};
use crate::statistics::little::LittleCheck;

/// Whether two sides of a law agree.
pub fn balance(balance: &Balance, figures: &BTreeMap<String, f64>) -> Finding {
    let side = |products: &[Vec<String>]| -> f64 {
        let factor = |name: &String| figures.get(name).copied().unwrap_or(f64::NAN);
        products.iter().map(|product| product.iter().map(factor).product::<f64>()).sum()
    };
    let (left, right) = (side(&balance.left), side(&balance.right));
    let off = if left == right { 0.0 } else { left / right - 1.0 };
    let agree = off.abs() <= balance.tolerance;
    let section = if agree { Section::Agreement } else { Section::Contradiction };
    let verdict = if agree { "agree" } else { "cannot both be true over one window" };
    let sentence = format!(
        "{left:.6} and {right:.6} {verdict}: {:+.1} % apart, {} is allowed",
        off * 100.0,
        percent(balance.tolerance)
    );
    let figures = [("left", left), ("right", right), ("off_percent", off * 100.0)];
    Finding::new(section, "balance", &balance.name, sentence).with(figures)
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Little's law over the parts of a class; a part without a time gets the one that the law leaves for it.
pub fn class(class: &Class) -> Finding {
    let known: f64 = class.parts.iter().filter_map(|part| Some(part.per_second * part.us? / 1e6)).sum();
    let unknown: Vec<_> = class.parts.iter().filter(|part| part.us.is_none()).collect();
    let rate: f64 = class.parts.iter().map(|part| part.per_second).sum();
    let mean_us = class.in_flight / rate * 1e6;
    let (section, sentence) = match unknown.as_slice() {
        [] => {
            let check = LittleCheck { in_flight: class.in_flight, implied: known };
            let verdict =
                if check.holds() { "agree" } else { "cannot be of one window and one set of operations" };
            let section = if check.holds() { Section::Agreement } else { Section::Contradiction };
            (
                section,
                format!(
                    "rates times times are {known:.2} in flight, {} are stated: they {verdict}",
                    class.in_flight
                ),
            )
        }
        [part] => {
            let left = (class.in_flight - known) / part.per_second * 1e6;
            let possible = left > 0.0;
            let section = if possible { Section::Agreement } else { Section::Contradiction };
            let verdict =
                if possible { "is what is left for" } else { "would be left for, which cannot be," };
            (
                section,
                format!(
                    "{left:.2} us {verdict} `{}` by Little's law, with {} in flight",
                    part.name, class.in_flight
                ),
            )
        }
        _ => (
            Section::NotIdentifiable,
            format!(
                "Little's law gives a mean of {mean_us:.2} us over all parts, but not how it is shared among them"
            ),
        ),
    };
    let left = unknown.first().map_or(0.0, |part| (class.in_flight - known) / part.per_second * 1e6);
    let figures = [("implied_in_flight", known), ("mean_us", mean_us), ("left_us", left)];
    Finding::new(section, "little", &class.name, sentence).with(figures)
}

/// Little's law in each row that states in-flight, rate and mean time.
pub fn little(table: &Table) -> Option<Finding> {
    let check = |row: &Observation| {
        let time = row.nanos(Latency::Mean)?;
        Some((row.line, LittleCheck::new(row.at(Axis::InFlight)?, row.operations_per_second?, time)))
    };
    let checks: Vec<_> = table.rows.iter().filter_map(check).collect();
    let broken: Vec<_> = checks.iter().filter(|(_, check)| !check.holds()).map(|(line, _)| *line).collect();
    let (section, sentence) = match (checks.len(), broken.len()) {
        (0, _) => return None,
        (all, 0) => (Section::Agreement, format!("rate x mean time is what is in flight in all {all} rows")),
        (all, some) => (
            Section::Contradiction,
            format!(
                "rate x mean time is more than 10 % off what is in flight in {some} of {all} rows ({}): \
                 another window, or other operations",
                lines(&broken)
            ),
        ),
    };
    let figures = [("rows", broken.len() as f64), ("of", checks.len() as f64)];
    Some(Finding::new(section, "little", &table.name, sentence).with(figures))
}

/// No row moves more than the link.
pub fn link(table: &Table) -> Option<Finding> {
    let link = table.link_bits_per_second?;
    let above =
        |row: &&Observation| row.throughput.is_some_and(|(figure, unit)| bits(figure.value, unit) > link);
    let above: Vec<_> = table.rows.iter().filter(above).map(|row| row.line).collect();
    (!above.is_empty()).then(|| {
        let sentence = format!("throughput is above the link's {} Gb/s ({})", link / 1e9, lines(&above));
        Finding::new(Section::Contradiction, "above_link", &table.name, sentence)
            .with([("rows", above.len() as f64)])
    })
}

/// Bits per second; of an unclear unit the least that it can mean.
fn bits(value: f64, unit: ThroughputUnit) -> f64 {
    value
        * match unit {
            ThroughputUnit::Gigabits => 1e9,
            ThroughputUnit::Mebibytes => 8.0 * 1_048_576.0,
            ThroughputUnit::Megabytes => 8e6,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::Part;
    use crate::explain::analysis::input::table::parse;

    #[test]
    fn sides_that_differ_too_much_contradict() {
        let figures = BTreeMap::from([("sent".to_owned(), 100.0), ("received".to_owned(), 98.0)]);
        let one = |name: &str| vec![vec![name.to_owned()]];
        let law = |tolerance| Balance {
            name: "packets".to_owned(),
            left: one("sent"),
            right: one("received"),
            tolerance,
        };
        assert_eq!(balance(&law(0.01), &figures).section, Section::Contradiction);
        assert_eq!(balance(&law(0.05), &figures).section, Section::Agreement);
    }

    #[test]
    fn a_class_has_the_time_that_is_left_for_it() {
        let part = |name: &str, per_second, us| Part { name: name.to_owned(), per_second, us };
        let parts = vec![part("remote", 1e6, Some(3.0)), part("local", 1e6, None)];
        let fitting = Class { name: "all".to_owned(), in_flight: 4.0, parts };
        assert!((class(&fitting).figure("left_us").expect("a figure") - 1.0).abs() < 1e-9);
        assert_eq!(class(&Class { in_flight: 2.0, ..fitting }).section, Section::Contradiction);
    }

    #[test]
    fn rows_that_break_littles_law_are_named() {
        let text = "in_flight,operations_per_s,mean_us\n1,1000000,1\n2,1000000,1\n";
        let finding = little(&parse("t", text).expect("a table")).expect("rows to check");
        assert_eq!((finding.section, finding.figure("rows")), (Section::Contradiction, Some(1.0)));
        assert!(finding.sentence.contains("line 3"));
    }

    #[test]
    fn nothing_is_faster_than_the_link() {
        let mut table = parse("t", "throughput_gbps\n90\n110\n").expect("a table");
        assert_eq!(link(&table), None);
        table.link_bits_per_second = Some(100e9);
        assert!(link(&table).is_some_and(|finding| finding.sentence.contains("line 3")));
    }
}
