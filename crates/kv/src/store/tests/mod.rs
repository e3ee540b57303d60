mod cleaning;
mod expiry;
mod hostile;
mod long;
mod model;
mod operations;
mod scans;

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

/// A scan, page by page.
struct Scan {
    table: TableId,
    /// Where the next page begins: at a hash, or behind a key.
    next: Option<(u64, Vec<u8>)>,
}

impl Scan {
    fn new(table: TableId) -> Self {
        Self { table, next: Some((0, Vec::new())) }
    }

    /// Visits a page of at most this many bytes; says whether there was one.
    fn page(&mut self, store: &Store, bytes: usize, mut visit: impl FnMut(Object<'_>)) -> bool {
        let Some((hash, after)) = self.next.take() else { return false };
        let from = if after.is_empty() { ScanFrom::Hash(hash) } else { ScanFrom::After(&after) };
        let mut last = Vec::new();
        let visit = |object: Object<'_>| {
            last = object.key().to_vec();
            visit(object);
        };
        let limits = PageLimits { bytes, looks: 256 };
        self.next = match store.scan(self.table, from, limits, visit).expect("a table") {
            ScanNext::End => None,
            ScanNext::Hash(next) => {
                assert!(!after.is_empty() || next > hash, "a scan goes on");
                Some((next, Vec::new()))
            }
            ScanNext::AfterLast => Some((0, last)),
        };
        true
    }
}
