//! Commands on keys, whatever their values are.

use super::call::{Call, Done, Refusal, subcommand, value};
use super::connection::{check_database, database, database_of};
use super::copying::Copying;
use super::long::{Keys, Long};
use crate::resp::parse::Args;
use crate::resp::{DATABASES, glob};
use crate::store::{Collection, CollectionKind, Condition, Expiry, PageLimits, ScanFrom, ScanNext};
use crate::{Name, VALUE_BYTES_MAX, decimal};

/// The subcommands of `OBJECT`.
pub const OBJECT_SUBCOMMANDS: &[&str] = &["encoding", "freq", "idletime", "refcount"];

/// The subcommands of `MEMORY`.
pub const MEMORY_SUBCOMMANDS: &[&str] = &["usage"];

pub fn del(call: &mut Call<'_>) -> Done {
    let mut deleted = 0;
    for key in call.args.from(1) {
        let name = call.named(key)?;
        deleted += usize::from(call.store().delete(name, Condition::Always)?.is_some());
    }
    call.reply.count(deleted);
    Ok(())
}

pub fn exists(call: &mut Call<'_>) -> Done {
    let mut there = 0;
    for key in call.args.from(1) {
        let name = call.named(key)?;
        there += usize::from(call.store().get(name)?.is_some());
    }
    call.reply.count(there);
    Ok(())
}

pub fn kind(call: &mut Call<'_>) -> Done {
    let name = call.name(1)?;
    let object = call.shard.store().get(name)?;
    let kind = call.shard.store().collection_kind(name)?;
    call.reply.simple(if object.is_some() { type_name(kind) } else { "none" });
    Ok(())
}

/// The type of an object, in Redis's words.
fn type_name(kind: Option<CollectionKind>) -> &'static str {
    match kind {
        None => "string",
        Some(CollectionKind::List) => "list",
        Some(CollectionKind::Hash) => "hash",
        Some(CollectionKind::Set) => "set",
        Some(CollectionKind::Sorted) => "zset",
    }
}

/// How a collection is stored, in Redis's words.
fn encoding_name(kind: CollectionKind) -> &'static str {
    match kind {
        CollectionKind::List => "quicklist",
        CollectionKind::Hash | CollectionKind::Set => "hashtable",
        CollectionKind::Sorted => "skiplist",
    }
}

pub fn dbsize(call: &mut Call<'_>) -> Done {
    let table = call.table();
    let objects = call.store().table_objects(table);
    call.reply.integer(objects as i64);
    Ok(())
}

pub fn keys(call: &mut Call<'_>) -> Done {
    let long = Long::Keys(Keys::new(call.pattern(1)?, call.table(), call.reply.len()));
    call.session.long = Some(Box::new(long));
    Ok(())
}

/// The options of `SCAN`.
struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// The type that is wanted.
    kind: Option<&'a [u8]>,
}

pub fn scan(call: &mut Call<'_>) -> Done {
    /// Pages that one call looks at, when few objects are found.
    const PAGES_MAX: usize = 64;
    const LOOKS_MAX: usize = 4096;
    let cursor = decimal::parse(call.args.at(1)).and_then(|cursor| u32::try_from(cursor).ok());
    let cursor = cursor.ok_or(Refusal::of("ERR invalid cursor"))?;
    let options = scan_options(call)?;
    let count = options.count.clamp(1, glob::looks(options.pattern.unwrap_or_default(), LOOKS_MAX));
    call.reply.array(2);
    let (start, mut found, mut looked_at) = (call.reply.len(), 0, 0);
    let mut from = u64::from(cursor) << 32;
    for _ in 0..PAGES_MAX {
        let limits = PageLimits { bytes: usize::MAX, looks: count };
        let (table, reply, store) = (call.table(), &mut *call.reply, call.shard.store());
        let next = store.scan(table, ScanFrom::Hash(from), limits, |object| {
            looked_at += 1;
            let matches = |pattern| glob::is_match(pattern, object.key());
            let is_of = |kind: &[u8]| kind.eq_ignore_ascii_case(type_name(store.kind_of(&object)).as_bytes());
            if options.pattern.is_none_or(matches) && options.kind.is_none_or(is_of) {
                reply.bulk(object.key());
                found += 1;
            }
        })?;
        from = match next {
            ScanNext::Hash(hash) => hash,
            // A page has no end but that of its cells.
            ScanNext::End | ScanNext::AfterLast => 0,
        };
        if from == 0 || looked_at >= count {
            break;
        }
    }
    call.reply.insert_array(start, found);
    call.reply.insert_bulk(start, (from >> 32).to_string().as_bytes());
    Ok(())
}

