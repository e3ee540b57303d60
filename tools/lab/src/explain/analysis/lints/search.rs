//! Whether the best of many configurations is better, or only the luckiest.
//!
//! If all configurations were alike and each was measured once with normal noise, the best of many would
//! still lie far below the median. The noise follows from where the best lies (order statistics), and with it
//! what to expect of another search.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::Search;
use crate::explain::analysis::normal;

/// How often one of all the comparisons with the best may be wrong.
const FAMILY_ERROR: f64 = 0.05;

/// Judges a search.
pub fn check(search: &Search) -> Option<Finding> {
    let total = search.total as f64;
    let median = median_us(search)?;
    let best_edge = search.us[0] + search.step_us / 2.0;
    let rank = normal::quantile(search.configurations[0] as f64 / total);
    let noise = (median - best_edge) / -rank;
    if !(noise.is_finite() && noise > 0.0) {
        return None;
    }
    let share = normal::below((best_edge - median) / noise);
    let alone = total * share * ((total - 1.0) * (-share).ln_1p()).exp();
    let expected_best = median + noise * normal::quantile(0.5_f64.powf(1.0 / total).mul_add(-1.0, 1.0));
    let width = -normal::quantile(FAMILY_ERROR / (total - 1.0)) * 2_f64.sqrt() * noise;
    let single = -normal::quantile(FAMILY_ERROR) * 2_f64.sqrt() * noise;
    let tied = configurations_up_to(search, search.us[0] + width);
    let sentence = format!(
        "the best of {total} single measurements, {} us, is what noise of {:.1} ns gives if all are alike: it would be \
         near {expected_best:.3} us, and {:.0} of 100 such searches have exactly one at its printed figure or below; {tied} \
         ({:.0} %) cannot be told from it, all comparisons taken together",
        search.us[0],
        noise * 1e3,
        alone * 100.0,
        tied as f64 / total * 100.0,
    );
    let figures = [
        ("noise_ns", noise * 1e3),
        ("median_us", median),
        ("rank_in_noise", rank),
        ("expected_best_us", expected_best),
        ("exactly_one", alone),
        ("tied_width_ns", width * 1e3),
        ("single_width_ns", single * 1e3),
        ("tied", tied as f64),
    ];
    Some(Finding::new(Section::Caution, "best_of_many", &search.name, sentence).with(figures))
}

/// The median, spread evenly within its printed step.
fn median_us(search: &Search) -> Option<f64> {
    let half = search.total as f64 / 2.0;
    let mut below = 0.0;
    for (us, count) in search.us.iter().zip(&search.configurations) {
        let count = *count as f64;
        if below + count >= half {
            return Some(us - search.step_us / 2.0 + (half - below) / count * search.step_us);
        }
        below += count;
    }
    None
}

/// Configurations whose whole printed step is not above `us`.
fn configurations_up_to(search: &Search, us: f64) -> u64 {
    let steps = search.us.iter().zip(&search.configurations);
    let within = steps.filter(|(printed, _)| **printed + search.step_us / 2.0 <= us);
    within.map(|(_, count)| *count).sum()
}
