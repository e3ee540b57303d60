//! Random groups, lengths and values against references that a single process computes.

mod common;

use std::sync::{Arc, Mutex};

use common::{PLACES, pattern, run};
use farcall_collective::{Algorithms, AllReduce, BySize, Group, PushLimits, PushPolicy};
use proptest::collection::vec;
use proptest::prelude::*;

/// What the members of a run need to know; closures that run on several threads capture no more than that.
type Shared<T> = &'static T;

/// For the few cases of a test: members may outlive the function that makes them.
fn share<T>(value: T) -> Shared<T> {
    Box::leak(Box::new(value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_all_reduce_is_that_of_one_process(
        place in 0..PLACES.len(),
        values in (0..200_usize).prop_flat_map(|count| vec(vec(any::<i32>(), count), 1..=9)),
        algorithm in prop_oneof![
            Just(AllReduce::RecursiveDoubling), Just(AllReduce::Ring), Just(AllReduce::Binomial)
        ],
        segment_bytes in 1..300_usize,
    ) {
        let expected: Vec<i32> = (0..values[0].len())
            .map(|place| values.iter().fold(0_i32, |total, of_member| total.wrapping_add(of_member[place])))
            .collect();
        let (size, values, expected) = (values.len() as u32, share(values), share(expected));
        let algorithms =
            Algorithms { all_reduce: BySize::always(algorithm), segment_bytes, ..Algorithms::default() };
        run(PLACES[place], size, algorithms, async move |group: &mut Group<'_>| {
            let mut own = values[group.own() as usize].clone();
            group.all_reduce(&mut own, i32::wrapping_add).await.expect("an all-reduce");
            assert_eq!(&own, expected);
        });
    }

    #[test]
    fn an_all_to_all_v_and_an_exchange_are_a_transposition(
        place in 0..PLACES.len(),
        lengths in (1..=9_usize).prop_flat_map(|size| {
            vec(vec(prop_oneof![Just(0_usize), 1..50_usize, 1..20_000_usize], size), size)
        }),
        policy in prop_oneof![
            Just(PushPolicy::Deterministic), Just(PushPolicy::Random), Just(PushPolicy::PowerOfTwo)
        ],
        seed in any::<u64>(),
        (chunk_bytes, pending_max, outstanding_max) in (1..5000_usize, 1..4_usize, 1..9_usize),
    ) {
        let (size, lengths) = (lengths.len() as u32, share(lengths));
        let chunk_bytes = chunk_bytes.max(200);
        let limits = PushLimits { policy, seed, chunk_bytes, pending_max, outstanding_max };
        let algorithms = Algorithms { segment_bytes: 4096, ..Algorithms::default() };
        run(PLACES[place], size, algorithms, async move |group: &mut Group<'_>| {
            let (own, members) = (group.own(), 0..group.size());
            let part = |from: u32, to: u32| pattern(from, to, lengths[from as usize][to as usize]);
            let sent: Vec<Vec<u8>> = members.clone().map(|to| part(own, to)).collect();
            let received = group.all_to_all_v(&sent).await.expect("an all-to-all");
            for (from, received) in members.clone().zip(&received) {
                assert!(**received == part(from, own));
            }
            let collected = Arc::new(Mutex::new(vec![Vec::<u8>::new(); sent.len()]));
            let sink = Arc::clone(&collected);
            let others: Vec<u32> = members.clone().filter(|&member| member != own).collect();
            let messages = others.iter().map(|&to| (to, (&sent[to as usize]).into())).collect();
            let exchange = group.exchange(messages, &others, limits, move |from, chunk: &[u8]| {
                sink.lock().expect("one thread")[from as usize].extend(chunk);
            });
            exchange.await.expect("an exchange");
            let collected = collected.lock().expect("one thread");
            for &from in &others {
                assert!(collected[from as usize] == part(from, own));
            }
        });
    }
}