fn scan_options<'a>(call: &Call<'a>) -> Result<ScanOptions<'a>, Refusal> {
    let mut options = ScanOptions { pattern: None, count: 10, kind: None };
    for number in (2..call.args.len()).step_by(2) {
        let argument = call.args.get(number + 1).ok_or(Refusal::SYNTAX)?;
        match () {
            () if call.is(number, "match") => options.pattern = Some(call.pattern(number + 1)?),
            () if call.is(number, "type") => options.kind = Some(argument),
            () if call.is(number, "count") => {
                let count = usize::try_from(call.integer(number + 1)?).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Refusal::SYNTAX)?;
            }
            () => return Err(Refusal::SYNTAX),
        }
    }
    Ok(options)
}

/// Draws among some neighbours of a place drawn at random: where there are few keys, among all of them.
pub fn randomkey(call: &mut Call<'_>) -> Done {
    const NEIGHBOURS: usize = 16;
    let (table, start) = (call.table(), call.engine.draw());
    let mut neighbours = Vec::new();
    // From that place on, and from the first place up to it.
    for (mut from, end) in [(start, u64::MAX), (0, start)] {
        while from < end && neighbours.len() < NEIGHBOURS {
            let limits = PageLimits { bytes: usize::MAX, looks: 64 };
            let next = call.shard.store().scan(table, ScanFrom::Hash(from), limits, |object| {
                neighbours.push(object.key());
            })?;
            match next {
                ScanNext::Hash(hash) => from = hash,
                ScanNext::End | ScanNext::AfterLast => break,
            }
        }
    }
    match neighbours.len() {
        0 => call.reply.null(),
        count => call.reply.bulk(neighbours[(call.engine.draw() % count as u64) as usize]),
    }
    Ok(())
}

pub fn rename(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.name(1)?, call.name(2)?);
    if !call.store().rename(from, to)? {
        return Err(Refusal::NO_SUCH_KEY);
    }
    call.reply.ok();
    Ok(())
}

pub fn renamenx(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.name(1)?, call.name(2)?);
    if call.store().get(from)?.is_none() {
        return Err(Refusal::NO_SUCH_KEY);
    }
    let renames = call.store().get(to)?.is_none();
    if renames {
        call.store().rename(from, to)?;
    }
    call.reply.integer(i64::from(renames));
    Ok(())
}

/// The options of `COPY`.
pub struct CopyOptions {
    /// Where the copy goes.
    pub database: usize,
    pub replaces: bool,
}

/// The options among arguments, in a client's database.
pub fn copy_options(args: Args<'_>, database: usize) -> Result<CopyOptions, Refusal> {
    let (mut options, mut at) = (CopyOptions { database, replaces: false }, 3);
    while let Some(option) = args.get(at) {
        match args.get(at + 1) {
            _ if option.eq_ignore_ascii_case(b"replace") => options.replaces = true,
            Some(number) if option.eq_ignore_ascii_case(b"db") => {
                at += 1;
                options.database = database_of(number)?;
            }
            _ => return Err(Refusal::SYNTAX),
        }
        at += 1;
    }
    Ok(options)
}

pub fn copy(call: &mut Call<'_>) -> Done {
    let CopyOptions { database, replaces } = copy_options(call.args, call.session.database)?;
    check_database(call, database)?;
    let from = call.name(1)?;
    let to = Name::new(call.engine.tables[database], call.args.at(2))?;
    if from == to {
        return Err(Refusal::of("ERR source and destination objects are the same"));
    }
    if call.shard.store().any_collection(from)?.is_some() {
        return copy_collection(call, from, to, replaces);
    }
    let object = call.store().get(from)?;
    if object.is_some_and(|object| object.is_long()) {
        let copies = put_copy(call, from, to, replaces)?;
        call.reply.integer(i64::from(copies));
        return Ok(());
    }
    let object = object.map(|object| (object.to_vec(), object.deadline()));
    let copies = object.is_some() && (replaces || call.store().get(to)?.is_none());
    if let Some((bytes, deadline)) = object.filter(|_| copies) {
        let expiry = deadline.map_or(Expiry::Never, Expiry::At);
        call.store().put_until(to, value(&bytes)?, Condition::Always, expiry)?;
    }
    call.reply.integer(i64::from(copies));
    Ok(())
}

/// Puts the copy of a long value where a name is, unless that is taken; says whether it did.
fn put_copy(call: &mut Call<'_>, from: Name<'_>, to: Name<'_>, replaces: bool) -> Result<bool, Refusal> {
    if !replaces && call.store().get(to)?.is_some() {
        return Ok(false);
    }
    let is_it = |copying: &Copying| copying.is_whole_of(from, to.table(), call.shard.store());
    let copying = call.session.copying.take().filter(|copying| is_it(copying));
    let copying = copying.ok_or_else(|| {
        Refusal::new(format!(
            "ERR a string of more than {VALUE_BYTES_MAX} bytes is not copied in a transaction"
        ))
    })?;
    let deadline = call.store().get(from)?.and_then(|object| object.deadline());
    call.store().put_long(to, &copying.into_copy(), deadline.map_or(Expiry::Never, Expiry::At))?;
    Ok(true)
}

