//! Epochs, fences and records: what was acknowledged is in every replica that is recorded and still there.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};

use super::explored;

const BACKUPS: usize = 3;
const WANTED: usize = 2;
const PROCESSES: usize = 2;
/// How often the model lets each thing happen.
const WRITES: u8 = 1;
const CLAIMS: u8 = 1;
const FAILURES: u8 = 1;
const NUMBERS: u8 = 5;
const LATE: usize = 1;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A backup refuses older epochs.
    Fences,
    /// A replica that failed leaves the record before anything is acknowledged without it.
    RecordedReplicas,
    /// A fence drops no later replica than its sender knew.
    Numbers,
}

/// The number of the replica at each backup; 0 for none.
type Places = [u8; BACKUPS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    epoch: u8,
    owner: usize,
    replicas: Places,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Out,
    Recovering,
    Serving,
}

/// A process: what it believes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    phase: Phase,
    epoch: u8,
    agreed: Places,
    /// The agreed replicas are its own.
    has_own: bool,
    /// What the registry was asked to record, until it is known whether it has.
    proposed: Option<Places>,
    members: Places,
    /// Members that have all that it wrote.
    confirmed: [bool; BACKUPS],
    log: u8,
    pending: u8,
}

const OUT: Process = Process {
    phase: Phase::Out,
    epoch: 0,
    agreed: [0; BACKUPS],
    has_own: false,
    proposed: None,
    members: [0; BACKUPS],
    confirmed: [false; BACKUPS],
    log: 0,
    pending: 0,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Backup {
    epoch: u8,
    replicas: BTreeMap<u8, u8>,
}

/// A message that is out, and may arrive at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Late {
    Write { from: usize, epoch: u8, backup: usize, replica: u8, log: u8 },
    Fence { epoch: u8, backup: usize, replica: u8, retained: [u8; 3] },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    record: Record,
    processes: [Process; PROCESSES],
    backups: [Backup; BACKUPS],
    late: BTreeSet<Late>,
    acknowledged: u8,
    writes: u8,
    claims: u8,
    failures: u8,
    losses: u8,
    /// Numbers of replicas that were given: they rise over all primaries.
    numbers: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Claim(usize),
    /// Reads the replica at a backup, which fences it.
    Recover(usize, usize),
    Begin(usize, usize),
    Fail(usize, usize),
    Tidy(usize, usize),
    Propose(usize),
    /// The registry does what it was asked for, and says so, or does not.
    Decide(usize, bool),
    Write(usize),
    Acknowledge(usize),
    Arrive(Late),
    Drop(Late),
    Lose(usize),
}

struct Replicas {
    left_out: Option<Rule>,
}

impl Replicas {
    fn leaves_out(&self, rule: Rule) -> bool {
        self.left_out == Some(rule)
    }

    /// Whether a backup takes a message of this epoch, which is its latest from now on.
    fn admits(&self, backup: &mut Backup, epoch: u8) -> bool {
        let is_older = epoch < backup.epoch;
        backup.epoch = backup.epoch.max(epoch);
        !is_older || self.leaves_out(Rule::Fences)
    }

    fn fence(&self, backup: &mut Backup, replica: u8, retained: &[u8]) {
        let is_later = |number: u8| number >= replica && !self.leaves_out(Rule::Numbers);
        backup.replicas.retain(|number, _| is_later(*number) || retained.contains(number));
    }

    fn claim(state: &mut State, process: usize) {
        state.claims += 1;
        state.record = Record { epoch: state.record.epoch + 1, owner: process, ..state.record };
        let Record { epoch, replicas, .. } = state.record;
        state.processes[process] = Process { phase: Phase::Recovering, epoch, agreed: replicas, ..OUT };
    }

    fn recover(&self, state: &mut State, process: usize, backup: usize) -> Option<()> {
        let (of, at) = (&mut state.processes[process], &mut state.backups[backup]);
        if !self.admits(at, of.epoch) {
            *of = OUT;
            return Some(());
        }
        self.fence(at, state.numbers + 1, &of.agreed[backup..=backup]);
        of.log = *at.replicas.get(&of.agreed[backup])?;
        of.phase = Phase::Serving;
        Some(())
    }

