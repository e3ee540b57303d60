//! The columns of a fit: one for each level of each parameter that reaches the program, one for each pair of
//! levels of two parameters that act together, one for each block.

use crate::space::{NOT_IN_PLAY, Space};

/// Which columns there are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Design {
    /// Parameters with more than one level that reach the program.
    pub(super) factors: Vec<usize>,
    /// How many levels each factor has; being out of play is one more.
    widths: Vec<usize>,
    /// The groups of columns: the factors, then pairs of them.
    pub(super) groups: Vec<Group>,
    blocks: usize,
}

/// The columns of one factor or one pair of factors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// One or two factors, by their place among the factors.
    pub(super) factors: (usize, Option<usize>),
    /// The first column.
    pub(super) first: usize,
    /// How many columns there are.
    pub(super) width: usize,
}

impl Design {
    /// The columns of single factors only.
    pub(super) fn of(space: &Space, blocks: usize) -> Self {
        let reaches = |index: &usize| {
            space.emissions.iter().any(|emission| emission.template.parameters().any(|one| one == *index))
        };
        let varied = |index: &usize| {
            let parameter = &space.parameters[*index];
            parameter.levels.len() > 1 || parameter.when.is_some()
        };
        let factors: Vec<usize> = (0..space.parameters.len()).filter(reaches).filter(varied).collect();
        let widths = factors.iter().map(|&index| space.parameters[index].levels.len() + 1).collect();
        let mut design = Self { factors, widths, groups: Vec::new(), blocks };
        for factor in 0..design.factors.len() {
            design.push((factor, None));
        }
        design
    }

    /// Adds the columns of a pair of factors.
    pub(super) fn with_pair(&self, pair: (usize, usize)) -> Self {
        let mut design = self.clone();
        design.push((pair.0, Some(pair.1)));
        design
    }

    fn push(&mut self, factors: (usize, Option<usize>)) {
        let width = self.widths[factors.0] * factors.1.map_or(1, |other| self.widths[other]);
        self.groups.push(Group { factors, first: self.row_columns(), width });
    }

    /// How many columns describe rows.
    pub(super) fn row_columns(&self) -> usize {
        self.groups.last().map_or(0, |group| group.first + group.width)
    }

    /// How many columns there are in all.
    pub(super) fn columns(&self) -> usize {
        self.row_columns() + self.blocks
    }

    /// The column of a block.
    pub(super) fn block_column(&self, block: usize) -> usize {
        self.row_columns() + block
    }

    /// The columns in which a row has a one.
    pub(super) fn of_row(&self, row: &[u16]) -> Vec<(usize, f64)> {
        self.groups.iter().map(|group| (group.first + self.cell(row, group.factors), 1.0)).collect()
    }

    /// The place of a row in the table of one or two factors.
    pub(super) fn cell(&self, row: &[u16], factors: (usize, Option<usize>)) -> usize {
        let level = |factor: usize| match row[self.factors[factor]] {
            NOT_IN_PLAY => self.widths[factor] - 1,
            level => usize::from(level),
        };
        match factors.1 {
            None => level(factors.0),
            Some(other) => level(factors.0) * self.widths[other] + level(other),
        }
    }

    /// How many places the table of two factors has.
    pub(super) fn cells(&self, pair: (usize, usize)) -> usize {
        self.widths[pair.0] * self.widths[pair.1]
    }
}
