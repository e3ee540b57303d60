//! Lanes that are closed while their peer is too busy to take the call.

use core::time::Duration;

use farcall_base::Address;
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault};
use farcall_shm::{ShmConfig, ShmLanes};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

mod raw;
use raw::call;

const WITHIN: Duration = Duration::from_secs(20);

/// As many connections as a driver takes.
const CONNECTIONS_MAX: usize = 4096;

fn lanes() -> ShmLanes {
    ShmLanes::new(ShmConfig { ring_bytes: 4096, block_bytes: 1 << 16, ..ShmConfig::default() })
        .expect("memory")
}

#[test]
fn calls_that_are_given_up_take_nobodys_place() {
    let mut driver = lanes();
    // A socket with the name of a driver that is no more, of which nobody accepts calls; its queue has room
    // for one.
    let address: Address = lanes().address();
    let busy = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    bind(&busy, &SocketAddrUnix::new_abstract_name(&address.as_bytes()[1..]).expect("a name")).expect("free");
    listen(&busy, 0).expect("a queue");
    let _first_in_the_queue = call(&address);
    for _ in 0..CONNECTIONS_MAX {
        let lane = driver.connect(&address, b"", WITHIN).expect("an address of this kind");
        driver.close(lane);
        let down = until("the lane is closed", || driver.poll_event());
        assert_eq!(down, LaneEvent::Down { lane, fault: LaneFault::Closed });
    }
    let mut peer = lanes();
    let lane = peer.connect(&driver.address(), b"", WITHIN).expect("an address of this kind");
    let up = until("the peer is taken", || peer.poll_event());
    assert_eq!(up, LaneEvent::Connected { lane, welcome: Vec::new() });
}
