//! Shards and requests that nobody should send.

use proptest::prelude::*;

use super::*;
use crate::store::{Condition, MEMORY_BYTES_MIN};
use crate::{TABLE_NAME_BYTES_MAX, Value};

/// Takes one answer.
struct Taken<'a>(&'a mut Option<Result<Vec<u8>, Code>>);

impl Answer for Taken<'_> {
    fn send(self, message: &[u8]) {
        *self.0 = Some(Ok(message.to_vec()));
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    fn refuse(self, code: Code) {
        *self.0 = Some(Err(code));
    }
}

fn answer(shard: &mut Shard, service: Service, message: &[u8]) -> Result<Vec<u8>, Code> {
    let mut taken = None;
    shard.answer(service, message, Taken(&mut taken));
    taken.expect("every request is answered")
}

fn shard() -> (Shard, TableId) {
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let table = shard.create_table("t").expect("the first");
    (shard, table)
}

/// Bytes that are nearly requests: the table is right at times, and lengths are small.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let table = TableId::of("t").expect("short").0.to_le_bytes().to_vec();
    let word = prop_oneof![
        Just(table),
        (0..20_u32).prop_map(|number| number.to_le_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
        Just(vec![0xff; 8]),
    ];
    prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn every_message_is_answered_once_and_the_store_stays_whole(
        requests in prop::collection::vec((255..267_u16, message()), 1..50),
    ) {
        let (mut shard, table) = shard();
        let name = Name::new(table, b"an object of somebody else").expect("a good key");
        let value = Value::new(b"untouched").expect("short");
        shard.store_mut().put(name, value, Condition::Always).expect("room");
        for (service, message) in requests {
            let _answer = answer(&mut shard, Service(service), &message);
        }
        let found = shard.store().get(name).expect("a table").expect("nobody named it");
        prop_assert_eq!(found.to_vec(), b"untouched");
        let mut objects = 0;
        let mut from = Some(0);
        while let Some(hash) = from {
            from = shard.store().scan(table, hash, usize::MAX, |_| objects += 1).expect("a table");
        }
        prop_assert_eq!(shard.store().statistics().objects, objects);
    }
}

#[test]
fn names_of_tables_are_text_within_their_limit() {
    let (mut shard, _) = shard();
    let table = TableId::of("new").expect("short");
    assert_eq!(answer(&mut shard, CREATE_TABLE, b"new"), Ok(table.0.to_le_bytes().to_vec()));
    for name in [&b""[..], b"\xff", &[b'n'; TABLE_NAME_BYTES_MAX + 1]] {
        assert_eq!(answer(&mut shard, CREATE_TABLE, name), Err(Code::Malformed), "{name:?}");
    }
    assert_eq!(shard.store().table_names().count(), 2);
}
