//! What becomes of a group when a member dies, is late, or does not do what the others do: everybody gets an
//! error, which names the member at fault, and nothing hangs.

mod common;

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;
use std::sync::Barrier;
use std::time::Duration;

use common::{LONG, run_endpoints};
use farcall::bootstrap::{
    Bootstrap, ChildPlan, Children, HostPort, LAUNCH_VARIABLES, LocalRanks, Rendezvous, random_incarnation,
};
use farcall::parameters::Settings;
use farcall::simulated::{Action, Cluster, Profile, Tasks};
use farcall::{Instant, Node, Outgoing, Tag};
use farcall_collective::{CollectiveError, Group, GroupId, PushLimits, sum};

const SIZE: u32 = 5;
const VICTIM: u32 = 2;

/// The default limit of silence (`peer_timeout`).
const SILENCE: Duration = Duration::from_secs(1);

/// An operation, by its number.
async fn operate(group: &mut Group<'_>, operation: usize) -> Result<(), CollectiveError> {
    let (own, size) = (group.own(), group.size());
    let others: Vec<u32> = (0..size).filter(|&member| member != own).collect();
    match operation {
        0 => group.barrier().await,
        1 => group.broadcast(0, &mut [1; 100]).await,
        2 => group.gather(0, &[1; 100]).await.map(drop),
        3 => group.all_gather(&[1; 100], &mut vec![0; 100 * size as usize]).await,
        4 => group.all_gather_v(&[1; 100]).await.map(drop),
        5 => group.all_reduce(&mut [1; 100], sum).await,
        6 => group.all_to_all_v(&vec![[1; 100]; size as usize]).await.map(drop),
        _ => {
            let messages = others.iter().map(|&to| (to, Outgoing::from(&[1; 100]))).collect();
            group.exchange(messages, &others, PushLimits::default(), |_, _| ()).await.map(drop)
        }
    }
}

const OPERATIONS: usize = 8;

/// Does one operation again and again until it fails.
async fn operate_until_failure(group: &mut Group<'_>, operation: usize) -> CollectiveError {
    loop {
        if let Err(error) = operate(group, operation).await {
            return error;
        }
    }
}

#[test]
fn a_host_that_crashes_is_named_at_all_others_within_the_limit_of_silence() {
    for transport in ["ring+sim", "basic+sim"] {
        for operation in 0..OPERATIONS {
            let profile = Profile::load("omni-path-100").expect("an embedded profile");
            let mut cluster = Cluster::new(profile, SIZE, 7, Settings::default()).expect("a fabric");
            let ends: Rc<RefCell<Vec<CollectiveError>>> = Rc::default();
            for rank in 0..SIZE {
                let ends = Rc::clone(&ends);
                cluster.start(rank, move |node| {
                    let (endpoint, ends) = (node.endpoint(transport).expect("an endpoint"), Rc::clone(&ends));
                    Box::new(Tasks::new(endpoint, async move |endpoint| {
                        let group = Group::new(&endpoint, GroupId::new(0), rank, 0..SIZE).expect("a member");
                        let error = operate_until_failure(&mut group.with_timeout(LONG), operation).await;
                        ends.borrow_mut().push(error);
                    }))
                });
            }
            let crash = Instant::ZERO + Duration::from_millis(5);
            cluster.run_until(crash);
            assert!(ends.borrow().is_empty(), "{transport}, {operation}: {ends:?}");
            cluster.fabric().act(&Action::Crash(vec![VICTIM])).expect("a host");
            let survivors = SIZE as usize - 1;
            cluster.run_while_until(|| ends.borrow().len() < survivors, crash + 2 * SILENCE);
            let ends = ends.borrow();
            let name = |error: &CollectiveError| error.member();
            assert_eq!(ends.iter().map(name).collect::<Vec<_>>(), vec![Some(VICTIM); survivors], "{ends:?}");
        }
    }
}

/// Tells this program that it is the member that is killed, in this operation.
const ROLE: &str = "FARCALL_TEST_VICTIM_OF";

