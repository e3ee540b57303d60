//! A range that goes from one shard to another, step by step, over logs on simulated disks.

use std::sync::Arc;

use farcall::Service;
use farcall_disk::testing::{Faults, SimulatedDisk};

use super::entries::{Elements, ImportItem};
use super::source::Exported;
use super::{Exporter, ImportHeader, SlotMap, SlotRange};
use crate::durable::{LOG_BYTES_MIN, Level, Parked};
use crate::shard::Answer;
use crate::store::{Changed, CollectionKind, Condition, Growth, Hash, List, MEMORY_BYTES_MIN, Sorted, Store};
use crate::wire::{Code, DROP_TABLE, GET, GetRequest, IMPORT, PUT, PutRequest, found, hash_slot};
use crate::{Name, Shard, TableId, Value};

/// The slots that move: those of shard 0 of two.
const RANGE: SlotRange = SlotRange { first: 0, last: 8191 };

/// Takes one answer, or parks it.
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
        Parked::Numbered(0)
    }
}

pub(super) fn ask(shard: &mut Shard, service: Service, message: &[u8]) -> Result<Vec<u8>, Code> {
    let mut taken = None;
    shard.answer(service, message, Taken(&mut taken));
    loop {
        if let Some(taken) = taken {
            return taken;
        }
        shard.turn_log();
        taken = shard.release().map(|released| released.answer.answer().map(<[u8]>::to_vec));
    }
}

fn open(disk: &SimulatedDisk, number: u32) -> Shard {
    let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), number, 2);
    shard.open_log(Box::new(disk.clone()), LOG_BYTES_MIN).expect("a log");
    shard.create_table_at("t", Level::Flushed).expect("a good name");
    shard
}

pub(super) fn named(key: &str) -> Name<'_> {
    Name::new(TableId::of("t").expect("short"), key.as_bytes()).expect("short")
}

pub(super) fn put(shard: &mut Shard, key: &str, value: &str) -> Result<(), Code> {
    let value = Value::new(value.as_bytes()).expect("short");
    let mut message = Vec::new();
    PutRequest { name: named(key), value, condition: Condition::Always }.encode(&mut message);
    ask(shard, PUT, &message).map(drop)
}

/// The version and the value of an object.
pub(super) fn get(shard: &mut Shard, key: &str) -> Result<Option<(u64, String)>, Code> {
    let mut message = Vec::new();
    GetRequest { name: named(key) }.encode(&mut message);
    let answer = ask(shard, GET, &message)?;
    let object = found(&answer).expect("an answer");
    Ok(object.map(|(version, value)| (version, String::from_utf8_lossy(value).into_owned())))
}

/// Copies what is left; gives how many pages that took.
fn copy(exporter: &mut Exporter, from: &mut Shard, to: &mut Shard, number: u64) -> Result<usize, Code> {
    let mut pages = 0;
    exporter.take_written(from.store_mut());
    loop {
        match exporter.next_page(from.store_mut()).expect("nothing is in the way") {
            Exported::Page(page) => {
                pages += 1;
                import(from, to, (number, false), &page)?;
            }
            Exported::Nothing => {}
            Exported::All => return Ok(pages),
        }
    }
}

fn message(from: &Shard, to: &Shard, (number, is_last): (u64, bool), page: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let (last_version, next) = (from.store().last_version(), to.taken_page() + 1);
    ImportHeader { number, page: next, last_version, is_last }.encode(&mut message);
    message.extend_from_slice(page);
    message
}

fn import(from: &Shard, to: &mut Shard, (number, is_last): (u64, bool), page: &[u8]) -> Result<(), Code> {
    let message = message(from, to, (number, is_last), page);
    loop {
        match ask(to, IMPORT, &message) {
            // Its log has much to flush, or grows.
            Err(Code::Busy) => _ = to.turn_log(),
            answer => return answer.map(drop),
        }
    }
}

