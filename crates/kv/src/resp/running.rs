//! How a client's requests run: one after the other, as long as it reads what it is answered.
//!
//! Between two requests, and two parts of a long value, the daemon may have the shard.

use std::sync::MutexGuard;

use super::command::{Engine, Taken};
use super::connection::{Connection, UNREAD_BYTES_MAX};
use super::parse::{LIMITS, Parser, STRANGER};
use super::reply::Reply;
use crate::{Shard, SharedShard, memcached};

/// Runs requests of a client that lie in its own input, and takes what came of long arguments.
pub fn run_own<'s>(
    engine: &mut Engine,
    connection: &mut Connection,
    (shared, mut guard): (&'s SharedShard, MutexGuard<'s, Shard>),
) -> MutexGuard<'s, Shard> {
    let mut input = core::mem::take(&mut connection.input);
    let mut parser = core::mem::take(&mut connection.parser);
    loop {
        let done;
        (guard, done) = run(engine, connection, &mut parser, &input, (shared, guard));
        input.cut(0..done);
        if connection.is_closing || parser.long().is_none() {
            break;
        }
        match engine.take_long(&mut connection.session, &mut parser, &mut input, &mut guard) {
            Ok(Taken::All) => guard = shared.make_way(guard),
            Ok(Taken::Some) => break,
            Ok(Taken::NoneNow) => {
                engine.pause(connection);
                break;
            }
            Err(error) => {
                engine.counters.malformed.increment();
                connection.append(|reply| reply.error(&format!("ERR Protocol error: {error}")));
                connection.is_closing = true;
                break;
            }
        }
    }
    connection.input = input;
    connection.parser = parser;
    guard
}

/// Lets more of long values follow a client's output.
fn read_on<'s>(
    engine: &mut Engine,
    connection: &mut Connection,
    (shared, mut guard): (&'s SharedShard, MutexGuard<'s, Shard>),
) -> MutexGuard<'s, Shard> {
    while connection.wants_more() {
        guard = shared.make_way(guard);
        if connection.rest.step(guard.store(), &mut connection.output).is_err() {
            engine.counters.cut.increment();
            connection.discard();
        }
    }
    guard
}

/// Runs the requests of a client that are whole, until it has too many replies to read. Gives how many bytes
/// are done. Between two requests it makes way for the daemon.
pub fn run<'s>(
    engine: &mut Engine,
    connection: &mut Connection,
    parser: &mut Parser,
    bytes: &[u8],
    (shared, mut guard): (&'s SharedShard, MutexGuard<'s, Shard>),
) -> (MutexGuard<'s, Shard>, usize) {
    if let Some(mut conversation) = connection.memcached.take() {
        let ran = memcached::run(engine, (connection, &mut conversation), bytes, (shared, guard));
        connection.memcached = Some(conversation);
        return ran;
    }
    guard = read_on(engine, connection, (shared, guard));
    let (mut done, mut fetched, mut longest) = (0, 0, 0);
    let protocol = connection.session.protocol;
    let unsent = connection.unsent_bytes();
    let mut reply = Reply::new(core::mem::take(&mut connection.output), protocol);
    let start = reply.len();
    while done < bytes.len()
        && !connection.is_closing
        && !connection.is_paused
        && connection.session.blocked.is_none()
        && connection.rest.is_empty()
        && unsent + reply.len().saturating_sub(start) <= UNREAD_BYTES_MAX
    {
        if fetched == 0 && connection.session.is_known {
            fetched = engine.fetch_ahead(&connection.session, &bytes[done..], &guard);
        }
        fetched = fetched.saturating_sub(1);
        let limits = if connection.session.is_known { LIMITS } else { STRANGER };
        match parser.parse(&bytes[done..], limits) {
            Ok(None) => break,
            Ok(Some(length)) => {
                let args = parser.args(&bytes[done..done + length]);
                if !args.is_empty() {
                    guard = shared.make_way(guard);
                    let reply_at = reply.len();
                    if !engine.execute(args, &mut connection.session, &mut reply, &mut guard) {
                        // Long arguments were taken out of it: it cannot be understood a second time.
                        if connection.session.longs.is_empty() {
                            parser.reset();
                        }
                        engine.pause(connection);
                        break;
                    }
                    while engine.step_long(&mut connection.session, &mut reply, &mut guard) {
                        guard = shared.make_way(guard);
                        engine.note_step(&connection.session, &guard);
                    }
                    connection.take_reply(reply);
                    let client = engine.current;
                    engine.hold(client, connection, reply_at, &guard);
                    guard = read_on(engine, connection, (shared, guard));
                    let protocol = connection.session.protocol;
                    reply = Reply::new(core::mem::take(&mut connection.output), protocol);
                    connection.is_closing |= connection.session.ends;
                }
                parser.reset();
                done += length;
                longest = length.max(longest);
            }
            Err(error) => {
                engine.counters.malformed.increment();
                reply.error(&format!("ERR Protocol error: {error}"));
                connection.is_closing = true;
            }
        }
    }
    if longest > 0 {
        connection.request_bytes = longest;
    }
    let waits = connection.is_paused
        || connection.session.blocked.is_some()
        || unsent + reply.len().saturating_sub(start) > UNREAD_BYTES_MAX;
    connection.is_held = done < bytes.len() && waits || !connection.rest.is_empty();
    if connection.is_closing {
        parser.reset();
        connection.session.incoming = None;
        done = bytes.len();
    }
    connection.output = reply.into_bytes();
    (guard, done)
}
