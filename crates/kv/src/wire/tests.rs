//! Messages byte by byte, as `docs/protocol/kv.md` shows them, and as nobody should send them.

use std::collections::BTreeMap;

use super::*;
use crate::durable::Level;
use crate::store::{
    CleanerStatistics, Condition, MEMORY_BYTES_MIN, ScanFrom, ScanNext, Store, StoreStatistics,
};
use crate::{Name, TableId, Value};

const DOCUMENT: &str = include_str!("../../../../docs/protocol/kv.md");

#[test]
fn identities_after_a_spread_are_those_of_splitmix() {
    assert_eq!(identity_after(0, 1), 0xe220_a839_7b1d_cdaf, "the first number of the seed 0");
    assert_eq!(identity_after(1, 2), 0xbeeb_8da1_658e_ec67);
}

fn table() -> TableId {
    TableId::of("t").expect("short")
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("a good key")
}

fn put<'a>(key: &'a [u8], value: &'a [u8], condition: Condition) -> PutRequest<'a> {
    PutRequest { name: name(key), value: Value::new(value).expect("short"), condition }
}

fn message(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    encode(&mut message);
    message
}

fn statistics() -> ShardStatistics {
    let cleaner = CleanerStatistics { visited_bytes: 6, moved_bytes: 7, segments_freed: 8, forced: 9 };
    let store = StoreStatistics {
        objects: 1,
        memory_bytes: 2,
        used_bytes: 3,
        live_bytes: 4,
        live_bytes_max: 5,
        cleaner,
    };
    ShardStatistics { shard: 1, shards: 2, store, tables: vec!["t".to_owned(), "two".to_owned()] }
}

/// A store with the objects `k` and `l`.
fn store() -> Store {
    let mut store = Store::new(MEMORY_BYTES_MIN).expect("enough");
    store.create_table("t").expect("the first");
    for (key, value) in [(b"k", &b"value"[..]), (b"l", b"")] {
        store.put(name(key), Value::new(value).expect("short"), Condition::Always).expect("room");
    }
    store
}

fn get_part() -> GetPartRequest<'static> {
    GetPartRequest { name: name(b"k"), version: 7, offset: 0x4_0000, bytes: 0x4_0000 }
}

/// The last one.
fn put_part() -> PutPartRequest<'static> {
    PutPartRequest {
        name: name(b"k"),
        condition: Condition::Always,
        upload: 0x1234,
        value_bytes: (1 << 20) + 4,
        offset: 1 << 20,
        part: b"part",
    }
}

