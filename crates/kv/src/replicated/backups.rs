//! A backup behind an endpoint.

use std::collections::BTreeMap;

use farcall::{Deferred, Endpoint, Reply, Request};
use farcall_replica::{Answered, Backup, Handled};

/// A backup, and the calls that wait for its disks.
#[derive(Debug)]
pub struct Backups {
    backup: Backup,
    waiting: BTreeMap<u64, Deferred>,
}

impl Backups {
    /// Serves a backup.
    pub fn new(backup: Backup) -> Self {
        Self { backup, waiting: BTreeMap::new() }
    }

    /// How many replicas it has.
    pub fn replicas(&self) -> usize {
        self.backup.replicas()
    }

    /// Whether disks are at work, so that its owner must not sleep.
    pub fn is_working(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers a request of a primary, now or in a later turn.
    pub fn handle(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        match self.backup.handle(request.payload()) {
            Handled::Now(Ok(answer)) => reply.send(&answer),
            Handled::Now(Err(refusal)) => reply.refuse(refusal as u8),
            Handled::Later(number) => {
                let (deferred, _) = reply.defer();
                self.waiting.insert(number, deferred);
            }
        }
    }

    /// Gives the answers for which disks have done their work; says how many.
    pub fn turn(&mut self, endpoint: &Endpoint) -> usize {
        let mut answered = 0;
        while !self.waiting.is_empty()
            && let Some((number, answer)) = self.backup.poll()
        {
            answered += 1;
            if let Some(deferred) = self.waiting.remove(&number) {
                give(endpoint, deferred, answer);
            }
        }
        answered
    }
}

fn give(endpoint: &Endpoint, deferred: Deferred, answer: Answered) {
    match answer {
        Ok(answer) => endpoint.reply(deferred, &answer),
        Err(refusal) => endpoint.refuse(deferred, refusal as u8),
    }
}
