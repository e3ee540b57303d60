//! Scripts that clients bring with them: those of redis-py's locks, and of Celery's broker.
//!
//! There is no interpreter: a script of a user could hold the shard for as long as it likes. The scripts of
//! these clients are known by the SHA-1 digests by which clients ask for them, and are commands of ours.

use core::fmt::Write;

use sha1::{Digest, Sha1};

use super::call::{Call, Done, Refusal, joined, string, subcommand};
use super::numbers;
use crate::resp::parse::Args;
use crate::resp::reply::Reply;
use crate::store::Condition;

/// The subcommands of `SCRIPT`.
pub const SCRIPT_SUBCOMMANDS: &[&str] = &["exists", "flush", "load"];

/// A script.
struct Script {
    digest: &'static str,
    /// How many keys it takes, and how many arguments.
    takes: (usize, usize),
    run: fn(&mut Call<'_>) -> Done,
}

/// Where a script's keys are, of which it gets one or two.
const KEY: usize = 3;

const SCRIPTS: &[Script] = &[
    // Locks: they are given back, held longer, and held again, by their owner alone.
    Script { digest: "c3f8721cbb97f72bc19e972846bd7aaf91901658", takes: (1, 1), run: release },
    Script { digest: "a4e8783852e6b949f9ef3a97212805108459a890", takes: (1, 3), run: extend },
    Script { digest: "1cac51482acf5858da00f6d685d68f886cd6b6b2", takes: (1, 2), run: reacquire },
    // Queues of an exchange: one is added until a time, and those whose time is over are removed.
    Script { digest: "ef7a9e205fbaf46bf959e1522ff796622fc676c7", takes: (2, 3), run: refresh_binding },
    Script { digest: "9a2b966a0a2d2d0e36ec32bc30fc89342b94a4bf", takes: (1, 3), run: sweep_bindings },
];

const NOT_KNOWN: Refusal =
    Refusal::of("ERR scripts are not run, but for those of redis-py's locks and of Celery's broker");

fn known(digest: &[u8]) -> Option<&'static Script> {
    SCRIPTS.iter().find(|script| digest.eq_ignore_ascii_case(script.digest.as_bytes()))
}

fn digest_of(text: &[u8]) -> String {
    let mut digest = String::with_capacity(40);
    for byte in Sha1::digest(text) {
        let _never_fails = write!(digest, "{byte:02x}");
    }
    digest
}

pub fn eval(call: &mut Call<'_>) -> Done {
    run(call, known(digest_of(call.args.at(1)).as_bytes()).ok_or(NOT_KNOWN)?)
}

pub fn evalsha(call: &mut Call<'_>) -> Done {
    let script = known(call.args.at(1));
    run(call, script.ok_or(Refusal::of("NOSCRIPT No matching script. Please use EVAL."))?)
}

fn run(call: &mut Call<'_>, script: &Script) -> Done {
    let (keys, args) = script.takes;
    let given = usize::try_from(call.integer(2)?);
    let given = given.map_err(|_| Refusal::of("ERR Number of keys can't be negative"))?;
    if given > call.args.len() - KEY {
        return Err(Refusal::of("ERR Number of keys can't be greater than number of args"));
    }
    if given != keys || call.args.len() < KEY + keys + args {
        return Err(Refusal::new(format!("ERR the script takes {keys} keys and {args} arguments")));
    }
    (script.run)(call)
}

pub fn script(call: &mut Call<'_>) -> Done {
    match subcommand(call, SCRIPT_SUBCOMMANDS)? {
        ("load", 3) => {
            let digest = digest_of(call.args.at(2));
            known(digest.as_bytes()).ok_or(NOT_KNOWN)?;
            call.reply.bulk(digest.as_bytes());
        }
        ("exists", count @ 3..) => {
            call.reply.array(count - 2);
            for digest in call.args.from(2) {
                call.reply.integer(i64::from(known(digest).is_some()));
            }
        }
        // What is known is not stored, and stays.
        ("flush", 2 | 3) => call.reply.ok(),
        (name, _) => return Err(Refusal::arguments(&format!("script|{name}"))),
    }
    Ok(())
}

