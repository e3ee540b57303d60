//! Leases: who may read, by clocks that are read before the registry is asked, with answers that are lost.

use stateright::{Model, Property};

use super::explored;

const LEASE: u8 = 2;
const TIME_MAX: u8 = 7;
const PROCESSES: usize = 2;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A primary reads only as long as its lease lasts.
    Ends,
    /// An attempt that was done counts from when it began, and not from when that was found out.
    CountsFromTheAttempt,
    /// A candidate waits for as long as a lease after it has seen the record change.
    Waits,
}

/// What the registry has: whose it is, and how often it was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    owner: usize,
    beat: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    /// The beat that it knows to be its own, if it is the primary for all that it knows.
    beat: Option<u8>,
    lease_until: u8,
    /// What it is asking for: when the first attempt began, and the last one.
    asked: Option<(u8, u8)>,
    /// What it has seen last as a candidate, and when.
    seen: Option<(u8, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    record: Record,
    processes: [Process; PROCESSES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    /// A primary begins to renew, or tries again.
    Ask(usize),
    /// The registry does what it is asked for, and says so, or does not.
    Answer(usize, bool),
    /// A candidate looks at the record, and claims it if it may.
    Look(usize),
}

struct Leases {
    left_out: Option<Rule>,
}

impl Leases {
    fn may_read(&self, state: &State, process: usize) -> bool {
        let of = &state.processes[process];
        of.beat.is_some() && (state.now < of.lease_until || self.left_out == Some(Rule::Ends))
    }

    fn answer(&self, state: &mut State, process: usize, is_told: bool) {
        let of = &mut state.processes[process];
        let (Some(beat), Some((first, last))) = (of.beat, of.asked) else { return };
        let is_expected = state.record == Record { owner: process, beat };
        let was_done = state.record == Record { owner: process, beat: beat + 1 };
        if is_expected {
            state.record.beat += 1;
        }
        if !is_told {
            return;
        }
        of.asked = None;
        let begun = match (is_expected, self.left_out) {
            (false, None | Some(Rule::Ends | Rule::Waits)) => first,
            _ => last,
        };
        of.beat = (is_expected || was_done).then_some(beat + 1);
        of.lease_until = begun + LEASE;
    }

    fn look(&self, state: &mut State, process: usize) {
        let (now, record) = (state.now, state.record);
        let of = &mut state.processes[process];
        let since = match of.seen {
            Some((beat, since)) if beat == record.beat => since,
            _ => now,
        };
        of.seen = Some((record.beat, since));
        if now >= since + LEASE || self.left_out == Some(Rule::Waits) {
            let beat = record.beat + 1;
            state.record = Record { owner: process, beat };
            *of = Process { beat: Some(beat), lease_until: now + LEASE, asked: None, seen: None };
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut processes = [Process::default(); PROCESSES];
        processes[0] = Process { beat: Some(1), lease_until: LEASE, ..Process::default() };
        vec![State { now: 0, record: Record { owner: 0, beat: 1 }, processes }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < TIME_MAX {
            actions.push(Action::Pass);
        }
        for (process, of) in state.processes.iter().enumerate() {
            match of.beat {
                // Twice at one time tells nothing more.
                Some(_) if of.asked.map_or(of.lease_until - LEASE, |(_, last)| last) < state.now => {
                    actions.push(Action::Ask(process));
                }
                Some(_) => {}
                None => actions.push(Action::Look(process)),
            }
            if of.asked.is_some() {
                actions.extend([Action::Answer(process, true), Action::Answer(process, false)]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.now;
        match action {
            Action::Pass => state.now += 1,
            Action::Ask(process) => {
                let asked = &mut state.processes[process].asked;
                *asked = Some((asked.map_or(now, |(first, _)| first), now));
            }
            Action::Answer(process, is_told) => self.answer(&mut state, process, is_told),
            Action::Look(process) => self.look(&mut state, process),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("one process may read", |model: &Self, state: &State| {
            (0..PROCESSES).filter(|&process| model.may_read(state, process)).count() <= 1
        })]
    }
}

#[test]
fn one_process_at_a_time_may_read() {
    let (states, failed) = explored(Leases { left_out: None });
    println!("{states} states");
    assert!(failed.is_empty() && states > 1000, "{failed:?}, {states} states");
}

#[test]
fn each_rule_of_leases_is_needed() {
    for rule in [Rule::Ends, Rule::CountsFromTheAttempt, Rule::Waits] {
        let (_, failed) = explored(Leases { left_out: Some(rule) });
        assert_eq!(failed, ["one process may read"], "{rule:?} left out");
    }
}