/// Turns until a log has everything.
pub(super) fn settle(shard: &mut Shard) {
    while shard.is_flushing() {
        shard.turn_log();
    }
}

/// Has both shards know a map.
fn adopt(shards: [&mut Shard; 2], map: &SlotMap) {
    let map = Arc::new(map.clone());
    for shard in shards {
        shard.adopt(&map);
        while shard.drop_others() {
            shard.turn_log();
        }
    }
}

/// Keys of the range.
fn keys(count: usize) -> Vec<String> {
    (0..)
        .map(|number| format!("k{number}"))
        .filter(|key| RANGE.has(hash_slot(key.as_bytes())))
        .take(count)
        .collect()
}

/// Objects that a page shows.
fn shown(shard: &Shard) -> usize {
    let mut count = 0;
    let limits = crate::store::PageLimits { bytes: usize::MAX, looks: usize::MAX >> 16 };
    let table = TableId::of("t").expect("short");
    shard.store().scan(table, crate::store::ScanFrom::Hash(0), limits, |_| count += 1).expect("a table");
    count
}

fn fill(shard: &mut Shard, keys: &[String]) {
    keys.iter().for_each(|key| put(shard, key, key).expect("room"));
    let store = shard.store_mut();
    let growth = Growth { elements: 50_000, bytes: 1 << 20 };
    let listed = store.change_collection(named("{k0}list"), growth, |list: &mut List| {
        (0..50_000_u32).for_each(|number| list.insert(list.len(), &number.to_be_bytes()));
        ((), Changed::Yes)
    });
    let hashed = store.change_collection(named("{k0}hash"), growth, |hash: &mut Hash| {
        hash.insert(b"field", b"value");
        ((), Changed::Yes)
    });
    let sorted = store.change_collection(named("{k0}sorted"), growth, |sorted: &mut Sorted| {
        sorted.insert(b"member", 1.5);
        ((), Changed::Yes)
    });
    assert!(listed.is_ok() && hashed.is_ok() && sorted.is_ok());
    shard.record_changes();
    settle(shard);
}

fn check_collections(shard: &Shard) {
    let list = shard.store().collection::<List>(named("{k0}list")).expect("a list").expect("it is there");
    assert!(list.from(0).eq((0..50_000_u32).map(u32::to_be_bytes)), "in their order");
    let hash = shard.store().collection::<Hash>(named("{k0}hash")).expect("a hash").expect("it is there");
    assert_eq!(hash.get(b"field"), Some(&b"value"[..]));
    let sorted =
        shard.store().collection::<Sorted>(named("{k0}sorted")).expect("sorted").expect("it is there");
    assert_eq!(sorted.score(b"member"), Some(1.5));
}

