//! Messages of hostile clients, against a shard that also has an honest one.

use farcall::Service;
use farcall_base::SipKey;
use farcall_kv::durable::Parked;
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{
    Code, GET, GetRequest, PUT, PutRequest, STATISTICS, ShardStatistics, WriteResponse, found,
};
use farcall_kv::{Answer, Name, Shard, TableId, Value};

use crate::input::Input;

/// The table that exists.
const TABLE: &str = "t";

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

    fn park(self) -> Parked {
        unreachable!("tables in memory are answered at once")
    }
}

fn ask(shard: &mut Shard, service: Service, message: &[u8]) -> Result<Vec<u8>, Code> {
    let mut taken = None;
    shard.answer(service, message, Taken(&mut taken));
    taken.expect("every request is answered")
}

/// Requests one after the other: a byte for the service, one for the length, one that decides whether the
/// message begins with the number of the table that exists, and the message.
pub fn run(bytes: &[u8]) {
    let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough memory");
    let mut shard = Shard::new(store, 0, 1);
    let table = shard.create_table(TABLE).expect("the first");
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let service = Service(GET.0 - 1 + u16::from(input.u8() % 24));
        let (length, known_table) = (usize::from(input.u8()), input.u8().is_multiple_of(2));
        let mut message = input.bytes(length).to_vec();
        if known_table && message.len() >= 8 {
            message[..8].copy_from_slice(&table.0.to_le_bytes());
        }
        let _refused = ask(&mut shard, service, &message);
    }
    // It may have been dropped by its name.
    let table = shard.create_table(TABLE).expect("as many as before");
    serve_honest(&mut shard, table);
}

fn serve_honest(shard: &mut Shard, table: TableId) {
    let name = Name::new(table, b"honest").expect("a good key");
    let value = Value::new(b"value").expect("a short one");
    let (mut put, mut get) = (Vec::new(), Vec::new());
    PutRequest { name, value, condition: farcall_kv::store::Condition::Always }.encode(&mut put);
    GetRequest { name }.encode(&mut get);
    let written = ask(shard, PUT, &put).expect("there is room");
    let version = WriteResponse::decode(&written).expect("an answer").version;
    let read = ask(shard, GET, &get).expect("there is such a table");
    assert_eq!(found(&read), Ok(Some((version, &b"value"[..]))));
    let statistics = ask(shard, STATISTICS, &[]).expect("always");
    let statistics = ShardStatistics::decode(&statistics).expect("an answer").store;
    assert!(statistics.objects >= 1 && statistics.used_bytes <= statistics.memory_bytes);
}
