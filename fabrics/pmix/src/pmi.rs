//! PMI 1, which MPICH's launcher speaks (and Intel's and MVAPICH's, and Slurm's with `--mpi=pmi2`): lines of
//! text over a socket that the process inherits.
//!
//! Its protocol is that of MPICH's "simple PMI": requests and answers are `cmd=NAME key=value …`, one a line.

use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use crate::PmixError;

/// The key under which rank 0 tells its text.
const KEY: &str = "farcall-rendezvous";

/// The processes that such a launcher started together, seen from one of them.
#[derive(Debug)]
pub struct PmiJob {
    connection: UnixStream,
    /// This process's rank, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// Whether all of them are on this machine.
    pub is_local: bool,
}

/// The job that this process belongs to; `None` when no launcher that speaks PMI 1 started it.
pub fn pmi_job() -> Option<&'static PmiJob> {
    static JOB: OnceLock<Option<PmiJob>> = OnceLock::new();
    JOB.get_or_init(PmiJob::of_environment).as_ref()
}

impl PmiJob {
    #[expect(unsafe_code, reason = "the launcher leaves a descriptor for this process")]
    fn of_environment() -> Option<Self> {
        let number = |variable: &str| std::env::var(variable).ok()?.trim().parse::<u32>().ok();
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        let descriptor = i32::try_from(number("PMI_FD")?).ok()?;
        let is_socket = std::fs::read_link(format!("/proc/self/fd/{descriptor}"))
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let is_local = is_on_one_machine(size, number);
        // SAFETY: the descriptor is open, and whoever set the variable left it to this process, which takes
        // it once.
        let connection = is_socket.then(|| unsafe { UnixStream::from_raw_fd(descriptor) })?;
        (rank < size).then_some(Self { connection, rank, size, is_local })
    }

    /// Gives every process the text that rank 0 has. Each must call it once; it returns when all have, or
    /// when a step takes longer than `within`. It is all that is asked of the launcher, which is told so.
    pub fn share(&self, text: Option<&str>, within: Duration) -> Result<String, PmixError> {
        let text = text.map(check_text).transpose()?;
        self.connection.set_read_timeout(Some(within)).map_err(|_| REFUSED)?;
        let mut answers = BufReader::new(&self.connection);
        let mut ask = |request: &str, expected: &str| {
            (&self.connection).write_all(format!("{request}\n").as_bytes()).map_err(|_| REFUSED)?;
            let mut answer = String::new();
            answers.read_line(&mut answer).map_err(|_| REFUSED)?;
            let is_good = value_of(&answer, "cmd") == Some(expected)
                && value_of(&answer, "rc").is_none_or(|code| code == "0");
            if is_good { Ok(answer) } else { Err(REFUSED) }
        };
        ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let named = ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = value_of(&named, "kvsname").ok_or(REFUSED)?;
        if let Some(text) = text {
            ask(&format!("cmd=put kvsname={space} key={KEY} value={text}"), "put_result")?;
        }
        ask("cmd=barrier_in", "barrier_out")?;
        let answer = ask(&format!("cmd=get kvsname={space} key={KEY}"), "get_result")?;
        let told = value_of(&answer, "value").ok_or(PmixError::NotText)?.to_owned();
        ask("cmd=finalize", "finalize_ack")?;
        Ok(told)
    }
}

/// MPICH's launcher says how many processes are on this machine, also where it runs within a job of Slurm;
/// Slurm how many machines there are.
fn is_on_one_machine(size: u32, number: impl Fn(&str) -> Option<u32>) -> bool {
    match number("MPI_LOCALNRANKS") {
        Some(local) => local == size,
        None => number("SLURM_STEP_NUM_NODES") == Some(1),
    }
}

const REFUSED: PmixError = PmixError::Refused { what: "to pass a text on by PMI 1", code: -1 };

/// A value has no spaces: they would end it.
fn check_text(text: &str) -> Result<&str, PmixError> {
    let fits = !text.is_empty() && !text.contains(|c: char| c.is_whitespace());
    if fits { Ok(text) } else { Err(PmixError::NotText) }
}

/// The value behind `key=` in a line.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A launcher of two processes, which answers one of them.
    fn launcher(socket: UnixStream, told: &str) -> Vec<String> {
        let (mut requests, mut lines) = (Vec::new(), BufReader::new(&socket).lines());
        while let Some(Ok(request)) = lines.next() {
            let answer = match value_of(&request, "cmd") {
                Some("init") => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
                Some("get_my_kvsname") => "cmd=my_kvsname kvsname=kvs_7".to_owned(),
                Some("put") => "cmd=put_result rc=0 msg=success".to_owned(),
                Some("barrier_in") => "cmd=barrier_out".to_owned(),
                Some("get") => format!("cmd=get_result rc=0 msg=success value={told}"),
                Some("finalize") => "cmd=finalize_ack".to_owned(),
                _ => "cmd=unknown rc=-1".to_owned(),
            };
            (&socket).write_all(format!("{answer}\n").as_bytes()).expect("the process listens");
            requests.push(request);
        }
        requests
    }

    fn share(rank: u32, text: Option<&str>, told: &'static str) -> (Result<String, PmixError>, Vec<String>) {
        let (own, theirs) = UnixStream::pair().expect("sockets");
        let answering = thread::spawn(move || launcher(theirs, told));
        let job = PmiJob { connection: own, rank, size: 2, is_local: true };
        let shared = job.share(text, Duration::from_secs(10));
        drop(job);
        (shared, answering.join().expect("it ends with the connection"))
    }

    #[test]
    fn rank_0_tells_and_the_others_hear() {
        let (told, requests) = share(0, Some("127.0.0.1:7"), "127.0.0.1:7");
        assert_eq!(told, Ok("127.0.0.1:7".to_owned()));
        assert!(
            requests
                .iter()
                .any(|request| request == &format!("cmd=put kvsname=kvs_7 key={KEY} value=127.0.0.1:7"))
        );
        let (heard, requests) = share(1, None, "127.0.0.1:7");
        assert_eq!(heard, Ok("127.0.0.1:7".to_owned()));
        assert!(requests.iter().all(|request| value_of(request, "cmd") != Some("put")));
        assert_eq!(requests.last().map(String::as_str), Some("cmd=finalize"));
    }

    #[test]
    fn what_cannot_be_passed_on_and_what_is_refused_are_errors() {
        assert_eq!(share(0, Some("two words"), "").0, Err(PmixError::NotText));
        assert_eq!(share(1, None, "").0, Ok(String::new()));
    }

    #[test]
    fn launchers_say_whether_all_are_on_one_machine() {
        let is_local = |variables: &[(&str, u32)]| {
            let number =
                |wanted: &str| variables.iter().find_map(|(name, value)| (*name == wanted).then_some(*value));
            is_on_one_machine(4, number)
        };
        assert!(is_local(&[("MPI_LOCALNRANKS", 4)]) && is_local(&[("SLURM_STEP_NUM_NODES", 1)]));
        assert!(!is_local(&[("MPI_LOCALNRANKS", 2), ("SLURM_STEP_NUM_NODES", 1)]), "the step of a script");
        assert!(!is_local(&[("SLURM_STEP_NUM_NODES", 2)]) && !is_local(&[]));
    }

    #[test]
    fn a_launcher_that_is_gone_is_an_error() {
        let (own, _) = UnixStream::pair().expect("sockets");
        let job = PmiJob { connection: own, rank: 0, size: 2, is_local: true };
        assert_eq!(job.share(Some("a"), Duration::from_secs(1)), Err(REFUSED));
    }
}
