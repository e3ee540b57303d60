//! Every operation gives what its definition says: over real and simulated transports, for groups of all
//! sizes up to nine, messages of no, one, odd and many bytes, and every algorithm.

mod common;

use common::{GROUP_SIZES, PLACES, pattern, run};
use farcall::{Outgoing, Payload};
use farcall_collective::{
    Algorithms, AllGather, AllReduce, AllToAll, Broadcast, BySize, Gather, Group, PushLimits, PushPolicy,
    max, min, sum,
};
use std::sync::{Arc, Mutex};

/// Lengths of messages: with segments of [`SEGMENT_BYTES`] of no, one and several segments, also of full ones
/// only.
const LENGTHS: [usize; 6] = [0, 1, 77, SEGMENT_BYTES, 2 * SEGMENT_BYTES, 5 * SEGMENT_BYTES + 3];
const SEGMENT_BYTES: usize = 3000;

fn everywhere(algorithms: Algorithms, member: impl AsyncFn(&mut Group<'_>) + Copy + Send + Sync + 'static) {
    let algorithms = Algorithms { segment_bytes: SEGMENT_BYTES, ..algorithms };
    for place in PLACES {
        for size in GROUP_SIZES {
            run(place, size, algorithms, member);
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CAME: AtomicU32 = AtomicU32::new(0);
    for place in PLACES {
        for size in GROUP_SIZES {
            CAME.store(0, Ordering::SeqCst);
            run(place, size, Algorithms::default(), async |group: &mut Group<'_>| {
                for round in 1..=20 {
                    CAME.fetch_add(1, Ordering::SeqCst);
                    group.barrier().await.expect("a barrier");
                    let came = CAME.load(Ordering::SeqCst);
                    assert!(came >= round * group.size(), "{came} had come in round {round}");
                    group.barrier().await.expect("a barrier");
                }
            });
        }
    }
}

#[test]
fn a_broadcast_reaches_all_from_any_root() {
    let binary = Broadcast::Tree { degree: 2 };
    for broadcast in [Broadcast::Binomial, binary, Broadcast::Tree { degree: 9 }, Broadcast::ScatterAllGather]
    {
        let algorithms = Algorithms { broadcast: BySize::always(broadcast), ..Algorithms::default() };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            for bytes in LENGTHS {
                let root = bytes as u32 % group.size();
                let expected = pattern(root, root, bytes);
                let mut buffer = if group.own() == root { expected.clone() } else { vec![0; bytes] };
                group.broadcast(root, &mut buffer).await.expect("a broadcast");
                assert!(buffer == expected, "{bytes} bytes");
            }
        });
    }
}

/// The length of the part of a member: they differ.
fn uneven(member: u32, bytes: usize) -> usize {
    bytes * (member as usize % 3) + member as usize % 2
}

#[test]
fn a_gather_collects_parts_of_any_lengths_at_its_root() {
    for gather in [Gather::Direct, Gather::Tree { degree: 1 }, Gather::Tree { degree: 2 }] {
        everywhere(Algorithms { gather, ..Algorithms::default() }, async |group: &mut Group<'_>| {
            for bytes in LENGTHS {
                let root = bytes as u32 % group.size();
                let part = pattern(group.own(), root, uneven(group.own(), bytes));
                let parts = group.gather(root, &part).await.expect("a gather");
                if group.own() != root {
                    assert!(parts.is_empty());
                    continue;
                }
                assert_eq!(parts.len() as u32, group.size());
                for (member, part) in (0..).zip(&parts) {
                    assert!(**part == pattern(member, root, uneven(member, bytes)), "{bytes} bytes");
                }
            }
        });
    }
}

