//! Processes that a launcher started, or seems to have started, without being able to say where the others
//! are: they end with a sentence, soon, and not as a cluster of one.
//!
//! The processes are this test program again, in a role of one test.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use farcall::Node;

/// In the environment of a process that is to say what `Node::from_env` comes to.
const ROLE: &str = "FARCALL_TEST_LAUNCHED";

/// Nothing that waits for somebody who never comes ends before.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn places_that_cannot_be_had_are_sentences() {
    if std::env::var_os(ROLE).is_some() {
        match Node::from_env() {
            Ok(node) => println!("rank {} of {}", node.rank(), node.size()),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    let alone = said(&[]);
    assert!(alone.contains("rank 0 of 1\n"), "{alone}");
    for (variables, expected) in [
        (
            &[("PMI_SIZE", "4"), ("PMI_RANK", "2")][..],
            "refused: PMI_SIZE=4: a launcher that speaks neither PMIx nor PMI 1",
        ),
        (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2")], "in each process FARCALL_RANK=$SLURM_PROCID"),
        (&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "0")], "FARCALL_SIZE=4"),
        // Variables of a launcher that is gone, or of another container.
        (&[("PMIX_NAMESPACE", "gone"), ("PMIX_RANK", "0")], "refused: "),
    ] {
        let begun = Instant::now();
        let said = said(variables);
        assert!(said.contains(expected), "{variables:?}: {said}");
        assert!(begun.elapsed() < SOON, "{variables:?}: {:?}", begun.elapsed());
    }
}

/// What a process with these variables says.
fn said(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "places_that_cannot_be_had_are_sentences", "--nocapture"]);
    command.env(ROLE, "1").envs(variables.iter().copied()).stdin(Stdio::null());
    let Output { stdout, stderr, status } = command.output().expect("this program runs");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{text}{}", String::from_utf8_lossy(&stderr));
    text
}
