//! Shards and requests that nobody should send.

mod replicated;

use proptest::prelude::*;

use super::*;
use crate::durable::Parked;
use crate::store::{Condition, MEMORY_BYTES_MIN, PageLimits, ScanFrom, ScanNext};
use crate::wire::{
    GetPartRequest, LeftOut, MultiGetRequest, MultiGetResponse, MultiPutRequest, NAMES_LEFT_OUT,
    PART_BYTES_MAX, PartResponse, PutPartRequest, ScanItem, ScanRequest, ScanResponse,
};
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

    fn park(self) -> Parked {
        unreachable!("tables in memory are answered at once")
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
        requests in prop::collection::vec(
            (prop_oneof![GET.0 - 1..CREATE_TABLE_AT.0 + 2, GET_PART.0..PUT_PART.0 + 2], message()),
            1..50,
        ),
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
        let everything = PageLimits { bytes: usize::MAX, looks: usize::MAX >> 10 };
        let scan = shard.store().scan(table, ScanFrom::Hash(0), everything, |_| objects += 1);
        prop_assert_eq!(scan, Ok(ScanNext::End));
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

/// A multi-put of this many objects of a table.
fn multi_put(table: TableId, objects: u32, value_bytes: usize) -> Vec<u8> {
    let (mut message, contents) = (Vec::new(), vec![7; value_bytes]);
    for number in 0..objects {
        let key = number.to_le_bytes();
        let name = Name::new(table, &key).expect("a good key");
        let value = Value::new(&contents).expect("short");
        MultiPutRequest::encode_item(&PutRequest { name, value, condition: Condition::Always }, &mut message);
    }
    message
}

#[test]
fn a_request_for_many_objects_is_no_more_than_a_turn() {
    let (mut shard, table) = shard();
    let written = |shard: &mut Shard, message: &[u8]| {
        answer(shard, MULTI_PUT, message).expect("a table").len() / WriteResponse::BYTES
    };
    assert_eq!(written(&mut shard, &multi_put(table, 50_000, 10)), TURN_OBJECTS_MAX);
    let of_100_kilobytes = written(&mut shard, &multi_put(table, 20, 100_000));
    assert_eq!(of_100_kilobytes, 2, "two fit into a turn of 256 KiB");
    let mut names = Vec::new();
    (0..50_000_u32).for_each(|number| {
        let key = number.to_le_bytes();
        MultiGetRequest::encode_item(Name::new(table, &key).expect("a good key"), &mut names);
    });
    let found = answer(&mut shard, MULTI_GET, &names).expect("a table");
    assert_eq!(MultiGetResponse::decode(&found).items().count(), TURN_OBJECTS_MAX);
    // Nothing behind the first is looked at, and nothing of the first is done if it is malformed.
    let cut = |bytes: usize| multi_put(table, 2, 10)[..bytes].to_vec();
    let objects = shard.store().statistics().objects;
    assert_eq!(answer(&mut shard, MULTI_PUT, &cut(50)), Err(Code::Malformed));
    assert_eq!(shard.store().statistics().objects, objects);
}

#[test]
fn a_short_turn_does_the_first_of_a_list_and_a_short_page() {
    let (mut shard, table) = shard();
    shard.take_turns(Turn::SHORT);
    let written = |shard: &mut Shard, message: &[u8]| {
        answer(shard, MULTI_PUT, message).expect("a table").len() / WriteResponse::BYTES
    };
    assert_eq!(written(&mut shard, &multi_put(table, 100, 10)), 8);
    assert_eq!(written(&mut shard, &multi_put(table, 8, 100_000)), 1, "one object of whatever length");
    shard.take_turns(Turn::LONG);
    assert_eq!(written(&mut shard, &multi_put(table, 100, 1000)), 100);
    // All objects are met, in more pages.
    let met = |shard: &mut Shard| {
        let (mut hash, mut after, mut pages, mut keys) = (0, Vec::new(), 0, Vec::new());
        loop {
            let from = if after.is_empty() { ScanFrom::Hash(hash) } else { ScanFrom::After(&after) };
            let mut message = Vec::new();
            ScanRequest { table, page_bytes: 1 << 20, from }.encode(&mut message);
            let page = answer(shard, SCAN, &message).expect("a table");
            let page = ScanResponse::decode(&page).expect("a page");
            keys.extend(page.items().map(|item| item.expect("an object").key.to_vec()));
            pages += 1;
            match page.next {
                ScanNext::Hash(next) => (hash, after) = (next, Vec::new()),
                ScanNext::AfterLast => after = keys.last().expect("it has objects").clone(),
                ScanNext::End => break,
            }
        }
        keys.sort();
        (pages, keys)
    };
    let (long_pages, long) = met(&mut shard);
    shard.take_turns(Turn::SHORT);
    let (short_pages, short) = met(&mut shard);
    assert_eq!((long.len(), long == short), (100, true));
    assert!(long_pages < 3 && short_pages >= 12, "{long_pages} pages, {short_pages} short ones");
}

#[test]
fn a_short_turn_does_a_few_objects_in_each_step() {
    let (mut shard, table) = shard();
    answer(&mut shard, MULTI_PUT, &multi_put(table, 100, 10)).expect("a table");
    let names = |count: u32| {
        let mut names = Vec::new();
        (0..count).for_each(|number| {
            let key = number.to_le_bytes();
            MultiGetRequest::encode_item(Name::new(table, &key).expect("a good key"), &mut names);
        });
        names
    };
    let mut page = Vec::new();
    ScanRequest { table, page_bytes: 1 << 20, from: ScanFrom::Hash(0) }.encode(&mut page);
    let steps = |shard: &mut Shard, service, message: &[u8]| {
        let (mut many, mut steps) = (Many::default(), 1);
        while shard.answer_step(service, message, &mut many) == Ok(After::Step) {
            steps += 1;
        }
        steps
    };
    shard.take_turns(Turn::SHORT);
    let counted = [names(100), names(8), names(3), names(1), names(0)].map(|names| {
        let before = shard.counters.gets.get();
        (steps(&mut shard, MULTI_GET, &names), shard.counters.gets.get() - before)
    });
    assert_eq!(counted, [(4, 8), (4, 8), (2, 3), (1, 1), (1, 0)]);
    assert_eq!(steps(&mut shard, MULTI_PUT, &multi_put(table, 100, 10)), 4);
    assert_eq!(steps(&mut shard, SCAN, &page), 4);
    // Of what is malformed in a later step the first is done, and the rest refused when it is asked for.
    let cut = &multi_put(table, 3, 10)[..100];
    let written = answer(&mut shard, MULTI_PUT, cut).expect("the first two are well formed");
    assert_eq!(written.len() / WriteResponse::BYTES, 2);
    shard.take_turns(Turn::LONG);
    assert_eq!(answer(&mut shard, MULTI_PUT, cut), Err(Code::Malformed));
    assert_eq!(steps(&mut shard, MULTI_GET, &names(100)), 1);
}

#[test]
fn tables_are_dropped_by_name() {
    let (mut shard, table) = shard();
    assert_eq!(answer(&mut shard, DROP_TABLE, b"t"), Ok(vec![1]));
    assert_eq!(answer(&mut shard, DROP_TABLE, b"t"), Ok(vec![0]));
    assert_eq!(answer(&mut shard, DROP_TABLE, b""), Err(Code::Malformed));
    let get = [&table.0.to_le_bytes()[..], b"k"].concat();
    assert_eq!(answer(&mut shard, GET, &get), Err(Code::UnknownTable));
    let mut page = Vec::new();
    ScanRequest { table, page_bytes: 1 << 20, from: ScanFrom::Hash(0) }.encode(&mut page);
    assert_eq!(answer(&mut shard, SCAN, &page), Err(Code::UnknownTable), "and no empty page");
    assert_eq!(answer(&mut shard, CREATE_TABLE, b"t"), Ok(table.0.to_le_bytes().to_vec()));
}

#[test]
fn long_values_are_refused_and_left_out_of_pages() {
    let mut shard = Shard::new(Store::new(2 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let table = shard.create_table("t").expect("the first");
    let name = Name::new(table, b"long").expect("a key");
    let mut held = shard.store_mut().begin_long();
    shard.store_mut().extend_long(&mut held, &vec![7; crate::VALUE_BYTES_MAX + 1]).expect("room");
    shard.store_mut().put_long(name, &held, crate::store::Expiry::Never).expect("room");
    let get = [&table.0.to_le_bytes()[..], b"long"].concat();
    assert_eq!(answer(&mut shard, GET, &get), Err(Code::TooLong));
    let mut keys = Vec::new();
    let limits = PageLimits { bytes: usize::MAX, looks: 256 };
    let visit = |object: Object<'_>| keys.push(object.key().to_vec());
    assert_eq!(shard.store().scan_values(table, ScanFrom::Hash(0), limits, visit), Ok(ScanNext::End));
    assert!(keys.is_empty());
    let page = |shard: &mut Shard, page_bytes| {
        let mut message = Vec::new();
        ScanRequest { table, page_bytes, from: ScanFrom::Hash(0) }.encode(&mut message);
        let page = answer(shard, SCAN, &message).expect("a table");
        let page = ScanResponse::decode(&page).expect("a page");
        let named = |item: Result<ScanItem<'_>, Malformed>| {
            let item = item.expect("an object");
            (item.key.to_vec(), item.left_out)
        };
        page.items().map(named).collect::<Vec<_>>()
    };
    assert_eq!(page(&mut shard, 1 << 20), []);
    let named = page(&mut shard, 1 << 20 | NAMES_LEFT_OUT);
    assert_eq!(named, [(b"long".to_vec(), Some(LeftOut::TooLong))], "where that is asked for");
    let value = Value::new(b"short").expect("short");
    shard.store_mut().put(name, value, Condition::Always).expect("a write takes its place");
    assert!(answer(&mut shard, GET, &get).is_ok());
    drop(held);
    while shard.store_mut().sweep() {}
    assert!(shard.store().statistics().live_bytes < 100);
}

/// Sends a value part by part, all but the last `kept` bytes; gives the answer to the last one that was sent.
fn put_parts(
    shard: &mut Shard,
    put: PutPartRequest<'_>,
    value: &[u8],
    kept: usize,
) -> Result<WriteResponse, Code> {
    let (mut upload, mut last) = (0, Err(Code::Done));
    for (number, part) in value[..value.len() - kept].chunks(PART_BYTES_MAX).enumerate() {
        let (offset, value_bytes) = ((number * PART_BYTES_MAX) as u64, value.len() as u64);
        let mut message = Vec::new();
        PutPartRequest { upload, offset, value_bytes, part, ..put }.encode(&mut message);
        let response = WriteResponse::decode(&answer(shard, PUT_PART, &message)?).expect("a response");
        (upload, last) = (response.version, Ok(response));
        if response.code != Code::Done {
            break;
        }
    }
    last
}

fn part(shard: &mut Shard, name: Name<'_>, version: u64, offset: usize) -> Result<(u64, u64, Vec<u8>), Code> {
    let mut message = Vec::new();
    GetPartRequest { name, version, offset: offset as u64, bytes: u32::MAX }.encode(&mut message);
    let found = answer(shard, GET_PART, &message)?;
    let found = PartResponse::decode(&found).expect("a response");
    Ok(found.map_or((0, 0, Vec::new()), |found| (found.version, found.value_bytes, found.part.to_vec())))
}

#[test]
fn a_long_value_is_written_and_read_part_by_part() {
    let mut shard = Shard::new(Store::new(2 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let table = shard.create_table("t").expect("the first");
    let name = Name::new(table, b"long").expect("a key");
    let value: Vec<u8> = (0..2 * crate::VALUE_BYTES_MAX + 5).map(|byte| (byte % 251) as u8).collect();
    let put = PutPartRequest {
        name,
        condition: Condition::Always,
        upload: 0,
        value_bytes: 0,
        offset: 0,
        part: b"",
    };
    assert_eq!(part(&mut shard, name, 0, 0), Ok((0, 0, Vec::new())), "there is none");
    let begun = put_parts(&mut shard, put, &value, 5).expect("room");
    assert_eq!(
        (begun.code, part(&mut shard, name, 0, 0)),
        (Code::Done, Ok((0, 0, Vec::new()))),
        "it is not whole"
    );
    let written = put_parts(&mut shard, put, &value, 0).expect("room");
    let (mut read, version) = (Vec::new(), written.version);
    while read.len() < value.len() {
        let (found, value_bytes, bytes) = part(&mut shard, name, version, read.len()).expect("it is there");
        assert_eq!((found, value_bytes), (version, value.len() as u64));
        assert!((1..=PART_BYTES_MAX).contains(&bytes.len()));
        read.extend(bytes);
    }
    assert!(read == value, "all of it came back");
    assert_eq!(part(&mut shard, name, version, value.len()), Ok((version, value.len() as u64, Vec::new())));
    assert_eq!(part(&mut shard, name, version + 1, 0), Ok((version, value.len() as u64, Vec::new())));
    // A short value has one part.
    let short = Value::new(b"short").expect("short");
    shard.store_mut().put(name, short, Condition::Always).expect("a write takes its place");
    let (_, value_bytes, bytes) = part(&mut shard, name, 0, 1).expect("it is there");
    assert_eq!((value_bytes, &*bytes), (5, &b"hort"[..]));
}

#[test]
fn an_upload_that_is_refused_or_given_up_leaves_nothing() {
    let mut shard = Shard::new(Store::new(2 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let table = shard.create_table("t").expect("the first");
    let name = Name::new(table, b"long").expect("a key");
    let value = vec![7; 2 * crate::VALUE_BYTES_MAX];
    let put = PutPartRequest {
        name,
        condition: Condition::Absent,
        upload: 0,
        value_bytes: 0,
        offset: 0,
        part: b"",
    };
    let begun = put_parts(&mut shard, put, &value, PART_BYTES_MAX).expect("room");
    let rest = PutPartRequest {
        upload: begun.version,
        value_bytes: value.len() as u64,
        offset: (value.len() - PART_BYTES_MAX) as u64,
        part: &value[..PART_BYTES_MAX],
        ..put
    };
    let send = |shard: &mut Shard, part: PutPartRequest<'_>| {
        let mut message = Vec::new();
        part.encode(&mut message);
        answer(shard, PUT_PART, &message)
    };
    // Of another upload, of another place in it, and of another object.
    let other = Name::new(table, b"other").expect("a key");
    for wrong in [
        PutPartRequest { upload: rest.upload ^ 1, ..rest },
        PutPartRequest { offset: rest.offset - PART_BYTES_MAX as u64, ..rest },
        PutPartRequest { name: other, ..rest },
    ] {
        assert_eq!(send(&mut shard, wrong), Err(Code::ClientForgotten));
    }
    // The condition must hold with the last part, too.
    let short = Value::new(b"short").expect("short");
    let version = shard.store_mut().put(name, short, Condition::Always).expect("room");
    let refused = WriteResponse::decode(&send(&mut shard, rest).expect("an answer")).expect("a response");
    assert_eq!((refused.code, refused.version), (Code::WrongVersion, version));
    assert_eq!(
        send(&mut shard, PutPartRequest { condition: Condition::Always, ..rest }),
        Err(Code::ClientForgotten)
    );
    // One that is given up.
    let put = PutPartRequest { condition: Condition::Always, ..put };
    let begun = put_parts(&mut shard, put, &value, PART_BYTES_MAX).expect("room");
    let rest = PutPartRequest { upload: begun.version, condition: Condition::Always, ..rest };
    assert!(send(&mut shard, PutPartRequest { part: b"", ..rest }).is_ok());
    assert_eq!(send(&mut shard, rest), Err(Code::ClientForgotten));
    while shard.sweep() {}
    assert!(shard.store().statistics().live_bytes < 1000, "only the short value is there");
    let unknown = Name::new(TableId(1), b"k").expect("a key");
    assert_eq!(part(&mut shard, unknown, 0, 0), Err(Code::UnknownTable));
    assert_eq!(
        put_parts(&mut shard, PutPartRequest { name: unknown, ..put }, &value, 0),
        Err(Code::UnknownTable)
    );
}

#[test]
fn a_shard_has_as_many_uploads_as_it_may_and_no_more() {
    let mut shard = Shard::new(Store::new(2 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    let table = shard.create_table("t").expect("the first");
    let name = Name::new(table, b"long").expect("a key");
    let value = vec![7; 2 * crate::VALUE_BYTES_MAX];
    let put = PutPartRequest {
        name,
        condition: Condition::Always,
        upload: 0,
        value_bytes: 0,
        offset: 0,
        part: b"",
    };
    // Only the first part of each is sent.
    let begin = |shard: &mut Shard| put_parts(shard, put, &value, value.len() - wire_align());
    let taken = (0..100).take_while(|_| begin(&mut shard).is_ok()).count();
    assert_eq!(taken, 64);
    assert_eq!(begin(&mut shard), Err(Code::Busy));
}

/// The shortest first part.
fn wire_align() -> usize {
    crate::wire::PART_ALIGN
}

/// A replica is read next, and knows nothing of what a damaged log had of uploads.
#[test]
fn pieces_that_a_damaged_log_had_are_gone_with_its_tables() {
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    for number in 0..3 {
        shard.store_mut().restore_piece((6, number), 9, &[7; 100]).expect("room");
    }
    assert!(shard.store().statistics().live_bytes > 300);
    shard.clear();
    shard.store_mut().end_restoring();
    assert!(!shard.store().has_ended(), "the other log has nothing of them");
    assert_eq!(shard.store().statistics().live_bytes, 0);
}
