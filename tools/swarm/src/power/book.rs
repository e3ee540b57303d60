//! What a store must hold: one state for each operation that was begun.

use std::collections::BTreeMap;

/// Objects by table and key: version and value.
pub type Objects = BTreeMap<(u64, Vec<u8>), (u64, Vec<u8>)>;

/// One change to the objects.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object was written.
    Put { at: (u64, Vec<u8>), version: u64, value: Vec<u8> },
    /// An object was deleted.
    Delete { at: (u64, Vec<u8>) },
    /// A table was dropped.
    Drop { table: u64 },
}

/// The changes that were begun, in their order, and how many of them were answered or seen.
#[derive(Debug, Default)]
pub struct Book {
    /// What the last life left.
    base: Objects,
    changes: Vec<Change>,
    /// Changes before this one must survive.
    acknowledged: usize,
}

fn apply(objects: &mut Objects, change: &Change) {
    match change {
        Change::Put { at, version, value } => _ = objects.insert(at.clone(), (*version, value.clone())),
        Change::Delete { at } => _ = objects.remove(at),
        Change::Drop { table } => objects.retain(|(of, _), _| of != table),
    }
}

impl Book {
    /// A change was begun; gives how many there are.
    pub fn begin(&mut self, change: Change) -> usize {
        self.changes.push(change);
        self.changes.len()
    }

    /// The version that a change gave; 0 when it gave none.
    pub fn version_of(&self, change: usize) -> u64 {
        match self.changes[change - 1] {
            Change::Put { version, .. } => version,
            _ => 0,
        }
    }

    /// Somebody knows that the first so many changes have happened.
    pub fn acknowledge(&mut self, changes: usize) {
        self.acknowledged = self.acknowledged.max(changes);
    }

    /// How many changes must survive.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// How many changes there are up to the last one of an object.
    pub fn last_change_of(&self, at: &(u64, Vec<u8>)) -> usize {
        let is_of = |change: &Change| match change {
            Change::Put { at: changed, .. } | Change::Delete { at: changed } => changed == at,
            Change::Drop { table } => at.0 == *table,
        };
        self.changes.iter().rposition(is_of).map_or(0, |place| place + 1)
    }

    /// All objects, after all changes.
    pub fn now(&self) -> Objects {
        let mut objects = self.base.clone();
        self.changes.iter().for_each(|change| apply(&mut objects, change));
        objects
    }

    /// Holds what is there after a cut against what may be there, and goes on from it; says what is wrong.
    pub fn reopen(&mut self, found: Objects) -> Option<String> {
        let mut objects = self.base.clone();
        let (mut fits, mut lost) = (None, None);
        for done in 0..=self.changes.len() {
            if done > 0 {
                apply(&mut objects, &self.changes[done - 1]);
            }
            if objects == found {
                if done >= self.acknowledged {
                    fits = Some(done);
                    break;
                }
                lost = Some(done);
            }
        }
        let wrong = match (fits, lost) {
            (Some(_), _) => None,
            (None, Some(done)) => Some(format!(
                "an acknowledged write is lost: {done} changes are there, and {} were acknowledged",
                self.acknowledged
            )),
            (None, None) => Some(self.difference(&found)),
        };
        self.base = found;
        self.changes.clear();
        self.acknowledged = 0;
        wrong
    }

    fn difference(&self, found: &Objects) -> String {
        let mut expected = self.base.clone();
        self.changes[..self.acknowledged].iter().for_each(|change| apply(&mut expected, change));
        let later = &self.changes[self.acknowledged..];
        let is_later = |at: &(u64, Vec<u8>)| {
            later.iter().any(|change| match change {
                Change::Put { at: changed, .. } | Change::Delete { at: changed } => changed == at,
                Change::Drop { table } => at.0 == *table,
            })
        };
        for (at, object) in &expected {
            if found.get(at) != Some(object) && !is_later(at) {
                let (wanted, is) = (object.0, found.get(at).map(|object| object.0));
                return format!("an acknowledged write is lost: {at:?} has version {is:?}, not {wanted}");
            }
        }
        match found.iter().find(|(at, _)| !expected.contains_key(*at) && !is_later(at)) {
            Some((at, (version, _))) => format!("an object is invented: {at:?}, version {version}"),
            None => "what is there was never there at one time".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: u8, version: u64) -> Change {
        Change::Put { at: (1, vec![key]), version, value: vec![key] }
    }

    fn objects(keys: &[(u8, u64)]) -> Objects {
        keys.iter().map(|&(key, version)| ((1, vec![key]), (version, vec![key]))).collect()
    }

    fn book() -> Book {
        let mut book = Book::default();
        [put(1, 1), put(2, 2), put(1, 3)].into_iter().for_each(|change| _ = book.begin(change));
        book.acknowledge(1);
        book
    }

    #[test]
    fn any_state_from_the_last_acknowledged_one_on_is_right() {
        for right in [&[(1, 1)][..], &[(1, 1), (2, 2)], &[(1, 3), (2, 2)]] {
            assert_eq!(book().reopen(objects(right)), None);
        }
    }

    #[test]
    fn what_is_lost_invented_or_mixed_is_wrong() {
        let wrong = |keys: &[(u8, u64)]| book().reopen(objects(keys)).expect("it is wrong");
        assert!(wrong(&[]).contains("acknowledged write is lost"));
        assert!(wrong(&[(1, 1), (7, 7)]).contains("invented"));
        assert!(wrong(&[(1, 3)]).contains("never there at one time"), "version 2 came before version 3");
    }
}
