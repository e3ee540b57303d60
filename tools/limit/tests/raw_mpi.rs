//! MPI's own messages as the raw loops use them, between two processes that `mpirun` starts.

use std::process::Command;

use farcall_limit::raw::{MpiCompletion, RawMpi, RawSlots};

/// Set in the processes that the launcher starts; they are this test program again.
const ROLE: &str = "FARCALL_TEST_ROLE";

const SLOTS: usize = 1000;

/// Enough for the numbers that Open MPI gives to messages to come round several times.
const MESSAGES_OF_SLOT: u64 = 300;

/// Rank 0 sends, each slot's messages with their numbers; rank 1 looks at the numbers.
fn exchange() {
    let is_sender = std::env::var("OMPI_COMM_WORLD_RANK").as_deref() == Ok("0");
    let mut mpi = RawMpi::new(SLOTS, 1, MpiCompletion::WaitAny).expect("a launcher started it");
    let begin = |mpi: &mut RawMpi, slot: usize, number: u64| {
        if is_sender {
            mpi.memory(slot)[0] = number as u8;
            mpi.send(slot);
        } else {
            mpi.receive(slot);
        }
    };
    let mut ended = vec![0; SLOTS];
    (0..SLOTS).for_each(|slot| begin(&mut mpi, slot, 0));
    for _ in 0..SLOTS as u64 * MESSAGES_OF_SLOT {
        let slot = mpi.next_complete().expect("it blocks until there is one");
        assert!(is_sender || mpi.memory(slot)[0] == ended[slot] as u8, "slot {slot}: not {}", ended[slot]);
        ended[slot] += 1;
        if ended[slot] < MESSAGES_OF_SLOT {
            begin(&mut mpi, slot, ended[slot]);
        }
    }
    println!("all in order");
}

#[test]
fn messages_of_a_slot_stay_in_order_however_far_the_sender_is_ahead() {
    if std::env::var_os(ROLE).is_some() {
        return exchange();
    }
    let mut launcher = Command::new("mpirun.openmpi");
    // Tests in containers run as root, which it would refuse.
    launcher.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    launcher.env(ROLE, "rank").args(["--oversubscribe", "-n", "2"]);
    launcher.arg(std::env::current_exe().expect("a path"));
    launcher.args([
        "--exact",
        "messages_of_a_slot_stay_in_order_however_far_the_sender_is_ahead",
        "--nocapture",
    ]);
    let Ok(output) = launcher.output() else {
        return println!("unsupported: there is no mpirun of Open MPI (Debian: openmpi-bin)");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(text.matches("all in order").count(), 2);
}
