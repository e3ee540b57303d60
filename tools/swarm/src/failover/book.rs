//! What clients know: versions that were shown, and who showed them.

use std::collections::BTreeMap;

/// The objects, by their keys.
#[derive(Debug, Default)]
pub struct Book {
    objects: BTreeMap<u8, Object>,
    /// Which primary has answered in which epoch of which shard.
    primaries: BTreeMap<(u32, u64), u64>,
    pub violations: Vec<String>,
}

#[derive(Debug, Default)]
struct Object {
    /// The highest version that an operation which is over has shown, and whether that was a write.
    floor: u64,
    is_write: bool,
    /// The value of each version that was shown.
    values: BTreeMap<u64, u64>,
}

impl Book {
    /// An operation on a key begins; it must not show less than this.
    pub fn begin(&mut self, key: u8) -> u64 {
        self.objects.entry(key).or_default().floor
    }

    /// A write is over that gave this version; it began at a floor.
    pub fn wrote(&mut self, key: u8, floor: u64, (version, value): (u64, u64)) {
        if version <= floor {
            self.violations.push(format!("version {version} of key {key} was given after version {floor}"));
        }
        self.shown(key, (version, value), true);
    }

    /// A read is over that showed this version, 0 for nothing; it began at a floor.
    pub fn read(&mut self, key: u8, floor: u64, (version, value): (u64, u64)) {
        if version < floor {
            let object = &self.objects[&key];
            let what = if object.is_write { "an acknowledged write is lost" } else { "a read went back" };
            self.violations.push(format!("{what}: key {key} has version {version} after version {floor}"));
        }
        self.shown(key, (version, value), false);
    }

    fn shown(&mut self, key: u8, (version, value): (u64, u64), is_write: bool) {
        let object = self.objects.entry(key).or_default();
        if version == 0 {
            return;
        }
        let known = *object.values.entry(version).or_insert(value);
        if known != value {
            let words =
                format!("version {version} of key {key} is {known} and {value}: two primaries gave it");
            self.violations.push(words);
        }
        if version > object.floor {
            (object.floor, object.is_write) = (version, is_write);
        }
    }

    /// A primary has answered in an epoch of its shard.
    pub fn answered(&mut self, (shard, epoch): (u32, u64), incarnation: u64) {
        let known = *self.primaries.entry((shard, epoch)).or_insert(incarnation);
        if known != incarnation {
            self.violations.push(format!("two primaries answered in epoch {epoch}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_back_or_is_two_things_is_noticed() {
        let mut book = Book::default();
        let (early, floor) = (book.begin(1), book.begin(1));
        book.wrote(1, floor, (3, 30));
        book.read(1, early, (0, 0));
        assert!(book.violations.is_empty(), "it began before the write ended");
        let late = book.begin(1);
        book.read(1, late, (0, 0));
        assert!(book.violations[0].starts_with("an acknowledged write is lost"), "{:?}", book.violations);
        book.read(1, late, (3, 31));
        assert!(book.violations[1].contains("two primaries gave it"));
        book.answered((0, 7), 1);
        book.answered((1, 7), 2);
        book.answered((0, 7), 2);
        assert!(book.violations[2].contains("in epoch 7"));
    }
}
