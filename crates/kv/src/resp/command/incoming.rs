//! Long arguments: their bytes go to the store as they come, and are an object when their command runs.
//!
//! Which command it is, and whether it can have such an argument, is known by then from those in front. What
//! is refused is read and forgotten: where the next request begins stays known.

use super::Engine;
use super::call::Refusal;
use super::durable::refusal;
use super::entry::Command;
use crate::resp::input::Input;
use crate::resp::parse::{Args, KEPT_BYTES_MAX, LongArgument, Parser, ProtocolError};
use crate::resp::session::Session;
use crate::shard::NotExtended;
use crate::store::{Held, PIECE_BYTES};
use crate::wire::Code;
use crate::{Shard, TableId, VALUE_BYTES_MAX};

/// A long argument: what lies in the store, or why it was refused.
#[derive(Debug)]
pub struct LongValue {
    /// Which argument it is.
    pub number: usize,
    pub value: Result<Held, Refusal>,
}

/// A long argument whose bytes come.
#[derive(Debug)]
pub struct Incoming {
    value: Result<Held, Refusal>,
}

/// What became of bytes of a long argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All of it was taken: what follows it can be understood.
    All,
    /// What has come of it was taken, and more is awaited.
    Some,
    /// The log does not take any of it now.
    NoneNow,
}

/// Whether an argument of a command may be longer than a value that is written at one go.
fn takes_long(command: &Command, number: usize) -> bool {
    match command.name {
        "set" | "setnx" | "getset" => number == 2,
        "setex" | "psetex" => number == 3,
        "mset" | "msetnx" => number >= 2 && number.is_multiple_of(2),
        _ => false,
    }
}

impl Engine {
    /// Takes what has come of a long argument out of its request, which begins with the input.
    pub fn take_long(
        &mut self,
        session: &mut Session,
        parser: &mut Parser,
        input: &mut Input,
        shard: &mut Shard,
    ) -> Result<Taken, ProtocolError> {
        let Some(long) = parser.long() else { return Ok(Taken::All) };
        if session.incoming.is_none() {
            let args = parser.args_before(input);
            let Some(value) = self.receive(args, long, session, shard) else {
                parser.keep_long()?;
                return Ok(Taken::All);
            };
            session.incoming = Some(Incoming { value });
        }
        let Some(incoming) = &mut session.incoming else { return Ok(Taken::All) };
        let end = long.at + whole_pieces(input.len() - long.at, long.left);
        if end == long.at {
            return Ok(Taken::Some);
        }
        session.long_ms = self.now_ms;
        if let Ok(held) = &mut incoming.value {
            match shard.extend_long(held, &input[long.at..end]) {
                Ok(()) => {}
                Err(NotExtended::Log(Code::Busy)) => return Ok(Taken::NoneNow),
                Err(error) => incoming.value = Err(refusal_to_extend(error)),
            }
        }
        input.cut(long.at..end);
        parser.take_long(end - long.at);
        if parser.long().is_some() {
            return Ok(Taken::Some);
        }
        if let Some(Incoming { value }) = session.incoming.take() {
            session.longs.push(LongValue { number: long.number, value });
        }
        Ok(Taken::All)
    }

    /// Where the bytes of a long argument go; `None` when they stay where they are.
    fn receive(
        &mut self,
        args: Args<'_>,
        long: LongArgument,
        session: &Session,
        shard: &mut Shard,
    ) -> Option<Result<Held, Refusal>> {
        let command = args.get(0).and_then(|name| self.lookup.find(name));
        let Some(command) = command.filter(|command| takes_long(command, long.number)) else {
            return (long.bytes > KEPT_BYTES_MAX).then_some(Err(Refusal::TOO_LONG));
        };
        let admitted = self.admit_long(command, args, long, session, shard);
        Some(admitted.map(|table| shard.begin_long(table)))
    }

    /// Whether a long argument may be stored, and in which table it is to be.
    fn admit_long(
        &mut self,
        command: &Command,
        args: Args<'_>,
        long: LongArgument,
        session: &Session,
        shard: &mut Shard,
    ) -> Result<TableId, Refusal> {
        if long.bytes > self.value_bytes_max {
            return Err(Refusal::TOO_LONG);
        }
        if let Some(cluster) = &self.cluster {
            super::cluster::check(cluster, shard, command, args)?;
        }
        self.check_policy(command, args, session)?;
        let queued = session.transaction.as_ref().map_or(0, |transaction| transaction.long_bytes());
        if queued + long.bytes > self.value_bytes_max {
            return Err(Refusal::new(format!(
                "ERR the long values of a transaction are longer than {} bytes",
                self.value_bytes_max
            )));
        }
        if !shard.store().could_hold(long.bytes) {
            return Err(Refusal::OUT_OF_MEMORY);
        }
        let table = self.tables[session
            .transaction
            .as_ref()
            .map_or(session.database, |transaction| transaction.database(session.database))];
        shard.admit_long(table, long.bytes).map_err(|code| refusal(code, true))?;
        Ok(table)
    }
}

