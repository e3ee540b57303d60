//! Names of simple ratios: what two figures that should agree and do not may tell at once.

/// A ratio is called by the name of a simple one that is this close.
const CLOSE: f64 = 0.006;

/// Ratios that mean something wherever they occur, above 1.
const NAMED: [(f64, &str); 12] = [
    (1.024, "2^10 against 10^3"),
    (1.048_576, "2^20 against 10^6"),
    (1.073_741_824, "2^30 against 10^9"),
    (2.0, "both directions, or two windows"),
    (2.097_152, "both directions, and 2^20 against 10^6"),
    (3.6, "hours against thousands of seconds"),
    (8.0, "bytes against bits"),
    (8.388_608, "bytes against bits, and 2^20 against 10^6"),
    (60.0, "minutes against seconds"),
    (1000.0, "a prefix of a unit"),
    (1_000_000.0, "two prefixes of a unit"),
    (3600.0, "hours against seconds"),
];

/// The largest whole ratio that is named as one.
const WHOLE_MAX: f64 = 64.0;

/// A ratio that is not 1 in words, with what it may mean where it is simple: `2.00 (both directions, or two
/// windows?)`.
pub fn words(ratio: f64) -> String {
    match meaning(ratio) {
        Some(meaning) => format!("{} ({meaning}?)", digits(ratio)),
        None => digits(ratio),
    }
}

/// Three digits that count, whatever the size.
fn digits(ratio: f64) -> String {
    match ratio {
        large if large >= 1000.0 => format!("{large:.0}"),
        large if large >= 100.0 => format!("{large:.1}"),
        middle if middle >= 0.1 => {
            format!("{middle:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        small => format!("{small:.2e}"),
    }
}

/// What a simple ratio may mean.
pub fn meaning(ratio: f64) -> Option<String> {
    if !(ratio.is_finite() && ratio > 0.0) {
        return None;
    }
    let above_one = ratio.max(1.0 / ratio);
    let close = |simple: f64| (above_one / simple - 1.0).abs() < CLOSE;
    if let Some((_, meaning)) = NAMED.iter().find(|(simple, _)| close(*simple)) {
        return Some((*meaning).to_owned());
    }
    let whole = above_one.round();
    ((2.0..=WHOLE_MAX).contains(&whole) && close(whole)).then(|| match ratio > 1.0 {
        true => format!("{whole:.0} for one"),
        false => format!("one for {whole:.0}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_ratios_have_names_both_ways_round() {
        assert_eq!(words(2.0), "2 (both directions, or two windows?)");
        assert_eq!(words(0.5), "0.5 (both directions, or two windows?)");
        assert_eq!(words(1.0 / 1.048_576), "0.954 (2^20 against 10^6?)");
        assert_eq!(words(16.01), "16.01 (16 for one?)");
        assert_eq!(words(1e3 / 7.0), "142.9");
    }

    #[test]
    fn other_ratios_have_none() {
        for ratio in [1.0, 1.21, 1.5, 2.3, 0.0, -2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(meaning(ratio), None, "{ratio}");
        }
    }
}
