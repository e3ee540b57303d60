//! MPI started for one thread. A process of its own: the first endpoint decides for all.

use core::time::Duration;
use std::time::Instant;

use farcall_mpi::{Mpi, MpiConfig, MpiError, MpiThreads, presence};
use farcall_transport::{Arrival, Library, Outgoing, Presence};

const LONG: Duration = Duration::from_secs(60);

fn endpoint(threads: MpiThreads) -> Result<Mpi, MpiError> {
    Mpi::new(&MpiConfig { payload_bytes_max: 1 << 20, threads, drawn: 7 })
}

/// Sends a message to itself.
fn say_to_itself(mpi: &mut Mpi, said: &[u8]) {
    let to = mpi.resolve(&mpi.address()).expect("its own address");
    mpi.send(to, b"head", Outgoing::Slice(said));
    let begun = Instant::now();
    let arrival = loop {
        assert!(begun.elapsed() < LONG, "nothing comes");
        mpi.progress();
        if let Some(arrival) = mpi.next_arrival() {
            break arrival;
        }
    };
    assert_eq!((arrival.head(), arrival.payload().as_slice()), (&b"head"[..], said));
    mpi.release(arrival);
}

#[test]
fn there_is_one_endpoint_at_a_time_which_may_go_from_thread_to_thread() {
    if let Presence::Absent { why } = presence() {
        return println!("unsupported: {why}");
    }
    let mut first = endpoint(MpiThreads::Single).expect("the only one");
    say_to_itself(&mut first, b"short");
    assert_eq!(endpoint(MpiThreads::Single).err(), Some(MpiError::HasOne));
    std::thread::scope(|scope| {
        scope.spawn(move || say_to_itself(&mut first, &[7; 100_000]));
    });
    let refused = endpoint(MpiThreads::Multiple).err().expect("MPI is not for it").to_string();
    assert!(refused.contains("MPI_THREAD_MULTIPLE") && refused.contains("mpi.threads=single"), "{refused}");
    let mut second = endpoint(MpiThreads::Single).expect("the first is gone");
    say_to_itself(&mut second, b"again");
}
