//! One client's requests, done one after the other while it reads what it is answered.

use std::sync::MutexGuard;

use farcall::policy::Right;

use super::call::Call;
use super::parse::{Parsed, Parser, Refused, Request, Verb};
use super::{allowed, classic, meta_calls, statistics};
use crate::resp::{Connection, Engine, UNREAD_BYTES_MAX};
use crate::{Shard, SharedShard};

/// What is remembered of a memcached client between its requests.
#[derive(Debug, Default)]
pub struct Conversation {
    parser: Parser,
    /// How much of the keys of the first request is answered.
    keys_done: usize,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// More of it is to be done, once earlier answers are read.
    Part,
    /// The connection ends.
    Ends,
}

impl Conversation {
    /// How many bytes of the first request must be there before more can be understood, as far as is known.
    pub fn wanted(&self) -> usize {
        self.parser.wanted()
    }
}

/// Does the requests of a client that are whole, until it has too many answers to read. Gives how many bytes
/// are done. Between two requests, and two keys of one, it makes way for the daemon.
pub fn run<'s>(
    engine: &mut Engine,
    (connection, conversation): (&mut Connection, &mut Conversation),
    bytes: &[u8],
    (shared, mut guard): (&'s SharedShard, MutexGuard<'s, Shard>),
) -> (MutexGuard<'s, Shard>, usize) {
    let (mut done, unsent) = (0, connection.unsent_bytes());
    let mut out = core::mem::take(&mut connection.output);
    let start = out.len();
    let is_full = |out: &Vec<u8>| unsent + (out.len() - start) > UNREAD_BYTES_MAX;
    while done < bytes.len() && !connection.is_closing && !is_full(&out) {
        match conversation.parser.parse(&bytes[done..]) {
            Parsed::Incomplete => break,
            Parsed::Skipped(skipped) => done += skipped,
            Parsed::Refused { mut refused, bytes } => {
                guard = shared.make_way(guard);
                if refused.stale.is_some() && allowed::may(engine, &connection.session, Right::Write).is_err()
                {
                    refused.stale = None;
                }
                refuse(&mut Call { engine: &mut *engine, shard: &mut guard, out: &mut out }, &refused);
                connection.is_closing = refused.why.ends_connection();
                done += bytes;
            }
            Parsed::Request(request, length) => {
                connection.session.last_ms = engine.now_ms();
                if let Err(refusal) = allowed::check(engine, &connection.session, &request.verb) {
                    guard = shared.make_way(guard);
                    if !request.is_quiet {
                        out.extend_from_slice(refusal.as_bytes());
                        out.extend_from_slice(b"\r\n");
                    }
                    done += length;
                    conversation.keys_done = 0;
                    continue;
                }
                let mut progress = Progress::Part;
                while progress == Progress::Part && !is_full(&out) {
                    guard = shared.make_way(guard);
                    let mut call = Call { engine: &mut *engine, shard: &mut guard, out: &mut out };
                    progress = step(&mut call, &request, &mut conversation.keys_done);
                }
                connection.is_closing = progress == Progress::Ends;
                if progress != Progress::Part {
                    done += length;
                    conversation.keys_done = 0;
                }
            }
        }
    }
    connection.is_held = done < bytes.len() && is_full(&out);
    if connection.is_closing {
        done = bytes.len();
    }
    connection.output = out;
    (guard, done)
}

/// Answers what is no request, or none that is done.
fn refuse(call: &mut Call<'_>, refused: &Refused<'_>) {
    call.engine.memcached.counters.malformed.increment();
    let gone = refused.stale.as_ref().map_or(Ok(true), |key| call.delete(key));
    match gone {
        _ if refused.is_quiet => {}
        Ok(_) => call.line(&refused.why.to_string()),
        Err(refusal) => call.line(&refusal.to_string()),
    }
}

/// Does all of a request.
pub fn step_whole(call: &mut Call<'_>, request: &Request<'_>) {
    let mut keys_done = 0;
    while step(call, request, &mut keys_done) == Progress::Part {}
}

/// Does a request, or the next key of one that has many.
fn step(call: &mut Call<'_>, request: &Request<'_>, keys_done: &mut usize) -> Progress {
    let start = call.out.len();
    match &request.verb {
        Verb::Get { keys, has_unique, exptime } => match keys.after(*keys_done) {
            Some((key, place)) => {
                *keys_done = place;
                classic::get(call, key, *has_unique, *exptime);
                return Progress::Part;
            }
            None => call.line("END"),
        },
        Verb::Store(store) => classic::store(call, store),
        Verb::Delete(key) => classic::delete(call, key),
        Verb::Add { key, amount, direction } => classic::add(call, key, *amount, *direction),
        Verb::Touch { key, exptime } => classic::touch(call, key, *exptime),
        Verb::Flush { delay } => classic::flush(call, *delay),
        Verb::Version => statistics::version(call),
        // Nothing is written to a log that could be more or less verbose.
        Verb::Verbosity => call.line("OK"),
        Verb::Statistics(group) => statistics::statistics(call, *group),
        Verb::Meta(meta) => meta_calls::run(call, meta),
        Verb::NoOp => call.line("MN"),
        Verb::Debug(key) => meta_calls::debug(call, key),
        Verb::Quit => return Progress::Ends,
    }
    if request.is_quiet {
        call.out.truncate(start);
    }
    Progress::Done
}
