//! Futures as the program of a simulated host.

use core::future::Future;
use std::rc::Rc;

use farcall_base::Instant;

use super::Program;
use crate::Endpoint;
use crate::executor::TaskSet;

/// A program made of futures that share an endpoint.
pub struct Tasks {
    endpoint: Rc<Endpoint>,
    tasks: TaskSet<'static>,
}

impl Tasks {
    /// A program whose first future is what `main` makes of the endpoint. The endpoint serves on after its
    /// end.
    pub fn new<F: Future<Output = ()> + 'static>(
        endpoint: Endpoint,
        main: impl FnOnce(Rc<Endpoint>) -> F,
    ) -> Self {
        let endpoint = Rc::new(endpoint);
        let tasks = TaskSet::default();
        tasks.spawn(main(Rc::clone(&endpoint)));
        Self { endpoint, tasks }
    }
}

impl Program for Tasks {
    fn turn(&mut self) -> usize {
        let woken = self.tasks.round();
        self.endpoint.poll_once() + usize::from(woken)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.endpoint.next_deadline_of_turns()
    }
}
