//! Copies of long values, in steps between which others are served.
//!
//! A command that copies one does not run before the copy is there: until then it is taken up again in each
//! turn, as one that waits for the log is, and writes more of the copy. What is changed meanwhile is copied
//! again. Once all of it is there the command runs at once, as all do.

use super::Engine;
use super::call::Refusal;
use super::connection::database_numbered;
use super::durable::refusal;
use super::entry::Command;
use super::incoming::refusal_to_extend;
use super::keys::{CopyOptions, copy_options};
use crate::resp::parse::Args;
use crate::resp::session::Session;
use crate::shard::NotExtended;
use crate::store::{Held, PIECE_BYTES, Store};
use crate::wire::Code;
use crate::{Name, Shard, TableId};

/// Bytes that are copied at a time.
const STEP_BYTES: usize = 16 * PIECE_BYTES;

/// Bytes of a copy that a turn writes.
const TURN_BYTES: usize = 4 * STEP_BYTES;

/// How often a copy is begun again because its source was changed, before the command is refused.
const RESTARTS_MAX: u32 = 16;

/// A copy that is written.
#[derive(Debug)]
pub struct Copying {
    source: Held,
    /// Where it is to go, and what is there of it.
    table: TableId,
    copy: Held,
    /// How often it was begun again.
    restarts: u32,
}

/// What a command is refused with whose source is changed more often than it can be copied.
const WRITTEN_MEANWHILE: Refusal =
    Refusal::of("ERR the string is written meanwhile, and was not copied; try again later");

/// How far a copy is.
enum Copied {
    Whole,
    /// There is more to be written.
    Part,
    /// The log takes no more now.
    Busy,
}

/// Whether a command copies values, if they are long.
pub fn may_copy(command: &Command) -> bool {
    matches!(command.name, "copy" | "move")
}

impl Engine {
    /// Goes on with the copy that a command needs before it runs; says whether it has it, or needs none.
    pub(super) fn copy_on(
        &mut self,
        command: &Command,
        args: Args<'_>,
        session: &mut Session,
        shard: &mut Shard,
    ) -> Result<bool, Refusal> {
        let Some((from, table)) = self.copied_by(command, args, session, shard) else {
            session.copying = None;
            return Ok(true);
        };
        self.check_policy(command, args, session)?;
        let mut copying = match session.copying.take() {
            Some(copying) if copying.is_of(from, table, shard.store()) => copying,
            Some(copying) if copying.restarts == RESTARTS_MAX => return Err(WRITTEN_MEANWHILE),
            Some(copying) => {
                let restarts = copying.restarts + 1;
                // What is there of it makes room for the next one.
                drop(copying);
                Box::new(Copying { restarts, ..begin(from, table, shard)? })
            }
            None => Box::new(begin(from, table, shard)?),
        };
        match copying.step(shard)? {
            Copied::Whole => {
                session.copying = Some(copying);
                return Ok(true);
            }
            Copied::Part => self.is_copying = true,
            Copied::Busy => {}
        }
        session.copying = Some(copying);
        Ok(false)
    }

    /// The long value that a command copies, if it does, and the table that gets the copy. What is queued is
    /// not copied.
    fn copied_by<'a>(
        &self,
        command: &Command,
        args: Args<'a>,
        session: &Session,
        shard: &Shard,
    ) -> Option<(Name<'a>, TableId)> {
        if session.transaction.is_some() {
            return None;
        }
        let own = self.tables[session.database];
        let from = Name::new(own, args.get(1)?).ok()?;
        let (to, replaces) = match command.name {
            "copy" => {
                let CopyOptions { database, replaces } = copy_options(args, session.database).ok()?;
                (Name::new(self.tables[database], args.get(2)?).ok()?, replaces)
            }
            "move" => (Name::new(self.tables[database_numbered(args.get(2)?)?], args.get(1)?).ok()?, false),
            _ => return None,
        };
        let store = shard.store();
        let is_long = store.get(from).ok()??.is_long();
        let is_free = replaces || store.get(to).ok()?.is_none();
        let needs_copy = command.name == "copy" || shard.needs_copy(from, to.table());
        (is_long && is_free && from != to && needs_copy).then_some((from, to.table()))
    }
}