#[test]
fn an_all_gather_collects_all_parts_everywhere() {
    for algorithm in [AllGather::Ring, AllGather::Bruck, AllGather::RecursiveDoubling] {
        let algorithms = Algorithms {
            all_gather: BySize::always(algorithm),
            all_gather_v: algorithm,
            ..Algorithms::default()
        };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            for bytes in LENGTHS {
                let part = pattern(group.own(), 0, bytes);
                let mut parts = vec![0; bytes * group.size() as usize];
                group.all_gather(&part, &mut parts).await.expect("an all-gather");
                let expected: Vec<u8> = (0..group.size()).flat_map(|from| pattern(from, 0, bytes)).collect();
                assert!(parts == expected, "{bytes} bytes");
                let part = pattern(group.own(), 1, uneven(group.own(), bytes));
                let parts = group.all_gather_v(&part).await.expect("an all-gather");
                assert_eq!(parts.len() as u32, group.size());
                for (member, part) in (0..).zip(&parts) {
                    assert!(**part == pattern(member, 1, uneven(member, bytes)), "{bytes} bytes");
                }
            }
        });
    }
}

#[test]
fn an_all_reduce_combines_the_values_of_all() {
    for algorithm in [AllReduce::RecursiveDoubling, AllReduce::Ring, AllReduce::Binomial] {
        let algorithms = Algorithms { all_reduce: BySize::always(algorithm), ..Algorithms::default() };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            for count in [0, 1, 7, 1000, 5001] {
                let value = |member: u32, place: usize| i64::from(member + 1) * (place as i64 - 3);
                let own: Vec<i64> = (0..count).map(|place| value(group.own(), place)).collect();
                let members = 0..group.size();
                let mut sums = own.clone();
                group.all_reduce(&mut sums, sum).await.expect("a sum");
                let expected =
                    (0..count).map(|place| members.clone().map(|member| value(member, place)).sum::<i64>());
                assert!(sums.into_iter().eq(expected), "{count} sums");
                let mut least = own.clone();
                group.all_reduce(&mut least, min).await.expect("a minimum");
                let all = |place| members.clone().map(move |member| value(member, place));
                assert!(least.into_iter().eq((0..count).map(|place| all(place).min().expect("one"))));
                let mut most = own;
                group.all_reduce(&mut most, max).await.expect("a maximum");
                assert!(most.into_iter().eq((0..count).map(|place| all(place).max().expect("one"))));
            }
        });
    }
}

/// Composition of affine functions modulo 2^32: associative and not commutative.
fn compose(first: u64, second: u64) -> u64 {
    let (a, b) = (first as u32, (first >> 32) as u32);
    let (c, d) = (second as u32, (second >> 32) as u32);
    u64::from(c.wrapping_mul(a)) | u64::from(c.wrapping_mul(b).wrapping_add(d)) << 32
}

#[test]
fn values_are_combined_in_the_order_of_the_ranks() {
    for algorithm in [AllReduce::RecursiveDoubling, AllReduce::Binomial] {
        let algorithms = Algorithms { all_reduce: BySize::always(algorithm), ..Algorithms::default() };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            let function = |member: u32| 3 + u64::from(member) + (u64::from(member) << 33 | 5 << 32);
            let mut value = [function(group.own())];
            group.all_reduce(&mut value, compose).await.expect("a composition");
            assert_eq!(Some(value[0]), (0..group.size()).map(function).reduce(compose));
        });
    }
}

#[test]
fn sums_of_floats_are_the_same_bits_everywhere_and_every_time() {
    for algorithm in [AllReduce::RecursiveDoubling, AllReduce::Ring, AllReduce::Binomial] {
        let algorithms = Algorithms { all_reduce: BySize::always(algorithm), ..Algorithms::default() };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            let own: Vec<f64> =
                (1..100).map(|place| 0.1 * f64::from(place) / f64::from(group.own() + 3)).collect();
            let mut first: Option<Vec<u8>> = None;
            for _ in 0..3 {
                let mut values = own.clone();
                group.all_reduce(&mut values, sum).await.expect("a sum");
                let bits: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                for part in group.all_gather_v(&bits).await.expect("an all-gather") {
                    assert!(*part == *bits, "another member has other bits");
                }
                assert_eq!(first.get_or_insert(bits.clone()), &bits);
            }
        });
    }
}