fn copy_collection(call: &mut Call<'_>, from: Name<'_>, to: Name<'_>, replaces: bool) -> Done {
    let copies = replaces || call.store().get(to)?.is_none();
    if copies {
        let deadline = call.store().get(from)?.and_then(|object| object.deadline());
        if let Some(collection) = call.shard.store().any_collection(from)?.cloned() {
            call.store().put_collection(to, collection, deadline.map_or(Expiry::Never, Expiry::At))?;
        }
    }
    call.reply.integer(i64::from(copies));
    Ok(())
}

pub fn move_to(call: &mut Call<'_>) -> Done {
    let to_database = database(call, 2)?;
    let (from, to) = (call.name(1)?, Name::new(call.engine.tables[to_database], call.args.at(1))?);
    if from == to {
        return Err(Refusal::of("ERR source and destination objects are the same"));
    }
    let moves = if call.shard.needs_copy(from, to.table()) {
        let moves = put_copy(call, from, to, false)?;
        moves && call.store().delete(from, Condition::Always)?.is_some()
    } else {
        call.store().get(to)?.is_none() && call.store().rename(from, to)?
    };
    call.reply.integer(i64::from(moves));
    Ok(())
}

pub fn flushdb(call: &mut Call<'_>) -> Done {
    check_flush(call)?;
    let table = call.table();
    clear(call, table)?;
    call.reply.ok();
    Ok(())
}

pub fn flushall(call: &mut Call<'_>) -> Done {
    check_flush(call)?;
    for database in 0..DATABASES {
        let table = call.engine.tables[database];
        clear(call, table)?;
    }
    call.reply.ok();
    Ok(())
}

fn clear(call: &mut Call<'_>, table: crate::TableId) -> Done {
    call.store().clear_table(table).map_err(|error| Refusal::new(format!("ERR {error}")))
}

/// Objects are gone at once either way; their memory is given back a little at a time.
fn check_flush(call: &Call<'_>) -> Done {
    match call.args.len() {
        1 => Ok(()),
        2 if call.is(1, "sync") || call.is(1, "async") => Ok(()),
        _ => Err(Refusal::SYNTAX),
    }
}

pub fn object(call: &mut Call<'_>) -> Done {
    /// The longest string that Redis keeps together with its head.
    const EMBEDDED_BYTES_MAX: usize = 44;
    let (subcommand, arguments) = subcommand(call, OBJECT_SUBCOMMANDS)?;
    if arguments != 3 {
        return Err(Refusal::arguments(&format!("object|{subcommand}")));
    }
    let name = call.name(2)?;
    let Some(object) = call.shard.store().get(name)? else {
        call.reply.null();
        return Ok(());
    };
    match subcommand {
        "encoding" if object.is_collection() => {
            let kind = call.shard.store().kind_of(&object);
            call.reply.bulk(kind.map_or("", encoding_name).as_bytes());
        }
        "encoding" => {
            let is_number =
                object.version_and_value().is_some_and(|bytes| decimal::parse(&bytes[8..]).is_some());
            let is_short = object.value_bytes() <= EMBEDDED_BYTES_MAX;
            let encoding = if is_number {
                "int"
            } else if is_short {
                "embstr"
            } else {
                "raw"
            };
            call.reply.bulk(encoding.as_bytes());
        }
        "refcount" => call.reply.integer(1),
        "idletime" => {
            return Err(Refusal::of("ERR the time of the last access is not recorded"));
        }
        _ if call.shard.store().use_count(name).is_some() => {
            let uses = call.shard.store().use_count(name).unwrap_or(0);
            call.reply.integer(i64::from(uses));
        }
        _ => {
            return Err(Refusal::of(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked.",
            ));
        }
    }
    Ok(())
}

pub fn memory(call: &mut Call<'_>) -> Done {
    let (_, arguments) = subcommand(call, MEMORY_SUBCOMMANDS)?;
    if arguments != 3 && !(arguments == 5 && call.is(3, "samples")) {
        return Err(Refusal::SYNTAX);
    }
    let name = call.name(2)?;
    match call.shard.store().get(name)? {
        Some(object) => {
            let beside = call.shard.store().any_collection(name)?.map_or(0, Collection::bytes);
            call.reply.count(object.memory_bytes() + beside);
        }
        None => call.reply.null(),
    }
    Ok(())
}
