//! Several groups on one endpoint, groups of some ranks in any order, and programs with a poll loop of their
//! own.

mod common;

use std::sync::{Arc, Mutex};

use common::{LONG, PLACES, pattern, run_endpoints};
use farcall::{Event, Outgoing, Tag};
use farcall_collective::{Collective, CollectiveError, Group, GroupId, PushLimits, sum};

#[test]
fn two_groups_in_flight_at_once_do_not_mix() {
    const SIZE: u32 = 4;
    for place in PLACES {
        run_endpoints(place, SIZE, async |endpoint, rank| {
            let up = Group::new(endpoint, GroupId::new(0), rank, 0..SIZE).expect("a member");
            let down = Group::new(endpoint, GroupId::new(1), rank, (0..SIZE).rev()).expect("a member");
            let (mut up, mut down) = (up.with_timeout(LONG), down.with_timeout(LONG));
            assert_eq!((up.own(), down.own(), down.rank_of(0)), (rank, SIZE - 1 - rank, SIZE - 1));
            for round in 0..30 {
                let (one, other) = (pattern(rank, round, 100), pattern(rank, round + 1000, 100));
                let mut number = [u64::from(rank) << (8 * (round % 4))];
                let (parts, reversed_parts) = {
                    let mut gathered = up.all_gather_v(&one);
                    let mut reversed = down.all_gather_v(&other);
                    // Begun in another order by every second rank.
                    let (first, second) = if rank % 2 == 0 {
                        let first = gathered.poll_now();
                        (first, reversed.poll_now())
                    } else {
                        let second = reversed.poll_now();
                        (gathered.poll_now(), second)
                    };
                    let first = match first {
                        Some(result) => result,
                        None => gathered.await,
                    };
                    let second = match second {
                        Some(result) => result,
                        None => reversed.await,
                    };
                    (first.expect("an all-gather"), second.expect("an all-gather"))
                };
                for (from, part) in (0..).zip(parts) {
                    assert!(*part == *pattern(from, round, 100));
                }
                for (from, part) in (0..).zip(reversed_parts) {
                    assert!(*part == *pattern(SIZE - 1 - from, round + 1000, 100));
                }
                down.all_reduce(&mut number, sum).await.expect("a sum");
                assert_eq!(number, [6 << (8 * (round % 4))]);
            }
            up.barrier().await.expect("a whole group");
        });
    }
}

#[test]
fn two_groups_exchange_at_once() {
    const SIZE: u32 = 3;
    for place in PLACES {
        run_endpoints(place, SIZE, async |endpoint, rank| {
            let group = |id| {
                let group = Group::new(endpoint, GroupId::new(id), rank, 0..SIZE).expect("a member");
                group.with_timeout(LONG)
            };
            let (mut one, mut other) = (group(510), group(511));
            let others: Vec<u32> = (0..SIZE).filter(|&member| member != rank).collect();
            let taken = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
            let messages = [vec![1; 7000], vec![2; 9000]];
            let mut exchanges: Vec<Collective<'_, _>> = [&mut one, &mut other]
                .into_iter()
                .zip(&messages)
                .zip(&taken)
                .map(|((group, message), taken)| {
                    let (taken, byte) = (Arc::clone(taken), message[0]);
                    let messages = others.iter().map(|&to| (to, Outgoing::from(message))).collect();
                    let limits = PushLimits { chunk_bytes: 2000, ..PushLimits::default() };
                    group.exchange(messages, &others, limits, move |_, chunk: &[u8]| {
                        assert!(chunk.iter().all(|&other| other == byte), "a chunk of the other group");
                        *taken.lock().expect("one thread") += chunk.len();
                    })
                })
                .collect();
            let last = exchanges.pop().expect("two");
            let first = exchanges.pop().expect("two");
            // The last one makes progress only while its future is polled, and others wait for that.
            let mut last = std::pin::pin!(last);
            let mut first = std::pin::pin!(first);
            let (mut is_first_over, mut is_last_over) = (false, false);
            std::future::poll_fn(|task| {
                is_first_over = is_first_over || first.as_mut().poll(task).is_ready();
                is_last_over = is_last_over || last.as_mut().poll(task).is_ready();
                if is_first_over && is_last_over {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            let taken = taken.map(|taken| *taken.lock().expect("one thread"));
            assert_eq!(taken, [2 * 7000, 2 * 9000]);
        });
    }
}

#[test]
fn a_poll_loop_looks_at_operations_and_keeps_its_own_messages() {
    run_endpoints("ring+shm", 2, async |endpoint, rank| {
        let mut group = Group::new(endpoint, GroupId::new(0), rank, 0..2).expect("a member");
        let peer = endpoint.peer(1 - rank).expect("the other one");
        endpoint.receive(peer, Tag(5)).post(77).expect("room");
        endpoint.send(peer, Tag(5), b"mine").start().expect("room").await.expect("sent");
        let mut value = [1.5 + f64::from(rank)];
        let mut operation = group.all_reduce(&mut value, sum);
        let (mut result, mut own) = (None, 0);
        while result.is_none() || own == 0 {
            endpoint.poll(|_, event| match event {
                Event::Received { token: 77, outcome } => {
                    assert_eq!(outcome.as_ref().map(|message| message.to_vec()), Ok(b"mine".to_vec()));
                    own += 1;
                }
                other => panic!("{other:?}"),
            });
            if result.is_none() {
                result = operation.poll_now();
            }
        }
        drop(operation);
        assert_eq!((result, value, own), (Some(Ok::<(), CollectiveError>(())), [4.0], 1));
    });
}