#[test]
fn an_all_to_all_transposes_the_parts() {
    for algorithm in [AllToAll::Pairwise, AllToAll::Bruck] {
        let algorithms = Algorithms { all_to_all: BySize::always(algorithm), ..Algorithms::default() };
        everywhere(algorithms, async |group: &mut Group<'_>| {
            let (own, members) = (group.own(), 0..group.size());
            for bytes in LENGTHS {
                let sent: Vec<u8> = members.clone().flat_map(|to| pattern(own, to, bytes)).collect();
                let mut received = vec![0; sent.len()];
                group.all_to_all(&sent, &mut received).await.expect("an all-to-all");
                let expected: Vec<u8> = members.clone().flat_map(|from| pattern(from, own, bytes)).collect();
                assert!(received == expected, "{bytes} bytes");
            }
        });
    }
}

#[test]
fn an_all_to_all_v_carries_any_lengths() {
    everywhere(Algorithms::default(), async |group: &mut Group<'_>| {
        let (own, members) = (group.own(), 0..group.size());
        for bytes in LENGTHS {
            let part = |from: u32, to: u32| pattern(from, to, uneven(from + 2 * to, bytes));
            let sent: Vec<Vec<u8>> = members.clone().map(|to| part(own, to)).collect();
            let received = group.all_to_all_v(&sent).await.expect("an all-to-all");
            for (from, received) in members.clone().zip(&received) {
                assert!(**received == part(from, own), "{bytes} bytes");
            }
        }
    });
}

/// Bytes by their sender.
type Collected = Arc<Mutex<Vec<Vec<u8>>>>;

/// A sink that collects what comes, and where it does so.
fn collecting(size: u32) -> (Collected, impl FnMut(u32, &[u8]) + Send + 'static) {
    let collected: Collected = Arc::new(Mutex::new(vec![Vec::new(); size as usize]));
    let sink = Arc::clone(&collected);
    (collected, move |from: u32, chunk: &[u8]| sink.lock().expect("one thread")[from as usize].extend(chunk))
}

#[test]
fn an_exchange_shuffles_messages_of_any_lengths_by_every_policy() {
    everywhere(Algorithms::default(), async |group: &mut Group<'_>| {
        let (own, size) = (group.own(), group.size());
        let others: Vec<u32> = (0..size).filter(|&member| member != own).collect();
        for (bytes, policy) in LENGTHS.into_iter().zip(PushPolicy::ALL.into_iter().cycle()) {
            let limits =
                PushLimits { policy, chunk_bytes: 2500, pending_max: 2, outstanding_max: 3, seed: 5 };
            let part = |from: u32, to: u32| pattern(from, to, uneven(from + 2 * to, bytes));
            let messages =
                others.iter().map(|&to| (to, Outgoing::from(Payload::from(part(own, to))))).collect();
            let (collected, sink) = collecting(size);
            group.exchange(messages, &others, limits, sink).await.expect("an exchange");
            for &from in &others {
                let received = core::mem::take(&mut collected.lock().expect("one thread")[from as usize]);
                assert!(received == part(from, own), "{bytes} bytes, {policy}");
            }
        }
    });
}

#[test]
fn an_exchange_among_some_is_an_operation_of_all() {
    everywhere(Algorithms::default(), async |group: &mut Group<'_>| {
        let (own, size) = (group.own(), group.size());
        // A shift by one that leaves the last member without a receiver, many times: some members are ahead.
        for round in 0..20 {
            let receiver = Some(own + 1).filter(|&to| to < size);
            let sources: Vec<u32> = own.checked_sub(1).into_iter().collect();
            let message = pattern(own, round, 10_000);
            let messages = receiver.map(|to| (to, Outgoing::from(&message))).into_iter().collect();
            let limits = PushLimits { chunk_bytes: 3000, ..PushLimits::default() };
            let (collected, sink) = collecting(size);
            group.exchange(messages, &sources, limits, sink).await.expect("an exchange");
            for from in sources {
                let received = core::mem::take(&mut collected.lock().expect("one thread")[from as usize]);
                assert!(received == pattern(from, round, 10_000), "round {round}");
            }
        }
    });
}
