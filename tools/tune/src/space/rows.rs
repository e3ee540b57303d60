//! All valid rows of a space, enumerated once.
//!
//! Forty thousand combinations are little for a computer and much for a benchmark. So the rows are listed
//! exactly, and everything else speaks of them by number: no search can propose an invalid one.

use core::cmp::Ordering;

use super::sample::sample;
use super::{Space, SpaceError};

/// The level of a parameter that is not in play.
pub const NOT_IN_PLAY: u16 = u16::MAX;

/// The most rows that are enumerated.
pub const ROWS_MAX: usize = 1_000_000;

/// The most assignments that are looked at while enumerating: some seconds' worth.
const VISITS_MAX: u64 = 20_000_000;

/// The levels of all parameters, as indexes, in the order of the parameters.
pub type Row = Vec<u16>;

/// A row by its number.
pub type RowId = usize;

/// Valid rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    cells: Vec<u16>,
    /// Which parameters rows are sorted by, first to last.
    order: Vec<usize>,
    coverage: Coverage,
}

/// What the rows are of the space.
#[derive(Clone, Debug, PartialEq)]
pub enum Coverage {
    /// All of it.
    Whole {
        /// How many combinations there would be without conditions and requirements.
        candidates: u128,
        /// How many of these each requirement rejects, after those before it.
        rejected: Vec<u128>,
        /// How many are the same row because a parameter is not in play.
        merged: u128,
    },
    /// Random rows of a space that is too large.
    Sample {
        /// How many combinations there would be without conditions and requirements.
        candidates: u128,
    },
}

impl Rows {
    /// Lists the rows of a space, or draws some if there are more than [`ROWS_MAX`]; `seed` decides which.
    pub fn of(space: &Space, seed: u64) -> Result<Self, SpaceError> {
        let mut enumeration = Enumeration::new(space);
        let complete = enumeration.descend(0);
        let candidates = product(space, 0);
        let Enumeration { cells, rejected, merged, row, .. } = enumeration;
        let (width, order) = (row.len(), space.order.clone());
        if complete && cells.is_empty() {
            let worst = rejected.iter().enumerate().max_by_key(|(_, count)| **count);
            let worst = worst.map(|(index, _)| space.requirements[index].text.clone());
            return Err(SpaceError::NoRows { worst });
        }
        if complete {
            let coverage = Coverage::Whole { candidates, rejected, merged };
            return Ok(Self { width, cells, order, coverage });
        }
        let mut rows = sample(space, seed);
        if rows.is_empty() {
            return Err(SpaceError::NoRows { worst: None });
        }
        rows.sort_unstable_by(|one, other| compare(&order, one, other));
        let coverage = Coverage::Sample { candidates };
        Ok(Self { width, cells: rows.concat(), order, coverage })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cells.len() / self.width
    }

    /// Whether there is none; a space without rows is refused before.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A row by its number.
    pub fn row(&self, id: RowId) -> &[u16] {
        &self.cells[id * self.width..(id + 1) * self.width]
    }

    /// All rows, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.cells.chunks_exact(self.width)
    }

    /// The number of a row, if it is among these.
    pub fn find(&self, row: &[u16]) -> Option<RowId> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(&self.order, self.row(middle), row) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// What they are of the space.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The row that everything is compared with: the defaults, or the valid row with the fewest changes from
    /// them.
    pub fn reference(&self, space: &Space) -> RowId {
        let defaults = self.find(&space.default_row());
        let closest = || (0..self.len()).min_by_key(|id| space.changes(self.row(*id)));
        defaults.or_else(closest).unwrap_or(0)
    }
}

fn compare(order: &[usize], one: &[u16], other: &[u16]) -> Ordering {
    let differing = order.iter().map(|&index| one[index].cmp(&other[index])).find(|order| order.is_ne());
    differing.unwrap_or(Ordering::Equal)
}

/// How many combinations the parameters from `depth` on have.
fn product(space: &Space, depth: usize) -> u128 {
    let levels = space.order[depth..].iter().map(|&index| space.parameters[index].levels.len() as u128);
    levels.fold(1, u128::saturating_mul)
}

struct Enumeration<'a> {
    space: &'a Space,
    /// [`product`] after each depth.
    below: Vec<u128>,
    row: Row,
    cells: Vec<u16>,
    rejected: Vec<u128>,
    merged: u128,
    visits: u64,
}

impl<'a> Enumeration<'a> {
    fn new(space: &'a Space) -> Self {
        let width = space.order.len();
        Self {
            space,
            below: (1..=width).map(|depth| product(space, depth)).collect(),
            row: vec![NOT_IN_PLAY; width],
            cells: Vec::new(),
            rejected: vec![0; space.requirements.len()],
            merged: 0,
            visits: 0,
        }
    }

    /// Tries all levels of the parameter at `depth` and below; false when it became too much.
    fn descend(&mut self, depth: usize) -> bool {
        let Some(&parameter) = self.space.order.get(depth) else {
            if self.cells.len() / self.row.len() == ROWS_MAX {
                return false;
            }
            self.cells.extend_from_slice(&self.row);
            return true;
        };
        let levels = self.space.parameters[parameter].levels.len();
        if self.space.in_play(&self.row, parameter) {
            let complete = (0..levels).all(|level| self.assign(depth, parameter, level as u16));
            self.row[parameter] = NOT_IN_PLAY;
            return complete;
        }
        self.merged = self.merged.saturating_add((levels as u128 - 1).saturating_mul(self.below[depth]));
        self.assign(depth, parameter, NOT_IN_PLAY)
    }

    fn assign(&mut self, depth: usize, parameter: usize, level: u16) -> bool {
        self.visits += 1;
        if self.visits > VISITS_MAX {
            return false;
        }
        self.row[parameter] = level;
        match self.space.broken_at(&self.row, depth) {
            Some(requirement) => {
                let rejected = &mut self.rejected[requirement];
                *rejected = rejected.saturating_add(self.below[depth]);
                true
            }
            None => self.descend(depth + 1),
        }
    }
}
