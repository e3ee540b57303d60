//! MPI against the contract of libraries: both instances are endpoints of this process, which no launcher
//! started.

use farcall_base::Address;
use farcall_mpi::{Mpi, MpiConfig, MpiThreads, presence};
use farcall_transport::{Library, Outgoing, Presence, library_conformance};

/// What makes two endpoints, unless there is no MPI.
fn endpoints() -> Result<impl Fn() -> [Mpi; 2], String> {
    if let Presence::Absent { why } = presence() {
        return Err(why);
    }
    let config = MpiConfig { payload_bytes_max: 1 << 20, threads: MpiThreads::Multiple, drawn: 7 };
    Ok(move || [(); 2].map(|()| Mpi::new(&config).expect("an endpoint")))
}

library_conformance!(one_process, super::endpoints);

#[test]
fn processes_of_another_launch_are_out_of_reach_and_the_error_says_why() {
    let make = match endpoints() {
        Ok(make) => make,
        Err(why) => return println!("unsupported: {why}"),
    };
    let [mut one, other] = make();
    let mut bytes = other.address().as_bytes().to_vec();
    assert!(one.resolve(&Address::new(bytes.clone()).expect("short")).is_ok());
    bytes[0] ^= 1;
    let refused = one.resolve(&Address::new(bytes).expect("short"));
    let expected = "nothing leads to the address: MPI connects only processes that one launcher, such as mpirun, \
                    started together";
    assert_eq!(refused.map_err(|error| error.to_string()), Err(expected.to_owned()));
}

/// A receiver that looks through all that it waits for after each of them would fall behind for good.
#[test]
fn batches_that_follow_each_other_are_taken_in_one_turn_and_short_messages_one_by_one() {
    const MESSAGES: usize = 10;
    let make = match endpoints() {
        Ok(make) => make,
        Err(why) => return println!("unsupported: {why}"),
    };
    let [mut one, mut other] = make();
    let to = one.resolve(&other.address()).expect("an endpoint of this process");
    let mut most_of_a_turn = |bytes: usize| {
        for _ in 0..MESSAGES {
            one.send(to, b"head", Outgoing::Slice(&vec![1; bytes]));
        }
        let (mut taken, mut most) = (0, 0);
        while taken < MESSAGES {
            one.progress();
            other.progress();
            let arrivals: Vec<_> = core::iter::from_fn(|| other.next_arrival()).collect();
            (taken, most) = (taken + arrivals.len(), most.max(arrivals.len()));
            arrivals.into_iter().for_each(|arrival| other.release(arrival));
        }
        most
    };
    assert!(most_of_a_turn(3000) > 1);
    assert_eq!(most_of_a_turn(100), 1);
}