fn begin(from: Name<'_>, table: TableId, shard: &mut Shard) -> Result<Copying, Refusal> {
    let source = shard.store_mut().hold_long(from).ok_or(Refusal::NO_SUCH_KEY)?;
    if !shard.store().could_hold(source.len()) {
        return Err(Refusal::OUT_OF_MEMORY);
    }
    shard.admit_long(table, source.len()).map_err(|code| refusal(code, true))?;
    let copy = shard.begin_long(table);
    Ok(Copying { source, table, copy, restarts: 0 })
}

impl Copying {
    /// Whether it is one of what a name has now, for a table.
    fn is_of(&self, from: Name<'_>, table: TableId, store: &Store) -> bool {
        self.table == table && store.is_value_of(from, &self.source)
    }

    /// The same, and all of it is there.
    pub fn is_whole_of(&self, from: Name<'_>, table: TableId, store: &Store) -> bool {
        self.is_of(from, table, store) && self.copy.len() == self.source.len()
    }

    /// Writes more of the copy.
    fn step(&mut self, shard: &mut Shard) -> Result<Copied, Refusal> {
        let end = self.source.len().min(self.copy.len() + TURN_BYTES);
        while self.copy.len() < end {
            let (from, to) = (self.copy.len(), end.min(self.copy.len() + STEP_BYTES));
            let mut bytes = Vec::with_capacity(to - from);
            let read =
                shard.store().read_long(&self.source, (from, to), |piece| bytes.extend_from_slice(piece));
            if read.is_err() {
                // It was changed, or its memory was needed: the next turn begins again.
                return Ok(Copied::Part);
            }
            match shard.extend_long(&mut self.copy, &bytes) {
                Ok(()) => {}
                Err(NotExtended::Log(Code::Busy)) => return Ok(Copied::Busy),
                Err(error) => return Err(refusal_to_extend(error)),
            }
        }
        Ok(if end == self.source.len() { Copied::Whole } else { Copied::Part })
    }

