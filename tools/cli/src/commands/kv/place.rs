//! Where a store is: how its processes and its clients find shard 0, and learn the transport of the store.

use core::fmt;
use core::time::Duration;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{
    Bootstrap, BootstrapError, Directory, HostPort, JoinError, KEY_FILE_VARIABLE, Refusal, random_incarnation,
};
use farcall::{Node, TransportKind};
use farcall_base::{Address, printable};
use farcall_kv::placement::{KeeperError, SlotMap, load_map};
use farcall_kv::replicated::{OpenRegistry, RegistryPlace};
use farcall_replica::{ClaimError, Record, Registry, RegistryError};

use super::{LOOK_WITHIN, RANKS};
use crate::arguments::kv::KvPlace;
use crate::failure::{Failure, Outcome};

/// The register of the store's rendezvous in which shard 0 writes the name of its transport.
const TRANSPORT_REGISTER: &str = "farcall-kv.transport";

/// A revision that no register has, so that a comparison with it only reads.
const NEVER: u64 = u64::MAX;

/// Under this key each shard publishes which process it is.
const PROCESS_KEY: &str = "kv.process";

/// How long the name of a process is looked for: one of an earlier version has published none.
const NAMED_WITHIN: Duration = Duration::from_millis(200);

/// How long the first attempt to join lasts. If the machine refuses connections then, nobody serves there.
const FIRST_ATTEMPT: Duration = Duration::from_millis(200);

/// How long a client with a registry tries to join before it looks the primary up again.
const LOOK_UP_EVERY: Duration = Duration::from_millis(800);

/// How long a process waits between looks at a register that is about to be written.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What to do where there is no store.
const START: &str = "start one with `farcall kv serve`";

/// Where a registry says that the primary of shard 0 is; `None` if it has no such record. Nothing is created.
pub fn first_primary(registry: &RegistryPlace) -> Result<Option<HostPort>, Failure> {
    let silent = |error: RegistryError| unreachable(error.to_string());
    let Some(mut opened) = OpenRegistry::existing(registry).map_err(silent)? else { return Ok(None) };
    let Some(found) = opened.load(&Record::key(0)).map_err(silent)? else { return Ok(None) };
    let primary = Record::decode(&found.value).and_then(|record| HostPort::parse(&record.primary));
    primary.map(Some).ok_or_else(|| Failure::run(ClaimError::Damaged))
}

/// Asks a registry again that does not answer and may come back, until it has been asked for so long.
fn ask_again<T, E>(
    registry: &RegistryPlace,
    within: Duration,
    is_silence: impl Fn(&E) -> bool,
    mut ask: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + within;
    let may_come_back = matches!(registry, RegistryPlace::Etcd(_));
    loop {
        match ask() {
            Err(why) if may_come_back && is_silence(&why) && Instant::now() < deadline => {
                thread::sleep(LOOK_AGAIN);
            }
            answered => return answered,
        }
    }
}

/// The map of hash slots in the registry at that place, which may be silent for as long as the command looks
/// for the store.
pub fn map_in(
    registry: &mut OpenRegistry,
    (at, place): (&RegistryPlace, &KvPlace),
    shards: u32,
) -> Result<Arc<SlotMap>, Failure> {
    let is_silence = |error: &KeeperError| matches!(error, KeeperError::Registry(_));
    let loaded = ask_again(at, place.look_within(), is_silence, || load_map(registry, shards));
    loaded.map(|(map, _)| map).map_err(Failure::run)
}

/// Takes the address of shard 0's primary from the registry, if one is given. One that has no store is none
/// that was meant: whatever is at `--at` instead is another store. One that does not answer and may come back
/// is asked again for so long.
pub fn find_in_registry(place: &mut KvPlace, within: Duration) -> Result<(), Failure> {
    let Some(registry) = &place.registry else { return Ok(()) };
    let is_silence = |why: &Failure| matches!(why, Failure::Outcome(Outcome::Unreachable, _));
    let found = ask_again(registry, within, is_silence, || first_primary(registry))?;
    place.at = found.ok_or_else(|| {
        unreachable(format!("the registry {registry} has no store; check its name, or {START}"))
    })?;
    Ok(())
}

