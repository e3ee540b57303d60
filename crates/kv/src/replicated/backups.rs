//! A backup behind an endpoint.

use std::collections::BTreeMap;

use farcall::{Deferred, Endpoint, Reply, Request};
use farcall_replica::{Answered, Backup, Handled, Refusal};

use super::segments::{SegmentReading, SegmentRequest};

/// The most segments that are read at a time for those who take over a log.
const SEGMENTS_MAX: usize = 64;

/// A backup, and the calls that wait for its disks.
#[derive(Debug)]
pub struct Backups {
    backup: Backup,
    waiting: BTreeMap<u64, Deferred>,
    segments: Vec<SegmentReading>,
}

impl Backups {
    /// Serves a backup.
    pub fn new(backup: Backup) -> Self {
        Self { backup, waiting: BTreeMap::new(), segments: Vec::new() }
    }

    /// How many replicas it has.
    pub fn replicas(&self) -> usize {
        self.backup.replicas()
    }

    /// Whether disks are at work, so that its owner must not sleep.
    pub fn is_working(&self) -> bool {
        !self.waiting.is_empty() || !self.segments.is_empty()
    }

    /// Answers a request of a primary, or of a shard that takes over, now or in a later turn.
    pub fn handle(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        if SegmentRequest::is_one(request.payload()) {
            return self.begin_segment(request, reply);
        }
        match self.backup.handle(request.payload()) {
            Handled::Now(Ok(answer)) => reply.send(&answer),
            Handled::Now(Err(refusal)) => reply.refuse(refusal as u8),
            Handled::Later(number) => {
                let (deferred, _) = reply.defer();
                self.waiting.insert(number, deferred);
            }
        }
    }

    fn begin_segment(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let Ok(asked) = SegmentRequest::decode(request.payload()) else {
            return reply.refuse(Refusal::Malformed as u8);
        };
        if self.segments.len() >= SEGMENTS_MAX {
            return reply.refuse(Refusal::Full as u8);
        }
        let (deferred, _) = reply.defer();
        self.segments.push(SegmentReading::new(asked, deferred));
    }

    /// Gives the answers for which disks have done their work; says how many.
    pub fn turn(&mut self, endpoint: &Endpoint) -> usize {
        let mut answered = 0;
        while self.is_working()
            && let Some((number, answer)) = self.backup.poll()
        {
            answered += 1;
            match self.waiting.remove(&number) {
                Some(deferred) => give(endpoint, deferred, answer),
                None => self.read(endpoint, number, &answer),
            }
        }
        answered + self.read_on(endpoint)
    }

    /// A piece of a segment was read.
    fn read(&mut self, endpoint: &Endpoint, number: u64, answer: &Answered) {
        let mut taken = self.segments.iter_mut().map(|reading| reading.takes(number, answer));
        let Some(at) = taken.position(|taken| matches!(taken, Some(Err(_)))) else { return };
        if let Err(refusal) = answer {
            give(endpoint, self.segments.swap_remove(at).to, Err(*refusal));
        }
    }

    /// Goes on with one segment: what others ask for comes between.
    fn read_on(&mut self, endpoint: &Endpoint) -> usize {
        for at in 0..self.segments.len() {
            if let Some(answer) = self.segments[at].step(&mut self.backup) {
                give(endpoint, self.segments.remove(at).to, answer);
                return 1;
            }
        }
        0
    }
}

fn give(endpoint: &Endpoint, deferred: Deferred, answer: Answered) {
    match answer {
        Ok(answer) => endpoint.reply(deferred, &answer),
        Err(refusal) => endpoint.refuse(deferred, refusal as u8),
    }
}
