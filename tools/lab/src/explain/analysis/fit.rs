//! Straight lines through points, one or with a break.

/// `y = intercept + slope x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    /// `y` where `x` is 0.
    pub intercept: f64,
    /// What `y` grows by for each unit of `x`.
    pub slope: f64,
    /// The sum of squared distances of the points from the line.
    pub squares: f64,
}

impl FittedLine {
    /// The least-squares line; `None` for fewer than two different `x`.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let (x_mean, y_mean) = (mean(points.iter().map(|p| p.0))?, mean(points.iter().map(|p| p.1))?);
        let xx = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum::<f64>();
        let spread_min = 1e-12 * (1.0 + x_mean * x_mean) * count;
        if xx.is_nan() || xx <= spread_min {
            return None;
        }
        let xy = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>();
        let (slope, mut line) = (xy / xx, Self { intercept: 0.0, slope: 0.0, squares: 0.0 });
        line.slope = slope;
        line.intercept = y_mean - slope * x_mean;
        line.squares = points.iter().map(|(x, y)| (y - line.at(*x)).powi(2)).sum();
        Some(line)
    }

    /// The line without slope.
    pub fn flat(points: &[(f64, f64)]) -> Option<Self> {
        let intercept = mean(points.iter().map(|p| p.1))?;
        let squares = points.iter().map(|(_, y)| (y - intercept).powi(2)).sum();
        Some(Self { intercept, slope: 0.0, squares })
    }

    /// The line's `y` at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The mean; `None` of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0_u32), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The standard deviation of the values themselves over their mean; `None` of fewer than two.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied())?;
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (values.len() > 1 && mean != 0.0).then(|| (squares / (values.len() - 1) as f64).sqrt() / mean.abs())
}

/// Points under one line, or under two with a break between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pieces {
    /// The part before the break, if there is one: how many points it has, and its line.
    pub first: Option<(usize, FittedLine)>,
    /// The rest.
    pub last: FittedLine,
}

/// Which lines the part before a break may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPiece {
    /// One without slope, from two points on.
    Flat,
    /// Any, from three points on.
    Sloped,
}

/// The better of one line and two, by the Bayesian information criterion (Schwarz, 1978), through points
/// sorted by `x`. The part after a break has three points or more.
pub fn pieces(points: &[(f64, f64)], first_piece: FirstPiece) -> Option<Pieces> {
    const LAST_MIN: usize = 3;
    let (first_min, more) = match first_piece {
        FirstPiece::Flat => (2, 2.0),
        FirstPiece::Sloped => (3, 3.0),
    };
    let whole = FittedLine::through(points)?;
    let count = points.len() as f64;
    // Exact points would make any further line infinitely better.
    let floor = 1e-9 * points.iter().map(|(_, y)| y * y).sum::<f64>().max(f64::MIN_POSITIVE);
    let score = |squares: f64, numbers: f64| count * ((squares + floor) / count).ln() + numbers * count.ln();
    let mut best = (score(whole.squares, 2.0), Pieces { first: None, last: whole });
    for at in first_min..(points.len() + 1).saturating_sub(LAST_MIN) {
        let (before, after) = points.split_at(at);
        let first = match first_piece {
            FirstPiece::Flat => FittedLine::flat(before),
            FirstPiece::Sloped => FittedLine::through(before),
        };
        let (Some(first), Some(last)) = (first, FittedLine::through(after)) else { continue };
        let broken = score(first.squares + last.squares, 2.0 + more);
        if broken < best.0 {
            best = (broken, Pieces { first: Some((at, first)), last });
        }
    }
    Some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_needs_two_places() {
        let line = FittedLine::through(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).expect("a line");
        assert!((line.intercept - 3.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9);
        assert_eq!(FittedLine::through(&[(1.0, 5.0), (1.0, 7.0)]), None);
        assert_eq!(FittedLine::through(&[]), None);
    }

    #[test]
    fn a_straight_line_has_no_break() {
        let points: Vec<_> = (1..9).map(|x| (f64::from(x), 3.0 + 0.5 * f64::from(x))).collect();
        assert_eq!(pieces(&points, FirstPiece::Flat).expect("a line").first, None);
    }

    #[test]
    fn a_threshold_is_found() {
        let y = |x: f64| if x < 4.5 { 10.0 } else { 4.0 + 2.0 * x };
        let points: Vec<_> = (1..9).map(|x| (f64::from(x), y(f64::from(x)))).collect();
        let found = pieces(&points, FirstPiece::Flat).expect("lines");
        assert_eq!(found.first.map(|(count, _)| count), Some(4));
        assert!((found.last.slope - 2.0).abs() < 1e-9);
    }
}
