//! Which rows are different to the program. Rows that emit the same are clones: measuring two is measuring
//! one twice.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::hash::DefaultHasher;

use super::{RowId, Rows, Space};

/// The distinct environments of the rows of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environments {
    of_row: Vec<u32>,
    representatives: Vec<u32>,
    clones: Vec<u32>,
}

impl Environments {
    /// Groups rows by what they emit.
    pub fn of(space: &Space, rows: &Rows) -> Self {
        let mut numbers: HashMap<(u64, u64), u32> = HashMap::new();
        let mut found =
            Self { of_row: Vec::with_capacity(rows.len()), representatives: Vec::new(), clones: Vec::new() };
        for (id, row) in rows.iter().enumerate() {
            let number = *numbers.entry(digest(space, row)).or_insert(found.representatives.len() as u32);
            found.of_row.push(number);
            match found.representatives.get_mut(number as usize) {
                None => {
                    found.representatives.push(id as u32);
                    found.clones.push(1);
                }
                Some(representative) => {
                    found.clones[number as usize] += 1;
                    if space.changes(row) < space.changes(rows.row(*representative as usize)) {
                        *representative = id as u32;
                    }
                }
            }
        }
        found
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.representatives.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.representatives.is_empty()
    }

    /// The environment of a row.
    pub fn of_row(&self, id: RowId) -> usize {
        self.of_row[id] as usize
    }

    /// The row that stands for an environment: of all its rows the one with the fewest changes from the
    /// defaults.
    pub fn representative(&self, environment: usize) -> RowId {
        self.representatives[environment] as usize
    }

    /// How many rows an environment has.
    pub fn rows_of(&self, environment: usize) -> usize {
        self.clones[environment] as usize
    }
}

/// What a row emits, in 128 bits: of a million rows two different ones agree with a chance of 10^-27.
fn digest(space: &Space, row: &[u16]) -> (u64, u64) {
    let rendered = space.render(row, "");
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        rendered.hash(&mut hasher);
        hasher.finish()
    };
    (half(0), half(1))
}
