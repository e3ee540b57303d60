//! MPI against the contract of libraries: both instances are endpoints of this process, which no launcher started.

use farcall_driver::Address;
use farcall_transport::{Library, Presence, library_conformance};
use farcall_transport_mpi::{Mpi, MpiConfig, presence};

/// What makes two endpoints, unless there is no MPI.
fn endpoints() -> Result<impl Fn() -> [Mpi; 2], String> {
    if let Presence::Absent { why } = presence() {
        return Err(why);
    }
    let config = MpiConfig { payload_bytes_max: 1 << 20, drawn: 7 };
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
