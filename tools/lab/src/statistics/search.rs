//! The least of a function of a few positive numbers, found by changing one at a time.

/// The factors by which a number is changed, coarse to fine.
const FACTORS: [f64; 5] = [8.0, 3.0, 1.6, 1.25, 1.1];

/// How often all numbers are gone through with one factor, at most.
const ROUNDS_MAX: usize = 4;

/// Begins at `begin` and takes every change of one number, by a factor either way, that makes `error` less.
///
/// For functions that cost much and are smooth in the logarithms of their arguments; one that has several
/// valleys may end in any of them.
pub fn descend(begin: &[f64], mut error: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut best = begin.to_vec();
    let mut least = error(&best);
    for factor in FACTORS {
        for _ in 0..ROUNDS_MAX {
            let before = least;
            for place in 0..best.len() {
                for change in [factor, 1.0 / factor] {
                    let mut tried = best.clone();
                    tried[place] *= change;
                    let found = error(&tried);
                    if found < least {
                        (best, least) = (tried, found);
                        break;
                    }
                }
            }
            if least >= before {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valley_is_found_within_the_finest_factor() {
        let wanted = [3.0, 700.0, 0.02];
        let error = |values: &[f64]| {
            let off = values.iter().zip(wanted).map(|(value, wanted)| (value / wanted).ln().powi(2));
            off.sum()
        };
        let found = descend(&[200.0, 1.0, 1.0], error);
        for (value, wanted) in found.iter().zip(wanted) {
            assert!((value / wanted).ln().abs() < 0.1, "{found:?}");
        }
    }
}