#[test]
fn a_range_moves_with_what_is_written_meanwhile_and_both_logs_have_it() {
    let disks = [1, 2].map(|seed| SimulatedDisk::new(seed, Faults::default()));
    let mut from = open(&disks[0], 0);
    let mut to = open(&disks[1], 1);
    let keys = keys(100);
    let range = SlotRange { first: 0, last: 16_383 };
    // All of it, so that the collections are a part of it wherever their slot is.
    let whole =
        SlotMap::of(2).begin(SlotRange { first: 8192, last: 16_383 }, 1, 0).expect("they are shard 1's");
    let map = whole.0.done(whole.1).expect("it is in progress");
    adopt([&mut from, &mut to], &map);
    fill(&mut from, &keys);
    let before = get(&mut from, &keys[0]);
    let (begun, number) = map.begin(range, 0, 1).expect("they are shard 0's");
    adopt([&mut from, &mut to], &begun);
    let mut exporter = from.begin_export(range);
    assert!(copy(&mut exporter, &mut from, &mut to, number).expect("it takes them") > 1);
    assert_eq!(shown(&to), 0, "they are not its own yet");
    assert_eq!(get(&mut to, &keys[0]), Err(Code::WrongShard));
    put(&mut from, &keys[1], "written meanwhile").expect("nobody is in the way");
    let list = |list: &mut List| (list.set(0, b"set"), Changed::Yes);
    from.store_mut().change_collection(named("{k0}list"), Growth::NONE, list).expect("a list");
    let back = |list: &mut List| (list.set(0, &[0; 4]), Changed::Yes);
    from.store_mut().change_collection(named("{k0}list"), Growth::NONE, back).expect("a list");
    from.record_changes();
    from.store_mut().delete(named(&keys[2]), Condition::Always).expect("it is there");
    from.record_changes();
    let group = from.freeze(range);
    assert_eq!(put(&mut from, &keys[3], "late"), Err(Code::SlotsMoving));
    copy(&mut exporter, &mut from, &mut to, number).expect("it takes them");
    import(&from, &mut to, (number, true), &[]).expect("that was all");
    assert_eq!(ask(&mut to, DROP_TABLE, b"t"), Err(Code::SlotsMoving));
    assert_eq!(get(&mut to, &keys[0]), Err(Code::SlotsMoving), "it is about to have it");
    while from.log_outcome().flushed < group {
        from.turn_log();
    }
    let done = begun.done(number).expect("it is in progress");
    from.end_export();
    adopt([&mut from, &mut to], &done);
    assert_eq!(get(&mut from, &keys[0]), Err(Code::WrongShard));
    assert_eq!(from.store().statistics().objects, 0, "what is another shard's is removed");
    for _ in 0..2 {
        assert_eq!(get(&mut to, &keys[0]), before, "with its version");
        let changed = get(&mut to, &keys[1]).expect("its own").expect("it is there");
        assert_eq!(changed.1, "written meanwhile");
        assert_eq!(get(&mut to, &keys[2]), Ok(None), "it was deleted");
        check_collections(&to);
        assert_eq!(shown(&to), keys.len() - 1 + 3);
        put(&mut to, &keys[2], "again").expect("its own");
        let again = get(&mut to, &keys[2]).expect("its own").expect("it is there");
        assert!(again.0 > changed.0, "versions rise over the move");
        to.store_mut().delete(named(&keys[2]), Condition::Always).expect("it is there");
        to.record_changes();
        settle(&mut to);
        // The next process of each shard.
        drop((from, to));
        (from, to) = (open(&disks[0], 0), open(&disks[1], 1));
        adopt([&mut from, &mut to], &done);
        assert_eq!(from.store().statistics().objects, 0);
    }
}

#[test]
fn what_was_copied_for_nothing_is_removed_and_a_table_that_is_emptied_ends_the_move() {
    let disks = [1, 2].map(|seed| SimulatedDisk::new(seed, Faults::default()));
    let (mut from, mut to) = (open(&disks[0], 0), open(&disks[1], 1));
    let keys = keys(20);
    keys.iter().for_each(|key| put(&mut from, key, key).expect("room"));
    let (begun, number) = SlotMap::of(2).begin(RANGE, 0, 1).expect("they are shard 0's");
    adopt([&mut from, &mut to], &begun);
    let mut exporter = from.begin_export(RANGE);
    copy(&mut exporter, &mut from, &mut to, number).expect("it takes them");
    assert_eq!(to.store().statistics().objects, 20);
    to.store_mut().clear_table(TableId::of("t").expect("short")).expect("a table");
    assert_eq!(
        import(&from, &mut to, (number, true), &[]),
        Err(Code::UnknownTable),
        "not all of it is there"
    );
    from.store_mut().clear_table(TableId::of("t").expect("short")).expect("a table");
    assert!(exporter.next_page(from.store_mut()).is_err(), "nobody notes what was there");

    let given_up = begun.given_up(number, "a test").expect("it is in progress");
    from.end_export();
    adopt([&mut from, &mut to], &given_up);
    assert_eq!(import(&from, &mut to, (number, false), &[]), Err(Code::WrongShard), "it is late");
    keys.iter().for_each(|key| put(&mut from, key, key).expect("it is its own again"));
    let (begun, number) = given_up.begin(RANGE, 0, 1).expect("they are shard 0's");
    adopt([&mut from, &mut to], &begun);
    let mut exporter = from.begin_export(RANGE);
    copy(&mut exporter, &mut from, &mut to, number).expect("it takes them");
    assert_eq!(to.store().statistics().objects, 20);
    let given_up = begun.given_up(number, "a test").expect("it is in progress");
    from.end_export();
    adopt([&mut from, &mut to], &given_up);
    assert_eq!(to.store().statistics().objects, 0, "nothing of it is left");
    assert_eq!(get(&mut from, &keys[0]).map(|object| object.is_some()), Ok(true));
}