    /// The copy, which is whole.
    pub fn into_copy(self) -> Held {
        self.copy
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::Principal;
    use farcall_disk::testing::{Faults, SimulatedDisk};

    use super::*;
    use crate::durable::{LOG_BYTES_MIN, Level};
    use crate::resp::Options;
    use crate::resp::command::call::joined;
    use crate::resp::reply::{Protocol, Reply};
    use crate::store::{Expiry, MEMORY_BYTES_MIN};

    fn put(shard: &mut Shard, name: Name<'_>, byte: u8, bytes: usize) {
        let mut held = shard.store_mut().begin_long();
        shard.store_mut().extend_long(&mut held, &vec![byte; bytes]).expect("room");
        shard.store_mut().put_long(name, &held, Expiry::Never).expect("room");
    }

    /// A turn copies no more than it may, and what changes meanwhile is copied as it is at the end.
    #[test]
    fn a_copy_is_written_in_turns_and_is_what_its_source_is_at_the_end() {
        let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
        let mut engine = Engine::new(&Options::default(), None, &[], &mut shard);
        let mut session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        let name = |key| Name::new(engine.tables[0], key).expect("a good key");
        let (from, to) = (name(b"from"), name(b"to"));
        let bytes = 8 * TURN_BYTES + 5;
        put(&mut shard, from, 1, bytes);
        let (words, ranges) = joined([&b"COPY"[..], b"from", b"to"].into_iter());
        let mut turns = 0;
        loop {
            let before = shard.store().statistics().live_bytes;
            let mut reply = Reply::new(Vec::new(), Protocol::default());
            let ran = engine.execute(Args::new(&words, &ranges), &mut session, &mut reply, &mut shard);
            let written = shard.store().statistics().live_bytes.saturating_sub(before);
            assert!(written < TURN_BYTES + (16 << 10), "{written} bytes in a turn");
            if ran {
                assert_eq!(reply.into_bytes(), b":1\r\n");
                break;
            }
            assert!(shard.store().get(to).expect("a table").is_none(), "it is there as a whole only");
            turns += 1;
            match turns {
                3 => put(&mut shard, from, 2, bytes),
                6 => _ = shard.store_mut().overwrite_long(from, 7, b"changed").expect("it is long enough"),
                _ => {}
            }
        }
        // Three that were of no use, three more, and those of the last.
        assert!(turns >= 3 + 3 + 8, "{turns} turns");
        let mut expected = vec![2; bytes];
        expected[7..14].copy_from_slice(b"changed");
        assert!(shard.store().get(to).expect("a table").expect("it is there").to_vec() == expected);
    }

    /// Runs a command once more; gives its reply, if it is done.
    fn take_up(
        (engine, session): (&mut Engine, &mut Session),
        words: &[&[u8]],
        shard: &mut Shard,
    ) -> Option<String> {
        let (words, ranges) = joined(words.iter().copied());
        let mut reply = Reply::new(Vec::new(), Protocol::default());
        let ran = engine.execute(Args::new(&words, &ranges), session, &mut reply, shard);
        ran.then(|| String::from_utf8(reply.into_bytes()).expect("text"))
    }

    #[test]
    fn a_copy_whose_source_is_written_without_end_is_refused() {
        let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
        let mut engine = Engine::new(&Options::default(), None, &[], &mut shard);
        let mut session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        let from = Name::new(engine.tables[0], b"from").expect("a good key");
        put(&mut shard, from, 1, 4 * TURN_BYTES);
        let words = [&b"COPY"[..], b"from", b"to"];
        let reply = (0..=RESTARTS_MAX + 1).find_map(|_| {
            shard.store_mut().append_long(from, b"more").expect("room");
            take_up((&mut engine, &mut session), &words, &mut shard)
        });
        let reply = reply.expect("it ends");
        assert!(reply.starts_with("-ERR the string is written meanwhile"), "{reply}");
        let reply = (0..=8).find_map(|_| take_up((&mut engine, &mut session), &words, &mut shard));
        assert_eq!(reply.as_deref(), Some(":1\r\n"), "nobody writes it any more");
    }

    #[test]
    fn a_copy_that_is_refused_before_it_is_whole_leaves_nothing() {
        let mut shard = Shard::new(Store::new(4 * MEMORY_BYTES_MIN).expect("enough"), 0, 1);
        let disk = SimulatedDisk::new(1, Faults::default());
        shard.open_log(Box::new(disk.clone()), LOG_BYTES_MIN).expect("an empty disk");
        shard.create_table_at("default", Level::Flushed).expect("the first table");
        let mut engine = Engine::new(&Options::default(), None, &[], &mut shard);
        let mut session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        session.database = 1;
        put(&mut shard, Name::new(engine.tables[1], b"from").expect("a good key"), 1, 8 * TURN_BYTES);
        let before = shard.store().statistics().live_bytes;
        let words = [&b"COPY"[..], b"from", b"to", b"DB", b"0"];
        assert_eq!(take_up((&mut engine, &mut session), &words, &mut shard), None);
        assert!(shard.store().statistics().live_bytes > before + TURN_BYTES / 2, "a part is there");
        disk.set_faults(Faults { fails_from: Some(disk.jobs()), ..Faults::default() });
        let reply = (0..1000).find_map(|_| {
            shard.turn_log();
            take_up((&mut engine, &mut session), &words, &mut shard)
        });
        let reply = reply.expect("it is refused");
        assert!(reply.starts_with("-MISCONF"), "{reply}");
        assert!(session.copying.is_none(), "no later command finds it");
        while shard.store_mut().sweep() {}
        assert_eq!(shard.store().statistics().live_bytes, before);
    }
}
