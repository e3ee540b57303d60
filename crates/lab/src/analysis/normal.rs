//! The normal distribution, and the quantiles of Student's, as far as the analysis needs them.

/// The probability that a standard normal variable is below `z`.
///
/// By the continued fraction of Mills' ratio in the tails, where the analysis works, and by a series near the middle;
/// the relative error is below 1e-9.
pub fn below(z: f64) -> f64 {
    if z > 0.0 {
        return 1.0 - below(-z);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt();
    if z > -3.0 {
        return 0.5 - density * odd_series(-z);
    }
    const TERMS: u32 = 60;
    let fraction = (1..=TERMS).rev().fold(-z, |rest, term| -z + f64::from(term) / rest);
    density / fraction
}

/// `z + z^3/3 + z^5/(3*5) + …`
fn odd_series(z: f64) -> f64 {
    const TERMS: u32 = 60;
    let mut term = z;
    let mut sum = z;
    for step in 1..TERMS {
        term *= z * z / f64::from(2 * step + 1);
        sum += term;
    }
    sum
}

/// The value that a standard normal variable is below with that probability, which lies between 0 and 1.
pub fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if below(middle) < probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// What the absolute value of Student's t is below with 95 %, for 1 to 10 degrees of freedom (Student, 1908).
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// What the absolute value of Student's t is below with 95 %; for more than 10 degrees of freedom the wider value of
/// the tabled neighbour below.
pub fn student_95(degrees: usize) -> Option<f64> {
    match degrees {
        0 => None,
        few if few <= STUDENT.len() => Some(STUDENT[few - 1]),
        some if some < 30 => Some(2.228),
        _ => Some(2.042),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (-1.0, 0.158_655_254),
            (-2.0, 0.022_750_132),
            (-4.0, 3.167_124e-5),
            (1.645, 0.950_015),
        ] {
            assert!((below(z) / p - 1.0).abs() < 1e-6, "{z}: {}", below(z));
        }
    }

    #[test]
    fn quantiles_are_the_inverse() {
        for p in [1e-6, 1.0 / 37_730.0, 0.025, 0.5, 0.9] {
            assert!((below(quantile(p)) / p - 1.0).abs() < 1e-9);
        }
        assert!((quantile(1.0 / 37_730.0) + 4.04).abs() < 0.005);
    }
}
