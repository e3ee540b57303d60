mod cleaning;
mod model;
mod operations;

use super::*;

/// The table of most tests.
const TABLE: &str = "table";

/// A store with that table.
fn store(memory_bytes: usize) -> (Store, TableId) {
    let mut store = Store::new(memory_bytes).expect("enough memory");
    let table = store.create_table(TABLE).expect("the first table");
    (store, table)
}

fn name_in(table: TableId, key: &[u8]) -> Name<'_> {
    Name::new(table, key).expect("a good key")
}

fn value(bytes: &[u8]) -> Value<'_> {
    Value::new(bytes).expect("a good value")
}

/// Bytes that tell from which write they are.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(length.div_ceil(8));
    bytes.truncate(length);
    bytes
}

fn value_of(store: &Store, name: Name<'_>) -> Option<Vec<u8>> {
    store.get(name).expect("the table exists").map(|object| object.to_vec())
}
