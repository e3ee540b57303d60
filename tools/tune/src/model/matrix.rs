//! Symmetric positive definite matrices: all the linear algebra that a fit needs.

/// A symmetric matrix, stored whole, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Symmetric {
    size: usize,
    cells: Vec<f64>,
}

impl Symmetric {
    /// Noughts.
    pub(super) fn zero(size: usize) -> Self {
        Self { size, cells: vec![0.0; size * size] }
    }

    /// Adds to an entry; of each pair of mirrored entries only the one with `row >= column` is ever looked
    /// at.
    pub(super) fn add(&mut self, row: usize, column: usize, summand: f64) {
        self.cells[row.max(column) * self.size + row.min(column)] += summand;
    }

    /// An entry.
    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.cells[row.max(column) * self.size + row.min(column)]
    }

    /// Adds `factor` times the outer product of a sparse vector with itself.
    pub(super) fn add_outer(&mut self, vector: &[(usize, f64)], factor: f64) {
        for (place, &(row, left)) in vector.iter().enumerate() {
            for &(column, right) in &vector[..=place] {
                self.add(row, column, factor * left * right);
            }
        }
    }

    /// The quadratic form of a sparse vector.
    pub(super) fn quadratic(&self, vector: &[(usize, f64)]) -> f64 {
        let mut sum = 0.0;
        for (place, &(row, left)) in vector.iter().enumerate() {
            sum += left * left * self.at(row, row);
            for &(column, right) in &vector[..place] {
                sum += 2.0 * left * right * self.at(row, column);
            }
        }
        sum
    }

    /// The product with a sparse vector.
    pub(super) fn times(&self, vector: &[(usize, f64)]) -> Vec<f64> {
        let product = |row| vector.iter().map(|&(column, value)| self.at(row, column) * value).sum();
        (0..self.size).map(product).collect()
    }

    /// The inverse of a positive definite matrix, by Cholesky's decomposition; rounding below nought is cut
    /// off.
    pub(super) fn inverse(mut self) -> Self {
        let size = self.size;
        self.decompose();
        // The inverse of the triangle, column by column, then its product with its transpose.
        let mut triangle = vec![0.0; size * size];
        for column in 0..size {
            triangle[column * size + column] = 1.0 / self.cells[column * size + column];
            for row in column + 1..size {
                let known = column..row;
                let sum: f64 = known.map(|k| self.cells[row * size + k] * triangle[column * size + k]).sum();
                triangle[column * size + row] = -sum / self.cells[row * size + row];
            }
        }
        let mut inverse = Self::zero(size);
        for row in 0..size {
            for column in 0..=row {
                let (one, other) = (&triangle[row * size..][..size], &triangle[column * size..][..size]);
                inverse.cells[row * size + column] = dot(&one[row..], &other[row..]);
            }
        }
        inverse
    }

    /// Replaces the lower triangle by that of Cholesky's decomposition.
    fn decompose(&mut self) {
        let size = self.size;
        for row in 0..size {
            let (above, rest) = self.cells.split_at_mut(row * size);
            let this = &mut rest[..size];
            for column in 0..row {
                let other = &above[column * size..][..size];
                this[column] = (this[column] - dot(&this[..column], &other[..column])) / other[column];
            }
            let left = this[row] - dot(&this[..row], &this[..row]);
            this[row] = left.max(1e-12 * this[row].abs()).max(f64::MIN_POSITIVE).sqrt();
        }
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_times_the_matrix_is_the_identity() {
        let mut matrix = Symmetric::zero(5);
        for index in 0..5 {
            matrix.add(index, index, 1.0);
            matrix.add_outer(&[(0, 1.0), (index, 0.5 + index as f64), (4, -0.3)], 0.7);
        }
        let inverse = matrix.clone().inverse();
        for column in 0..5 {
            let unit = inverse.times(&[(column, 1.0)]);
            let column_of_inverse: Vec<_> = unit.iter().copied().enumerate().collect();
            for (row, value) in matrix.times(&column_of_inverse).into_iter().enumerate() {
                assert!((value - f64::from(u8::from(row == column))).abs() < 1e-9, "{row} {column} {value}");
            }
        }
    }

    #[test]
    fn a_quadratic_form_is_the_vector_times_its_product() {
        let mut matrix = Symmetric::zero(3);
        matrix.add_outer(&[(0, 2.0), (1, 1.0), (2, 3.0)], 1.0);
        let vector = [(0, 1.0), (2, -2.0)];
        let product = matrix.times(&vector);
        let expected: f64 = vector.iter().map(|&(row, value)| value * product[row]).sum();
        assert!((matrix.quadratic(&vector) - expected).abs() < 1e-12);
        assert!((expected - 16.0).abs() < 1e-12);
    }
}
