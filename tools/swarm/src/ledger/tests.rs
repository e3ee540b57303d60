//! The rules bite: each is broken on purpose here.

use farcall::{Reason, TransportKind};

use super::*;

/// A ledger of a scenario without faults, and one of its calls that is answered at once.
fn ledger() -> (Ledger, usize) {
    let scenarios = (1..).map(|seed| Scenario::draw(seed, TransportKind::BASIC_SIM));
    let quiet = |scenario: &Scenario| scenario.faults.troubles.is_empty() && scenario.faults.loss() == 0.0;
    let simple = |operation: &Operation| {
        operation.serving == Serving::Reply && operation.cancel_after.is_none() && operation.answer_bytes > 0
    };
    let mut found = scenarios.filter(quiet).filter_map(|scenario| {
        let call = scenario.operations.iter().position(simple)?;
        Some((scenario, call))
    });
    let (scenario, call) = found.next().expect("there are endless seeds");
    let entry = Entry { stage: Stage::Planned, begun: Instant::ZERO, runs: 0 };
    let entries = vec![entry; scenario.operations.len()];
    let scenario = Arc::new(scenario);
    let mail = MailBook::new(&scenario.mail);
    let errands = ErrandBook::new(&scenario.errands, scenario.hosts);
    let profile = scenario.profile().expect("a profile");
    let fabric = Fabric::new(profile, 1, scenario.hosts as usize).expect("it has places");
    (
        Ledger {
            scenario,
            fabric,
            mail,
            errands,
            entries,
            downs: Vec::new(),
            violations: Vec::new(),
            open: 0,
        },
        call,
    )
}

const NOW: Instant = Instant::from_nanos(1000);

impl Ledger {
    fn of(&self, call: usize) -> Operation {
        self.scenario.operations[call].clone()
    }

    fn run_rightly(&mut self, call: usize) {
        let Operation { caller, callee, request_bytes, .. } = self.of(call);
        self.run(call, callee, caller, payload::bytes(call, Role::Request, request_bytes), NOW);
    }

    fn answer_rightly(&mut self, call: usize) {
        let bytes = payload::bytes(call, Role::Answer, self.of(call).answer_bytes);
        self.end(call, Ok(bytes), NOW);
    }

    /// The one rule that was broken.
    fn broken(&self) -> &str {
        assert_eq!(self.violations.len(), 1, "{:?}", self.violations);
        &self.violations[0]
    }
}

#[test]
fn a_call_that_runs_once_and_is_answered_once_breaks_no_rule() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    assert_eq!(ledger.open(), 1);
    ledger.run_rightly(call);
    ledger.answer_rightly(call);
    ledger.check_none_open(Instant::NEVER, NOW);
    assert_eq!((ledger.violations().len(), ledger.open(), ledger.answered()), (0, 0, 1));
}

#[test]
fn a_second_run_and_a_second_end_are_found() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.run_rightly(call);
    ledger.run_rightly(call);
    assert!(ledger.broken().contains("ran 2 times"));

    let (mut ledger, call) = self::ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.run_rightly(call);
    ledger.answer_rightly(call);
    ledger.answer_rightly(call);
    assert!(ledger.broken().contains("was Answered before"));
}

#[test]
fn an_answer_without_a_run_and_a_run_without_a_call_are_found() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.answer_rightly(call);
    assert!(ledger.broken().contains("it ran 0 times"));

    let (mut ledger, call) = self::ledger();
    ledger.run_rightly(call);
    assert!(ledger.broken().contains("which was Planned"));
}

#[test]
fn damage_is_found_both_ways() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.run_rightly(call);
    let mut answer = payload::bytes(call, Role::Answer, ledger.of(call).answer_bytes).to_vec();
    answer[0] ^= 1;
    ledger.end(call, Ok(&answer), NOW);
    assert!(ledger.broken().contains("arrived changed"));

    let (mut ledger, call) = self::ledger();
    ledger.begin(call, Instant::ZERO);
    let Operation { caller, callee, request_bytes, .. } = ledger.of(call);
    let longer = payload::bytes(call, Role::Request, request_bytes + 1);
    ledger.run(call, callee, caller, longer, NOW);
    assert!(ledger.broken().contains("arrived changed"));
}

#[test]
fn calls_that_end_too_late_too_early_or_never_are_found() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.check_none_open(Instant::NEVER, NOW);
    assert!(ledger.broken().contains("never completed"));

    let (mut ledger, call) = self::ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.end(call, Err(&CallError::TimedOut), Instant::ZERO);
    assert!(ledger.broken().contains("instead of"));

    let (mut ledger, call) = self::ledger();
    ledger.begin(call, Instant::ZERO);
    let late = Instant::ZERO + ledger.of(call).within + 2 * LATENESS_MAX;
    ledger.end(call, Err(&CallError::TimedOut), late);
    assert!(ledger.broken().contains("completed after"));
}

#[test]
fn errors_that_nothing_explains_are_found() {
    let (mut ledger, call) = ledger();
    ledger.begin(call, Instant::ZERO);
    ledger.end(call, Err(&CallError::Refused { code: 3, why: Reason::default() }), NOW);
    // It was not asked to refuse, and it did not run either.
    assert_eq!(ledger.violations().len(), 2, "{:?}", ledger.violations());

    let reasons = [DownReason::Dead, DownReason::Unreachable, DownReason::Restarted, DownReason::Closed];
    for reason in reasons.into_iter().chain([DownReason::Violation { what: "nothing" }]) {
        let (mut ledger, _) = self::ledger();
        ledger.peer_down(TransportKind::BASIC_SIM, 0, 1, &reason, NOW);
        assert!(ledger.broken().contains("without cause"), "{reason}");
    }
}
