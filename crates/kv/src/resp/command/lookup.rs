//! Commands by their names.

use hashbrown::HashTable;

use super::entry::Command;
use super::table::COMMANDS;

/// Finds commands by name.
#[derive(Debug)]
pub struct Lookup(HashTable<&'static Command>);

impl Lookup {
    /// All commands.
    pub fn new() -> Self {
        let mut table = HashTable::with_capacity(2 * COMMANDS.len());
        for command in COMMANDS {
            let hash = hash(command.name.as_bytes());
            table.insert_unique(hash, command, |command| self::hash(command.name.as_bytes()));
        }
        Self(table)
    }

    /// The command of that name, in whatever case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let same = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
        self.0.find(hash(name), same).copied()
    }
}

/// The first eight letters and the length, in whatever case.
#[inline]
fn hash(name: &[u8]) -> u64 {
    /// An odd number that spreads letters over all bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut word = [0; 8];
    let length = name.len().min(8);
    word[..length].copy_from_slice(&name[..length]);
    let letters = u64::from_le_bytes(word) | 0x2020_2020_2020_2020;
    (letters ^ name.len() as u64).wrapping_mul(SPREAD)
}
