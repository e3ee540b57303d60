//! A shard that takes a part of a spread: what a thread reads at the backups is stored and recorded, turn by
//! turn, as what is copied in a move is; then the map is told that the part is here.

use core::fmt;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};

use farcall_base::canary::{Rule, leaves_out};

use super::{ImportHeader, Spread, is_refused_for_good};
use crate::Shard;
use crate::wire::Code;

/// What a client of the shard whose primary is gone was, as the ones that take parts know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenClient {
    /// Its identity after the spread.
    pub client: u64,
    /// The first result that it may still ask for.
    pub first: u64,
    /// Results by their sequence.
    pub results: Vec<(u64, Vec<u8>)>,
}

/// What was read of a part.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// Clients and results.
    Clients(Vec<TakenClient>),
    /// Objects, as a source of a move sends them, and the highest version that the shard has given.
    Page(Vec<u8>, u64),
    /// That was all.
    All(u64),
    /// It cannot be read.
    Failed(String),
}

/// What a thread is to read.
#[derive(Clone, Debug)]
pub(crate) struct PartOf {
    /// The spread, with its plan.
    pub spread: Spread,
    /// The shard that takes a part.
    pub own: u32,
    /// How many shards there are.
    pub shards: u32,
    /// What it may take of memory meanwhile.
    pub memory_bytes: usize,
}

/// Begins to read a part in a thread of its own, and gives what comes of it.
pub(crate) struct TakesParts(pub Box<dyn Fn(PartOf) -> io::Result<Receiver<Fetched>> + Send>);

impl fmt::Debug for TakesParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakesParts")
    }
}

/// A part on its way here.
#[derive(Debug)]
pub(super) struct Taking {
    /// The number of the spread.
    pub number: u64,
    own: u32,
    fetched: Receiver<Fetched>,
    /// What the shard could not take yet.
    next: Option<Fetched>,
    /// How many pages were taken.
    pages: u64,
    /// The last group of the log with clients.
    group: u64,
    is_over: bool,
}

/// What came of a turn.
pub(super) enum PartTurn {
    Nothing,
    Something,
    /// The log has all of it.
    Ready,
    GiveUp(String),
}

impl Taking {
    pub fn begin(part: PartOf, takes: &TakesParts) -> Result<Self, String> {
        let (number, own) = (part.spread.number, part.own);
        let fetched = takes.0(part).map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Self { number, own, fetched, next: None, pages: 0, group: 0, is_over: false })
    }

    /// Takes over what was read, a little of it.
    pub fn turn(&mut self, shard: &mut Shard) -> PartTurn {
        if self.is_over {
            return PartTurn::Nothing;
        }
        let next = match self.next.take().map_or_else(|| self.fetched.try_recv(), Ok) {
            Ok(next) => next,
            Err(TryRecvError::Empty) => return PartTurn::Nothing,
            Err(TryRecvError::Disconnected) => Fetched::Failed("the thread that reads it has ended".into()),
        };
        let taken = match &next {
            Fetched::Clients(clients) => self.take_clients(shard, clients),
            Fetched::Page(page, last_version) => self.take_page(shard, page, (*last_version, false)),
            Fetched::All(last_version) => return self.end(shard, *last_version),
            Fetched::Failed(reason) => return self.give_up(reason.clone()),
        };
        match taken {
            Ok(()) => PartTurn::Something,
            Err(code) => self.wait(next, code),
        }
    }

    /// What was refused is taken a little later, unless it never will be.
    fn wait(&mut self, next: Fetched, code: Code) -> PartTurn {
        if is_refused_for_good(code) {
            return self.give_up(format!("shard {} cannot store its part: {code:?}", self.own));
        }
        self.next = Some(next);
        PartTurn::Nothing
    }

    fn give_up(&mut self, reason: String) -> PartTurn {
        self.is_over = true;
        PartTurn::GiveUp(reason)
    }

    /// What is taken twice is there once, so a list of which some did not fit is taken again as a whole.
    fn take_clients(&mut self, shard: &mut Shard, clients: &[TakenClient]) -> Result<(), Code> {
        for client in clients {
            self.group = self.group.max(shard.take_client(client)?);
        }
        Ok(())
    }

    fn take_page(
        &mut self,
        shard: &mut Shard,
        page: &[u8],
        (last_version, is_last): (u64, bool),
    ) -> Result<(), Code> {
        let header = ImportHeader { number: self.number, page: self.pages + 1, last_version, is_last };
        let mut message = Vec::with_capacity(page.len() + 32);
        header.encode(&mut message);
        message.extend_from_slice(page);
        let (header, items) = ImportHeader::decode(&message).map_err(|_| Code::Malformed)?;
        shard.take_over(header, items, page.len())?;
        self.pages += 1;
        Ok(())
    }

    /// Everything was read: it is refused to everybody from here on, until the map says whose it is.
    fn end(&mut self, shard: &mut Shard, last_version: u64) -> PartTurn {
        if !shard.holds_tables() {
            if let Err(code) = self.take_page(shard, &[], (last_version, true)) {
                return self.wait(Fetched::All(last_version), code);
            }
            self.group = self.group.max(shard.group_of_all());
        }
        if shard.log_outcome().flushed >= self.group || leaves_out(Rule::WaitsForTheLog) {
            self.is_over = true;
            return PartTurn::Ready;
        }
        self.next = Some(Fetched::All(last_version));
        PartTurn::Nothing
    }
}

#[cfg(test)]
mod tests;
