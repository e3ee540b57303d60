//! Moves of hash slots: a range between two shards, whose primaries end at any time, with a map that is set
//! by compare and set, and attempts that are done late.

use stateright::{Model, Property};

use super::explored;

const WRITES_MAX: u8 = 2;
const MOVES_MAX: u8 = 2;
const ENDS_MAX: u8 = 2;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A source refuses the range before it has the map set, until it knows what came of that.
    Freezes,
    /// It has the map set when the destination's log has everything.
    WaitsForTheLog,
    /// The primary of a source that begins gives up what the one before began.
    SourceSettles,
    /// And that of a destination, which removes what is not its own.
    DestinationSettles,
}

const SOURCE: usize = 0;
const DESTINATION: usize = 1;

/// What the registry has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Map {
    version: u8,
    owner: usize,
    /// The number of the move in progress.
    moving: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Copying(u8),
    Frozen(u8),
    Setting(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    map: Map,
    /// The maps that the primaries know.
    known: [Map; 2],
    step: Step,
    /// What the destination has said that it has, by the number of the move.
    copied: Option<(u8, u8)>,
    /// What the logs have of the range: so many writes, one after the other.
    logs: [u8; 2],
    /// Writes that were acknowledged.
    acknowledged: u8,
    /// Attempts to set the map that may still be done: the version that they expect, and the move.
    attempts: Vec<(u8, u8)>,
    ends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Somebody asks for a move.
    Begin,
    /// A primary looks at the map.
    Look(usize),
    /// A client writes, where it is answered.
    Write(usize),
    /// The destination stores, in its log, what the source has.
    Copy,
    Freeze,
    /// The source asks for the map to be set, once more if nobody has answered.
    Set,
    /// The registry does what it was asked for, whenever that arrives.
    Arrive(usize),
    /// A primary ends, and the next one begins with its log and the map.
    End(usize),
}

struct Moves {
    left_out: Option<Rule>,
}

