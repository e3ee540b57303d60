//! Transactions: commands that are queued and run together, unless a watched key has changed.

use core::ops::Range;

use super::call::{Call, Done, REPLY_BYTES_MAX, Refusal};
use super::connection::database_numbered;
use super::entry::Command;
use super::incoming::LongValue;
use crate::resp::parse::Args;
use crate::resp::session::Session;
use crate::store::Held;

/// The most bytes that queued commands take together.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// The most keys that a client watches.
const WATCHED_MAX: usize = 64 << 10;

/// What a client has queued since `MULTI`.
#[derive(Debug, Default)]
pub struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// Bytes of long arguments, which lie in the store.
    long_bytes: usize,
    /// A command could not be queued, so none will run.
    pub is_broken: bool,
}

#[derive(Debug)]
struct Queued {
    command: &'static Command,
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    longs: Vec<LongValue>,
}

impl Transaction {
    /// Bytes that its commands take, without long arguments.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the long arguments of its commands.
    pub fn long_bytes(&self) -> usize {
        self.long_bytes
    }

    /// The database in which the next command will run, if the first is to run in this one.
    pub fn database(&self, first: usize) -> usize {
        let selected = self.commands().filter(|(command, _)| command.name == "select");
        let last = selected.filter_map(|(_, args)| database_numbered(args.get(1)?)).last();
        last.unwrap_or(first)
    }

    /// Queues a command.
    pub fn queue(&mut self, command: &'static Command, args: Args<'_>, longs: Vec<LongValue>) -> Done {
        let bytes = args.from(0).map(|arg| arg.len() + size_of::<Range<usize>>()).sum::<usize>();
        self.bytes += bytes + size_of::<Queued>();
        if self.bytes > QUEUED_BYTES_MAX {
            self.is_broken = true;
            return Err(Refusal::new(format!(
                "ERR the commands of a transaction are longer than {QUEUED_BYTES_MAX} bytes"
            )));
        }
        self.long_bytes += longs.iter().flat_map(|long| &long.value).map(Held::len).sum::<usize>();
        let ranges = Vec::with_capacity(args.len());
        let mut queued = Queued { command, bytes: Vec::new(), ranges, longs };
        for arg in args.from(0) {
            let start = queued.bytes.len();
            queued.bytes.extend_from_slice(arg);
            queued.ranges.push(start..queued.bytes.len());
        }
        self.queued.push(queued);
        Ok(())
    }

    /// Its commands.
    pub fn commands(&self) -> impl Iterator<Item = (&'static Command, Args<'_>)> {
        self.queued.iter().map(|queued| (queued.command, Args::new(&queued.bytes, &queued.ranges)))
    }
}

/// A command is refused before it runs; if it was to run a transaction, that is over.
pub fn abort(session: &mut Session, refusal: Refusal) -> Refusal {
    if session.transaction.take().is_none() {
        return refusal;
    }
    session.unwatch();
    Refusal::new(format!("EXECABORT Transaction discarded because of: {}", refusal.text()))
}

/// What a command that cannot run is refused with. It breaks a transaction; `EXEC` ends it as well.
pub fn reject(session: &mut Session, command: &[u8], refusal: Refusal) -> Refusal {
    if session.is_known && command.eq_ignore_ascii_case(b"exec") {
        session.transaction = None;
        session.unwatch();
        let why = refusal.text().trim_start_matches("ERR ");
        return Refusal::new(format!("EXECABORT Transaction discarded because of: {why}"));
    }
    if let Some(transaction) = &mut session.transaction {
        transaction.is_broken = true;
    }
    refusal
}

pub fn multi(call: &mut Call<'_>) -> Done {
    if call.session.transaction.is_some() {
        return Err(Refusal::of("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Box::default());
    call.reply.ok();
    Ok(())
}

pub fn discard(call: &mut Call<'_>) -> Done {
    if call.session.transaction.take().is_none() {
        return Err(Refusal::of("ERR DISCARD without MULTI"));
    }
    call.session.unwatch();
    call.reply.ok();
    Ok(())
}

pub fn exec(call: &mut Call<'_>) -> Done {
    let Some(mut transaction) = call.session.transaction.take() else {
        return Err(Refusal::of("ERR EXEC without MULTI"));
    };
    let watched = call.session.unwatch();
    if transaction.is_broken {
        return Err(Refusal::of("EXECABORT Transaction discarded because of previous errors."));
    }
    for ((table, key), version) in &watched {
        let name = crate::Name::new(*table, key)?;
        if call.shard.store().get(name)?.map_or(0, |object| object.version()) != *version {
            call.engine.needed = call.engine.needed.max(call.shard.group_of(name));
            call.reply.null_array();
            return Ok(());
        }
    }
    let start = call.reply.len();
    call.reply.array(transaction.queued.len());
    for Queued { command, bytes, ranges, longs } in &mut transaction.queued {
        let args = Args::new(bytes, ranges);
        call.session.longs = core::mem::take(longs);
        call.engine.is_in_transaction = true;
        call.engine.run(command, args, call.session, call.reply, call.shard);
        call.engine.is_in_transaction = false;
        call.engine.finish_long(call.session, call.reply, call.shard);
        if call.reply.len() - start > REPLY_BYTES_MAX {
            // Some of its commands have run: there is no reply that would say which.
            call.session.ends = true;
            return call.check_reply(start);
        }
    }
    Ok(())
}

pub fn watch(call: &mut Call<'_>) -> Done {
    if call.session.transaction.is_some() {
        return Err(Refusal::of("ERR WATCH inside MULTI is not allowed"));
    }
    if call.session.watched.len() + call.args.len() > WATCHED_MAX {
        return Err(Refusal::new(format!("ERR more than {WATCHED_MAX} keys would be watched")));
    }
    for key in call.args.from(1) {
        let name = call.named(key)?;
        let version = call.store().get(name)?.map_or(0, |object| object.version());
        let table = call.table();
        call.session.watch(table, key, version);
    }
    call.reply.ok();
    Ok(())
}

pub fn unwatch(call: &mut Call<'_>) -> Done {
    call.session.unwatch();
    call.reply.ok();
    Ok(())
}
