//! Matching against a model that compares everything with everything.

use std::collections::VecDeque;

use farcall_base::SipKey;
use proptest::prelude::*;

use super::*;

/// Receives and messages in the order in which they came.
#[derive(Default)]
struct Model {
    posted: Vec<(u32, Pattern)>,
    unexpected: Vec<Expected<u32>>,
}

fn fits(pattern: Pattern, source: Source, tag: Tag) -> bool {
    pattern.source.is_none_or(|wanted| wanted == source) && pattern.tag.is_none_or(|wanted| wanted == tag)
}

impl Model {
    fn post(&mut self, receive: u32, pattern: Pattern) -> Option<Expected<u32>> {
        match self.unexpected.iter().position(|message| fits(pattern, message.source, message.tag)) {
            Some(place) => Some(self.unexpected.remove(place)),
            None => {
                self.posted.push((receive, pattern));
                None
            }
        }
    }

    fn arrive(&mut self, source: Source, tag: Tag) -> Option<u32> {
        let place = self.posted.iter().position(|(_, pattern)| fits(*pattern, source, tag))?;
        Some(self.posted.remove(place).0)
    }

    fn withdraw(&mut self, receive: u32) -> bool {
        let before = self.posted.len();
        self.posted.retain(|(other, _)| *other != receive);
        self.posted.len() < before
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(Pattern),
    Arrive(Source, Tag),
    /// Messages of these tags come together, up to one that nobody waits for.
    ArriveTogether(Source, Vec<u32>),
    /// Withdraws one of the last receives, which may wait or not.
    Withdraw(u32),
    /// Drops the odd messages of a source.
    Forget(Source),
}

fn step() -> impl Strategy<Value = Step> {
    let tag = || (0_u32..40).prop_map(Tag);
    let source = || (0_u32..3).prop_map(Source);
    let pattern = (prop::option::weighted(0.7, source()), prop::option::weighted(0.7, tag()))
        .prop_map(|(source, tag)| Pattern { source, tag });
    prop_oneof![
        10 => pattern.prop_map(Step::Post),
        10 => (source(), tag()).prop_map(|(source, tag)| Step::Arrive(source, tag)),
        3 => (source(), prop::collection::vec(0_u32..40, 0..6))
            .prop_map(|(source, tags)| Step::ArriveTogether(source, tags)),
        2 => (0_u32..30).prop_map(Step::Withdraw),
        1 => source().prop_map(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn matching_is_that_of_the_model(seed: u64, steps in prop::collection::vec(step(), 0..600)) {
        let (mut matching, mut model) = (Matching::new(SipKey([seed, 0])), Model::default());
        let (mut receives, mut messages) = (0, 0);
        for step in steps {
            match step {
                Step::Post(pattern) => {
                    receives += 1;
                    prop_assert_eq!(matching.post(receives, pattern), model.post(receives, pattern));
                }
                Step::Arrive(source, tag) => {
                    messages += 1;
                    let expected = model.arrive(source, tag);
                    prop_assert_eq!(matching.arrive(source, tag), expected);
                    if expected.is_none() {
                        matching.keep(source, tag, messages);
                        model.unexpected.push(Expected { source, tag, message: messages });
                    }
                }
                Step::ArriveTogether(source, tags) => {
                    let is_exact = model.posted.iter().all(|(_, of)| of.source.is_some() && of.tag.is_some());
                    let Some(mut receives) = matching.exact_receives(source) else {
                        prop_assert!(!is_exact);
                        continue;
                    };
                    prop_assert!(is_exact);
                    let mut taken = 0;
                    for tag in tags {
                        let expected = model.arrive(source, Tag(tag));
                        prop_assert_eq!(receives.take(Tag(tag)), expected);
                        if expected.is_none() {
                            break;
                        }
                        taken += 1;
                    }
                    receives.were_taken(taken);
                }
                Step::Withdraw(age) => {
                    let receive = receives.saturating_sub(age);
                    prop_assert_eq!(matching.withdraw(receive), model.withdraw(receive));
                }
                Step::Forget(source) => {
                    matching.forget(source, |message| message % 2 == 1);
                    model.unexpected.retain(|message| message.source != source || message.message % 2 == 0);
                }
            }
            prop_assert_eq!(matching.posted(), model.posted.len());
            prop_assert_eq!(matching.unexpected(), model.unexpected.len());
        }
    }

    #[test]
    fn messages_leave_the_sequencer_in_order(mut numbers in Just((0..200_u32).collect::<Vec<_>>()).prop_shuffle()) {
        // The shuffle is cut to what a window allows: each number at most 50 ahead of the smallest that is
        // missing.
        let (mut sequencer, mut left) = (Sequencer::default(), Vec::new());
        while !numbers.is_empty() {
            let next = *numbers.iter().min().expect("some are left");
            let place = numbers.iter().position(|&number| number < next + 50).expect("the smallest is");
            let number = numbers.remove(place);
            if number % 3 > 0 && sequencer.skip(number) {
                left.push(number);
            } else {
                prop_assert_eq!(sequencer.insert(number, 50, number), Ok(()));
            }
            while let Some(number) = sequencer.pop() {
                left.push(number);
            }
        }
        prop_assert_eq!(left, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_send_window_admits_never_overruns_the_receive_window(
        limit in 8_u32..100,
        steps in prop::collection::vec((0_usize..400, any::<bool>(), any::<bool>()), 1..300),
    ) {
        let (mut sender, mut receiver) = (SendWindow::new(limit), ReceiveWindow::new(limit));
        let mut waiting = VecDeque::new();
        for (bytes, consume, pass) in steps {
            // Longer ones are refused before they get here.
            let cost = lines(bytes.min(message_bytes_max(limit)));
            if sender.admits(cost) {
                sender.send(cost);
                prop_assert_eq!(receiver.arrive(cost), Ok(()));
                waiting.push_back(cost);
            } else if pass && cost <= lines_max(limit) && receiver.may_exceed() {
                prop_assert_eq!(receiver.exceed(cost), Ok(()));
                prop_assert_eq!(receiver.arrive(cost), Ok(()));
                waiting.push_back(cost);
            }
            if consume && let Some(cost) = waiting.pop_front() {
                receiver.consume(cost);
            }
            if receiver.credit_is_due() {
                prop_assert_eq!(sender.credit(receiver.take_credit()), Ok(()));
            }
            prop_assert_eq!(receiver.unread(), waiting.iter().sum::<u32>());
            // The last that came beyond it counts as much as one may, at most.
            prop_assert!(receiver.unread() < limit + limit + lines_max(limit));
        }
    }

    #[test]
    fn the_longest_message_within_a_limit_counts_as_much_as_one_may(limit in 8_u32..1 << 24) {
        let bytes = message_bytes_max(limit);
        prop_assert!(lines(bytes) <= lines_max(limit) && lines(bytes + 1) > lines_max(limit));
        prop_assert_eq!(message_bytes_max(0), 0, "no messages at all");
    }
}

#[test]
fn tags_that_are_used_once_leave_nothing_behind() {
    let mut matching = Matching::<()>::new(SipKey([7, 0]));
    for number in 0..100_000 {
        let pattern = Pattern { source: Some(Source(1)), tag: Some(Tag(number)) };
        assert_eq!(matching.post(number & 7, pattern), None);
        assert_eq!(matching.arrive(Source(1), Tag(number)), Some(number & 7));
    }
    let (pages, places) = matching.pages_and_places();
    assert!(pages <= 8 && places <= 64, "the tables have {pages} pages and {places} places");
}

#[test]
fn more_than_the_window_is_an_overrun_on_either_side() {
    let mut receiver = ReceiveWindow::new(10);
    assert_eq!(receiver.arrive(10), Ok(()));
    assert_eq!(receiver.arrive(1), Err(Overrun));
    let mut sender = SendWindow::new(10);
    sender.send(4);
    assert!(sender.admits(6) && !sender.admits(7));
    assert_eq!(sender.credit(5), Err(Overrun));
    assert_eq!(sender.credit(4), Ok(()));
}

#[test]
fn numbers_that_come_twice_or_from_beyond_are_refused() {
    let mut sequencer = Sequencer::default();
    assert_eq!(sequencer.insert(1, 4, 'b'), Ok(()));
    assert_eq!(sequencer.insert(1, 4, 'b'), Err(OutOfRange));
    assert_eq!(sequencer.insert(4, 4, 'e'), Err(OutOfRange));
    assert_eq!(sequencer.pop(), None);
    assert_eq!(sequencer.insert(0, 4, 'a'), Ok(()));
    assert_eq!((sequencer.pop(), sequencer.pop(), sequencer.pop()), (Some('a'), Some('b'), None));
    assert_eq!(sequencer.insert(0, 4, 'a'), Err(OutOfRange));
}
