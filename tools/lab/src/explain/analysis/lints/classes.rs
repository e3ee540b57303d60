//! Little's law over the classes of a closed loop.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Class, Tolerances};

/// Little's law over the parts of a class; a part without a time gets the one that the law leaves for it.
pub fn check(class: &Class, tolerances: &Tolerances) -> Finding {
    let known: f64 = class.parts.iter().filter_map(|part| Some(part.per_second * part.us? / 1e6)).sum();
    let unknown: Vec<_> = class.parts.iter().filter(|part| part.us.is_none()).collect();
    let rate: f64 = class.parts.iter().map(|part| part.per_second).sum();
    let mean_us = class.in_flight / rate * 1e6;
    let (section, sentence) = match unknown.as_slice() {
        [] => {
            let holds = (known / class.in_flight - 1.0).abs() <= tolerances.little;
            let verdict = if holds { "agree" } else { "cannot be of one window and one set of operations" };
            let section = if holds { Section::Agreement } else { Section::Contradiction };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::Part;

    #[test]
    fn a_class_has_the_time_that_is_left_for_it() {
        let part = |name: &str, per_second, us| Part { name: name.to_owned(), per_second, us };
        let parts = vec![part("remote", 1e6, Some(3.0)), part("local", 1e6, None)];
        let fitting = Class { name: "all".to_owned(), in_flight: 4.0, parts };
        let check = |class: &Class| check(class, &Tolerances::default());
        assert!((check(&fitting).figure("left_us").expect("a figure") - 1.0).abs() < 1e-9);
        assert_eq!(check(&Class { in_flight: 2.0, ..fitting }).section, Section::Contradiction);
    }
}
