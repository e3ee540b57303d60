//! Requests for many objects: lists that are read or written, and pages of scans.
//!
//! They are answered in steps, and between two of them the shard's owner can answer others: a request for one
//! object then waits for a step, and one for many has as much in one answer as without. A list is no
//! transaction: each object is read or written by itself.

use core::mem;

use farcall::Service;

use super::{Answer, Shard, refused_write, write_response};
use crate::store::{Object, PageLimits, ScanFrom, ScanNext};
use crate::wire::{
    Code, LeftOut, MULTI_GET, MULTI_PUT, MultiGetRequest, MultiGetResponse, MultiPutRequest, NAMES_LEFT_OUT,
    PutRequest, SCAN, ScanRequest, ScanResponse,
};

/// Whether a request is for many objects.
pub(crate) fn is_for_many(service: Service) -> bool {
    matches!(service, MULTI_GET | MULTI_PUT | SCAN)
}

/// How far the answer to a request has come.
#[derive(Debug, Default)]
pub(crate) struct Many {
    /// Objects of a list that are done, or entries of a table that a page may have looked at.
    done: usize,
    /// Bytes of the objects that are written, or on the page.
    bytes: usize,
    /// Where a page goes on.
    at: Option<u64>,
    /// Whether a table of one of them is durable.
    is_durable: bool,
    answer: Vec<u8>,
}

/// What there is to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Another step.
    Step,
    /// Nothing: the answer is complete, though perhaps not the list or the scan.
    Nothing,
}

impl Many {
    fn clear(&mut self) {
        let mut answer = mem::take(&mut self.answer);
        answer.clear();
        *self = Self { answer, ..Self::default() };
    }
}

impl Shard {
    /// Answers a request for many objects.
    pub(super) fn answer_many(&mut self, service: Service, message: &[u8], reply: impl Answer) {
        let mut many = mem::take(&mut self.many);
        let outcome = loop {
            match self.answer_step(service, message, &mut many) {
                Ok(After::Step) => {}
                Ok(After::Nothing) => break Ok(()),
                Err(code) => break Err(code),
            }
        };
        self.send_many(&mut many, outcome, reply);
        self.many = many;
    }

    /// Does a step of a request. When it is refused nothing of it was done: where a later step is, the answer
    /// is what there is, and a request for the rest is told.
    pub(crate) fn answer_step(
        &mut self,
        service: Service,
        message: &[u8],
        many: &mut Many,
    ) -> Result<After, Code> {
        let has_begun = !many.answer.is_empty();
        let after = match service {
            MULTI_GET => self.read_step(message, many),
            MULTI_PUT => self.write_step(message, many),
            SCAN => self.scan_step(message, many),
            _ => Err(Code::Malformed),
        };
        if has_begun { after.or(Ok(After::Nothing)) } else { after }
    }

    /// Sends the answer, or says why there is none. It waits for the log if a table of one of the objects is
    /// durable.
    pub(crate) fn send_many(&mut self, many: &mut Many, outcome: Result<(), Code>, reply: impl Answer) {
        match outcome {
            Ok(()) => self.answer_when(self.when_many(many.is_durable), &many.answer, reply),
            Err(code) => self.refuse(reply, code),
        }
        many.clear();
    }

    /// Reads the next objects of a message, as many as fit into an answer and a turn. The message is
    /// malformed if one of these is: nothing behind them is looked at.
    fn read_step(&mut self, message: &[u8], many: &mut Many) -> Result<After, Code> {
        let (turn, done) = (self.turn, many.done);
        let step = || MultiGetRequest::decode(message).items().take(turn.objects).skip(done).take(turn.step);
        if step().any(|name| name.is_err()) {
            return Err(Code::Malformed);
        }
        let is_durable = self.has_log() && step().flatten().any(|name| self.is_durable(name.table()));
        self.may_answer_of(is_durable)?;
        many.is_durable |= is_durable;
        for name in step() {
            let found = self.mine(name, |name| *name).map_err(Code::from);
            let found = found.and_then(|name| match self.store.get(name)? {
                Some(object) if object.is_collection() => Err(Code::Collection),
                Some(object) if object.is_long() => Err(Code::TooLong),
                found => Ok(found),
            });
            let bytes = found.ok().flatten().map_or(0, |object| object.value_bytes());
            if !many.answer.is_empty() && many.answer.len() + bytes > turn.read_bytes {
                return Ok(After::Nothing);
            }
            self.counters.gets.increment();
            MultiGetResponse::encode_item(found, &mut many.answer);
            many.done += 1;
        }
        Ok(self.after_step_of_list(many.done, done))
    }