/// Whether the key is a string that is the first argument.
fn is_owner(call: &Call<'_>) -> Result<bool, Refusal> {
    let token = string(call.shard.store(), call.name(KEY)?)?;
    Ok(token.is_some_and(|token| {
        token.value_bytes() == call.args.at(4).len() && token.to_vec() == call.args.at(4)
    }))
}

fn release(call: &mut Call<'_>) -> Done {
    let (name, is_owner) = (call.name(KEY)?, is_owner(call)?);
    if is_owner {
        call.store().delete(name, Condition::Always)?;
    }
    call.reply.integer(i64::from(is_owner));
    Ok(())
}

fn extend(call: &mut Call<'_>) -> Done {
    let (name, now) = (call.name(KEY)?, call.store().clock());
    let more = numbers::float(call.args.at(5))?;
    let deadline = call.store().get(name)?.and_then(|object| object.deadline());
    if let (true, Some(deadline)) = (is_owner(call)?, deadline) {
        let rest = if call.args.at(6) == b"0" { deadline.saturating_sub(now) as f64 } else { 0.0 };
        return expire(call, more + rest);
    }
    call.reply.integer(0);
    Ok(())
}

fn reacquire(call: &mut Call<'_>) -> Done {
    let time = numbers::float(call.args.at(5))?;
    if is_owner(call)? {
        return expire(call, time);
    }
    call.reply.integer(0);
    Ok(())
}

/// Lets the key expire after milliseconds, and replies that it is so.
fn expire(call: &mut Call<'_>, time_ms: f64) -> Done {
    let (name, now) = (call.name(KEY)?, call.store().clock());
    if time_ms > 0.0 {
        call.store().set_deadline(name, Some(now.saturating_add(time_ms as u64)))?;
    } else {
        call.store().delete(name, Condition::Always)?;
    }
    call.reply.integer(1);
    Ok(())
}

fn refresh_binding(call: &mut Call<'_>) -> Done {
    let args = call.args;
    let time = numbers::float(args.at(7))?;
    perform(call, &[b"SADD", args.at(KEY), args.at(5)])?;
    let deadline = (call.engine.now_ms() as f64 + time).to_string();
    perform(call, &[b"ZADD", args.at(4), b"GT", deadline.as_bytes(), args.at(6)])?;
    call.reply.null();
    Ok(())
}

fn sweep_bindings(call: &mut Call<'_>) -> Done {
    let (args, now) = (call.args, call.engine.now_ms() as f64);
    let most = usize::try_from(call.integer(6)?).map_err(|_| Refusal::NOT_AN_INTEGER)?;
    let overdue: Vec<Vec<u8>> = super::sorted::sorted(call, KEY)?.map_or_else(Vec::new, |deadlines| {
        let overdue = deadlines.from(0).take(most).take_while(|(_, deadline)| *deadline <= now);
        overdue.map(|(exchange, _)| exchange.to_vec()).collect()
    });
    for exchange in &overdue {
        let (table, permanent) = ([args.at(4), exchange].concat(), [args.at(5), exchange].concat());
        let permanent = call.named(&permanent)?;
        if call.store().get(permanent)?.is_none() {
            perform(call, &[b"DEL", &table])?;
        }
        perform(call, &[b"ZREM", args.at(KEY), exchange])?;
    }
    call.reply.count(overdue.len());
    Ok(())
}

/// Runs a command of the same client, whose reply nobody gets but for an error.
fn perform(call: &mut Call<'_>, words: &[&[u8]]) -> Done {
    let (bytes, ranges) = joined(words.iter().copied());
    let args = Args::new(&bytes, &ranges);
    let command = call.engine.lookup.find(args.at(0)).ok_or(Refusal::SYNTAX)?;
    let mut unread = Reply::default();
    let mut inner =
        Call { args, shard: call.shard, session: call.session, reply: &mut unread, engine: call.engine };
    (command.run)(&mut inner)?;
    call.engine.waiting.note(command, args);
    Ok(())
}
