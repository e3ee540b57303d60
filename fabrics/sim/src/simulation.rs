//! Running programs on the hosts of a fabric.
//!
//! One thread runs everything: an event at a time, a turn at a time. A program is what a real process would
//! have between `main` and its poll loop; the loop itself is here, and runs when the host's processor is free
//! and there is something to find.

use farcall_base::Instant;

use crate::fabric::Fabric;
use crate::host::Host;
use crate::time::Picos;
use crate::world::Step;

/// What a host runs.
pub trait Program {
    /// One turn of the poll loop: receives, computes, sends. Returns how much there was to do; 0 if nothing.
    ///
    /// After a turn that did something the next follows at once; after any other it waits for an arrival or
    /// the deadline.
    fn turn(&mut self) -> usize;

    /// When the next turn must come although nothing arrives; a time that is past asks for the next turn at
    /// once.
    fn next_deadline(&self) -> Option<Instant>;
}

/// Makes the program of a host, at its start and at each restart.
pub type Factory = Box<dyn FnMut(&Host) -> Box<dyn Program>>;

/// A fabric and the programs on its hosts.
pub struct Simulation {
    fabric: Fabric,
    programs: Vec<Option<Running>>,
}

struct Running {
    factory: Factory,
    /// `None` while the host is down.
    program: Option<Box<dyn Program>>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time was reached.
    TimeReached,
    /// The condition does not hold any more.
    Done,
    /// Nothing can happen any more: no packet is on its way, and no program has a deadline.
    Quiet,
}

impl Simulation {
    /// A simulation on `fabric`, with no program yet.
    pub fn new(fabric: Fabric) -> Self {
        let programs = (0..fabric.host_count()).map(|_| None).collect();
        Self { fabric, programs }
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Starts a program on a host. The factory makes it now, and again whenever the host restarts.
    pub fn start(&mut self, host: usize, factory: impl FnMut(&Host) -> Box<dyn Program> + 'static) {
        self.programs[host] = Some(Running { factory: Box::new(factory), program: None });
        self.begin(host as u32);
    }

    /// Runs until simulated time is `until`, also when nothing is left to happen before.
    pub fn run_until(&mut self, until: Instant) -> Outcome {
        self.run(Picos::from(until), || true)
    }

    /// Runs while `condition` holds; it is looked at after each turn of a host.
    pub fn run_while(&mut self, condition: impl FnMut() -> bool) -> Outcome {
        self.run(Picos::NEVER, condition)
    }

    /// Runs while `condition` holds, at most until `until`.
    pub fn run_while_until(&mut self, condition: impl FnMut() -> bool, until: Instant) -> Outcome {
        self.run(Picos::from(until), condition)
    }

    fn run(&mut self, until: Picos, mut condition: impl FnMut() -> bool) -> Outcome {
        while condition() {
            let step = self.fabric.lock().advance(until);
            match step {
                Step::Turn(host) => self.turn(host),
                Step::Crashed(host) => self.end(host),
                Step::Restarted(host) => self.begin(host),
                Step::Reached => return Outcome::TimeReached,
                Step::Quiet => return Outcome::Quiet,
            }
        }
        Outcome::Done
    }

    /// A host's life begins.
    fn begin(&mut self, host: u32) {
        if let Some(running) = &mut self.programs[host as usize] {
            running.program = Some((running.factory)(&self.fabric.host(host as usize)));
            self.fabric.lock().drive(host);
        }
    }

    /// A host's life is over. What its program does while it is dropped has no effect any more.
    fn end(&mut self, host: u32) {
        if let Some(running) = &mut self.programs[host as usize] {
            running.program = None;
        }
    }

    fn turn(&mut self, host: u32) {
        let running = self.programs[host as usize].as_mut();
        let (work, deadline) = match running.and_then(|running| running.program.as_mut()) {
            Some(program) => (program.turn(), program.next_deadline()),
            None => (0, None),
        };
        self.fabric.lock().end_turn(host, work, deadline);
    }
}