    /// Writes the next objects of a message, as many as fit into a turn; of what is malformed, see
    /// [`Shard::read_step`].
    fn write_step(&mut self, message: &[u8], many: &mut Many) -> Result<After, Code> {
        let (turn, done) = (self.turn, many.done);
        let step = || MultiPutRequest::decode(message).items().take(turn.objects).skip(done).take(turn.step);
        if step().any(|put| put.is_err()) {
            return Err(Code::Malformed);
        }
        // Before the first is written: a refusal of all says that nothing was changed.
        let is_durable = self.has_log() && step().flatten().any(|put| self.is_durable(put.name.table()));
        self.may_answer_of(is_durable)?;
        many.is_durable |= is_durable;
        for put in step() {
            many.bytes += put.as_ref().map_or(0, PutRequest::bytes);
            if !many.answer.is_empty() && many.bytes > turn.write_bytes {
                return Ok(After::Nothing);
            }
            self.counters.puts.increment();
            let response = match self.mine(put, |put| put.name) {
                Ok(put) if self.is_durable(put.name.table()) => self.put_one_durable(&put),
                Ok(put) => write_response(self.store.put(put.name, put.value, put.condition)),
                Err(not_mine) => refused_write(not_mine.into()),
            };
            many.answer.extend_from_slice(&response.encode());
            many.done += 1;
        }
        Ok(self.after_step_of_list(many.done, done))
    }

    /// What there is to do when so many objects of a list are done, and so many were before the last step.
    fn after_step_of_list(&self, done: usize, before: usize) -> After {
        let is_all = done >= self.turn.objects || done - before < self.turn.step;
        if is_all { After::Nothing } else { After::Step }
    }

    /// Looks at the next entries of a table for a page.
    fn scan_step(&mut self, message: &[u8], many: &mut Many) -> Result<After, Code> {
        let scan = ScanRequest::decode(message).map_err(|_| Code::Malformed)?;
        let is_durable = self.is_durable(scan.table);
        self.may_scan().and_then(|()| self.may_answer_of(is_durable))?;
        many.is_durable = is_durable;
        if many.answer.is_empty() {
            self.counters.scans.increment();
        }
        let mut page =
            Page::of(many, ((scan.page_bytes & !NAMES_LEFT_OUT) as usize).min(self.turn.read_bytes));
        let limits = PageLimits { bytes: page.bytes_max, looks: self.turn.looks.min(self.turn.step) };
        let from = page.many.at.map_or(scan.from, ScanFrom::Hash);
        let visit = |object: Object<'_>| page.add(&object);
        let next = match scan.page_bytes & NAMES_LEFT_OUT {
            0 => self.store.scan_values(scan.table, from, limits, visit),
            _ => self.store.scan(scan.table, from, limits, visit),
        }?;
        let next = if page.is_full { ScanNext::AfterLast } else { next };
        ScanResponse::end(next, &mut many.answer);
        many.done += limits.looks;
        match next {
            ScanNext::Hash(hash) if many.done < self.turn.looks => {
                many.at = Some(hash);
                Ok(After::Step)
            }
            _ => Ok(After::Nothing),
        }
    }
}

/// A page that is being filled.
struct Page<'m> {
    many: &'m mut Many,
    bytes_max: usize,
    /// Whether an object did not fit.
    is_full: bool,
}

impl<'m> Page<'m> {
    fn of(many: &'m mut Many, bytes_max: usize) -> Self {
        if many.answer.is_empty() {
            ScanResponse::begin(&mut many.answer);
        }
        Self { many, bytes_max, is_full: false }
    }

    /// Adds an object, if it fits or is the first.
    fn add(&mut self, object: &Object<'_>) {
        let with_it = self.many.bytes + object.key().len() + object.value_bytes();
        self.is_full |= self.many.bytes > 0 && with_it > self.bytes_max;
        if self.is_full {
            return;
        }
        self.many.bytes = with_it;
        match left_out(object) {
            None => ScanResponse::encode_item(object, &mut self.many.answer),
            Some(why) => ScanResponse::encode_left_out(object, why, &mut self.many.answer),
        }
    }
}

/// Why a page has no value of an object, if it has none.
fn left_out(object: &Object<'_>) -> Option<LeftOut> {
    let too_long = object.is_long().then_some(LeftOut::TooLong);
    if object.is_collection() { Some(LeftOut::Collection) } else { too_long }
}
