//! Values out of bytes that a stranger may have sent.
//!
//! What the format lets somebody write in a few bytes, a type may turn into much: a list within a list
//! within a list, until the stack ends, or a length of 2⁶⁴ in front of elements that take no bytes. So every
//! value is decoded through [`Bounded`], which counts how deep it is and of how many parts it is made. What a
//! part takes in memory is up to the type.

use core::cell::Cell;
use core::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// How deep a value may be: options, lists, maps, structures and enumerations within each other.
pub const DEPTH_MAX: u32 = 128;

/// Of how many parts a value may be made: some that take no bytes, and so many for each byte.
const PARTS_WITHOUT_BYTES_MAX: usize = 1024;
/// See [`PARTS_WITHOUT_BYTES_MAX`].
const PARTS_PER_BYTE_MAX: usize = 16;

/// The value that `bytes` are, all of them; or what is wrong with them.
pub(super) fn value_of<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let bounds = Bounds::of(bytes.len());
    let mut decoder = postcard::Deserializer::from_bytes(bytes);
    let value = T::deserialize(Bounded { inner: &mut decoder, bounds: &bounds });
    let value = value.map_err(|error| match bounds.broken.get() {
        Some(bound) => bound.to_owned(),
        None => error.to_string(),
    })?;
    match decoder.finalize() {
        Ok([]) => Ok(value),
        _ => Err("bytes are left behind the value".to_owned()),
    }
}

/// What may still be decoded.
struct Bounds {
    depth_left: Cell<u32>,
    parts_left: Cell<usize>,
    /// The bound that was passed, in words.
    broken: Cell<Option<&'static str>>,
}

impl Bounds {
    fn of(bytes: usize) -> Self {
        let parts = PARTS_WITHOUT_BYTES_MAX + bytes.saturating_mul(PARTS_PER_BYTE_MAX);
        Self { depth_left: Cell::new(DEPTH_MAX), parts_left: Cell::new(parts), broken: Cell::new(None) }
    }

    /// Decodes one part, if there may be one more, and this deep.
    fn part<T, E: Error>(&self, decode: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let (depth, parts) = (self.depth_left.get(), self.parts_left.get());
        if depth == 0 {
            return Err(self.broken("the value is nested too deep"));
        }
        if parts == 0 {
            return Err(self.broken("the value has too many parts for its bytes"));
        }
        self.depth_left.set(depth - 1);
        self.parts_left.set(parts - 1);
        let decoded = decode();
        self.depth_left.set(depth);
        decoded
    }

    fn broken<E: Error>(&self, bound: &'static str) -> E {
        self.broken.set(Some(bound));
        E::custom(bound)
    }
}

/// A decoder, a visitor, or what leads to one, within bounds.
struct Bounded<'b, T> {
    inner: T,
    bounds: &'b Bounds,
}

impl<'b, T> Bounded<'b, T> {
    /// Another thing within the same bounds.
    fn also<U>(&self, inner: U) -> Bounded<'b, U> {
        Bounded { inner, bounds: self.bounds }
    }
}

macro_rules! decoders {
    ($($method:ident($($name:ident: $kind:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.also(visitor);
            self.bounds.part(|| self.inner.$method($($name,)* visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    decoders! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! scalars {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    scalars! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, decoder: D) -> Result<V::Value, D::Error> {
        let decoder = self.also(decoder);
        self.inner.visit_some(decoder)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, decoder: D) -> Result<V::Value, D::Error> {
        let decoder = self.also(decoder);
        self.inner.visit_newtype_struct(decoder)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let elements = self.also(elements);
        self.inner.visit_seq(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let entries = self.also(entries);
        self.inner.visit_map(entries)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.also(variant);
        self.inner.visit_enum(variant)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<S::Value, D::Error> {
        let decoder = self.also(decoder);
        self.inner.deserialize(decoder)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.also(seed);
        self.inner.next_element_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.also(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.also(seed);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'b, A> {
    type Error = A::Error;
    type Variant = Bounded<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (seed, bounds) = (self.also(seed), self.bounds);
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((value, Bounded { inner, bounds }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.also(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.also(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.also(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Tree {
        Leaf,
        Node(Box<Tree>),
        Pair { left: Box<Tree>, right: Option<Box<Tree>> },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Everything {
        numbers: (u8, i16, u32, i64, u128, f32, f64, char, bool),
        texts: Vec<String>,
        by_name: BTreeMap<String, Option<u64>>,
        bytes: Box<[u8]>,
        tree: Tree,
        nothing: (),
    }

    fn everything() -> Everything {
        let leaf = || Box::new(Tree::Leaf);
        Everything {
            numbers: (1, -2, 3, -4, 5, 6.0, 7.0, '8', true),
            texts: vec!["a".into(), String::new()],
            by_name: [("x".into(), Some(1)), ("y".into(), None)].into(),
            bytes: [1, 2, 3].into(),
            tree: Tree::Pair { left: Box::new(Tree::Node(leaf())), right: Some(leaf()) },
            nothing: (),
        }
    }

    #[test]
    fn values_of_every_kind_are_what_they_were() {
        let bytes = postcard::to_stdvec(&everything()).expect("it has an encoding");
        assert_eq!(value_of(&bytes), Ok(everything()));
        for end in 0..bytes.len() {
            assert!(value_of::<Everything>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn what_is_left_behind_a_value_is_refused() {
        assert_eq!(value_of::<u8>(&[7]), Ok(7));
        assert_eq!(value_of::<u8>(&[7, 0]), Err("bytes are left behind the value".to_owned()));
    }

    #[test]
    fn a_value_that_is_nested_too_deep_is_refused_before_the_stack_ends() {
        let nested = |levels: usize| [vec![1; levels], vec![0]].concat();
        assert!(value_of::<Tree>(&nested(40)).is_ok());
        let refused = value_of::<Tree>(&nested(8 << 20));
        assert_eq!(refused, Err("the value is nested too deep".to_owned()));
    }

    #[test]
    fn elements_that_take_no_bytes_are_bounded() {
        assert_eq!(value_of::<Vec<()>>(&[100]), Ok(vec![(); 100]));
        let endless = [[0xff; 9].as_slice(), &[1]].concat();
        let refused = value_of::<Vec<()>>(&endless);
        assert_eq!(refused, Err("the value has too many parts for its bytes".to_owned()));
        // A length beyond the bytes takes no memory.
        assert!(value_of::<Vec<u64>>(&endless).is_err() && value_of::<String>(&endless).is_err());
    }
}
