//! A shard whose primary seems to be gone: the slots are spread over two others, while that primary goes on
//! as long as it can, another process becomes the primary, and those that take parts end.
//!
//! The slots are one register, of which the first of the two takes what matters. Whoever is the next primary
//! has an image of its own, and so fences nobody before it serves.

use stateright::{Model, Property};

use super::explored;

const WRITES_MAX: u8 = 2;
const SPREADS_MAX: u8 = 2;
const ENDS_MAX: u8 = 2;

/// The epochs of the primary that seems to be gone, of the claim for the spread, and of the next primary.
const OLD: u8 = 1;
const SPREADER: u8 = 2;
const NEXT: u8 = 3;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The replica refuses the old epoch once it was read for the spread.
    Fences,
    /// Whoever enters a spread looks at the record afterwards, before anybody takes anything.
    Verifies,
    /// A part is said to be there when the log has it.
    WaitsForTheLog,
    /// The next primary gives up the spread before it serves.
    NextSettles,
    /// So does the next process of a shard that takes a part.
    TakerSettles,
}

/// What the map says of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spread {
    number: u8,
    is_planned: bool,
    ready: [bool; 2],
}

/// Where the one is that has claimed the record for a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Claimed,
    Entered(u8),
    Verified(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Primary {
    Away,
    Claimed,
    /// It serves, with so many writes.
    Serving(u8),
    /// Others have taken over what it had.
    Empty,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The epoch of the record: who has claimed it last.
    record: u8,
    /// The replica: the epoch that it knows, and its writes.
    replica: (u8, u8),
    spread: Option<Spread>,
    spreads: u8,
    /// Whether the map says that the slots are the others'.
    is_taken: bool,
    step: Step,
    next: Primary,
    /// What those that take parts have: of which spread, and so many writes.
    parts: [Option<(u8, u8)>; 2],
    acknowledged: u8,
    ends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The old primary writes, and the replica confirms.
    OldWrites,
    Claim,
    Enter,
    Verify,
    Plan,
    /// One of the two reads its part at the replica, and its log has it.
    Take(usize),
    /// It says so in the map; with the other one the slots are theirs.
    Ready(usize),
    /// Its next process removes what is not its own.
    End(usize),
    NextClaims,
    NextServes,
    NextWrites,
    /// A write where the slots have gone.
    TakerWrites,
}

struct Spreads {
    left_out: Option<Rule>,
}

impl Spreads {
    fn keeps(&self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    fn may_be_ready(&self, state: &State, of: usize) -> bool {
        let Some(spread) = state.spread.filter(|spread| spread.is_planned && !spread.ready[of]) else {
            return false;
        };
        let has_part = state.parts[of].is_some_and(|(number, _)| number == spread.number);
        has_part || !self.keeps(Rule::WaitsForTheLog)
    }
}

impl Model for Spreads {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            record: OLD,
            replica: (OLD, 0),
            spread: None,
            spreads: 0,
            is_taken: false,
            step: Step::Idle,
            next: Primary::Away,
            parts: [None; 2],
            acknowledged: 0,
            ends: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_write = state.acknowledged < WRITES_MAX;
        if may_write && state.replica.0 == OLD {
            actions.push(Action::OldWrites);
        }
        match state.step {
            Step::Idle if state.record == OLD => actions.push(Action::Claim),
            Step::Claimed if state.spreads < SPREADS_MAX && !state.is_taken => actions.push(Action::Enter),
            Step::Entered(_) => actions.push(Action::Verify),
            Step::Verified(_) => actions.push(Action::Plan),
            _ => {}
        }
        for of in [0, 1] {
            if state.spread.is_some_and(|spread| spread.is_planned) && state.replica.0 <= SPREADER {
                actions.push(Action::Take(of));
            }
            if self.may_be_ready(state, of) {
                actions.push(Action::Ready(of));
            }
            if state.ends < ENDS_MAX {
                actions.push(Action::End(of));
            }
        }
        match state.next {
            Primary::Away => actions.push(Action::NextClaims),
            Primary::Claimed => actions.push(Action::NextServes),
            Primary::Serving(_) if may_write => actions.push(Action::NextWrites),
            _ => {}
        }
        if may_write && state.is_taken && state.parts[0].is_some() {
            actions.push(Action::TakerWrites);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::OldWrites => {
                state.replica.1 += 1;
                state.acknowledged += 1;
            }
            Action::Claim => (state.record, state.step) = (SPREADER, Step::Claimed),
            Action::Enter => {
                state.spreads += 1;
                let number = state.spreads;
                state.spread = Some(Spread { number, is_planned: false, ready: [false; 2] });
                state.step = Step::Entered(number);
            }
            Action::Verify => {
                let Step::Entered(number) = state.step else { return None };
                let is_ours = state.record == SPREADER;
                state.step = Step::Verified(number);
                if !is_ours && self.keeps(Rule::Verifies) {
                    state.spread = state.spread.filter(|spread| spread.number != number);
                    state.step = Step::Idle;
                }
            }
            Action::Plan => {
                let Step::Verified(number) = state.step else { return None };
                match &mut state.spread {
                    Some(spread) if spread.number == number => spread.is_planned = true,
                    _ => {}
                }
                // One that was given up is begun again.
                state.step = Step::Claimed;
            }
            Action::Take(of) => {
                let number = state.spread?.number;
                if self.keeps(Rule::Fences) {
                    state.replica.0 = SPREADER;
                }
                state.parts[of] = Some((number, state.replica.1));
            }
            Action::Ready(of) => {
                let spread = state.spread.as_mut()?;
                spread.ready[of] = true;
                if spread.ready == [true; 2] {
                    (state.spread, state.is_taken) = (None, true);
                }
            }
            Action::End(of) => {
                state.ends += 1;
                if self.keeps(Rule::TakerSettles) {
                    state.spread = None;
                }
                if !state.is_taken {
                    state.parts[of] = None;
                }
            }
            Action::NextClaims => (state.record, state.next) = (NEXT, Primary::Claimed),
            Action::NextServes => {
                if self.keeps(Rule::NextSettles) {
                    state.spread = None;
                }
                state.next = match state.is_taken {
                    true => Primary::Empty,
                    false => Primary::Serving(state.replica.1),
                };
                // Whoever has the image of the old primary knows that this has ended: it writes no more. The
                // replica may be read for a spread as before.
                state.replica.0 = state.replica.0.max(SPREADER);
            }
            Action::NextWrites => {
                let Primary::Serving(writes) = state.next else { return None };
                state.next = Primary::Serving(writes + 1);
                state.acknowledged += 1;
            }
            Action::TakerWrites => {
                let (number, writes) = state.parts[0]?;
                state.parts[0] = Some((number, writes + 1));
                state.acknowledged += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one of them answers", |_: &Self, state: &State| {
                !(state.is_taken && matches!(state.next, Primary::Serving(_)))
            }),
            Property::always("who answers has every acknowledged write", |_: &Self, state: &State| {
                let taken = state.parts[0].map_or(0, |(_, writes)| writes);
                let has_all = |writes: u8| writes >= state.acknowledged;
                let next_has_all = match state.next {
                    Primary::Serving(writes) => has_all(writes),
                    _ => true,
                };
                next_has_all && (!state.is_taken || has_all(taken))
            }),
            Property::sometimes("others have taken over", |_: &Self, state: &State| state.is_taken),
        ]
    }
}

/// Which properties are broken; that the others take over is found, and is no fault.
fn broken(model: Spreads) -> (usize, Vec<&'static str>) {
    let (states, mut found) = explored(model);
    assert!(found.contains(&"others have taken over"));
    found.retain(|property| *property != "others have taken over");
    (states, found)
}

#[test]
fn one_answers_which_has_every_write_whoever_takes_over() {
    let (states, failed) = broken(Spreads { left_out: None });
    println!("{states} states");
    assert!(failed.is_empty() && states > 1000, "{failed:?}, {states} states");
}

#[test]
fn each_rule_of_spreads_is_needed() {
    for rule in [Rule::Fences, Rule::Verifies, Rule::WaitsForTheLog, Rule::NextSettles, Rule::TakerSettles] {
        let (_, failed) = broken(Spreads { left_out: Some(rule) });
        assert!(!failed.is_empty(), "{rule:?} left out");
    }
}
