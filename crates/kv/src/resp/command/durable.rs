//! Commands on durable tables: whether the log takes them, and what their replies wait for.
//!
//! A command that writes runs when the log has room for what it may write: that is known before it does, from
//! its arguments and from the objects that it works on, because nothing is undone. More than a group has room
//! for is in several, which count together.

use super::call::Refusal;
use super::entry::{Command, Effect};
use super::{Engine, Transaction};
use crate::decimal;
use crate::durable::Level;
use crate::resp::clients::Handle;
use crate::resp::connection::Connection;
use crate::resp::parse::Args;
use crate::resp::session::Session;
use crate::store::PIECE_BYTES;
use crate::wire::Code;
use crate::{KEY_BYTES_MAX, Name, Shard, TableId, VALUE_BYTES_MAX};

/// Bytes of records for each argument, beside its own.
const RECORD_BYTES: usize = 64;

/// What an element of a collection takes at most: its name and its value.
const ELEMENT_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX + RECORD_BYTES;

/// What `APPEND` and `SETRANGE` record of a long string beside their argument, at most: two pieces that have
/// more than that, and the headers of all.
const PIECES_BYTES_MAX: usize = 2 * PIECE_BYTES + 4 * (VALUE_BYTES_MAX / PIECE_BYTES) * RECORD_BYTES;

/// The longest record of a string.
const STRING_BYTES_MAX: u64 = (VALUE_BYTES_MAX + KEY_BYTES_MAX + RECORD_BYTES) as u64;

/// Why a command does not run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The log has much to flush, or grows: it runs later.
    Busy,
    /// It is refused.
    Refused(Refusal),
}

/// What a command writes to the log besides its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Nothing.
    Nothing,
    /// The strings that it changes.
    Strings,
    /// An element that is in no argument.
    Element,
    /// The objects that it works on.
    Objects,
}

fn beside(command: &Command) -> Beside {
    match command.name {
        "append" | "decr" | "decrby" | "expire" | "expireat" | "getex" | "incr" | "incrby"
        | "incrbyfloat" | "persist" | "pexpire" | "pexpireat" | "rename" | "renamenx" | "setrange" => {
            Beside::Strings
        }
        "blmove" | "brpoplpush" | "bzpopmax" | "bzpopmin" | "lmove" | "rpoplpush" => Beside::Element,
        "bzmpop" | "copy" | "eval" | "evalsha" | "linsert" | "lrem" | "move" | "sdiffstore"
        | "sinterstore" | "spop" | "sunionstore" | "zdiffstore" | "zinterstore" | "zmpop" | "zpopmax"
        | "zpopmin" | "zrangestore" | "zremrangebylex" | "zremrangebyrank" | "zremrangebyscore"
        | "zunionstore" => Beside::Objects,
        _ => Beside::Nothing,
    }
}

/// What a command may write to the log, and how much of it stays.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    record_bytes: usize,
    new_bytes: usize,
}

/// What a command needs whose objects are in these tables.
fn need_of(command: &Command, args: Args<'_>, tables: &[TableId], shard: &Shard) -> Result<Need, Hindrance> {
    if !matches!(command.effect, Effect::Writes | Effect::Grows) {
        return Ok(Need::default());
    }
    if args.from(1).any(|arg| arg.len() > VALUE_BYTES_MAX) {
        return Err(Hindrance::Refused(Refusal::TOO_LONG));
    }
    let objects =
        || tables.iter().flat_map(|table| args.from(1).filter_map(|key| Name::new(*table, key).ok()));
    let store = shard.store();
    let written: usize = args.from(1).map(|arg| arg.len() + RECORD_BYTES).sum();
    let moved = match beside(command) {
        Beside::Nothing => 0,
        Beside::Strings => {
            let there: usize =
                objects().map(|name| store.record_bytes_at(name).min(STRING_BYTES_MAX) as usize).sum();
            let is_part = matches!(command.name, "append" | "setrange");
            let pieces = if is_part { PIECES_BYTES_MAX } else { 0 };
            there + zeros_in_front(command, args) + pieces
        }
        Beside::Element => ELEMENT_BYTES_MAX,
        Beside::Objects => {
            if objects().any(|name| store.longest_element(name) > VALUE_BYTES_MAX) {
                return Err(Hindrance::Refused(Refusal::TOO_LONG));
            }
            objects().map(|name| store.record_bytes_at(name) as usize).sum()
        }
    };
    let record_bytes = written + moved;
    let grows = command.effect == Effect::Grows && beside(command) != Beside::Element;
    Ok(Need { record_bytes, new_bytes: if grows { record_bytes } else { 0 } })
}