/// Joins the store's cluster as a client, with a rank that nobody has; says where. With a registry the
/// primary is looked up again until the deadline: another one may take over meanwhile.
pub fn join_as_client(place: &KvPlace, deadline: Instant) -> Result<(Bootstrap, HostPort), Failure> {
    // Shards have the first ranks, so clients look for theirs from the other end, at a place of their own.
    const FIRST: u32 = RANKS / 2;
    let (mut at, mut attempt) = (place.at.clone(), FIRST_ATTEMPT);
    loop {
        let rank = FIRST + (random_incarnation() % u64::from(RANKS - FIRST)) as u32;
        let left = deadline.saturating_duration_since(Instant::now());
        match Bootstrap::join(&at, rank, RANKS, attempt.min(left)) {
            Err(BootstrapError::Join(JoinError::Refused(Refusal::RankTaken { .. }))) => {}
            Err(BootstrapError::Join(JoinError::Unreachable { reason, .. })) => {
                // Whoever gives a time wants it to be waited for.
                if place.registry.is_none() && place.timeout.is_none() && is_refused(&at) {
                    return Err(unreachable(format!("no store at {at}; {START}")));
                }
                if Instant::now() >= deadline {
                    let within = place.look_within();
                    let sentence = format!(
                        "no store at {at} within {within:?}: {reason}; check the address, or {START}"
                    );
                    return Err(unreachable(sentence));
                }
                attempt *= 2;
                if let Some(registry) = &place.registry {
                    attempt = attempt.min(LOOK_UP_EVERY);
                    // A registry that does not answer now does not say that the primary is elsewhere.
                    at = first_primary(registry).ok().flatten().unwrap_or(at);
                }
            }
            joined => return joined.map_err(|error| not_joined(&at, error)).map(|joined| (joined, at)),
        }
    }
}

/// The sentence for a store that a process may not join.
fn not_joined(at: &HostPort, error: BootstrapError) -> Failure {
    match error {
        BootstrapError::Join(JoinError::Refused(Refusal::Key)) => Failure::Run(format!(
            "the store at {at} has a cluster key, and this process has none or another one: set {KEY_FILE_VARIABLE} \
             to a copy of its file"
        )),
        BootstrapError::Join(JoinError::Refused(Refusal::NoWorld | Refusal::Size { .. })) => unreachable(
            format!("a registry of other processes listens at {at}, no store; check the address, or {START}"),
        ),
        error => Failure::run(error),
    }
}

/// Joins the store's cluster as a shard, which has its number as its rank.
pub fn join_as_shard(place: &KvPlace, shard: u32) -> Result<Bootstrap, Failure> {
    let at = &place.at;
    Bootstrap::join(at, shard, RANKS, place.look_within()).map_err(|error| match error {
        BootstrapError::Join(JoinError::Unreachable { within, reason, .. }) => unreachable(format!(
            "no shard 0 at {at} within {within:?}: {reason}; if none runs there, start it first, with \
             `farcall kv serve --shards N`"
        )),
        BootstrapError::Join(JoinError::Refused(Refusal::RankTaken { process, host, .. })) => Failure::Run(
            format!("shard {shard} of the store at {at} runs already, as process {process} on {host}"),
        ),
        error => not_joined(at, error),
    })
}