#[test]
fn a_process_that_is_killed_is_named_at_all_others() {
    if let Ok(operation) = std::env::var(ROLE) {
        let node = Node::new(Bootstrap::from_env().expect("started as a rank"), Settings::default());
        let endpoint = node.endpoint("ring+shm").expect("an endpoint");
        let mut group = Group::new(&endpoint, GroupId::new(0), VICTIM, 0..SIZE).expect("a member");
        let operation = operation.parse().expect("a number");
        panic!("{}", endpoint.block_on(operate_until_failure(&mut group, operation)));
    }
    for operation in 0..OPERATIONS {
        let rendezvous = Rendezvous::bind("127.0.0.1:0", SIZE).expect("a rendezvous on loopback");
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", "a_process_that_is_killed_is_named_at_all_others", "--nocapture"]);
        LAUNCH_VARIABLES.iter().for_each(|variable| _ = command.env_remove(variable));
        command.env(ROLE, operation.to_string());
        let plan = ChildPlan::new(VICTIM, command);
        let mut children = Children::start(rendezvous.address(), SIZE, vec![plan]).expect("this program");
        let address = HostPort::from(rendezvous.address());
        let (has_begun, have_ended) = (Barrier::new(SIZE as usize), Barrier::new(SIZE as usize - 1));
        std::thread::scope(|scope| {
            for rank in (0..SIZE).filter(|&rank| rank != VICTIM) {
                let (address, has_begun, have_ended) = (&address, &has_begun, &have_ended);
                scope.spawn(move || {
                    let bootstrap = Bootstrap::join(address, rank, SIZE, LONG).expect("a rank joins");
                    let node = Node::new(bootstrap, Settings::default());
                    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
                    let group = Group::new(&endpoint, GroupId::new(0), rank, 0..SIZE).expect("a member");
                    let mut group = group.with_timeout(LONG);
                    endpoint.block_on(operate(&mut group, operation)).expect("a whole group");
                    endpoint.poll_once();
                    has_begun.wait();
                    let error = endpoint.block_on(operate_until_failure(&mut group, operation));
                    endpoint.poll_once();
                    assert_eq!(error.member(), Some(VICTIM), "operation {operation}: {error}");
                    let again = endpoint.block_on(operate(&mut group, operation));
                    assert_eq!(again, Err(error), "the group stays broken");
                    have_ended.wait();
                });
            }
            has_begun.wait();
            children.kill(VICTIM);
        });
    }
}

#[test]
fn a_member_that_does_not_come_is_named_when_the_time_is_over_and_the_others_are_told() {
    const ABSENT: u32 = 2;
    const GIVEN_UP: Tag = Tag(9);
    for transport in ["ring+shm", "ring+sim"] {
        run_endpoints(transport, 4, async |endpoint, rank| {
            let group = Group::new(endpoint, GroupId::new(1), rank, 0..4).expect("a member");
            let mut group = group.with_timeout(LONG);
            group.barrier().await.expect("all are here");
            if rank == ABSENT {
                for other in [0, 1, 3] {
                    let peer = endpoint.peer(other).expect("a rank");
                    endpoint
                        .receive(peer, GIVEN_UP)
                        .within(LONG)
                        .start()
                        .expect("room")
                        .await
                        .expect("a message");
                }
            } else {
                // In a ring only one waits for the one that is not there. Its time is over first.
                let within = if rank == 3 { Duration::from_millis(100) } else { LONG };
                let error = group.all_gather_v(b"here").within(within).await.expect_err("one is missing");
                if rank == 3 {
                    assert_eq!(error, CollectiveError::TimedOut { member: Some(ABSENT) });
                } else {
                    assert_eq!(error, CollectiveError::Aborted { by: 3, failed: Some(ABSENT) });
                }
                let absent = endpoint.peer(ABSENT).expect("a rank");
                endpoint.send(absent, GIVEN_UP, b"").within(LONG).start().expect("room").await.expect("sent");
            }
            let error = group.barrier().await.expect_err("the group is broken");
            assert_eq!(error.member(), Some(ABSENT), "rank {rank}: {error}");
            assert_eq!(group.failure(), Some(error));
            let group = Group::new(endpoint, GroupId::new(2), rank, 0..4).expect("a member");
            group.with_timeout(LONG).barrier().await.expect("a new group works");
        });
    }
}

