//! The messages of a mirror as calls, and its questions to the registry.

use core::time::Duration;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use farcall::{Connection, Endpoint, Instant, Outcome, Peer};
use farcall_replica::{Mirror, NoAnswer, Outgoing, RegistryWorker};

use super::counters::{ReplicaCounters, RoundTrips, TakeoverTimes};
use super::standing::Standing;
use super::{answer, target};
use crate::wire::BACKUP;

/// The time between two updates of the counters, and two looks for what is to be said.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// The session to a backup.
struct Way<'e> {
    /// `None` if its place is none.
    connection: Option<Connection<'e>>,
    peer: Option<Peer>,
}

/// Carries a mirror's messages. The thread that owns the shard gives it a turn in each of its own.
pub struct Replicator<'e> {
    endpoint: &'e Endpoint,
    mirror: Mirror,
    registry: RegistryWorker,
    within: Duration,
    ways: HashMap<String, Way<'e>>,
    /// Messages of a turn.
    outbox: Vec<Outgoing>,
    /// Messages to backups that are not found yet, and until when they are looked for.
    unsent: Vec<(Outgoing, Instant)>,
    /// Backups to which a call failed: the session is asked for again.
    failed: Arc<Mutex<BTreeSet<String>>>,
    trips: Arc<RoundTrips>,
    counters: ReplicaCounters,
    standing: Standing,
    count_at: Instant,
    /// When it began, until all replicas have everything.
    copies_since: Option<Instant>,
}

impl<'e> Replicator<'e> {
    /// Carries the messages of a mirror over an endpoint; a call to a backup may take this long.
    pub fn new(
        endpoint: &'e Endpoint,
        mirror: Mirror,
        registry: RegistryWorker,
        within: Duration,
        takeover: &TakeoverTimes,
    ) -> Self {
        let (ways, outbox, unsent, failed) = (HashMap::new(), Vec::new(), Vec::new(), Arc::default());
        let counters = ReplicaCounters::of(mirror.log().shard, takeover);
        let (trips, count_at, copies_since) = (Arc::default(), Instant::ZERO, Some(endpoint.clock().now()));
        Self {
            endpoint,
            mirror,
            registry,
            within,
            ways,
            outbox,
            unsent,
            failed,
            trips,
            counters,
            standing: Standing::default(),
            count_at,
            copies_since,
        }
    }

    /// The mirror.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// A turn, outside the poll of the endpoint; says how many messages and answers there were.
    pub fn turn(&mut self) -> usize {
        let mut done = 0;
        while let Some(answer) = self.registry.poll() {
            self.mirror.registry_answered(answer);
            done += 1;
        }
        let mut outbox = core::mem::take(&mut self.outbox);
        let (happened, job) = self.mirror.turn_with(&mut outbox);
        done += usize::from(happened) + outbox.len();
        outbox.drain(..).for_each(|message| self.send(message, None));
        self.outbox = outbox;
        job.into_iter().for_each(|job| self.registry.begin(job));
        if !self.unsent.is_empty() {
            for (message, until) in core::mem::take(&mut self.unsent) {
                self.send(message, Some(until));
            }
        }
        let now = self.endpoint.clock().now();
        if now >= self.count_at {
            self.count_at = now + COUNT_EVERY;
            let status = self.mirror.status();
            self.standing.look(&status);
            let is_whole = self.counters.update(&status, &self.trips);
            if let Some(since) = self.copies_since.take_if(|_| is_whole) {
                self.counters.copied(now - since);
            }
        }
        done
    }

    /// The session to a peer has ended.
    pub fn lost(&mut self, peer: Peer) {
        for (backup, way) in self.ways.iter_mut().filter(|(_, way)| way.peer == Some(peer)) {
            way.peer = None;
            self.mirror.lost(backup);
        }
    }

    /// Sends a message, or keeps it until its backup is found.
    fn send(&mut self, message: Outgoing, until: Option<Instant>) {
        let now = || self.endpoint.clock().now();
        let Some(peer) = self.peer(&message.backup) else {
            let until = until.unwrap_or_else(|| now() + self.within);
            if now() < until {
                self.unsent.push((message, until));
            } else {
                self.mirror.answered(message.token, Err(NoAnswer::Silent));
            }
            return;
        };
        let Outgoing { backup, token, message } = message;
        let call = self.endpoint.call(peer, BACKUP, &message).within(self.within);
        let (mirror, failed) = (self.mirror.clone(), Arc::clone(&self.failed));
        let (name, trips, clock) = (backup.clone(), Arc::clone(&self.trips), self.endpoint.clock());
        let begun = clock.now();
        let started = call.then(move |_, outcome: &Outcome<'_>| {
            let answer = answer(outcome);
            if answer.is_ok() {
                trips.add(clock.now() - begun);
            }
            if answer == Err(NoAnswer::Silent) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            }
            mirror.answered(token, answer);
        });
        if started.is_err() {
            self.forget(&backup);
            self.mirror.answered(token, Err(NoAnswer::Silent));
        }
    }

    fn forget(&mut self, backup: &str) {
        if let Some(way) = self.ways.get_mut(backup) {
            way.peer = None;
        }
    }

    /// The session to a backup, once there is one.
    fn peer(&mut self, backup: &str) -> Option<Peer> {
        let failed = core::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        failed.iter().for_each(|backup| self.forget(backup));
        let endpoint = self.endpoint;
        let way = self
            .ways
            .entry(backup.to_owned())
            .or_insert_with(|| Way { connection: endpoint.connect(&target(backup)).ok(), peer: None });
        if way.peer.is_none() {
            way.peer = way.connection.as_ref()?.peer().ok();
        }
        way.peer
    }
}
