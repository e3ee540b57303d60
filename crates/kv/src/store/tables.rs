//! Which tables a store has, and which it had: the objects of a dropped one are removed a few at a time.

use farcall_base::SipPrefix;

use super::error::CreateTableError;
use super::hashes::Hashes;
use crate::{TABLES_MAX, TableId};

/// A table.
#[derive(Debug)]
pub struct Table {
    id: TableId,
    name: String,
    /// Names the table in entries. No other table of the store ever had it, so that nobody finds the objects
    /// of a dropped table.
    pub number: u32,
    keys: SipPrefix,
}

impl Table {
    /// The hash under which the index has an object.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.keys.hash(key)
    }
}

/// A table whose name is free again and whose objects are not all removed yet.
#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    pub number: u32,
    /// Objects with lower hashes are removed.
    pub from: u64,
}

/// The tables, in the order of their numbers on the wire.
#[derive(Debug, Default)]
pub struct Tables {
    tables: Vec<Table>,
    /// In the order in which they were dropped.
    dropped: Vec<Dropped>,
    last_number: u32,
    /// How many objects each table has, by its number in entries, which only rise.
    objects: Vec<(u32, u64)>,
}

impl Tables {
    #[inline]
    pub fn find(&self, id: TableId) -> Option<&Table> {
        let place = self.place(id).ok()?;
        Some(&self.tables[place])
    }

    #[inline]
    fn place(&self, id: TableId) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&id, |table| table.id)
    }

    /// Adds a table, unless there is one of that name.
    pub fn create(&mut self, hashes: &Hashes, name: &str) -> Result<TableId, CreateTableError> {
        let id = TableId::of(name)?;
        let place = match self.place(id) {
            Ok(place) if self.tables[place].name == name => return Ok(id),
            Ok(_) => return Err(CreateTableError::SameNumber),
            Err(place) => place,
        };
        if self.tables.len() + self.dropped.len() >= TABLES_MAX || self.last_number == u32::MAX {
            return Err(CreateTableError::TooMany);
        }
        self.last_number += 1;
        let (number, keys) = (self.last_number, hashes.of_table(self.last_number));
        self.objects.push((number, 0));
        self.tables.insert(place, Table { id, name: name.to_owned(), number, keys });
        Ok(id)
    }

    /// Frees a name; says whether it was a table's. Its objects are nobody's from now on.
    pub fn drop_table(&mut self, name: &str) -> bool {
        let place = TableId::of(name).ok().and_then(|id| self.place(id).ok());
        let Some(place) = place.filter(|&place| self.tables[place].name == name) else { return false };
        let table = self.tables.remove(place);
        self.drop_number(table.number);
        true
    }

    /// Takes all objects of a table away; says whether there are too many tables to do so.
    pub fn clear(&mut self, hashes: &Hashes, id: TableId) -> Result<(), CreateTableError> {
        let Ok(place) = self.place(id) else { return Ok(()) };
        let number = self.tables[place].number;
        if self.objects(number) == 0 {
            return Ok(());
        }
        if self.tables.len() + self.dropped.len() >= TABLES_MAX || self.last_number == u32::MAX {
            return Err(CreateTableError::TooMany);
        }
        self.last_number += 1;
        let table = &mut self.tables[place];
        (table.number, table.keys) = (self.last_number, hashes.of_table(self.last_number));
        self.objects.push((self.last_number, 0));
        self.drop_number(number);
        Ok(())
    }

    fn drop_number(&mut self, number: u32) {
        self.objects.retain(|(other, _)| *other != number);
        self.dropped.push(Dropped { number, from: 0 });
    }

    /// Whether a table that is not dropped has this number in entries.
    pub fn has(&self, number: u32) -> bool {
        self.objects.binary_search_by_key(&number, |(number, _)| *number).is_ok()
    }

    /// How many objects the table has that has this number in entries; 0 when it was dropped.
    pub fn objects(&self, number: u32) -> u64 {
        let place = self.objects.binary_search_by_key(&number, |(number, _)| *number);
        place.map_or(0, |place| self.objects[place].1)
    }

    /// Counts an object more, or less, of a table.
    pub fn count(&mut self, number: u32, more: i64) {
        if let Ok(place) = self.objects.binary_search_by_key(&number, |(number, _)| *number) {
            let objects = &mut self.objects[place].1;
            *objects = objects.wrapping_add_signed(more);
        }
    }

    /// The dropped table whose objects are removed next.
    #[inline]
    pub fn dropped(&self) -> Option<Dropped> {
        self.dropped.first().copied()
    }

    /// The objects of the first dropped table below this hash are removed.
    pub fn removed_to(&mut self, from: u64) {
        if let Some(dropped) = self.dropped.first_mut() {
            dropped.from = from;
        }
    }

    /// All objects of the first dropped table are removed.
    pub fn removed_all(&mut self) {
        self.dropped.remove(0);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::SipKey;

    use super::*;

    fn hashes() -> Hashes {
        Hashes::new(SipKey([1, 2]))
    }

    fn id(name: &str) -> TableId {
        TableId::of(name).expect("short")
    }

    #[test]
    fn tables_are_created_once_and_up_to_their_number() {
        let (hashes, mut tables) = (hashes(), Tables::default());
        for number in 0..TABLES_MAX {
            let name = number.to_string();
            assert_eq!(tables.create(&hashes, &name), Ok(id(&name)));
        }
        assert_eq!(tables.create(&hashes, "0"), Ok(id("0")), "it is there");
        assert_eq!(tables.create(&hashes, "one more"), Err(CreateTableError::TooMany));
        assert_eq!((tables.names().count(), tables.find(id("one more")).is_some()), (TABLES_MAX, false));
    }

    #[test]
    fn a_dropped_table_makes_room_when_its_objects_are_gone() {
        let (hashes, mut tables) = (hashes(), Tables::default());
        for number in 0..TABLES_MAX {
            tables.create(&hashes, &number.to_string()).expect("one of the first");
        }
        assert!(tables.drop_table("7") && !tables.drop_table("7") && !tables.drop_table("none"));
        assert!(tables.find(id("7")).is_none());
        assert_eq!(tables.create(&hashes, "7"), Err(CreateTableError::TooMany), "its objects are there");
        let dropped = tables.dropped().expect("one was dropped");
        tables.removed_all();
        assert_eq!(tables.create(&hashes, "7"), Ok(id("7")));
        assert_ne!(tables.find(id("7")).expect("created").number, dropped.number, "no number is used twice");
    }

    #[test]
    fn two_names_with_one_number_are_not_confused() {
        let hashes = hashes();
        let table = Table { id: id("b"), name: "a".to_owned(), number: 1, keys: hashes.of_table(1) };
        let mut tables =
            Tables { tables: vec![table], dropped: Vec::new(), last_number: 1, objects: Vec::new() };
        assert_eq!(tables.create(&hashes, "b"), Err(CreateTableError::SameNumber));
        assert!(!tables.drop_table("b"), "it is another one's");
    }
}
