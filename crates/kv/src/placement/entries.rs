//! What a source sends to a destination: objects as they are, or that they are gone.

use crate::store::CollectionKind;
use crate::wire::{Fields, Malformed};
use crate::{Name, TableId, VALUE_BYTES_MAX, Value};

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImportHeader {
    /// The number of the move.
    pub number: u64,
    /// The number of this import, from 1: one that is sent again has the same.
    pub page: u64,
    /// The highest version that the source has given.
    pub last_version: u64,
    /// Whether nothing follows: the source waits for the map to be set.
    pub is_last: bool,
}

impl ImportHeader {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.number.to_le_bytes());
        to.extend_from_slice(&self.page.to_le_bytes());
        to.extend_from_slice(&self.last_version.to_le_bytes());
        to.push(self.is_last.into());
    }

    /// Reads it, and what follows.
    pub fn decode(message: &[u8]) -> Result<(Self, ImportItems<'_>), Malformed> {
        let mut fields = Fields(message);
        let (number, page, last_version) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let is_last = match fields.u8()? {
            last @ (0 | 1) => last == 1,
            _ => return Err(Malformed),
        };
        Ok((Self { number, page, last_version, is_last }, ImportItems(fields)))
    }
}

/// An object of the source, by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportItem<'a> {
    /// It is not there.
    Gone { name: Name<'a> },
    /// It has a value.
    Value { name: Name<'a>, version: u64, deadline: Option<u64>, value: Value<'a> },
    /// It is a collection, of which these are elements.
    Elements {
        name: Name<'a>,
        deadline: Option<u64>,
        kind: CollectionKind,
        is_first: bool,
        elements: Elements<'a>,
    },
}

/// Elements of a collection, in their order: what they are called and what they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements<'a>(&'a [u8]);

const GONE: u8 = 0;
const VALUE: u8 = 1;
const ELEMENTS: u8 = 2;
const FIRST_ELEMENTS: u8 = 3;

const KINDS: [CollectionKind; 4] =
    [CollectionKind::List, CollectionKind::Hash, CollectionKind::Set, CollectionKind::Sorted];

impl<'a> ImportItem<'a> {
    /// What it is called.
    pub fn name(&self) -> Name<'a> {
        match self {
            Self::Gone { name } | Self::Value { name, .. } | Self::Elements { name, .. } => *name,
        }
    }

    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let named = |kind: u8, name: &Name<'_>, to: &mut Vec<u8>| {
            to.push(kind);
            to.extend_from_slice(&name.table().0.to_le_bytes());
            put_bytes(name.key(), to);
        };
        match self {
            Self::Gone { name } => named(GONE, name, to),
            Self::Value { name, version, deadline, value } => {
                named(VALUE, name, to);
                to.extend_from_slice(&version.to_le_bytes());
                to.extend_from_slice(&deadline.unwrap_or(0).to_le_bytes());
                put_bytes(value.as_bytes(), to);
            }
            Self::Elements { name, deadline, kind, is_first, elements } => {
                named(if *is_first { FIRST_ELEMENTS } else { ELEMENTS }, name, to);
                to.extend_from_slice(&deadline.unwrap_or(0).to_le_bytes());
                to.push(KINDS.iter().position(|other| other == kind).unwrap_or_default() as u8);
                put_bytes(elements.0, to);
            }
        }
    }

    fn next(fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        let (kind, table) = (fields.u8()?, TableId(fields.u64()?));
        let key = bytes_of(fields)?;
        let name = Name::new(table, key).map_err(|_| Malformed)?;
        let deadline = |fields: &mut Fields<'a>| Ok(Some(fields.u64()?).filter(|deadline| *deadline != 0));
        match kind {
            GONE => Ok(Self::Gone { name }),
            VALUE => {
                let version = fields.u64()?;
                let deadline = deadline(fields)?;
                let value = Value::new(bytes_of(fields)?).map_err(|_| Malformed)?;
                if version == 0 { Err(Malformed) } else { Ok(Self::Value { name, version, deadline, value }) }
            }
            FIRST_ELEMENTS | ELEMENTS => {
                let deadline = deadline(fields)?;
                let number = usize::from(fields.u8()?);
                let elements = Elements(bytes_of(fields)?);
                if elements.0.is_empty() || elements.iter().any(|element| element.is_err()) {
                    return Err(Malformed);
                }
                let kind_of_all = *KINDS.get(number).ok_or(Malformed)?;
                let is_first = kind == FIRST_ELEMENTS;
                Ok(Self::Elements { name, deadline, kind: kind_of_all, is_first, elements })
            }
            _ => Err(Malformed),
        }
    }
}