    /// Makes a replica at a backup, with all that there is.
    fn begin(&self, state: &mut State, process: usize, backup: usize) -> Option<()> {
        let (of, at) = (&mut state.processes[process], &mut state.backups[backup]);
        if !self.admits(at, of.epoch) {
            *of = OUT;
            return Some(());
        }
        state.numbers += 1;
        let retained = [of.agreed[backup], of.proposed.map_or(0, |places| places[backup])];
        self.fence(at, state.numbers, &retained);
        at.replicas.insert(state.numbers, of.log);
        (of.members[backup], of.confirmed[backup]) = (state.numbers, true);
        Some(())
    }

    fn tidy(state: &mut State, process: usize, backup: usize) {
        let Process { epoch, agreed, proposed, members, .. } = &state.processes[process];
        let replica = members[backup];
        let retained = [agreed[backup], proposed.map_or(0, |places| places[backup]), replica];
        state.late.insert(Late::Fence { epoch: *epoch, backup, replica, retained });
    }

    fn decide(state: &mut State, process: usize, is_told: bool) -> Option<()> {
        let of = &mut state.processes[process];
        let replicas = of.proposed?;
        let expected = Record { epoch: of.epoch, owner: process, replicas: of.agreed };
        let next = Record { epoch: of.epoch + 1, owner: process, replicas };
        if state.record == expected {
            state.record = next;
        }
        if is_told && state.record == next {
            (of.epoch, of.agreed, of.has_own, of.proposed) = (next.epoch, replicas, true, None);
        } else if is_told {
            *of = OUT;
        }
        Some(())
    }

    fn write(state: &mut State, process: usize) {
        state.writes += 1;
        let of = &mut state.processes[process];
        of.pending = 1 << (state.writes - 1);
        of.log |= of.pending;
        of.confirmed = [false; BACKUPS];
        for backup in (0..BACKUPS).filter(|&backup| of.members[backup] != 0) {
            let (epoch, replica, log) = (of.epoch, of.members[backup], of.log);
            state.late.insert(Late::Write { from: process, epoch, backup, replica, log });
        }
    }

    fn is_everywhere(&self, of: &Process) -> bool {
        let has_all = |backup: usize| match of.agreed[backup] {
            0 => true,
            agreed if agreed == of.members[backup] => of.confirmed[backup],
            _ => self.leaves_out(Rule::RecordedReplicas),
        };
        of.pending != 0 && of.has_own && of.proposed.is_none() && (0..BACKUPS).all(has_all)
    }

    fn arrive(&self, state: &mut State, late: &Late) {
        state.late.remove(late);
        match late {
            Late::Fence { epoch, backup, replica, retained } => {
                let at = &mut state.backups[*backup];
                if self.admits(at, *epoch) {
                    self.fence(at, *replica, retained);
                }
            }
            Late::Write { from, epoch, backup, replica, log } => {
                let at = &mut state.backups[*backup];
                let of = &mut state.processes[*from];
                let is_member = of.phase == Phase::Serving && of.members[*backup] == *replica;
                if !self.admits(at, *epoch) {
                    if is_member {
                        *of = OUT;
                    }
                } else if let Some(held) = at.replicas.get_mut(replica) {
                    *held |= log;
                    of.confirmed[*backup] |= is_member && *held == of.log;
                }
            }
        }
    }
}

