//! The normal distribution, and the quantiles of Student's, as far as the analysis needs them.

/// The probability that a standard normal variable is below `z`.
///
/// By the continued fraction of Mills' ratio in the tails, where the analysis works, and by a series near the
/// middle; the relative error is below 1e-9.
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

/// The probability that the absolute value of Student's t is at least `t`, by the finite sums for whole
/// degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4); the error is below 1e-12.
pub fn student_tail(t: f64, degrees: usize) -> f64 {
    let angle = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let (mut term, first) = if degrees % 2 == 1 { (cosine, 2) } else { (1.0, 1) };
    let mut sum = 0.0;
    for factor in (first..degrees).step_by(2) {
        sum += term;
        term *= cosine * cosine * factor as f64 / (factor + 1) as f64;
    }
    let within = match degrees % 2 {
        1 => (angle + sine * sum) * 2.0 / core::f64::consts::PI,
        _ => sine * sum,
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// What the absolute value of Student's t is below with 95 %; `None` without degrees of freedom.
pub fn student_95(degrees: usize) -> Option<f64> {
    let (mut low, mut high) = (1.0, 13.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_tail(middle, degrees) > 0.05 { low = middle } else { high = middle }
    }
    (degrees > 0).then_some((low + high) / 2.0)
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

    #[test]
    fn quantiles_of_student_are_those_of_his_table() {
        let table = [(1, 12.706), (2, 4.303), (3, 3.182), (7, 2.365), (10, 2.228), (19, 2.093), (120, 1.980)];
        for (degrees, t) in table {
            assert!(
                (student_95(degrees).expect("some") - t).abs() < 6e-4,
                "{degrees}: {:?}",
                student_95(degrees)
            );
        }
        assert_eq!(student_95(0), None);
        assert!(
            (student_tail(4.604, 4) - 0.01).abs() < 1e-5 && (student_tail(63.657, 1) - 0.01).abs() < 1e-5
        );
    }
}
