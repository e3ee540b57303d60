//! A rank that works for rank 0: it does what it is ordered to, until it is let go or rank 0 is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farcall::{Endpoint, Event, Node};

use super::order::Running;
use super::{ABOUT, CLOCK, END, RUN, RankAbout, STOP, WorldError, failed, peer};
use crate::run::beside;

/// A rank but rank 0.
pub struct Member {
    /// Whether rank 0 has let it go.
    over: Arc<AtomicBool>,
    running: Running,
    // Before the node, which made it.
    endpoint: Endpoint,
    _node: Node,
}

impl Member {
    /// A member with its session to rank 0, by which it learns that rank 0 is gone, before the first order,
    /// too. It serves from the first poll on: rank 0 asks as soon as it has a session.
    pub(super) fn new(rank: u32, node: Node, endpoint: Endpoint) -> Result<Self, WorldError> {
        let (over, running) = (Arc::new(AtomicBool::new(false)), Running::default());
        let member = Self { over, running, endpoint, _node: node };
        member.serve(rank);
        peer(&member.endpoint, 0)?;
        Ok(member)
    }

    /// Works until rank 0 lets it go; an error when rank 0 is gone before.
    pub fn work(&self) -> Result<(), WorldError> {
        let Self { over, running, .. } = self;
        let mut lost = None;
        while !over.load(Ordering::Relaxed) && lost.is_none() {
            self.endpoint.poll_idle(|_, event| {
                if let Event::PeerDown { reason, .. } = event {
                    lost = Some(reason.to_string());
                }
            });
        }
        running.stop();
        // The answer to the last order leaves by the next polls.
        self.endpoint.poll_once();
        match lost.filter(|_| !over.load(Ordering::Relaxed)) {
            Some(why) => Err(WorldError::Lost { rank: 0, host: String::new(), why }),
            None => Ok(()),
        }
    }

    fn serve(&self, rank: u32) {
        let Self { over, running, .. } = self;
        let about = RankAbout::of_this_process(rank);
        let about = serde_json::to_vec(&about).expect("facts are JSON");
        self.endpoint.serve(ABOUT, move |_, reply| reply.send(&about));
        let clock = self.endpoint.clock();
        self.endpoint.serve(CLOCK, move |_, reply| reply.send(&clock.now().as_nanos().to_le_bytes()));
        let started = running.clone();
        self.endpoint.serve(RUN, move |request, reply| {
            let (order, running) = (request.payload().to_vec(), started.clone());
            let (deferred, _) = reply.defer();
            let work = move || {
                let order = serde_json::from_slice(&order).map_err(|error| error.to_string());
                let text = order.and_then(|order| running.run(&order));
                deferred.send(text.unwrap_or_else(|why| failed(&why)).into_bytes());
            };
            // Without a thread the duty is dropped, which tells rank 0.
            let _ = beside::spawn(work);
        });
        let stopped = running.clone();
        self.endpoint.serve(STOP, move |_, reply| {
            stopped.stop();
            reply.send(b"");
        });
        let ended = Arc::clone(over);
        self.endpoint.serve(END, move |_, reply| {
            ended.store(true, Ordering::Relaxed);
            reply.send(b"");
        });
    }
}
