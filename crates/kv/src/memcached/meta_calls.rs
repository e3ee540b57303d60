//! The meta commands.

use super::call::{Call, End, Refusal, push_value, value_of};
use super::classic::{Stored, expire_tail, extend, forget_unless_stored, put, sum};
use super::meta::{Meta, MetaVerb};
use super::parse::Mode;
use crate::store::{Object, Tail};

pub fn run(call: &mut Call<'_>, meta: &Meta<'_>) {
    let start = call.out.len();
    let done = match meta.verb {
        MetaVerb::Get => get(call, meta),
        MetaVerb::Set => store(call, meta),
        MetaVerb::Delete => delete(call, meta),
        MetaVerb::Add => add(call, meta),
    };
    match done {
        Ok(Kind::Nominal) if meta.options.is_quiet => call.out.truncate(start),
        Ok(_) => {}
        Err(refusal) => {
            call.out.truncate(start);
            call.line(&refusal.to_string());
        }
    }
}

/// What is known of an object.
pub fn debug(call: &mut Call<'_>, key: &[u8]) {
    let now = call.shard.store().clock();
    let Some(object) = call.value(key) else { return call.line("EN") };
    let (seconds, version, bytes) = (seconds_left(&object, now), object.version(), object.memory_bytes());
    call.out.extend_from_slice(b"ME ");
    call.out.extend_from_slice(key);
    call.line(&format!(" exp={seconds} cas={version} size={bytes}"));
}

/// Whether a client that is to be quiet gets an answer all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It expects this one, and needs none.
    Nominal,
    Other,
}

/// Whether a client is to bring a new value, or another one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Renewal {
    is_won: bool,
    is_stale: bool,
    /// Another client was asked before.
    was_won: bool,
}

fn get(call: &mut Call<'_>, meta: &Meta<'_>) -> Result<Kind, Refusal> {
    call.engine.memcached.counters.gets.increment();
    let (key, options, now) = (&*meta.key, &meta.options, call.shard.store().clock());
    let mut is_created = false;
    if call.value(key).is_none() {
        let Some(exptime) = options.creates else {
            answer(call, meta, "EN", |_| None);
            return Ok(Kind::Nominal);
        };
        put(call, key, b"", End::of(exptime, now), Tail::default())?;
        is_created = true;
    } else {
        call.engine.memcached.counters.hits.increment();
        call.count_use(key);
    }
    // One that was created with a time that is over is gone.
    let Some(tail) = call.value(key).map(|object| object.tail()) else {
        answer(call, meta, "EN", |_| None);
        return Ok(Kind::Nominal);
    };
    let ends_soon = |seconds: i64| {
        let until = now.saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000));
        tail.deadline.is_some_and(|deadline| deadline < until)
    };
    let asks = is_created || tail.is_stale || options.renews.is_some_and(ends_soon);
    let renewal = Renewal { is_won: asks && !tail.is_won, is_stale: tail.is_stale, was_won: tail.is_won };
    if renewal.is_won {
        call.change_tail(key, Tail { is_won: true, ..tail })?;
    }
    answer_object(call, meta, renewal);
    if let Some(exptime) = options.exptime {
        call.engine.memcached.counters.touches.increment();
        expire_tail(call, key, exptime, Tail { is_won: asks || tail.is_won, ..tail })?;
    }
    Ok(Kind::Other)
}

/// Answers with an object that is there.
fn answer_object(call: &mut Call<'_>, meta: &Meta<'_>, renewal: Renewal) {
    let (now, name) = (call.shard.store().clock(), call.name(&meta.key));
    let Some(object) = value_of(call.shard.store(), name) else { return };
    let code =
        if meta.options.gives_value { format!("VA {}", object.value_bytes()) } else { "HD".to_owned() };
    call.out.extend_from_slice(code.as_bytes());
    let mut seconds = seconds_left(&object, now);
    push_flags(call.out, meta, |flag| match flag {
        // A time that is wanted behind the one that is set is the new one.
        b'T' => {
            seconds = match End::of(meta.options.exptime?, now) {
                End::Never => -1,
                End::At(deadline) => seconds_until(deadline, now),
                End::Past => 0,
            };
            None
        }
        b'c' => Some(format!("c{}", object.version())),
        b'f' => Some(format!("f{}", object.tail().flags)),
        b's' => Some(format!("s{}", object.value_bytes())),
        b't' => Some(format!("t{seconds}")),
        _ => None,
    });
    let marks = [(renewal.was_won, b" Z"), (renewal.is_stale, b" X"), (renewal.is_won, b" W")];
    marks.iter().filter(|(is_so, _)| *is_so).for_each(|(_, mark)| call.out.extend_from_slice(*mark));
    call.out.extend_from_slice(b"\r\n");
    if meta.options.gives_value {
        push_value(call.out, &object);
    }
}

fn store(call: &mut Call<'_>, meta: &Meta<'_>) -> Result<Kind, Refusal> {
    call.engine.memcached.counters.writes.increment();
    let stored = try_store(call, meta)?;
    let (code, version, kind) = match stored {
        Stored::Yes(version) => ("HD", version, Kind::Nominal),
        Stored::No => ("NS", None, Kind::Other),
        Stored::Exists => ("EX", None, Kind::Other),
        Stored::NotFound => ("NF", None, Kind::Other),
    };
    answer(call, meta, code, |flag| match flag {
        b'c' => Some(format!("c{}", version?)),
        b's' => Some(format!("s{}", meta.value.len())),
        _ => None,
    });
    Ok(kind)
}