impl Model for Replicas {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // A primary has two replicas.
        let replicas = [1, 2, 0];
        let first = Process {
            phase: Phase::Serving,
            epoch: 1,
            agreed: replicas,
            has_own: true,
            members: replicas,
            confirmed: [true; BACKUPS],
            ..OUT
        };
        let backup = |replica: u8| Backup { epoch: 1, replicas: BTreeMap::from([(replica, 0)]) };
        vec![State {
            record: Record { epoch: 1, owner: 0, replicas },
            processes: [first, OUT],
            backups: [backup(1), backup(2), Backup::default()],
            late: BTreeSet::new(),
            acknowledged: 0,
            writes: 0,
            claims: 0,
            failures: 0,
            losses: 0,
            numbers: 2,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for late in &state.late {
            actions.extend([Action::Arrive(late.clone()), Action::Drop(late.clone())]);
        }
        let has_room = state.late.len() < LATE;
        for (process, of) in state.processes.iter().enumerate() {
            // A process that has ended and one that stands still are the same to the others.
            if of.phase == Phase::Out && state.claims < CLAIMS {
                actions.push(Action::Claim(process));
            }
            let is_serving = of.phase == Phase::Serving;
            let members = of.members.iter().filter(|&&member| member != 0).count();
            for backup in 0..BACKUPS {
                if of.phase == Phase::Recovering && of.agreed[backup] != 0 {
                    actions.push(Action::Recover(process, backup));
                }
                if is_serving && of.members[backup] == 0 && members < WANTED && state.numbers < NUMBERS {
                    actions.push(Action::Begin(process, backup));
                }
                if is_serving && of.members[backup] != 0 && state.failures < FAILURES {
                    actions.push(Action::Fail(process, backup));
                }
                if is_serving && of.members[backup] != 0 && of.pending == 0 && has_room {
                    actions.push(Action::Tidy(process, backup));
                }
            }
            if is_serving && of.proposed.is_none() && members == WANTED && of.members != of.agreed {
                actions.push(Action::Propose(process));
            }
            if of.proposed.is_some() {
                actions.extend([Action::Decide(process, true), Action::Decide(process, false)]);
            }
            if is_serving && of.has_own && of.pending == 0 && state.writes < WRITES && state.late.is_empty() {
                actions.push(Action::Write(process));
            }
            if self.is_everywhere(of) {
                actions.push(Action::Acknowledge(process));
            }
        }
        if state.losses == 0 {
            actions.extend((0..BACKUPS).map(Action::Lose));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Claim(process) => Self::claim(&mut state, process),
            Action::Recover(process, backup) => self.recover(&mut state, process, backup)?,
            Action::Begin(process, backup) => self.begin(&mut state, process, backup)?,
            Action::Fail(process, backup) => {
                state.failures += 1;
                let of = &mut state.processes[process];
                (of.members[backup], of.confirmed[backup]) = (0, false);
            }
            Action::Tidy(process, backup) => Self::tidy(&mut state, process, backup),
            Action::Propose(process) => {
                let of = &mut state.processes[process];
                of.proposed = Some(of.members);
            }
            Action::Decide(process, is_told) => Self::decide(&mut state, process, is_told)?,
            Action::Write(process) => Self::write(&mut state, process),
            Action::Acknowledge(process) => {
                state.acknowledged |= state.processes[process].pending;
                state.processes[process].pending = 0;
            }
            Action::Arrive(late) => self.arrive(&mut state, &late),
            Action::Drop(late) => _ = state.late.remove(&late),
            Action::Lose(backup) => {
                state.losses += 1;
                state.backups[backup] = Backup::default();
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "what was acknowledged is in every recorded replica",
                |_: &Self, state: &State| {
                    let held =
                        |backup: usize| state.backups[backup].replicas.get(&state.record.replicas[backup]);
                    (0..BACKUPS).filter_map(held).all(|held| held & state.acknowledged == state.acknowledged)
                },
            ),
            Property::always("a recorded replica is there", |_: &Self, state: &State| {
                let is_there = |backup: usize| {
                    state.backups[backup].replicas.contains_key(&state.record.replicas[backup])
                };
                state.acknowledged == 0 || (0..BACKUPS).any(is_there)
            }),
        ]
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization: make model")]
fn what_was_acknowledged_is_in_every_recorded_replica() {
    let (states, failed) = explored(Replicas { left_out: None });
    println!("{states} states");
    assert!(failed.is_empty() && states > 10_000, "{failed:?}, {states} states");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization: make model")]
fn each_rule_of_replicas_is_needed() {
    for rule in [Rule::Fences, Rule::RecordedReplicas, Rule::Numbers] {
        let (states, failed) = explored(Replicas { left_out: Some(rule) });
        println!("{rule:?} left out: {failed:?} within {states} states");
        assert!(!failed.is_empty(), "{rule:?} left out");
    }
}
