//! A client and its server in one thread: between a write and its answer is what its level takes, and no way
//! to another core before that.
//!
//! With the server on a core of its own a write would go to that core and back besides, and to the backups
//! from there: with two cores somebody would always wait for one.

use core::time::Duration;

use farcall::Node;

use super::backing::FILLED;
use super::client::{measure, warm_up};
use super::counters::OwnCounters;
use super::report::{ClientReport, Found, ProcessRole};
use super::shard::ServedShard;
use super::worker::{end, pass_by, sentence};
use super::{ExchangeWork, Job};

/// Serves a shard whose log has backups, and calls it from an endpoint of its own.
pub(super) fn serve_and_call(node: &Node, job: &Job, within: Duration) -> Result<Found, String> {
    let exchange = &job.exchange;
    let (ExchangeWork::Store(work), Some(backing)) = (&exchange.workload, &job.backing) else {
        return Err("only a store with backups is called from the thread that serves it".to_owned());
    };
    let server = node.endpoint(&exchange.transport).map_err(sentence)?;
    let mut shard = ServedShard::backed(work, exchange, node.rank(), backing, &server)?;
    let poll = || server.poll(|_, _| {}) + usize::from(shard.turn(&server));
    pass_by(node, FILLED, within, job.shares_cores, poll)?;
    let client = node.endpoint(&exchange.transport).map_err(sentence)?;
    let peers = [client.peer(node.rank()).map_err(sentence)?];
    let mut serve = |_: bool| {
        server.poll_requests(|request, reply| shard.handle(request, reply), |_, _| ());
        shard.turn(&server);
    };
    let warmup = warm_up(&client, &peers, job, node.rank(), &mut serve).map_err(sentence)?;
    let before = OwnCounters::read();
    let run = measure(&client, &peers, job, node.rank(), &mut serve).map_err(sentence)?;
    let counters = OwnCounters::read().since(&before);
    let report = ClientReport { warmup, counters, ..ClientReport::new(&run) };
    let found = Found { role: ProcessRole::Client, client: Some(report), ..Found::default() };
    end(node, &server, job, found)
}
