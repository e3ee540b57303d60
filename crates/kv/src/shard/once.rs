//! Writes that happen once, however often they are asked for.

use farcall::Service;

use super::results::{Known, Recorded};
use super::{Answer, Shard, write_response};
use crate::TableId;
use crate::durable::{Level, When, fresh_number};
use crate::store::WriteError;
use crate::wire::{
    Code, DELETE, DeleteRequest, INCREMENT, IncrementRequest, IncrementResponse, OnceRequest, PUT,
    PutRequest, WriteResponse,
};

/// The answer to a write, when it may be given, and whether it is one that must not happen again: one that
/// changed nothing may.
struct Outcome {
    answer: Vec<u8>,
    when: When,
    is_done: bool,
    is_durable: bool,
}

impl Shard {
    /// Gives a client an identity, which is in the log as its writes are.
    pub(super) fn add_client(&mut self, reply: impl Answer) {
        if let Some(Err(code)) = self.durable.as_ref().map(|durable| durable.may_answer()) {
            return self.refuse(reply, code);
        }
        for client in self.results.silent() {
            self.results.remove_client(client);
            if let Some(durable) = &mut self.durable {
                durable.client_gone(client);
            }
        }
        let client = fresh_number();
        if !self.results.add_client(client) {
            return self.refuse(reply, Code::Busy);
        }
        let when = match &mut self.durable {
            Some(durable) => durable.client_added(client),
            None => When::Now,
        };
        self.answer_when(when, &client.to_le_bytes(), reply);
    }

    /// Does a write, unless it was done: then it is answered as it was.
    pub(super) fn answer_once(&mut self, message: &[u8], reply: impl Answer) {
        let Ok(once) = OnceRequest::decode(message) else { return self.refuse(reply, Code::Malformed) };
        if let Some(Err(code)) = self.durable.as_ref().map(|durable| durable.may_answer()) {
            return self.refuse(reply, code);
        }
        let OnceRequest { client, sequence, first, service, message } = once;
        match self.results.look_up(client, sequence, first) {
            Known::Done(Recorded { answer, when }) => {
                let when = self.durable.as_ref().map_or(When::Now, |durable| durable.still(when));
                self.answer_when(when, &answer, reply);
            }
            Known::New => match self.write(service, message) {
                Ok(outcome) => {
                    let Outcome { answer, when, is_done, is_durable } = outcome;
                    if is_done {
                        if let Some(durable) = self.durable.as_mut().filter(|_| is_durable) {
                            durable.record_result(client, (sequence, first), &answer);
                        }
                        let recorded = Recorded { answer: answer.clone(), when };
                        self.results.record(client, (sequence, first), recorded);
                    }
                    self.answer_when(when, &answer, reply);
                }
                Err(code) => self.refuse(reply, code),
            },
            Known::TooMany => self.refuse(reply, Code::Busy),
            Known::Forgotten => self.refuse(reply, Code::ClientForgotten),
            Known::Stale => self.refuse(reply, Code::Malformed),
        }
    }

    fn write(&mut self, service: Service, message: &[u8]) -> Result<Outcome, Code> {
        match service {
            PUT => {
                let put = self.mine(PutRequest::decode(message), |put| put.name)?;
                self.counters.puts.increment();
                match self.durable_of(put.name.table()) {
                    Some((durable, store)) => {
                        durable.put(store, put.name, put.value, put.condition).map(of_durable)
                    }
                    None => of_memory(self.store.put(put.name, put.value, put.condition)),
                }
            }
            DELETE => {
                let delete = self.mine(DeleteRequest::decode(message), |delete| delete.name)?;
                self.counters.deletes.increment();
                match self.durable_of(delete.name.table()) {
                    Some((durable, store)) => {
                        durable.delete(store, delete.name, delete.condition).map(of_durable)
                    }
                    None => {
                        let deleted = self.store.delete(delete.name, delete.condition);
                        of_memory(deleted.map(|version| version.unwrap_or(0)))
                    }
                }
            }
            INCREMENT => {
                let increment = self.mine(IncrementRequest::decode(message), |increment| increment.name)?;
                self.counters.increments.increment();
                let (name, amount) = (increment.name, increment.amount);
                match self.durable_of(name.table()) {
                    Some((durable, store)) => {
                        let ((version, sum), when) = durable.increment(store, name, amount)?;
                        let level = durable.level_of(name.table());
                        let answer = IncrementResponse { version, sum, level }.encode_with_level().to_vec();
                        Ok(Outcome { answer, when, is_done: true, is_durable: true })
                    }
                    None => {
                        let (version, sum) = self.store.increment(name, amount)?;
                        let answer = IncrementResponse { version, sum, level: Level::Memory }.encode();
                        let (when, is_done, is_durable) = (When::Now, true, false);
                        Ok(Outcome { answer: answer.to_vec(), when, is_done, is_durable })
                    }
                }
            }
            _ => Err(Code::Malformed),
        }
    }

    /// The log of a table, if it is durable, and the store.
    fn durable_of(
        &mut self,
        table: TableId,
    ) -> Option<(&mut crate::durable::Durable, &mut crate::store::Store)> {
        let Self { durable, store, .. } = self;
        let durable = durable.as_deref_mut()?;
        (durable.level_of(table) != Level::Memory).then_some((durable, store))
    }
}

fn of_durable((response, when): (WriteResponse, When)) -> Outcome {
    let is_done = response.code == Code::Done;
    Outcome { answer: response.encode().to_vec(), when, is_done, is_durable: true }
}

fn of_memory(outcome: Result<u64, WriteError>) -> Result<Outcome, Code> {
    match write_response(outcome) {
        WriteResponse { code: code @ (Code::UnknownTable | Code::OutOfMemory | Code::SameHash), .. } => {
            Err(code)
        }
        response => {
            let is_done = response.code == Code::Done;
            let answer = response.encode().to_vec();
            Ok(Outcome { answer, when: When::Now, is_done, is_durable: false })
        }
    }
}