fn messages() -> BTreeMap<&'static str, Vec<u8>> {
    let store = store();
    let object = |key| store.get(name(key)).expect("a table");
    let page = message(|to| {
        ScanResponse::begin(to);
        ScanResponse::encode_item(&object(b"k").expect("there"), to);
        ScanResponse::end(ScanNext::Hash(0x1234), to);
    });
    let last_page = message(|to| {
        ScanResponse::begin(to);
        ScanResponse::end(ScanNext::End, to);
    });
    let cut_page = message(|to| {
        ScanResponse::begin(to);
        ScanResponse::encode_item(&object(b"l").expect("there"), to);
        ScanResponse::end(ScanNext::AfterLast, to);
    });
    let scan = |from| message(|to| ScanRequest { table: table(), page_bytes: 4096, from }.encode(to));
    let found = object(b"k").expect("there");
    BTreeMap::from([
        ("get", message(|to| GetRequest { name: name(b"k") }.encode(to))),
        ("get, answer", found.version_and_value().expect("short").to_vec()),
        ("put", message(|to| put(b"k", b"value", Condition::Always).encode(to))),
        ("put, absent", message(|to| put(b"k", b"", Condition::Absent).encode(to))),
        (
            "put, answer",
            WriteResponse { code: Code::Done, version: 7, level: Level::Memory }.encode().to_vec(),
        ),
        (
            "put, answer, flushed",
            WriteResponse { code: Code::Done, version: 7, level: Level::Flushed }.encode().to_vec(),
        ),
        (
            "increment, answer, flushed",
            IncrementResponse { version: 7, sum: -1, level: Level::Flushed }.encode_with_level().to_vec(),
        ),
        (
            "put, wrong version",
            WriteResponse { code: Code::WrongVersion, version: 7, level: Level::Memory }.encode().to_vec(),
        ),
        (
            "delete",
            message(|to| DeleteRequest { name: name(b"k"), condition: Condition::Version(7) }.encode(to)),
        ),
        ("increment", message(|to| IncrementRequest { name: name(b"k"), amount: -2 }.encode(to))),
        (
            "increment, answer",
            IncrementResponse { version: 7, sum: -1, level: Level::Memory }.encode().to_vec(),
        ),
        (
            "multi-get",
            message(|to| {
                [name(b"k"), name(b"none")]
                    .into_iter()
                    .for_each(|name| MultiGetRequest::encode_item(name, to))
            }),
        ),
        (
            "multi-get, answer",
            message(|to| {
                MultiGetResponse::encode_item(Ok(object(b"k")), to);
                MultiGetResponse::encode_item(Ok(object(b"none")), to);
                MultiGetResponse::encode_item(Err(Code::UnknownTable), to);
            }),
        ),
        (
            "multi-put",
            message(|to| MultiPutRequest::encode_item(&put(b"k", b"value", Condition::Version(7)), to)),
        ),
        (
            "create table at, flushed",
            message(|to| CreateTableRequest { level: Level::Flushed, name: "t" }.encode(to)),
        ),
        (
            "create table at, flushed, answer",
            CreateTableResponse { table: table(), level: Level::Flushed }.encode().to_vec(),
        ),
        ("get part", message(|to| get_part().encode(to))),
        (
            "get part, answer",
            message(|to| {
                PartResponse::begin(7, 2 << 20, to);
                to.extend_from_slice(b"part");
            }),
        ),
        ("put part", message(|to| put_part().encode(to))),
        ("scan", scan(ScanFrom::Hash(0x1234))),
        ("scan, behind a key", scan(ScanFrom::After(b"k"))),
        ("scan, answer", page),
        ("scan, answer, last page", last_page),
        ("scan, answer, next page behind its last object", cut_page),
        ("statistics, answer", statistics().encode()),
    ])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn messages_have_the_documented_bytes() {
    let block =
        DOCUMENT.split("```golden\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let documented: BTreeMap<_, _> = block.lines().filter_map(|line| line.split_once(": ")).collect();
    for (name, bytes) in messages() {
        println!("{name}: {}", hex(&bytes));
    }
    let written = messages();
    let written: BTreeMap<_, _> = written.iter().map(|(name, bytes)| (*name, hex(bytes))).collect();
    assert_eq!(written.len(), documented.len());
    for (name, bytes) in written {
        assert_eq!(documented.get(name), Some(&bytes.as_str()), "{name}");
    }
}

#[test]
fn the_document_names_every_code_and_service() {
    for code in Code::ALL.into_iter().skip(1) {
        assert!(DOCUMENT.contains(&format!("\n| {} | ", code as u8)), "{code:?}");
    }
    for service in [
        GET,
        PUT,
        DELETE,
        INCREMENT,
        MULTI_GET,
        MULTI_PUT,
        SCAN,
        CREATE_TABLE,
        STATISTICS,
        DROP_TABLE,
        CREATE_TABLE_AT,
        GET_PART,
        PUT_PART,
    ] {
        assert!(DOCUMENT.contains(&format!("\n| {} | ", service.0)), "{service:?}");
    }
}

#[test]
fn what_is_written_is_read() {
    let messages = messages();
    assert_eq!(GetRequest::decode(&messages["get"]), Ok(GetRequest { name: name(b"k") }));
    assert_eq!(found(&messages["get, answer"]), Ok(Some((1, &b"value"[..]))));
    assert_eq!(found(&[0; 8]), Ok(None));
    assert_eq!(PutRequest::decode(&messages["put"]), Ok(put(b"k", b"value", Condition::Always)));
    assert_eq!(PutRequest::decode(&messages["put, absent"]), Ok(put(b"k", b"", Condition::Absent)));
    let delete = DeleteRequest { name: name(b"k"), condition: Condition::Version(7) };
    assert_eq!(DeleteRequest::decode(&messages["delete"]), Ok(delete));
    let increment = IncrementRequest { name: name(b"k"), amount: -2 };
    assert_eq!(IncrementRequest::decode(&messages["increment"]), Ok(increment));
    let flushed = WriteResponse::decode(&messages["put, answer, flushed"]);
    assert_eq!(flushed, Ok(WriteResponse { code: Code::Done, version: 7, level: Level::Flushed }));
    let flushed = IncrementResponse::decode(&messages["increment, answer, flushed"]);
    assert_eq!(flushed, Ok(IncrementResponse { version: 7, sum: -1, level: Level::Flushed }));
    let create = CreateTableRequest { level: Level::Flushed, name: "t" };
    assert_eq!(CreateTableRequest::decode(&messages["create table at, flushed"]), Ok(create));
    let created = CreateTableResponse { table: table(), level: Level::Flushed };
    assert_eq!(CreateTableResponse::decode(&messages["create table at, flushed, answer"]), Ok(created));
    let names: Vec<_> = MultiGetRequest::decode(&messages["multi-get"]).items().collect();
    assert_eq!(names, [Ok(name(b"k")), Ok(name(b"none"))]);
    let items: Vec<_> = MultiGetResponse::decode(&messages["multi-get, answer"]).items().flatten().collect();
    let item = |code, version, value| MultiGetItem { code, version, value };
    assert_eq!(
        items,
        [item(Code::Done, 1, b"value"), item(Code::Done, 0, b""), item(Code::UnknownTable, 0, b"")]
    );
    let puts: Vec<_> = MultiPutRequest::decode(&messages["multi-put"]).items().collect();
    assert_eq!(puts, [Ok(put(b"k", b"value", Condition::Version(7)))]);
    let page = ScanResponse::decode(&messages["scan, answer"]).expect("a page");
    let item = ScanItem { version: 1, key: b"k", value: b"value", left_out: None };
    assert_eq!((page.next, page.items().collect()), (ScanNext::Hash(0x1234), vec![Ok(item)]));
    for (asked, from) in
        [("scan", ScanFrom::Hash(0x1234)), ("scan, behind a key", ScanFrom::After(&b"k"[..]))]
    {
        let scan = ScanRequest { table: table(), page_bytes: 4096, from };
        assert_eq!(ScanRequest::decode(&messages[asked]), Ok(scan));
    }
    let next = |answer: &str| ScanResponse::decode(&messages[answer]).map(|page| page.next);
    assert_eq!(next("scan, answer, last page"), Ok(ScanNext::End));
    assert_eq!(next("scan, answer, next page behind its last object"), Ok(ScanNext::AfterLast));
    assert_eq!(ShardStatistics::decode(&messages["statistics, answer"]), Ok(statistics()));
    assert_eq!(GetPartRequest::decode(&messages["get part"]), Ok(get_part()));
    let found = PartResponse { version: 7, value_bytes: 2 << 20, part: b"part" };
    assert_eq!(PartResponse::decode(&messages["get part, answer"]), Ok(Some(found)));
    assert_eq!(PartResponse::decode(&PartResponse::NONE), Ok(None));
    assert_eq!(PutPartRequest::decode(&messages["put part"]), Ok(put_part()));
}

#[test]
fn what_cannot_be_a_part_of_a_long_value_is_malformed() {
    let (last, whole) = (put_part(), vec![7; PART_BYTES_MAX + PART_ALIGN]);
    let first = PutPartRequest { upload: 0, offset: 0, part: &whole[..PART_BYTES_MAX], ..last };
    let taken = [last, first, PutPartRequest { part: b"", ..last }];
    assert!(taken.iter().all(PutPartRequest::is_part));
    assert!(last.is_last() && !first.is_last());
    for (wrong, why) in [
        (PutPartRequest { part: &whole, ..first }, "it is longer than a part may be"),
        (PutPartRequest { part: &whole[..100], ..first }, "more follows, and it is no whole pieces"),
        (PutPartRequest { part: b"longer", ..last }, "it is more than the value"),
        (PutPartRequest { offset: (1 << 20) - 1, part: b"parts", ..last }, "it begins within a piece"),
        (PutPartRequest { upload: 0, ..last }, "it continues nothing"),
        (PutPartRequest { upload: 5, ..first }, "a first one has no number yet"),
        (PutPartRequest { part: b"", ..first }, "nothing was begun that it could end"),
        (PutPartRequest { value_bytes: 1 << 20, ..first }, "the value is one that is written at one go"),
        (PutPartRequest { value_bytes: (512 << 20) + 1, ..first }, "no value is that long"),
        (PutPartRequest { offset: u64::MAX, ..last }, "it ends nowhere"),
    ] {
        assert!(!wrong.is_part(), "{why}");
        assert_eq!(PutPartRequest::decode(&message(|to| wrong.encode(to))), Err(Malformed), "{why}");
    }
    assert_eq!(PartResponse::decode(&[0; 16]), Err(Malformed), "a part of nothing");
    assert_eq!(PartResponse::decode(&[1; 15]), Err(Malformed));
}

#[test]
fn a_shard_that_no_store_has_is_malformed() {
    let with = |shard, shards, tables: &[&str]| {
        let tables = tables.iter().map(|name| (*name).to_owned()).collect();
        ShardStatistics::decode(&ShardStatistics { shard, shards, tables, ..statistics() }.encode())
    };
    assert!(with(SHARDS_MAX - 1, SHARDS_MAX, &["t"]).is_ok());
    for (shard, shards) in [(0, 0), (2, 2), (0, SHARDS_MAX + 1), (0, u32::MAX)] {
        assert_eq!(with(shard, shards, &["t"]), Err(Malformed), "shard {shard} of {shards}");
    }
    assert_eq!(with(0, 1, &[""]), Err(Malformed), "a table without a name");
    assert_eq!(with(0, 1, &[&"n".repeat(65)]), Err(Malformed), "a longer name than tables have");
}

#[test]
fn a_version_that_no_object_has_does_not_become_another_condition() {
    for version in [0, u64::MAX] {
        let written = message(|to| put(b"k", b"", Condition::Version(version)).encode(to));
        let read = PutRequest::decode(&written).expect("it is whole").condition;
        assert!(matches!(read, Condition::Version(read) if read == u64::MAX - 1), "{read:?}");
    }
}

#[test]
fn what_is_cut_short_or_over_a_limit_is_refused() {
    let messages = messages();
    assert_eq!(GetRequest::decode(&messages["get"][..8]), Err(Malformed), "an empty key");
    assert_eq!(PutRequest::decode(&messages["put"][..20]), Err(Malformed));
    let long = [&messages["put"][..21], &vec![0; crate::VALUE_BYTES_MAX + 1][..]].concat();
    assert_eq!(PutRequest::decode(&long), Err(Malformed));
    assert_eq!(DeleteRequest::decode(&messages["delete"][..16]), Err(Malformed));
    assert_eq!(IncrementRequest::decode(&messages["increment"][..3]), Err(Malformed));
    assert_eq!(ScanRequest::decode(&messages["scan"][..19]), Err(Malformed));
    let both = [&messages["scan"][..], b"k"].concat();
    assert_eq!(ScanRequest::decode(&both), Err(Malformed), "a hash and a key");
    let long = [&messages["scan, behind a key"][..], &vec![0; crate::KEY_BYTES_MAX]].concat();
    assert_eq!(ScanRequest::decode(&long), Err(Malformed), "no key is that long");
    let none = &messages["scan, answer, next page behind its last object"][..8];
    assert_eq!(ScanResponse::decode(none).map(drop), Err(Malformed), "behind the last object of none");
    let items: Vec<_> = MultiGetRequest::decode(&messages["multi-get"][..16]).items().collect();
    assert_eq!(items, [Ok(name(b"k")), Err(Malformed)]);
    let mut huge = messages["multi-put"].clone();
    huge[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(MultiPutRequest::decode(&huge).items().collect::<Vec<_>>(), [Err(Malformed)]);
    assert_eq!(WriteResponse::decode(&[99; 9]), Err(Malformed), "an unknown code");
    assert_eq!(found(&[0; 9]), Err(Malformed), "a value of nothing");
    for message in [&b""[..], b"\x01", b"\x10t", b"\x01\xff"] {
        assert_eq!(CreateTableRequest::decode(message), Err(Malformed), "{message:?}");
    }
    let answer = &messages["create table at, flushed, answer"];
    for answer in [&answer[..8], &[&answer[..], b"t"].concat(), &[&answer[..8], b"\xff"].concat()] {
        assert_eq!(CreateTableResponse::decode(answer), Err(Malformed), "{answer:?}");
    }
}

#[test]
fn shards_have_about_the_same_number_of_objects() {
    for shards in [1, 2, 3, 7, 200] {
        let mut counts = vec![0_u32; shards as usize];
        for number in 0..100_000_u32 {
            counts[shard_of(name(&number.to_le_bytes()), shards) as usize] += 1;
        }
        let mean = 100_000 / shards;
        let near = mean - mean / 5..=mean + mean / 5;
        assert!(counts.iter().all(|count| near.contains(count)), "{counts:?}");
    }
}
