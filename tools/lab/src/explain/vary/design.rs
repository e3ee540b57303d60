//! Which combinations of levels are run, and which effects they cannot tell apart.

/// With more factors than these a fraction of the combinations is run.
pub const FULL_FACTORS_MAX: usize = 5;

/// The most factors.
pub const FACTORS_MAX: usize = 16;

/// The runs of a fraction are twice as many.
const HALF: usize = 16;

/// The columns of a fraction in the order in which factors take them. Two pairs of factors are confounded
/// when the sums modulo 2 of their columns agree; of the first six columns no two pairs do.
const COLUMNS: [usize; FACTORS_MAX] = [0, 1, 2, 4, 8, 15, 3, 5, 6, 9, 10, 12, 7, 11, 13, 14];

/// A design of two levels for each factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    factors: usize,
    /// Which factors are at their second level.
    runs: Vec<Vec<bool>>,
    /// The first this many runs are balanced: effects are estimated from them.
    balanced: usize,
}

impl Design {
    /// The design for this many factors, of which there are 1 to [`FACTORS_MAX`]: all combinations up to
    /// [`FULL_FACTORS_MAX`], else a fraction of resolution IV (Box and Hunter 1961). The runs that differ in
    /// one factor from none or from all of them at the second level are always there.
    pub fn new(factors: usize) -> Self {
        assert!((1..=FACTORS_MAX).contains(&factors), "the number of factors is checked where they are read");
        let mut runs = match factors {
            full if full <= FULL_FACTORS_MAX => {
                (0..1_usize << factors).map(|run| (0..factors).map(|f| run >> f & 1 == 1).collect()).collect()
            }
            _ => folded(&COLUMNS[..factors], HALF),
        };
        let balanced = runs.len();
        for factor in 0..factors {
            for alone in [true, false] {
                let run: Vec<bool> = (0..factors).map(|other| (other == factor) == alone).collect();
                if !runs.contains(&run) {
                    runs.push(run);
                }
            }
        }
        Self { factors, runs, balanced }
    }

    /// How many factors there are.
    pub fn factors(&self) -> usize {
        self.factors
    }

    /// The runs: for each factor whether it is at its second level.
    pub fn runs(&self) -> &[Vec<bool>] {
        &self.runs
    }

    /// Whether every combination is run.
    pub fn is_full(&self) -> bool {
        self.factors <= FULL_FACTORS_MAX
    }

    /// The pairs of factors, those together that the runs cannot tell apart.
    pub fn pairs(&self) -> Vec<Vec<(usize, usize)>> {
        let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
        for one in 0..self.factors {
            for other in one + 1..self.factors {
                let same = |group: &&mut Vec<(usize, usize)>| {
                    self.weights(&[one, other]) == self.weights(&[group[0].0, group[0].1])
                };
                match groups.iter_mut().find(same) {
                    Some(group) => group.push((one, other)),
                    None => groups.push(vec![(one, other)]),
                }
            }
        }
        groups
    }

    /// What each run's figure counts in the effect of these factors together: the difference between the runs
    /// in which an odd number of them is at the second level and the others, and so on. A single factor's
    /// effect is the mean at its second level less that at its first; of two factors, by how much one's
    /// effect grows when the other is at its second level.
    pub fn weights(&self, together: &[usize]) -> Vec<f64> {
        let scale = (1 << together.len()) as f64 / self.balanced as f64;
        let sign = |run: &Vec<bool>| {
            let first = together.iter().filter(|&&factor| !run[factor]).count();
            if first % 2 == 0 { scale } else { -scale }
        };
        let extra = self.runs.len() - self.balanced;
        self.runs[..self.balanced].iter().map(sign).chain(std::iter::repeat_n(0.0, extra)).collect()
    }

    /// The weights of one run less another.
    pub fn difference(&self, run: &[bool], from: &[bool]) -> Vec<f64> {
        let weight = |own: &Vec<bool>| f64::from(own == run) - f64::from(own == from);
        self.runs.iter().map(weight).collect()
    }
}

/// `2 * half` runs of two levels for the factors of these columns, each below `half`, a power of two: factor
/// `j` of run `i` has the sign of entry `(i, j)` of Sylvester's matrix, and every run is repeated with all
/// signs opposite. So no single effect is confounded with another or with a pair.
pub fn folded(columns: &[usize], half: usize) -> Vec<Vec<bool>> {
    let run =
        |i: usize, fold: bool| columns.iter().map(|j| ((i & j).count_ones() % 2 == 1) != fold).collect();
    (0..half).flat_map(|i| [run(i, false), run(i, true)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(one: &[f64], other: &[f64]) -> f64 {
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn single_effects_are_confounded_with_nothing_up_to_pairs() {
        for factors in [1, 2, 5, 6, 9, FACTORS_MAX] {
            let design = Design::new(factors);
            let ones = vec![1.0; design.balanced];
            for one in 0..factors {
                let weights = design.weights(&[one]);
                assert_eq!(dot(&weights, &ones), 0.0, "balanced");
                for other in (0..factors).filter(|&other| other != one) {
                    assert_eq!(dot(&weights, &design.weights(&[other])), 0.0);
                    for third in (0..other).filter(|&third| third != one) {
                        assert_eq!(dot(&weights, &design.weights(&[other, third])), 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn pairs_are_separable_up_to_six_factors_and_said_to_be_confounded_beyond() {
        for factors in 2..=6 {
            assert!(Design::new(factors).pairs().iter().all(|group| group.len() == 1), "{factors}");
        }
        let design = Design::new(8);
        let groups = design.pairs();
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 28);
        assert!(groups.iter().any(|group| group.len() > 1), "{groups:?}");
        for (index, group) in groups.iter().enumerate() {
            let own = design.weights(&[group[0].0, group[0].1]);
            for other in &groups[..index] {
                assert_eq!(dot(&own, &design.weights(&[other[0].0, other[0].1])), 0.0, "orthogonal");
            }
        }
    }

    #[test]
    fn effects_of_a_known_law_come_out() {
        // 10 + 3 a + 5 b + 2 a b, with c of no effect.
        let design = Design::new(3);
        let figure = |run: &Vec<bool>| {
            let [a, b] = [run[0], run[1]].map(f64::from);
            10.0 + 3.0 * a + 5.0 * b + 2.0 * a * b
        };
        let figures: Vec<f64> = design.runs().iter().map(figure).collect();
        let effect = |together: &[usize]| dot(&design.weights(together), &figures);
        assert_eq!([effect(&[0]), effect(&[1]), effect(&[2])], [4.0, 6.0, 0.0]);
        assert_eq!([effect(&[0, 1]), effect(&[0, 2])], [2.0, 0.0]);
        let without = design.difference(&[false, true, true], &[true, true, true]);
        assert_eq!(dot(&without, &figures), -5.0);
    }

    #[test]
    fn runs_that_differ_in_one_factor_from_none_or_all_are_there() {
        for factors in [3, 7] {
            let design = Design::new(factors);
            for factor in 0..factors {
                for alone in [true, false] {
                    let run: Vec<bool> = (0..factors).map(|other| (other == factor) == alone).collect();
                    assert_eq!(design.runs().iter().filter(|own| **own == run).count(), 1);
                }
            }
        }
    }
}