impl<'a> Elements<'a> {
    /// Elements that were put into a message.
    pub(crate) fn new(encoded: &'a [u8]) -> Self {
        Self(encoded)
    }

    /// Appends one of them.
    pub(crate) fn encode_one((name, value): (&[u8], &[u8]), to: &mut Vec<u8>) {
        put_bytes(name, to);
        put_bytes(value, to);
    }

    /// Them.
    pub(crate) fn iter(self) -> impl Iterator<Item = Result<(&'a [u8], &'a [u8]), Malformed>> + Clone {
        let mut fields = Fields(self.0);
        core::iter::from_fn(move || {
            if fields.is_empty() {
                return None;
            }
            let element = bytes_of(&mut fields).and_then(|name| Ok((name, bytes_of(&mut fields)?)));
            if element.is_err() {
                fields = Fields(&[]);
            }
            Some(element)
        })
    }
}

/// The items of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportItems<'a>(Fields<'a>);

impl<'a> Iterator for ImportItems<'a> {
    type Item = Result<ImportItem<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = ImportItem::next(&mut self.0);
        if item.is_err() {
            self.0 = Fields(&[]);
        }
        Some(item)
    }
}

fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn bytes_of<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], Malformed> {
    let bytes = fields.length()?;
    fields.bytes(bytes)
}

/// Takes some bytes for a message of a hostile source: what is understood is what is written again.
#[doc(hidden)]
pub fn fuzz_import(bytes: &[u8]) {
    let Ok((header, items)) = ImportHeader::decode(bytes) else { return };
    let mut again = Vec::new();
    header.encode(&mut again);
    let mut is_whole = true;
    for item in items {
        match item {
            Ok(item) => {
                if let ImportItem::Value { value, .. } = item {
                    assert!(value.as_bytes().len() <= VALUE_BYTES_MAX);
                }
                item.encode(&mut again);
            }
            Err(Malformed) => is_whole = false,
        }
    }
    assert!(bytes.starts_with(&again) && is_whole == (again.len() == bytes.len()));
    if let Some(map) = super::SlotMap::decode(bytes) {
        assert_eq!(super::SlotMap::decode(&map.encode()), Some(map));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_understood_and_no_part_of_it() {
        let name = Name::new(TableId(7), b"key").expect("a key");
        let value = Value::new(b"value").expect("short");
        let mut encoded = Vec::new();
        Elements::encode_one((b"field", b"has"), &mut encoded);
        Elements::encode_one((b"", b""), &mut encoded);
        let elements = Elements::new(&encoded);
        let (kind, deadline) = (CollectionKind::Hash, Some(9));
        let items = [
            ImportItem::Gone { name },
            ImportItem::Value { name, version: 3, deadline: None, value },
            ImportItem::Elements { name, deadline, kind, is_first: true, elements },
            ImportItem::Elements {
                name,
                deadline: None,
                kind: CollectionKind::List,
                is_first: false,
                elements,
            },
        ];
        let header = ImportHeader { number: 1, page: 3, last_version: 2, is_last: true };
        let (mut message, mut ends) = (Vec::new(), Vec::new());
        header.encode(&mut message);
        ends.push(message.len());
        for item in &items {
            item.encode(&mut message);
            ends.push(message.len());
        }
        let (found, read) = ImportHeader::decode(&message).expect("it was encoded");
        assert_eq!((found, read.collect()), (header, Ok(items.to_vec())));
        for bytes in 0..message.len() {
            fuzz_import(&message[..bytes]);
            let whole = ImportHeader::decode(&message[..bytes])
                .is_ok_and(|(_, mut items)| items.all(|item| item.is_ok()));
            assert_eq!(whole, ends.contains(&bytes), "{bytes} bytes");
        }
        fuzz_import(&message);
    }
}