/// Whether every machine of that name refuses connections.
fn is_refused(at: &HostPort) -> bool {
    let refuses = |address| {
        TcpStream::connect_timeout(&address, FIRST_ATTEMPT)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    at.look_up().is_ok_and(|addresses| addresses.into_iter().all(refuses))
}

/// Says over which transport shard 0 serves. Its registers end with it, so there is none of an earlier one.
pub fn tell_transport(node: &Node, transport: TransportKind) -> Result<(), Failure> {
    let name = transport.name().as_bytes();
    node.compare_and_set(TRANSPORT_REGISTER, 0, name, LOOK_WITHIN).map(drop).map_err(Failure::run)
}

/// The transport over which the store is served, as shard 0 says. What the command line says must agree.
pub fn transport_of(node: &Node, place: &KvPlace, within: Duration) -> Result<TransportKind, Failure> {
    let at = &place.at;
    let deadline = Instant::now() + within;
    let said = loop {
        let register = node.compare_and_set(TRANSPORT_REGISTER, NEVER, b"", within).map_err(Failure::run)?;
        if register.revision != 0 {
            break register.value;
        }
        match place.transport {
            // A store of an earlier version says nothing.
            Some(transport) => return Ok(transport),
            None if Instant::now() >= deadline => {
                return Err(unreachable(format!(
                    "the store at {at} does not say over which transport it serves; give --transport"
                )));
            }
            // Shard 0 has just begun.
            None => thread::sleep(LOOK_AGAIN),
        }
    };
    let said = String::from_utf8_lossy(&said);
    let transport: TransportKind = said.parse().map_err(|_| {
        Failure::Run(format!("the store at {at} serves over `{said}`, which this program does not have"))
    })?;
    match place.transport {
        Some(asked) if asked != transport => Err(Failure::Usage(format!(
            "the store at {at} serves over {transport}, not over {asked}; leave --transport out"
        ))),
        _ => Ok(transport),
    }
}

/// A process, and the host that it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub host: String,
}

impl Process {
    /// This one.
    fn own() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { number: std::process::id(), host }
    }

    /// Reads the text of one, which is `HOST/NUMBER`.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, number) = text.rsplit_once('/')?;
        Some(Self { number: number.parse().ok()?, host: host.to_owned() })
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.number, printable(&self.host))
    }
}

/// What the registry calls the primary of a shard: shard 0 by where clients find the store. The others have
/// no address of their own that anybody knows: by their process.
pub fn name_of_primary(at: &HostPort, shard: u64) -> String {
    match shard {
        0 => at.to_string(),
        _ => {
            let Process { number, host } = Process::own();
            format!("{host}/{number}")
        }
    }
}

/// The name of a primary that the registry has, in words.
pub fn primary_in_words(name: &str) -> String {
    Process::parse(name).map_or_else(|| printable(name).to_string(), |process| process.to_string())
}

/// Publishes which process this shard is.
pub fn tell_process(directory: &Directory) -> Result<(), Failure> {
    let Process { number, host } = Process::own();
    let text = Address::new(format!("{host}/{number}")).map_err(Failure::run)?;
    directory.publish(PROCESS_KEY, text).map_err(Failure::run)
}

/// Which process a shard is, if it has said so.
pub fn process_of(directory: &Directory, shard: u32) -> Option<Process> {
    let (text, _) = directory.resolve(shard, PROCESS_KEY, NAMED_WITHIN).ok()?;
    Process::parse(core::str::from_utf8(text.as_bytes()).ok()?)
}

/// No store answers.
pub fn unreachable(sentence: String) -> Failure {
    Failure::Outcome(Outcome::Unreachable, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_is_named_by_its_address_or_its_process() {
        let at = HostPort::parse("10.0.0.1:7117").expect("a place");
        assert_eq!(name_of_primary(&at, 0), "10.0.0.1:7117");
        assert_eq!(primary_in_words("10.0.0.1:7117"), "10.0.0.1:7117");
        let own = name_of_primary(&at, 3);
        assert!(!own.contains(' '), "a record has words: {own}");
        assert_eq!(primary_in_words(&own), Process::own().to_string());
        assert_eq!(primary_in_words("box/17"), "process 17 on box");
    }
}
