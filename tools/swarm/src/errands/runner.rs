//! The errands of a host: begins them when they are due, on the host's second endpoint.

use core::cell::Cell;
use std::rc::Rc;

use farcall::{Endpoint, Event, Instant, TransportKind};

use super::rounds::take_part;
use super::visits::visit;
use crate::serve::Desk;
use crate::tasks::Tasks;

/// What a host has to do on its second endpoint.
pub struct Runner {
    rank: u32,
    transport: TransportKind,
    endpoint: Rc<Endpoint>,
    desk: Desk,
    /// Collective operations to begin. The next is the last.
    rounds: Vec<(Instant, usize)>,
    /// Operations of the store, one at a time. The next is the last.
    visits: Vec<(Instant, usize)>,
    is_visiting: Rc<Cell<bool>>,
    /// From then on nothing more is begun, and what broken groups have left is thrown away.
    clears_at: Instant,
    has_cleared: bool,
    tasks: Tasks,
}

impl Runner {
    /// The errands of a life that begins now; `None` when this host cannot have them.
    pub fn new(rank: u32, transport: TransportKind, endpoint: Rc<Endpoint>, desk: Desk) -> Self {
        let (scenario, now) = (desk.scenario.clone(), desk.clock.now());
        let errands = &scenario.errands;
        if rank < errands.shards && !errands.visits.is_empty() {
            let shard = super::visits::serve(&endpoint, rank, errands.shards);
            desk.ledger.lock().shard_is_served(rank, shard, now);
        }
        let at = |at| Instant::ZERO + at;
        let rounds = errands.rounds.iter().enumerate().filter(|(_, round)| !round.left_out);
        let mut rounds: Vec<_> =
            rounds.map(|(number, round)| (at(round.at), number)).filter(|(at, _)| *at >= now).collect();
        let visits = errands.visits.iter().enumerate();
        let visits = visits.filter(|(_, visit)| visit.host == rank && !visit.left_out);
        let mut visits: Vec<_> =
            visits.map(|(number, visit)| (at(visit.at), number)).filter(|(at, _)| *at >= now).collect();
        rounds.sort_unstable_by(|a, b| b.cmp(a));
        visits.sort_unstable_by(|a, b| b.cmp(a));
        let (is_visiting, tasks) = (Rc::default(), Tasks::default());
        let clears_at = Instant::ZERO + scenario.collect_at();
        Self {
            rank,
            transport,
            endpoint,
            desk,
            rounds,
            visits,
            is_visiting,
            clears_at,
            has_cleared: false,
            tasks,
        }
    }

    /// Does what is due and polls the endpoint; returns how much there was to do.
    pub fn turn(&mut self) -> usize {
        let now = self.desk.clock.now();
        let mut done = 0;
        while let Some((_, number)) = self.rounds.pop_if(|(at, _)| *at <= now) {
            done += 1;
            self.begin_round(number, now);
        }
        if !self.is_visiting.get()
            && let Some((_, number)) = self.visits.pop_if(|(at, _)| *at <= now)
        {
            done += 1;
            self.begin_visit(number, now);
        }
        done += self.clear(now);
        let (desk, rank, transport) = (&self.desk, self.rank, self.transport);
        let polled = self.endpoint.poll(|_, event| {
            if let Event::PeerDown { peer, reason } = event {
                desk.ledger.lock().peer_down(transport, rank, peer.rank(), &reason, desk.clock.now());
            }
        });
        done + polled + self.tasks.round(self.desk.clock.now())
    }

    /// When there is something to do without a packet.
    pub fn next_deadline(&self) -> Option<Instant> {
        let rounds = self.rounds.last().map(|(at, _)| *at);
        let visits = self.visits.last().map(|(at, _)| *at).filter(|_| !self.is_visiting.get());
        let own = rounds.into_iter().chain(visits);
        let clear = (!self.has_cleared && self.tasks.is_empty()).then_some(self.clears_at);
        own.chain(clear).chain(self.tasks.next_deadline()).chain(self.endpoint.next_deadline()).min()
    }

    /// Messages of a group that was broken arrive all the same, and nobody receives them: they hold memory
    /// until their session ends, or until a handler takes them.
    fn clear(&mut self, now: Instant) -> usize {
        let is_due = !self.has_cleared && now >= self.clears_at && self.tasks.is_empty();
        if is_due {
            self.has_cleared = true;
            self.endpoint.on_message(|_, _| ());
        }
        usize::from(is_due)
    }

    fn begin_round(&mut self, number: usize, now: Instant) {
        let (endpoint, desk, rank) = (Rc::clone(&self.endpoint), self.desk.clone(), self.rank);
        desk.ledger.lock().round_begins(number, rank, now);
        let future = async move {
            let (round, hosts) = (desk.scenario.errands.rounds[number].clone(), desk.scenario.hosts);
            let end = take_part(endpoint, number, round, rank, hosts).await;
            desk.ledger.lock().round_ends(number, rank, &end, desk.clock.now());
        };
        self.tasks.spawn(future, Instant::NEVER, |_| ());
    }

    fn begin_visit(&mut self, number: usize, now: Instant) {
        let (endpoint, desk, is_visiting) =
            (Rc::clone(&self.endpoint), self.desk.clone(), Rc::clone(&self.is_visiting));
        is_visiting.set(true);
        desk.ledger.lock().visit_begins(number, now);
        let future = async move {
            let errands = &desk.scenario.errands;
            let end = visit(endpoint, errands.shards, number, errands.visits[number].clone()).await;
            desk.ledger.lock().visit_ends(number, &end, desk.clock.now());
            is_visiting.set(false);
        };
        self.tasks.spawn(future, Instant::NEVER, |_| ());
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.desk.ledger.lock().errands_of_life_end(self.rank);
    }
}
