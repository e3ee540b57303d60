//! A process that is killed: its peers learn it at once, and nothing of it is left.
//!
//! The victim is this program itself, started again to run [`the_victim`] alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use farcall_base::Address;
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault, LoanError};
use farcall_shm::{ShmConfig, ShmLanes};

const TARGET: &str = "FARCALL_TEST_TARGET";

fn lanes() -> ShmLanes {
    ShmLanes::new(ShmConfig { ring_bytes: 4096, block_bytes: 1 << 16, ..ShmConfig::default() })
        .expect("shared memory")
}

fn text(address: &Address) -> String {
    String::from_utf8(address.as_bytes().to_vec()).expect("addresses of shared memory are text")
}

/// Connects to the address in the environment, says where it is itself, and waits for its end.
#[test]
#[ignore = "the other process of this program's tests"]
fn the_victim() {
    let target = std::env::var(TARGET).expect("started by another test");
    let address = Address::new(target.as_bytes()).expect("an address");
    let mut lanes = lanes();
    let within = core::time::Duration::from_secs(20);
    lanes.connect(&address, b"victim", within).expect("an address of this kind");
    let up = until("the lane is up", || lanes.poll_event());
    assert!(matches!(up, LaneEvent::Connected { .. }), "{up:?}");
    println!("\naddress {}", text(&lanes.address()));
    std::io::stdout().flush().expect("the parent listens");
    // Ends with the parent, should the parent fail before it kills us.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Starts the victim and waits until it is connected: the process and its socket's name.
fn start_victim(target: &Address) -> (Child, String) {
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_victim", "--ignored", "--nocapture"])
        .env(TARGET, text(target))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let mut output = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let name = output.find_map(|line| Some(line.ok()?.strip_prefix("address ")?[1..].to_owned()));
    (victim, name.expect("the victim connects"))
}

fn kill(mut victim: Child) {
    victim.kill().expect("our own child");
    victim.wait().expect("our own child");
}

fn is_bound(name: &str) -> bool {
    std::fs::read_to_string("/proc/net/unix").expect("a list of sockets").contains(name)
}

/// The mappings of peers' and own memory in this process.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
    maps.lines()
        .filter(|line| line.contains("memfd:farcall-ring") || line.contains("memfd:farcall-blocks"))
        .count()
}

/// Borrows and returns all memory that can be lent: how many loans of the largest size.
fn loans(lanes: &mut ShmLanes) -> Vec<farcall_driver::Loan> {
    let bytes = lanes.limits().loan_bytes_max;
    let mut loans = Vec::new();
    loop {
        match lanes.loan(bytes) {
            Ok(loan) => loans.push(loan),
            Err(refusal) => {
                assert_eq!(refusal, LoanError::Exhausted);
                return loans;
            }
        }
    }
}

#[test]
fn a_killed_lane_peer_is_noticed_and_leaves_nothing() {
    let before = mappings();
    let mut lanes = lanes();
    let (victim, name) = start_victim(&lanes.address());
    let accepted = until("the victim connects", || lanes.poll_event());
    let LaneEvent::Accepted { lane, hello } = accepted else { panic!("instead of a caller: {accepted:?}") };
    assert_eq!(hello, b"victim");
    let ends = lanes.take(lane).expect("a lane that is up");
    let lent = loans(&mut lanes);
    let count = lent.len();
    lent.into_iter().for_each(|loan| _ = lanes.lend(lane, loan).expect("its own loan"));
    assert!(count > 0 && loans(&mut lanes).is_empty(), "everything is lent to the victim");
    assert!(is_bound(&name), "the victim listens");

    kill(victim);
    let down = until("the death is noticed", || lanes.poll_event());
    assert_eq!(down, LaneEvent::Down { lane, fault: LaneFault::PeerGone });
    assert!(!is_bound(&name), "a socket is left");
    until("the blocks come home", || {
        assert_eq!(lanes.poll_event(), None, "nothing else happens");
        (loans(&mut lanes).len() == count).then_some(())
    });
    drop((ends, lanes));
    assert_eq!(mappings(), before, "memory is left mapped");
}