/// How many bytes are taken of those that are there: whole pieces, unless they are the last.
fn whole_pieces(there: usize, left: usize) -> usize {
    if there >= left { left } else { there - there % PIECE_BYTES }
}

/// Why a long value that was begun goes no further.
pub fn refusal_to_extend(error: NotExtended) -> Refusal {
    match error {
        NotExtended::Log(code) => refusal(code, true),
        NotExtended::Store(error) => error.into(),
    }
}

/// Why one of some long arguments is refused, if one is.
pub fn refusal_of(longs: &[LongValue]) -> Option<Refusal> {
    longs.iter().find_map(|long| long.value.as_ref().err().cloned())
}

/// What a write that makes a string longer at one go is refused with.
pub fn too_much_at_once() -> Refusal {
    Refusal::new(format!("ERR APPEND and SETRANGE write at most {VALUE_BYTES_MAX} bytes at a time"))
}

#[cfg(test)]
mod tests {
    use farcall_base::Principal;
    use farcall_disk::testing::{Faults, SimulatedDisk};

    use super::*;
    use crate::durable::{LOG_BYTES_MIN, Level};
    use crate::resp::Options;
    use crate::resp::parse::LIMITS;
    use crate::resp::reply::{Protocol, Reply};
    use crate::resp::spares::Spares;
    use crate::store::{MEMORY_BYTES_MIN, Store};

    /// Sends a request whose long arguments come in pieces; gives the reply, and how many bytes were kept
    /// for it at most.
    fn ask(
        engine: &mut Engine,
        session: &mut Session,
        shard: &mut Shard,
        words: &[&[u8]],
    ) -> (String, usize) {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let (mut parser, mut input, mut kept) = (Parser::default(), Input::default(), 0);
        let mut whole = None;
        for piece in request.chunks(100_000) {
            input.extend(piece, &mut Spares::default());
            kept = kept.max(input.len());
            loop {
                whole = parser.parse(&input, LIMITS).expect("a request");
                if whole.is_some() || parser.long().is_none() {
                    break;
                }
                match engine.take_long(session, &mut parser, &mut input, shard).expect("one") {
                    Taken::All => {}
                    Taken::Some => break,
                    Taken::NoneNow => _ = shard.turn_log(),
                }
            }
        }
        assert_eq!(whole, Some(input.len()));
        let mut reply = Reply::new(Vec::new(), Protocol::default());
        while !engine.execute(parser.args(&input), session, &mut reply, shard) {
            shard.turn_log();
        }
        (String::from_utf8_lossy(&reply.into_bytes()).into_owned(), kept)
    }

    fn with_log() -> (Shard, Engine, Session) {
        with_log_at(&SimulatedDisk::new(1, Faults::default()))
    }

    fn with_log_at(disk: &SimulatedDisk) -> (Shard, Engine, Session) {
        let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
        shard.open_log(Box::new(disk.clone()), LOG_BYTES_MIN).expect("it can be read");
        shard.create_table_at("default", Level::Flushed).expect("the first table");
        let engine = Engine::new(&Options::default(), None, &[], &mut shard);
        let session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        (shard, engine, session)
    }

    #[test]
    fn what_the_log_has_no_room_for_is_refused_before_it_comes_and_keeps_nothing() {
        let (mut shard, mut engine, mut session) = with_log();
        let live_bytes = |shard: &Shard| shard.store().statistics().live_bytes;
        let before = live_bytes(&shard);
        // Half of the log may be objects.
        let long = vec![7; LOG_BYTES_MIN as usize / 2 + VALUE_BYTES_MAX];
        let (reply, kept) = ask(&mut engine, &mut session, &mut shard, &[b"SET", b"k", &long]);
        assert!(reply.starts_with("-MISCONF The log of durable tables is full"), "{reply}");
        assert_eq!(live_bytes(&shard), before);
        assert!(kept < 2 * 100_000, "{kept} bytes were kept");
        let (reply, _) = ask(&mut engine, &mut session, &mut shard, &[b"SET", b"k", &long[..8 << 20]]);
        assert_eq!(reply, "+OK\r\n");
    }

    #[test]
    fn long_values_get_from_a_table_to_another_by_copies_where_the_log_needs_them() {
        let (mut shard, mut engine, mut session) = with_log();
        let long = vec![7; 3 * VALUE_BYTES_MAX];
        let refused = "-ERR a string of more than 1048576 bytes is not copied in a transaction\r\n";
        let words: [(&[&[u8]], &str); 16] = [
            (&[b"SELECT", b"1"], "+OK\r\n"),
            (&[b"SET", b"k", &long], "+OK\r\n"),
            (&[b"MULTI"], "+OK\r\n"),
            (&[b"MOVE", b"k", b"0"], "+QUEUED\r\n"),
            (&[b"EXEC"], &format!("*1\r\n{refused}")),
            (&[b"COPY", b"k", b"copy", b"DB", b"0"], ":1\r\n"),
            (&[b"MOVE", b"k", b"0"], ":1\r\n"),
            (&[b"EXISTS", b"k"], ":0\r\n"),
            (&[b"SELECT", b"0"], "+OK\r\n"),
            (&[b"RENAME", b"k", b"l"], "+OK\r\n"),
            (&[b"STRLEN", b"l"], ":3145728\r\n"),
            (&[b"MOVE", b"copy", b"1"], ":1\r\n"),
            (&[b"EXISTS", b"copy"], ":0\r\n"),
            (&[b"SELECT", b"1"], "+OK\r\n"),
            (&[b"STRLEN", b"copy"], ":3145728\r\n"),
            (&[b"COPY", b"copy", b"two"], ":1\r\n"),
        ];
        for (words, expected) in words {
            assert_eq!(ask(&mut engine, &mut session, &mut shard, words).0, expected);
        }
        (0..1000).for_each(|_| _ = shard.turn_log());
        let live = shard.log_status().expect("a log").live_bytes as usize;
        assert!((long.len()..long.len() + 100_000).contains(&live), "the log has one: {live} bytes");
    }

