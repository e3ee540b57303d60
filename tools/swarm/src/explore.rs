//! Many scenarios, as many at a time as there are threads. Each is a simulation of its own.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use farcall::TransportKind;

use crate::run::{Findings, run};
use crate::scenario::Scenario;

/// One of so many seeds runs twice, and must run the same.
const RUN_TWICE: u64 = 32;

/// One scenario, by what it is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// What the hosts have endpoints of.
    pub transport: TransportKind,
}

impl Case {
    /// The command that runs it again.
    pub fn command(&self) -> String {
        format!("farcall sim swarm --seeds 1 --seed {} --transport {}", self.seed, self.transport)
    }

    /// Draws the scenario and runs it to its end.
    pub fn judge(&self) -> Findings {
        let scenario = Scenario::draw(self.seed, self.transport);
        let mut findings = judge(&scenario);
        if self.seed.is_multiple_of(RUN_TWICE) && judge(&scenario).trace_hash != findings.trace_hash {
            findings.violations.push("a second run of the same seed was another".to_owned());
        }
        findings
    }
}

/// Runs a scenario to its end. A panic, and a scenario that cannot be run, are findings like others.
pub fn judge(scenario: &Scenario) -> Findings {
    let broken = |rule: String| Findings { violations: vec![rule], ..Findings::default() };
    match catch_unwind(AssertUnwindSafe(|| run(scenario))) {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => broken(format!("the scenario cannot be run: {error}")),
        Err(panic) => broken(format!("panicked: {}", message_of(&*panic))),
    }
}

/// Runs all cases in so many threads, and hands over what came of each, in no order.
pub fn explore(cases: &[Case], threads: usize, mut on_findings: impl FnMut(Case, Findings)) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((*case, case.judge())).is_err() {
                        return; // nobody wants to know any more
                    }
                }
            });
        }
        drop(sender);
        for (case, findings) in receiver {
            on_findings(case, findings);
        }
    });
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
