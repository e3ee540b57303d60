//! How much varies because of what.

/// The variances of a fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variances {
    /// Of one sample around its row and block.
    pub(super) noise: f64,
    /// Of rows around what their levels explain.
    pub(super) rows: f64,
    /// Of the effects of each group of columns.
    pub(super) groups: Vec<f64>,
    /// Of blocks; so large that it constrains nothing.
    pub(super) blocks: f64,
}

impl Variances {
    /// Where the iteration begins, for values that vary by `total`.
    pub(super) fn first(total: f64, groups: usize) -> Self {
        let total = total.max(f64::MIN_POSITIVE * 1e30);
        Self { noise: total / 2.0, rows: total / 8.0, groups: vec![total / 4.0; groups], blocks: total * 1e4 }
    }

    /// Variances that are nought leave nothing to divide by; these are small beside the noise.
    pub(super) fn bounded(mut self, total: f64) -> Self {
        self.noise = self.noise.max(total * 1e-8).max(f64::MIN_POSITIVE * 1e30);
        let least = self.noise * 1e-6;
        self.rows = self.rows.max(least);
        self.groups.iter_mut().for_each(|variance| *variance = variance.max(least));
        self
    }
}

/// The mean square deviation from the mean.
pub(super) fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count
}