    #[test]
    fn a_queued_value_goes_where_its_transaction_writes_it() {
        let (mut shard, mut engine, mut session) = with_log();
        let long = vec![7; 3 * VALUE_BYTES_MAX];
        let words: [(&[&[u8]], &str); 5] = [
            (&[b"SELECT", b"1"], "+OK\r\n"),
            (&[b"MULTI"], "+OK\r\n"),
            (&[b"SELECT", b"0"], "+QUEUED\r\n"),
            (&[b"SET", b"k", &long], "+QUEUED\r\n"),
            (&[b"EXEC"], "*2\r\n+OK\r\n+OK\r\n"),
        ];
        for (words, expected) in words {
            assert_eq!(ask(&mut engine, &mut session, &mut shard, words).0, expected);
        }
    }

    /// A value that was written over where it lay is recorded as others are.
    #[test]
    fn what_was_written_over_is_there_after_a_restart() {
        let disk = SimulatedDisk::new(1, Faults::default());
        let (mut shard, mut engine, mut session) = with_log_at(&disk);
        for (seed, length) in [(1, 100_000), (2, 100_000), (3, 99_999)] {
            let value = vec![seed; length];
            let (reply, _) = ask(&mut engine, &mut session, &mut shard, &[b"SET", b"k", &value]);
            assert_eq!(reply, "+OK\r\n");
            (0..100).for_each(|_| _ = shard.turn_log());
        }
        drop(shard);
        disk.cut_power();
        let (mut shard, mut engine, mut session) = with_log_at(&disk);
        for (words, expected) in [
            (&[&b"STRLEN"[..], b"k"][..], ":99999\r\n"),
            (&[b"GETRANGE", b"k", b"99996", b"-1"], "$3\r\n\u{3}\u{3}\u{3}\r\n"),
        ] {
            assert_eq!(ask(&mut engine, &mut session, &mut shard, words).0, expected);
        }
    }

    /// What makes a string long is in the log as pieces, as what lengthens a long one is.
    #[test]
    fn strings_of_durable_tables_become_long_and_are_there_after_a_restart() {
        let disk = SimulatedDisk::new(1, Faults::default());
        let (mut shard, mut engine, mut session) = with_log_at(&disk);
        let part = vec![7; VALUE_BYTES_MAX - 10];
        let words: [(&[&[u8]], &str); 9] = [
            (&[b"APPEND", b"a", &part], ":1048566\r\n"),
            (&[b"APPEND", b"a", &part], ":2097132\r\n"),
            (&[b"APPEND", b"a", b"end"], ":2097135\r\n"),
            (&[b"SET", b"b", &part], "+OK\r\n"),
            (&[b"SETRANGE", b"b", b"1048560", b"beyond 1 MiB is this part"], ":1048585\r\n"),
            (&[b"SET", b"c", &part], "+OK\r\n"),
            (&[b"MULTI"], "+OK\r\n"),
            (&[b"APPEND", b"c", &part], "+QUEUED\r\n"),
            (&[b"EXEC"], "*1\r\n:2097132\r\n"),
        ];
        for (words, expected) in words {
            assert_eq!(ask(&mut engine, &mut session, &mut shard, words).0, expected);
        }
        (0..1000).for_each(|_| _ = shard.turn_log());
        drop(shard);
        disk.cut_power();
        let (mut shard, mut engine, mut session) = with_log_at(&disk);
        let words: [(&[&[u8]], &str); 5] = [
            (&[b"STRLEN", b"a"], ":2097135\r\n"),
            (&[b"GETRANGE", b"a", b"2097130", b"-1"], "$5\r\n\u{7}\u{7}end\r\n"),
            (&[b"STRLEN", b"b"], ":1048585\r\n"),
            (&[b"GETRANGE", b"b", b"1048559", b"-1"], "$26\r\n\u{7}beyond 1 MiB is this part\r\n"),
            (&[b"STRLEN", b"c"], ":2097132\r\n"),
        ];
        for (words, expected) in words {
            assert_eq!(ask(&mut engine, &mut session, &mut shard, words).0, expected);
        }
    }
}
