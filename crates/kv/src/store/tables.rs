//! Which tables a store has.

use super::error::CreateTableError;
use crate::{TABLES_MAX, TableId};

/// The tables, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Tables(Vec<(TableId, String)>);

impl Tables {
    #[inline]
    pub fn has(&self, table: TableId) -> bool {
        self.0.binary_search_by_key(&table, |(id, _)| *id).is_ok()
    }

    /// Adds a table, unless there is one of that name.
    pub fn create(&mut self, name: &str) -> Result<TableId, CreateTableError> {
        let table = TableId::of(name)?;
        match self.0.binary_search_by_key(&table, |(id, _)| *id) {
            Ok(place) if self.0[place].1 == name => Ok(table),
            Ok(_) => Err(CreateTableError::SameNumber),
            Err(_) if self.0.len() == TABLES_MAX => Err(CreateTableError::TooMany),
            Err(place) => {
                self.0.insert(place, (table, name.to_owned()));
                Ok(table)
            }
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_created_once_and_up_to_their_number() {
        let mut tables = Tables::default();
        for number in 0..TABLES_MAX {
            let name = number.to_string();
            assert_eq!(tables.create(&name), Ok(TableId::of(&name).expect("short")));
        }
        assert_eq!(tables.create("0"), Ok(TableId::of("0").expect("short")), "it is there");
        assert_eq!(tables.create("one more"), Err(CreateTableError::TooMany));
        assert_eq!(
            (tables.names().count(), tables.has(TableId::of("one more").expect("short"))),
            (TABLES_MAX, false)
        );
    }

    #[test]
    fn two_names_with_one_number_are_not_confused() {
        let table = TableId::of("b").expect("short");
        let mut tables = Tables(vec![(table, "a".to_owned())]);
        assert_eq!(tables.create("b"), Err(CreateTableError::SameNumber));
    }
}
