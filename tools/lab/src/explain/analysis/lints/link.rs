//! No link carries more than its rate.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Observation, Table};

/// Both directions together carry at most this many times the rate of a link.
const DIRECTIONS: f64 = 2.0;

/// Rows that move more than the link does.
pub fn check(table: &Table) -> Option<Finding> {
    let link = table.link_bits_per_second?;
    let over = |row: &Observation| Some((row.line, row.bits_per_second()? / link));
    let above: Vec<_> = table.rows.iter().filter_map(over).filter(|(_, ratio)| *ratio > 1.0).collect();
    let worst = above.iter().map(|(_, ratio)| *ratio).max_by(f64::total_cmp)?;
    let line_numbers: Vec<_> = above.iter().map(|(line, _)| *line).collect();
    let cause = match worst <= DIRECTIONS {
        true => "within twice its rate, so consistent with both directions counted together",
        false => "more than both directions carry: another link, local traffic or a wrong unit",
    };
    let sentence = format!(
        "throughput is above the link's {} Gb/s ({}), at most {worst:.3} times it: {cause}",
        link / 1e9,
        lines(&line_numbers)
    );
    let figures = [("rows", above.len() as f64), ("ratio", worst)];
    Some(Finding::new(Section::Contradiction, "above_link", &table.name, sentence).with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    #[test]
    fn nothing_is_faster_than_the_link() {
        let mut table = parse("t", "throughput_gbps\n90\n110\n").expect("a table");
        assert_eq!(check(&table), None);
        table.link_bits_per_second = Some(100e9);
        assert!(check(&table).is_some_and(|finding| finding.sentence.contains("line 3")));
    }

    #[test]
    fn both_directions_explain_up_to_twice() {
        let mut table = parse("t", "throughput_mb_s\n24700\n").expect("a table");
        table.link_bits_per_second = Some(100e9);
        assert!(check(&table).is_some_and(|finding| finding.sentence.contains("both directions counted")));
    }
}
