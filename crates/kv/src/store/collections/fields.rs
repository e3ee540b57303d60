//! What a hash, a set and a sorted set have in common: keys with something beside each, found by key.
//!
//! The fields lie side by side, so that one is drawn at random, and a walk goes on, in one look. They are
//! found by way of small tables that become more one at a time (linear hashing), so that no insertion takes
//! longer because there are many fields.

use farcall_base::SipPrefix;
use hashbrown::HashTable;

/// Fields of a table, on the average; a full one is divided in the next insertion.
const PART_LEN: usize = 512;

/// A key and what is beside it.
#[derive(Debug, Clone)]
pub struct Field<V> {
    pub key: Box<[u8]>,
    pub value: V,
    hash: u64,
}

/// Fields by key.
#[derive(Debug, Clone)]
pub struct Fields<V> {
    fields: Vec<Field<V>>,
    parts: Vec<HashTable<u32>>,
    hashes: SipPrefix,
    stamps: Stamps,
}

/// What the log knows each field by, in the order of their places; none while the log has none of them.
#[derive(Debug, Default)]
struct Stamps(Vec<u64>);

/// A copy is another collection, which the log does not have.
impl Clone for Stamps {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Memory of a stamp, with the reserve of what it lies in.
const STAMP_BYTES: usize = 16;

/// What an insertion met.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted<V> {
    /// Nothing: the field is new, and the last one.
    New,
    /// The field, which had this beside it.
    Replaced(V),
}

impl<V> Fields<V> {
    /// No fields, with places under a secret.
    pub fn new(hashes: SipPrefix) -> Self {
        Self { fields: Vec::new(), parts: vec![HashTable::new()], hashes, stamps: Stamps::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// The field at a place below [`Fields::len`].
    #[inline]
    pub fn at(&self, place: usize) -> &Field<V> {
        &self.fields[place]
    }

    /// All fields, in the order of their places.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Field<V>> {
        self.fields.iter()
    }

    /// The place of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let hash = self.hashes.hash(key);
        let found = self.parts[self.part_of(hash)].find(hash, |&place| {
            let field = &self.fields[place as usize];
            field.hash == hash && *field.key == *key
        });
        found.map(|&place| place as usize)
    }

    /// What is beside a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.find(key).map(|place| &self.fields[place].value)
    }

    /// Puts something beside a key.
    pub fn insert(&mut self, key: &[u8], value: V) -> Inserted<V> {
        if let Some(place) = self.find(key) {
            return Inserted::Replaced(core::mem::replace(&mut self.fields[place].value, value));
        }
        let hash = self.hashes.hash(key);
        let place = self.fields.len() as u32;
        self.fields.push(Field { key: key.into(), value, hash });
        if self.fields.len() > self.parts.len() * PART_LEN {
            self.divide();
        } else {
            let Self { fields, parts, .. } = self;
            let part = part_of(hash, parts.len());
            parts[part].insert_unique(hash, place, |&place| fields[place as usize].hash);
        }
        Inserted::New
    }

    /// Removes the field at a place; the last one takes it.
    pub fn remove(&mut self, place: usize) -> Field<V> {
        let (hash, last) = (self.fields[place].hash, self.fields.len() - 1);
        let part = self.part_of(hash);
        let entry = self.parts[part].find_entry(hash, |&other| other as usize == place);
        entry.expect("each field is in a part").remove();
        if place != last {
            let hash = self.fields[last].hash;
            let part = self.part_of(hash);
            let moved = self.parts[part].find_mut(hash, |&other| other as usize == last);
            *moved.expect("each field is in a part") = place as u32;
        }
        if !self.stamps.0.is_empty() {
            self.stamps.0.swap_remove(place);
        }
        self.fields.swap_remove(place)
    }

    /// The field of a key has this stamp. All others have one, or it is the first.
    pub fn set_stamp(&mut self, key: &[u8], stamp: u64) {
        let Some(place) = self.find(key) else { return };
        let stamps = &mut self.stamps.0;
        stamps.resize(stamps.len().max(place + 1), 0);
        stamps[place] = stamp;
    }

    /// The stamp of the field of a key.
    pub fn stamp(&self, key: &[u8]) -> Option<u64> {
        self.find(key).and_then(|place| self.stamps.0.get(place).copied())
    }

    /// No field has a stamp any more.
    pub fn clear_stamps(&mut self) {
        self.stamps = Stamps::default();
    }

    /// Memory of all stamps.
    pub fn stamp_bytes(&self) -> usize {
        self.stamps.0.len() * STAMP_BYTES
    }

    /// Removes the last fields, at most this many; what finds the others is of no use then.
    pub fn shed(&mut self, fields: usize) -> bool {
        self.fields.truncate(self.fields.len().saturating_sub(fields));
        !self.fields.is_empty()
    }

    fn part_of(&self, hash: u64) -> usize {
        part_of(hash, self.parts.len())
    }

    /// One part more: those of its fields that are in another part now, and the last field, move to it.
    fn divide(&mut self) {
        let Self { fields, parts, .. } = self;
        let new = parts.len();
        let old = new - (new + 1).next_power_of_two() / 2;
        let last = fields.len() - 1;
        let whole = core::mem::take(&mut parts[old]);
        parts.push(HashTable::new());
        let mut put = |place: u32| {
            let hash = fields[place as usize].hash;
            let part = part_of(hash, new + 1);
            parts[part].insert_unique(hash, place, |&place| fields[place as usize].hash);
        };
        whole.into_iter().for_each(&mut put);
        put(last as u32);
    }
}

/// Which of so many parts has a hash: as many of its bits as there are parts for.
#[inline]
fn part_of(hash: u64, parts: usize) -> usize {
    let mask = parts.next_power_of_two() - 1;
    let part = (hash >> 32) as usize & mask;
    if part < parts { part } else { part & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use farcall_base::SipKey;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn many_fields_are_found_through_every_division() {
        let mut fields = Fields::new(SipKey([1, 2]).prefix(0));
        for number in 0..20_000_u32 {
            assert_eq!(fields.insert(&number.to_le_bytes(), number), Inserted::New);
        }
        assert!(fields.parts.len() > 30 && fields.parts.iter().all(|part| part.len() < 4 * PART_LEN));
        for number in (0..20_000_u32).step_by(3) {
            let place = fields.find(&number.to_le_bytes()).expect("it was inserted");
            assert_eq!(fields.remove(place).value, number);
        }
        for number in 0..20_000_u32 {
            let expected = (number % 3 != 0).then_some(&number);
            assert_eq!(fields.get(&number.to_le_bytes()), expected);
        }
    }

    proptest! {
        #[test]
        fn fields_are_those_of_a_map(
            steps in prop::collection::vec((0..40_u8, any::<Option<u16>>()), 0..300),
        ) {
            let mut fields = Fields::new(SipKey([1, 2]).prefix(0));
            let mut model = HashMap::new();
            for (key, value) in steps {
                match value {
                    Some(value) => {
                        let expected = model.insert(key, value).map_or(Inserted::New, Inserted::Replaced);
                        prop_assert_eq!(fields.insert(&[key], value), expected);
                    }
                    None => {
                        let removed = fields.find(&[key]).map(|place| fields.remove(place).value);
                        prop_assert_eq!(removed, model.remove(&key));
                    }
                }
                prop_assert_eq!(fields.len(), model.len());
            }
            for field in fields.iter() {
                prop_assert_eq!(model.get(&field.key[0]), Some(&field.value));
            }
        }
    }
}