#[test]
fn a_member_that_has_not_published_its_endpoint_holds_no_poll_beyond_the_deadline() {
    let (ranks, within) = (LocalRanks::new(2), Duration::from_millis(50));
    let node = Node::new(Bootstrap::among(&ranks, 0, random_incarnation()), Settings::default());
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    assert!(endpoint.resolve_timeout() > 2 * within, "a look until then would outlast the deadline");
    let mut group = Group::new(&endpoint, GroupId::new(1), 0, 0..2).expect("a member");
    let error = group.barrier().within(within).wait().expect_err("one is missing");
    assert_eq!(error, CollectiveError::TimedOut { member: Some(1) });
}

#[test]
fn a_member_that_publishes_its_endpoint_later_is_found_in_the_same_operation() {
    let ranks = LocalRanks::new(2);
    let node = Node::new(Bootstrap::among(&ranks, 0, random_incarnation()), Settings::default());
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    let group = Group::new(&endpoint, GroupId::new(1), 0, 0..2).expect("a member");
    let mut group = group.with_timeout(LONG);
    let mut operation = group.barrier();
    assert!(operation.poll_now().is_none(), "the other one is not there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let node = Node::new(Bootstrap::among(&ranks, 1, random_incarnation()), Settings::default());
            let endpoint = node.endpoint("ring+shm").expect("an endpoint");
            let group = Group::new(&endpoint, GroupId::new(1), 1, 0..2).expect("a member");
            group.with_timeout(LONG).barrier().wait().expect("both are here");
            endpoint.poll_once();
        });
        operation.wait().expect("both are here");
        endpoint.poll_once();
    });
}

#[test]
fn arguments_that_do_not_fit_are_an_error_at_all_members() {
    for transport in ["ring+shm", "basic+sim"] {
        run_endpoints(transport, 3, async |endpoint, rank| {
            let group = Group::new(endpoint, GroupId::new(1), rank, 0..3).expect("a member");
            let mut group = group.with_timeout(LONG);
            let mut buffer = vec![0; if rank == 2 { 9 } else { 10 }];
            let error = match group.broadcast(0, &mut buffer).await {
                Ok(()) => group.barrier().await.expect_err("another one has failed"),
                Err(error) => error,
            };
            if rank == 2 {
                assert_eq!(error, CollectiveError::Mismatch { member: 0, bytes: 10, expected: 9 });
            } else {
                assert_eq!(error, CollectiveError::Aborted { by: 2, failed: Some(0) });
            }
            let group = Group::new(endpoint, GroupId::new(2), rank, 0..3).expect("a member");
            group.with_timeout(LONG).barrier().await.expect("a new group works");
        });
    }
}

#[test]
fn an_operation_that_is_dropped_after_it_has_begun_breaks_the_group() {
    run_endpoints("ring+shm", 2, async |endpoint, rank| {
        let group = Group::new(endpoint, GroupId::new(1), rank, 0..2).expect("a member");
        let mut group = group.with_timeout(LONG);
        group.barrier().await.expect("all are here");
        if rank == 0 {
            drop(group.barrier());
            assert_eq!(group.failure(), None, "it had not begun");
            let mut operation = group.barrier();
            assert!(operation.poll_now().is_none(), "the other one is not there");
            drop(operation);
            assert_eq!(group.failure(), Some(CollectiveError::Dropped));
        }
        let error = group.all_gather_v(b"").await.expect_err("the group is broken");
        let expected = if rank == 0 {
            CollectiveError::Dropped
        } else {
            CollectiveError::Aborted { by: 0, failed: None }
        };
        assert_eq!(error, expected);
        let group = Group::new(endpoint, GroupId::new(2), rank, 0..2).expect("a member");
        group.with_timeout(LONG).barrier().await.expect("a new group works");
    });
}

#[test]
fn groups_have_each_rank_once_and_their_own_among_them() {
    use farcall_collective::GroupError;
    let node = Node::alone().expect("this process");
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    let new = |own, ranks: [u32; 3]| Group::new(&endpoint, GroupId::new(0), own, ranks).map(drop);
    assert_eq!(new(7, [7, 9, 8]), Ok(()));
    assert_eq!(new(1, [7, 9, 8]), Err(GroupError::NotAMember { own: 1 }));
    assert_eq!(new(7, [7, 9, 7]), Err(GroupError::Twice { rank: 7 }));
}