impl Moves {
    fn keeps(&self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    /// Whether a primary reads and writes the range.
    fn answers(&self, state: &State, of: usize) -> bool {
        let is_frozen = of == SOURCE && matches!(state.step, Step::Frozen(_) | Step::Setting(_));
        state.known[of].owner == of && !(is_frozen && self.keeps(Rule::Freezes))
    }

    fn look(&self, state: &mut State, of: usize) {
        let before = core::mem::replace(&mut state.known[of], state.map);
        if of == SOURCE {
            let is_going = |number: u8| state.map.moving == Some(number);
            state.step = match state.step {
                Step::Copying(number) | Step::Frozen(number) | Step::Setting(number) if is_going(number) => {
                    state.step
                }
                _ if state.map.owner == SOURCE => state.map.moving.map_or(Step::Idle, Step::Copying),
                _ => Step::Idle,
            };
        }
        // What a move left that was given up is removed, before the next one brings anything.
        let is_left = before.moving.is_some() && before.moving != state.map.moving;
        if of == DESTINATION && is_left && state.map.owner != DESTINATION {
            state.logs[DESTINATION] = 0;
        }
    }

    fn end(&self, state: &mut State, of: usize) {
        let settles = self.keeps(if of == SOURCE { Rule::SourceSettles } else { Rule::DestinationSettles });
        if state.map.moving.is_some() && settles {
            state.map = Map { version: state.map.version + 1, moving: None, ..state.map };
        }
        state.known[of] = state.map;
        if of == SOURCE {
            (state.step, state.copied) = (Step::Idle, None);
        }
        if state.map.owner != of {
            state.logs[of] = 0;
        }
        state.ends += 1;
    }
}

impl Model for Moves {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let map = Map { version: 0, owner: SOURCE, moving: None };
        let (known, logs) = ([map; 2], [0; 2]);
        let (step, copied) = (Step::Idle, None);
        vec![State { map, known, step, copied, logs, acknowledged: 0, attempts: Vec::new(), ends: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.map.moving.is_none() && state.map.owner == SOURCE && state.map.version < 2 * MOVES_MAX {
            actions.push(Action::Begin);
        }
        for of in [SOURCE, DESTINATION] {
            if state.known[of] != state.map {
                actions.push(Action::Look(of));
            }
            if state.acknowledged < WRITES_MAX && self.answers(state, of) {
                actions.push(Action::Write(of));
            }
            if state.ends < ENDS_MAX {
                actions.push(Action::End(of));
            }
        }
        match state.step {
            Step::Copying(number) | Step::Frozen(number)
                if state.known[DESTINATION].moving == Some(number) =>
            {
                actions.push(Action::Copy);
            }
            _ => {}
        }
        match state.step {
            Step::Copying(_) => actions.push(Action::Freeze),
            Step::Frozen(_) => actions.push(Action::Set),
            Step::Setting(_) if state.attempts.len() < 2 => actions.push(Action::Set),
            _ => {}
        }
        actions.extend((0..state.attempts.len()).map(Action::Arrive));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin => {
                let version = state.map.version + 1;
                state.map = Map { version, moving: Some(version), ..state.map };
            }
            Action::Look(of) => self.look(&mut state, of),
            Action::Write(of) => {
                state.logs[of] += 1;
                state.acknowledged += 1;
            }
            Action::Copy => {
                let (Step::Copying(number) | Step::Frozen(number)) = state.step else { return None };
                state.logs[DESTINATION] = state.logs[SOURCE];
                state.copied = Some((number, state.logs[SOURCE]));
            }
            Action::Freeze => {
                let Step::Copying(number) = state.step else { return None };
                state.step = Step::Frozen(number);
            }
            Action::Set => {
                let (Step::Frozen(number) | Step::Setting(number)) = state.step else { return None };
                let is_new = matches!(state.step, Step::Frozen(_));
                let has_all = state.copied == Some((number, state.logs[SOURCE]));
                if is_new && !has_all && self.keeps(Rule::WaitsForTheLog) {
                    return None;
                }
                state.step = Step::Setting(number);
                state.attempts.push((state.map.version, number));
            }
            Action::Arrive(attempt) => {
                let (expected, number) = state.attempts.remove(attempt);
                if state.map.version == expected && state.map.moving == Some(number) {
                    state.map = Map { version: expected + 1, owner: DESTINATION, moving: None };
                }
            }
            Action::End(of) => self.end(&mut state, of),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one shard answers", |model: &Self, state: &State| {
                !(model.answers(state, SOURCE) && model.answers(state, DESTINATION))
            }),
            Property::always("who answers has every acknowledged write", |model: &Self, state: &State| {
                let has_all = |of: usize| state.logs[of] >= state.acknowledged;
                [SOURCE, DESTINATION].into_iter().all(|of| !model.answers(state, of) || has_all(of))
            }),
            Property::sometimes("a range moves", |_: &Self, state: &State| {
                state.known.iter().all(|known| known.owner == DESTINATION)
            }),
        ]
    }
}

/// Which properties are broken; that a range moves is found, and is no fault.
fn broken(model: Moves) -> (usize, Vec<&'static str>) {
    let (states, mut found) = explored(model);
    assert!(found.contains(&"a range moves"));
    found.retain(|property| *property != "a range moves");
    (states, found)
}

#[test]
fn a_range_has_one_owner_which_has_every_write() {
    let (states, failed) = broken(Moves { left_out: None });
    println!("{states} states");
    assert!(failed.is_empty() && states > 1000, "{failed:?}, {states} states");
}

#[test]
fn each_rule_of_moves_is_needed() {
    for rule in [Rule::Freezes, Rule::WaitsForTheLog, Rule::SourceSettles, Rule::DestinationSettles] {
        let (_, failed) = broken(Moves { left_out: Some(rule) });
        assert!(!failed.is_empty(), "{rule:?} left out");
    }
}
