//! Random rows of spaces that are too large to list. None of them is invalid.

use std::collections::BTreeSet;

use farcall_base::Random;

use super::{NOT_IN_PLAY, Row, Space};

/// How many rows are drawn.
const SAMPLE_ROWS: usize = 20_000;

/// How many blind draws are made for one row before rows are built with care. Blind draws are uniform.
const BLIND_TRIES: usize = 200;

/// How many levels are tried while building one row with care, before it is begun again.
const CAREFUL_TRIES: usize = 1_000;

/// How many levels are tried for all rows together: some seconds' worth.
const TRIES_MAX: usize = 5_000_000;

/// Different valid rows: the defaults with all their neighbours, and random ones.
///
/// As long as one candidate in [`BLIND_TRIES`] is valid, every valid row is as likely as any other. Rows of
/// sparser spaces are built level by level, going back at dead ends, which prefers those with few
/// alternatives.
pub(super) fn sample(space: &Space, seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    let mut rows: BTreeSet<Row> = neighbourhood(space);
    let mut blind_successes = 0_usize;
    let mut tries = TRIES_MAX;
    for draw in 0..SAMPLE_ROWS * 2 {
        if rows.len() >= SAMPLE_ROWS || tries == 0 {
            break;
        }
        // Once blind draws have proved hopeless they are not tried again.
        let hopeful = draw < 20 || blind_successes * 4 > draw;
        let blind = hopeful.then(|| (0..BLIND_TRIES).find_map(|_| blind(space, &mut random))).flatten();
        blind_successes += usize::from(blind.is_some());
        rows.extend(blind.or_else(|| careful(space, &mut random, &mut tries)));
    }
    rows.into_iter().collect()
}

/// The default row and those that differ from it in one level, as far as they are valid.
fn neighbourhood(space: &Space) -> BTreeSet<Row> {
    let defaults = space.default_row();
    let mut rows = BTreeSet::new();
    for (index, parameter) in space.parameters.iter().enumerate() {
        rows.extend(
            (0..parameter.levels.len()).filter_map(|level| space.with_level(&defaults, index, level)),
        );
    }
    rows
}

/// A row with independent levels, if it happens to be valid.
fn blind(space: &Space, random: &mut Random) -> Option<Row> {
    let mut row = vec![NOT_IN_PLAY; space.parameters.len()];
    for &index in &space.order {
        if space.in_play(&row, index) {
            row[index] = random.index(space.parameters[index].levels.len()) as u16;
        }
    }
    space.is_valid(&row).then_some(row)
}

/// A row that is valid at every step; takes what it tries from `tries`.
fn careful(space: &Space, random: &mut Random, tries: &mut usize) -> Option<Row> {
    let mut row = vec![NOT_IN_PLAY; space.parameters.len()];
    let given = CAREFUL_TRIES.min(*tries);
    let mut left = given;
    let built = build(space, random, &mut row, 0, &mut left);
    *tries -= given - left;
    built.then_some(row)
}

fn build(space: &Space, random: &mut Random, row: &mut Row, depth: usize, tries: &mut usize) -> bool {
    let Some(&parameter) = space.order.get(depth) else { return true };
    let mut levels: Vec<u16> = match space.in_play(row, parameter) {
        true => (0..space.parameters[parameter].levels.len() as u16).collect(),
        false => vec![NOT_IN_PLAY],
    };
    random.shuffle(&mut levels);
    for level in levels {
        if *tries == 0 {
            break;
        }
        *tries -= 1;
        row[parameter] = level;
        if space.broken_at(row, depth).is_none() && build(space, random, row, depth + 1, tries) {
            return true;
        }
    }
    row[parameter] = NOT_IN_PLAY;
    false
}
