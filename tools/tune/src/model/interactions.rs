//! Which two parameters act together.

use super::design::Design;
use super::normal::quantile;

/// The chance to see a joint effect where there is none, over all pairs together.
const FALSE_ALARM: f64 = 0.01;

/// The most places in the table of two parameters: a larger one would be too sparsely filled to tell
/// anything.
const CELLS_MAX: usize = 400;

/// The pair whose table of residuals deviates most from noise, if one does beyond doubt.
///
/// `residuals` are environment, residual and weight (one over the variance). The weighted squares of the
/// cells' means are chi-squared distributed with as many degrees of freedom as there are cells less those
/// that single effects take.
pub(super) fn strongest_pair<'a>(
    design: &Design,
    residuals: &[(usize, f64, f64)],
    row: impl Fn(usize) -> &'a [u16],
) -> Option<(usize, usize)> {
    let factors = design.factors.len();
    let pairs: Vec<_> =
        (0..factors).flat_map(|one| (one + 1..factors).map(move |other| (one, other))).collect();
    let open = |pair: &(usize, usize)| {
        let known = |group: &super::design::Group| group.factors == (pair.0, Some(pair.1));
        design.cells(*pair) <= CELLS_MAX && !design.groups.iter().any(known)
    };
    let limit = quantile(1.0 - FALSE_ALARM / pairs.len().max(1) as f64);
    let scored = pairs.iter().copied().filter(open).filter_map(|pair| {
        let score = score(design, residuals, &row, pair)?;
        (score > limit).then_some((pair, score))
    });
    scored.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(pair, _)| pair)
}

/// How unlikely the table is, as a standard normal deviate (Wilson and Hilferty 1931).
fn score<'a>(
    design: &Design,
    residuals: &[(usize, f64, f64)],
    row: &impl Fn(usize) -> &'a [u16],
    pair: (usize, usize),
) -> Option<f64> {
    let mut cells = vec![(0.0, 0.0); design.cells(pair)];
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for &(environment, residual, weight) in residuals {
        let row = row(environment);
        let cell = &mut cells[design.cell(row, (pair.0, Some(pair.1)))];
        cell.0 += weight * residual;
        cell.1 += weight;
        ones.push(design.cell(row, (pair.0, None)));
        others.push(design.cell(row, (pair.1, None)));
    }
    let filled = cells.iter().filter(|cell| cell.1 > 0.0).count();
    let distinct = |levels: &mut Vec<usize>| {
        levels.sort_unstable();
        levels.dedup();
        levels.len()
    };
    let freedom =
        (filled + 1).checked_sub(distinct(&mut ones) + distinct(&mut others)).filter(|left| *left > 0)?;
    let squares: f64 = cells.iter().filter(|cell| cell.1 > 0.0).map(|(sum, weight)| sum * sum / weight).sum();
    let freedom = freedom as f64;
    let spread = 2.0 / (9.0 * freedom);
    Some(((squares / freedom).cbrt() - (1.0 - spread)) / spread.sqrt())
}