/// The bytes that `SETRANGE` may put between the end of a string and what it writes.
fn zeros_in_front(command: &Command, args: Args<'_>) -> usize {
    let offset = || decimal::parse(args.get(2)?).and_then(|offset| usize::try_from(offset).ok());
    if command.name == "setrange" { offset().map_or(0, |offset| offset.min(VALUE_BYTES_MAX)) } else { 0 }
}

impl Engine {
    /// Whether a command may run now.
    pub(super) fn admit(
        &self,
        command: &Command,
        args: Args<'_>,
        session: &Session,
        shard: &mut Shard,
    ) -> Result<(), Hindrance> {
        let table = self.tables[session.database];
        match &session.transaction {
            Some(transaction) if command.name == "exec" => self.admit_all(transaction, table, shard),
            Some(_) if !command.is_at_once => Ok(()),
            _ => {
                let is_durable = shard.level_of(table) != Level::Memory;
                match command.effect {
                    Effect::Reads if is_durable => {
                        shard.may_answer().map_err(|code| Hindrance::Refused(refusal(code, false)))
                    }
                    Effect::Writes | Effect::Grows if is_durable || writes_elsewhere(command) => {
                        admit_need(need_of(command, args, &[table], shard)?, shard)
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether all commands of a transaction may run now.
    fn admit_all(
        &self,
        transaction: &Transaction,
        table: TableId,
        shard: &mut Shard,
    ) -> Result<(), Hindrance> {
        let is_elsewhere = |command: &Command| {
            command.effect != Effect::None && writes_elsewhere(command) || command.name == "select"
        };
        let goes_elsewhere = transaction.commands().any(|(command, _)| is_elsewhere(command));
        let own = [table];
        let tables = if goes_elsewhere { &self.tables[..] } else { &own };
        if tables.iter().all(|table| shard.level_of(*table) == Level::Memory) {
            return Ok(());
        }
        let (mut all, mut heavy, mut objects) = (Need::default(), 0, 0);
        let mut writes = false;
        for (command, args) in transaction.commands() {
            writes |= matches!(command.effect, Effect::Writes | Effect::Grows);
            let need = need_of(command, args, tables, shard)?;
            if beside(command) == Beside::Objects {
                (heavy, objects) = (heavy + 1, objects + need.record_bytes);
            }
            all.record_bytes += need.record_bytes;
            all.new_bytes += need.new_bytes;
        }
        if !writes {
            return shard.may_answer().map_err(|code| Hindrance::Refused(refusal(code, false)));
        }
        if heavy > 1 {
            // Each may find what the others, and all arguments, have made.
            all.record_bytes += heavy * (objects + all.record_bytes);
        }
        admit_need(all, shard)
    }

    /// Whether the log takes what a client writes that is served an element of a key.
    pub(super) fn may_serve(&self, key: &[u8], shard: &mut Shard) -> bool {
        if !shard.has_log() {
            return true;
        }
        let durable = self.tables.iter().filter(|table| shard.level_of(**table) != Level::Memory);
        let names = durable.filter_map(|table| Name::new(*table, key).ok());
        let there: Vec<u64> =
            names.map(|name| shard.store().record_bytes_at(name)).filter(|bytes| *bytes > 0).collect();
        let objects: u64 = there.iter().sum();
        // What is served from memory alone, or not at all, needs no log.
        there.is_empty() || shard.admit(ELEMENT_BYTES_MAX + objects as usize, 0).is_ok()
    }

    /// What a command has read, or found as it is, must be flushed before it is told.
    pub(super) fn note_read(&mut self, command: &Command, args: Args<'_>, table: TableId, shard: &Shard) {
        // What was changed is in a later group than anything that was read.
        let has_changed = command.effect != Effect::Reads && shard.store().has_changes();
        if command.effect == Effect::None || has_changed || shard.level_of(table) == Level::Memory {
            return;
        }
        let has_keys = command.keys.0 > 0;
        let group = match has_keys {
            true => {
                let names = command.keys_of(args).filter_map(|key| Name::new(table, key).ok());
                names.map(|name| shard.group_of(name)).max().unwrap_or(0)
            }
            false => shard.group_of_all(),
        };
        self.needed = self.needed.max(group);
    }

    /// The same of what a command reads in steps, between which other doors write.
    pub fn note_step(&mut self, session: &Session, shard: &Shard) {
        if shard.level_of(self.tables[session.database]) != Level::Memory {
            self.needed = self.needed.max(shard.group_of_all());
        }
    }

    /// Records what a client's commands did, for which its reply waits.
    pub(super) fn record(&mut self, session: &mut Session, shard: &mut Shard) {
        if let Some(group) = shard.record_changes() {
            session.last_group = group;
            self.needed = self.needed.max(group);
        }
    }

    /// The group that the last reply waits for; 0 if it waits for none.
    pub fn take_needed(&mut self) -> u64 {
        core::mem::take(&mut self.needed)
    }

    /// Holds a reply that begins at a place of a client's output, if what it says is not flushed.
    pub fn hold(&mut self, client: Handle, connection: &mut Connection, start: usize, shard: &Shard) {
        let (group, end) = (self.take_needed(), connection.output.len());
        if group <= shard.log_outcome().flushed || start == end {
            return;
        }
        if connection.held.is_empty() {
            self.holding.push(client);
        }
        connection.held.hold(group, start..end);
        connection.rest_is_held = !connection.rest.is_empty();
        if let Some(code) = shard.gone_wrong() {
            // What waits would wait too long.
            connection.refuse_held(refusal(code, true).text());
        }
    }

    /// The commands of the client whose command runs wait until the log takes more.
    pub fn pause(&mut self, connection: &mut Connection) {
        connection.is_paused = true;
        self.paused.push(self.current);
    }

    /// Clients whose commands may run now.
    pub fn resumed(&mut self) -> impl Iterator<Item = Handle> {
        let paused = core::mem::take(&mut self.paused);
        for client in &paused {
            if let Some(connection) = self.clients.get(*client) {
                connection.is_paused = false;
            }
        }
        paused.into_iter()
    }

    /// Whether clients wait for what becomes of the log.
    pub fn waits_for_log(&self) -> bool {
        !self.holding.is_empty() || !self.paused.is_empty() || self.waiting.waits_for_log()
    }

    /// Looks at what became of the log, and gives replies that waited.
    pub fn follow_log(&mut self, shard: &Shard) {
        let outcome = shard.log_outcome();
        let before = core::mem::replace(&mut self.log, outcome);
        if outcome == before {
            return;
        }
        let refused = outcome.refusals.code.filter(|_| outcome.refusals != before.refusals);
        for client in core::mem::take(&mut self.holding) {
            let Some(connection) = self.clients.get(client) else { continue };
            connection.held.flushed(outcome.flushed);
            if let Some(code) = refused {
                connection.refuse_held(refusal(code, true).text());
            }
            connection.released(self.now_ms);
            if !connection.held.is_empty() {
                self.holding.push(client);
            }
            self.touched.push(client);
        }
    }
}

fn admit_need(need: Need, shard: &mut Shard) -> Result<(), Hindrance> {
    Ok(shard.admit(need.record_bytes, need.new_bytes)?)
}

/// What keeps a command that writes from running.
impl From<Code> for Hindrance {
    fn from(code: Code) -> Self {
        match code {
            Code::Busy => Self::Busy,
            code => Self::Refused(refusal(code, true)),
        }
    }
}

/// Whether a command writes to tables other than that of the client's database.
fn writes_elsewhere(command: &Command) -> bool {
    matches!(command.name, "copy" | "flushall" | "move")
}

/// Why a command is refused, in the words by which clients of Redis know it.
pub(super) fn refusal(code: Code, writes: bool) -> Refusal {
    match code {
        Code::TooFewReplicas => {
            Refusal::of("NOREPLICAS Not enough good replicas: too few backups hold the log of the table")
        }
        Code::LevelNotReached => Refusal::of(
            "NOREPLICAS The level of the table was not reached in time; the write may have happened",
        ),
        Code::NotPrimary if writes => Refusal::of(
            "READONLY Another process is the primary of the shard, or may be since the registry has not answered \
             for a lease; ask again",
        ),
        Code::NotPrimary => Refusal::of(
            "MASTERDOWN Another process is the primary of the shard, or may be since the registry has not \
             answered for a lease; ask again",
        ),
        Code::LogFull => Refusal::of(
            "MISCONF The log of durable tables is full: delete something, or give it more room (--data-size)",
        ),
        Code::DiskFailed => Refusal::of(
            "MISCONF The disk of the log has failed; what was not answered may have happened. Start the store \
             again",
        ),
        code => Refusal::new(format!("ERR the log of durable tables refuses: {code:?}")),
    }
}