fn try_store(call: &mut Call<'_>, meta: &Meta<'_>) -> Result<Stored, Refusal> {
    let (key, options, now) = (&*meta.key, &meta.options, call.shard.store().clock());
    let found = call.version_and_tail(key);
    let end = End::of(options.exptime.unwrap_or(0), now);
    let tail = Tail { flags: options.flags, ..Tail::default() };
    match (options.mode, found, options.compare) {
        (Mode::Append | Mode::Prepend, Some((version, _)), Some(wanted)) if version != wanted => {
            Ok(Stored::Exists)
        }
        (Mode::Append | Mode::Prepend, None, _) => match options.creates {
            Some(exptime) => put(call, key, meta.value, End::of(exptime, now), tail),
            None => Ok(Stored::No),
        },
        (mode @ (Mode::Append | Mode::Prepend), Some(_), _) => extend(call, key, meta.value, mode),
        (Mode::Add, Some(_), _) | (Mode::Replace, None, None) => Ok(Stored::No),
        (Mode::Set | Mode::Replace, None, Some(_)) => Ok(Stored::NotFound),
        (Mode::Set | Mode::Replace, Some((version, old)), Some(wanted)) if version != wanted => {
            if !options.is_stale || wanted > version {
                return Ok(Stored::Exists);
            }
            // Something newer is there, or will be: until then this one is better than what is there.
            let tail = Tail { is_stale: true, is_won: old.is_won, ..tail };
            put(call, key, meta.value, old.deadline.map_or(End::Never, End::At), tail)
        }
        _ => {
            let stored = put(call, key, meta.value, end, tail);
            forget_unless_stored(call, key, options.mode, stored)
        }
    }
}

fn delete(call: &mut Call<'_>, meta: &Meta<'_>) -> Result<Kind, Refusal> {
    call.engine.memcached.counters.deletes.increment();
    let (key, options) = (&*meta.key, &meta.options);
    let Some((version, tail)) = call.version_and_tail(key) else {
        answer(call, meta, "NF", |_| None);
        return Ok(Kind::Other);
    };
    if options.compare.is_some_and(|wanted| wanted != version) {
        answer(call, meta, "EX", |_| None);
        return Ok(Kind::Other);
    }
    match (options.is_stale, call.value(key).map(|object| object.to_vec())) {
        (true, Some(value)) => {
            // A new version: who read the one before cannot store what it made of it.
            let end = match options.exptime {
                Some(exptime) => End::of(exptime, call.shard.store().clock()),
                None => tail.deadline.map_or(End::Never, End::At),
            };
            call.put(key, &value, end, |_| Tail { is_stale: true, is_won: false, ..tail })?;
        }
        _ => _ = call.delete(key)?,
    }
    answer(call, meta, "HD", |_| None);
    Ok(Kind::Nominal)
}

fn add(call: &mut Call<'_>, meta: &Meta<'_>) -> Result<Kind, Refusal> {
    let (key, options, now) = (&*meta.key, &meta.options, call.shard.store().clock());
    let version = call.value(key).map(|object| object.version());
    if version.is_some_and(|version| options.compare.is_some_and(|wanted| wanted != version)) {
        answer(call, meta, "EX", |_| None);
        return Ok(Kind::Other);
    }
    let number = match (sum(call, key, options.amount, options.direction)?, options.creates) {
        (Some((number, _)), _) => {
            if let (Some(exptime), Some(object)) = (options.exptime, call.value(key)) {
                let tail = object.tail();
                expire_tail(call, key, exptime, tail)?;
            }
            number
        }
        (None, Some(exptime)) => {
            let text = options.initial.to_string();
            put(call, key, text.as_bytes(), End::of(exptime, now), Tail::default())?;
            options.initial
        }
        (None, None) => {
            answer(call, meta, "NF", |_| None);
            return Ok(Kind::Other);
        }
    };
    let (text, is_wanted) = (number.to_string(), options.gives_value);
    let object = call.value(key).map(|object| (object.version(), seconds_left(&object, now)));
    let code = if is_wanted { format!("VA {}", text.len()) } else { "HD".to_owned() };
    answer(call, meta, &code, |flag| match flag {
        b'c' => Some(format!("c{}", object?.0)),
        b't' => Some(format!("t{}", object?.1)),
        _ => None,
    });
    if is_wanted {
        call.line(&text);
    }
    Ok(Kind::Nominal)
}

/// Answers with a code, and with the flags that are to be given back.
fn answer(call: &mut Call<'_>, meta: &Meta<'_>, code: &str, value_of: impl FnMut(u8) -> Option<String>) {
    call.out.extend_from_slice(code.as_bytes());
    push_flags(call.out, meta, value_of);
    call.line("");
}

/// Writes the flags that are to be given back, in the order in which they came.
fn push_flags(out: &mut Vec<u8>, meta: &Meta<'_>, mut value_of: impl FnMut(u8) -> Option<String>) {
    for word in meta.flags {
        match word[0] {
            b'O' => out.extend_from_slice(&[b" ", word].concat()),
            b'k' => {
                let mark: &[u8] = if meta.is_encoded() { b" b" } else { b"" };
                out.extend_from_slice(&[b" k", meta.sent_key, mark].concat());
            }
            flag => {
                if let Some(text) = value_of(flag) {
                    out.extend_from_slice(format!(" {text}").as_bytes());
                }
            }
        }
    }
}

/// Seconds until an object ends, -1 if it never does.
fn seconds_left(object: &Object<'_>, now: u64) -> i64 {
    object.deadline().map_or(-1, |deadline| seconds_until(deadline, now))
}

fn seconds_until(deadline: u64, now: u64) -> i64 {
    i64::try_from(deadline.saturating_sub(now).div_ceil(1000)).unwrap_or(i64::MAX)
}