/// Two shards of which the second has given more versions, and a move from the first one that has begun.
fn begun(disks: &[SimulatedDisk; 2], keys: &[String]) -> (Shard, Shard, Exporter, u64) {
    let (mut from, mut to) = (open(&disks[0], 0), open(&disks[1], 1));
    // The slot of `foo` is 12182.
    (0..100).for_each(|number| put(&mut to, "foo", &number.to_string()).expect("room"));
    keys.iter().for_each(|key| put(&mut from, key, key).expect("room"));
    settle(&mut to);
    let (begun, number) = SlotMap::of(2).begin(RANGE, 0, 1).expect("they are shard 0's");
    adopt([&mut from, &mut to], &begun);
    let exporter = from.begin_export(RANGE);
    (from, to, exporter, number)
}

fn page(exporter: &mut Exporter, from: &mut Shard) -> Vec<u8> {
    loop {
        match exporter.next_page(from.store_mut()).expect("nothing is in the way") {
            Exported::Page(page) => return page,
            Exported::Nothing => {}
            Exported::All => panic!("there is something to be copied"),
        }
    }
}

#[test]
fn what_a_destination_has_answered_is_there_after_a_power_cut() {
    let disks = [1, 2].map(|seed| SimulatedDisk::new(seed, Faults::default()));
    let keys = keys(20);
    let (mut from, mut to, mut exporter, number) = begun(&disks, &keys);
    let page = page(&mut exporter, &mut from);
    for (is_last, page) in [(false, &page[..]), (true, &[])] {
        let message = message(&from, &to, (number, is_last), page);
        ask(&mut to, IMPORT, &message).expect("it takes it");
    }
    drop(to);
    disks[1].cut_power();
    let to = open(&disks[1], 1);
    assert_eq!(to.store().statistics().objects, 1 + keys.len() as u64);
}

#[test]
fn an_import_that_is_sent_again_is_taken_once() {
    let disks = [1, 2].map(|seed| SimulatedDisk::new(seed, Faults::default()));
    let (mut from, mut to, _, number) = begun(&disks, &[]);
    let mut elements = Vec::new();
    (0..5_u8).for_each(|element| Elements::encode_one((b"", &[element]), &mut elements));
    let key = &keys(1)[0];
    let item = |is_first| ImportItem::Elements {
        name: named(key),
        deadline: None,
        kind: CollectionKind::List,
        is_first,
        elements: Elements::new(&elements),
    };
    let mut first = Vec::new();
    item(true).encode(&mut first);
    import(&from, &mut to, (number, false), &first).expect("it takes it");
    let mut more = Vec::new();
    item(false).encode(&mut more);
    let again = message(&from, &to, (number, false), &more);
    let mut early = again.clone();
    early[8..16].copy_from_slice(&9_u64.to_le_bytes());
    for _ in 0..3 {
        assert_eq!(ask(&mut to, IMPORT, &again), Ok(Vec::new()));
    }
    assert_eq!(ask(&mut to, IMPORT, &early), Err(Code::Malformed), "others are missing before it");
    let list = to.store().collection::<List>(named(key)).expect("a list").expect("it is there");
    assert_eq!(list.len(), 10);
    settle(&mut from);
}
