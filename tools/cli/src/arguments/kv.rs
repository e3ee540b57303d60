//! The grammar of `farcall kv`.

use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use farcall::TransportKind;
use farcall::bootstrap::HostPort;
use farcall_kv::durable::Level;
use farcall_kv::placement::SlotRange;
use farcall_kv::replicated::RegistryPlace;
use farcall_kv::resp::policy_named;
use farcall_kv::slots::{SLOT_BYTES_MAX, SLOTS_MAX};
use farcall_kv::store::Eviction;
use farcall_lab::units::{Size, SizeError};

mod doors;
mod many;

pub use doors::KvDoors;
pub use many::{KvCreate, KvExport, KvImport, KvMget, KvMput, KvRestore, KvWatch};

use super::{parse_seconds, whole_number};
use crate::output::Destination;

/// The shortest slots: one cache line with its header.
const SLOT_BYTES_MIN: usize = 56;

/// What scripts can rely on.
const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  failed, for another reason than those below
  2  the command line makes no sense
  3  there is no such object or table
  4  the condition does not hold: --if-absent, --if-version
  5  no store answers, or its registry does not; with put, delete, incr and drop it may have happened
     nevertheless
  6  scrub --repair: copies were damaged, and all are whole again
  7  scrub: copies are damaged
  8  a store answers, and too few backups have its log, or another process is about to be its primary; a write
     may have happened nevertheless, if that is said";

/// `farcall kv`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Kv {
    #[command(subcommand)]
    pub command: KvCommand,
}

/// What to do with the store.
#[derive(Debug, Subcommand)]
pub enum KvCommand {
    /// Serves one shard of a store until it is ended
    Serve(Box<KvServe>),
    /// Holds replicas of the logs of shards until it is ended; with --export writes what a directory has
    Backup(KvBackup),
    /// Writes the objects of a file of `kv backup --export` into the tables of a store
    Restore(KvRestore),
    /// Prints the value of an object as it is; on a terminal, what could control it is escaped
    Get(KvGet),
    /// Writes an object, from an argument, a file or standard input
    Put(KvPut),
    /// Deletes an object
    Delete(KvDelete),
    /// Adds to a number and prints the sum; an object that does not exist counts as 0
    Incr(KvIncr),
    /// Prints several objects, a line each: key, version, start of the value
    Mget(KvMget),
    /// Writes several objects with few requests
    Mput(KvMput),
    /// Prints the value of an object whenever it has changed
    Watch(KvWatch),
    /// Lists the objects of a table
    Scan(KvScan),
    /// Writes the objects of a table as lines of JSON, which `kv import` reads
    Export(KvExport),
    /// Writes objects from lines of JSON
    Import(KvImport),
    /// Creates a table, unless there is one of that name
    Create(KvCreate),
    /// Drops a table with all that is in it
    Drop(KvDrop),
    /// Prints what each shard holds
    Stat(KvStat),
    /// Prints who the primary of each shard is, and where its replicas are
    Status(KvStatus),
    /// Reads all replicas of each shard and compares them; with --repair, writes what is damaged again
    Scrub(KvScrub),
    /// Says whether an order explains what clients were told, by histories in files
    Check(KvCheck),
    /// Moves a shard to a process that waits for it, while clients wait; the one that has it ends
    Move(KvMove),
    /// Moves hash slots from one shard to another while both serve
    MoveSlots(KvMoveSlots),
}

/// `farcall kv check`.
#[derive(Debug, Args)]
pub struct KvCheck {
    /// Histories: docs/protocol/history.md says what their lines are
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Writes one JSON object for each file to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// Where the store is.
#[derive(Clone, Debug, Args)]
pub struct KvPlace {
    /// Where shard 0 listens for everybody who looks for the store
    #[arg(long, default_value = "127.0.0.1:7117", value_parser = host_port, value_name = "HOST:PORT")]
    pub at: HostPort,
    /// Where the primaries of shards and their replicas are recorded, for replicated tables. `kv serve` waits
    /// there while another process with the same arguments is the primary, and takes over when that is gone;
    /// the other commands, and shards other than 0, find the primary of shard 0 there, instead of --at
    #[arg(long, value_name = "file:DIR|etcd://HOST:PORT[,...][/PREFIX]")]
    pub registry: Option<RegistryPlace>,
    /// The transport [default: that of shard 0, which serves over ring+shm]
    #[arg(long, value_name = "NAME")]
    pub transport: Option<TransportKind>,
    /// How long to look for the store [default: 5], and to wait for each response [default: as
    /// endpoint.call_timeout says]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Sets a parameter; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Writes one JSON object for each line to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

impl KvPlace {
    /// The store's name on this host: the same whether a loopback address is written as such or by a name.
    pub fn name_on_host(&self) -> String {
        farcall_kv::daemon::name_on_host(&self.at)
    }
}

/// How keys and values stand on the command line.
#[derive(Debug, Args)]
pub struct KvWritten {
    /// Takes keys and values as `scan` prints them: `\xff`, `\t`, `\n`, `\r`, `\'`, `\"` and `\\` stand for
    /// one byte each
    #[arg(long)]
    pub escaped: bool,
}

/// Which table.
#[derive(Debug, Args)]
pub struct KvTable {
    /// The table
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub table: String,
}

/// `farcall kv serve`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("doors").multiple(true))]
pub struct KvServe {
    /// How many shards the store has
    #[arg(long, default_value = "1", value_parser = whole_number::<1024>)]
    pub shards: u64,
    /// Which of them this is, from 0; shard 0 is started first
    #[arg(long, default_value = "0", value_name = "NUMBER")]
    pub shard: u64,
    /// Memory for objects and their index
    #[arg(long, default_value = "256M", value_name = "SIZE")]
    pub memory: Size,
    /// Most of --memory that objects may take, with their index and deadlines [default: what --memory leaves
    /// for them]
    #[arg(long, value_name = "SIZE")]
    pub maxmemory: Option<Size>,
    /// Which objects of tables in memory make room when there is none: noeviction, allkeys-lru, allkeys-lfu,
    /// allkeys-random or volatile-ttl
    #[arg(
        long,
        default_value = "noeviction",
        value_name = "NAME",
        value_parser = eviction
    )]
    pub maxmemory_policy: Eviction,
    /// Tables to create, separated by commas; a level behind a name says what its writes survive: `memory`,
    /// nothing (the default); `flushed`, the end of the process and a power cut, which needs --data;
    /// `replicated=N`, the end of N processes, or hosts with --domain, which needs --registry;
    /// `replicated=N,flushed`, all of that and the loss of N disks
    #[arg(long, visible_alias = "table", default_value = "default", value_name = "NAME[:LEVEL]")]
    pub tables: Vec<TableList>,
    /// How long this process may answer without renewing that it is the primary, and how long a write waits
    /// for its replicas
    #[arg(
        long,
        default_value = "2",
        value_name = "SECONDS",
        value_parser = parse_seconds,
        requires = "registry"
    )]
    pub lease: Duration,
    /// Has the shards that live take over what another one had, each a part, once nobody has served that or
    /// waited to for so long; not shard 0, which a process that waits for it takes over [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "registry")]
    pub spread: Option<Duration>,
    /// What this process may be lost with: no replica goes to a backup of the same domain [default: this
    /// process]
    #[arg(long, value_name = "NAME", requires = "registry")]
    pub domain: Option<String>,
    /// Is a backup for other shards as well, and listens for their primaries there
    #[arg(long, requires = "registry", value_parser = host_port, value_name = "HOST:PORT")]
    pub backup: Option<HostPort>,
    /// Directory for the log of durable tables, created if need be; what is in it is there again after a
    /// start
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Most that the log may take of the disk, at least 64M; half of it may be objects [default: four times
    /// --memory]. The log of tables that are replicated and not flushed is in memory, beside --memory
    #[arg(long, value_name = "SIZE")]
    pub data_size: Option<Size>,
    /// Who may read, write and drop everything: your own processes, and where they cannot be told apart this
    /// machine's; or whoever reaches the store
    #[arg(long, default_value = "own", value_name = "WHO")]
    pub allow: AllowArgument,
    /// Processes of this host that may use slots at a time
    #[arg(long, default_value = "64", value_parser = whole_number::<1024>)]
    pub clients: u64,
    /// Slots of each: requests that it can have in flight
    #[arg(long, default_value = "16", value_parser = whole_number::<{ SLOTS_MAX as u64 }>)]
    pub queue_depth: u64,
    /// Longest message in a slot, at most 64K; longer ones take the network
    #[arg(long, default_value = "4088", value_name = "SIZE", value_parser = slot_size)]
    pub slot_bytes: Size,
    #[command(flatten)]
    pub doors: KvDoors,
    /// Also answers probes there, over HTTP: /healthz says whether the shard lives, /readyz whether it is of
    /// use
    #[arg(long, value_name = "HOST:PORT")]
    pub health: Option<String>,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv backup`.
#[derive(Debug, Args)]
pub struct KvBackup {
    /// Where it listens for primaries
    #[arg(
        long,
        default_value = "127.0.0.1:7201",
        value_parser = host_port,
        value_name = "HOST:PORT",
        conflicts_with = "export"
    )]
    pub at: HostPort,
    /// Where it says that it is there
    #[arg(
        long,
        value_name = "file:DIR|etcd://HOST:PORT[,...][/PREFIX]",
        required_unless_present = "export",
        conflicts_with = "export"
    )]
    pub registry: Option<RegistryPlace>,
    /// Directory for replicas that are flushed; without one it takes others only
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Most that replicas in memory may take together; a primary that needs more looks for another backup
    /// [default: what memory.max of its control group leaves]
    #[arg(long, value_name = "SIZE", conflicts_with = "export")]
    pub memory: Option<Size>,
    /// Serves nothing, and writes the durable tables that --data has to this file, for `kv restore`: the
    /// directory of a backup or of a store, which no process may use meanwhile. Of several copies of a log
    /// the latest counts
    #[arg(long, value_name = "FILE", requires = "data")]
    pub export: Option<PathBuf>,
    /// Writes the objects of those shards that the directory has; otherwise one that lacks some of its store
    /// is refused
    #[arg(long, requires = "export")]
    pub partial: bool,
    /// What it may be lost with: no two replicas of a log go to one domain [default: this process]
    #[arg(long, value_name = "NAME", conflicts_with = "export")]
    pub domain: Option<String>,
    /// Who may write and read replicas: your own processes, or whoever reaches the backup
    #[arg(long, default_value = "own", value_name = "WHO", conflicts_with = "export")]
    pub allow: AllowArgument,
    /// The transport, which is that of the stores
    #[arg(long, default_value = "ring+shm", value_name = "NAME", conflicts_with = "export")]
    pub transport: TransportKind,
    /// Sets a parameter; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", conflicts_with = "export")]
    pub settings: Vec<String>,
    /// Writes one JSON object for each line to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall kv status`.
#[derive(Debug, Args)]
pub struct KvStatus {
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv scrub`.
#[derive(Debug, Args)]
pub struct KvScrub {
    /// Writes what is damaged at one copy of a log again from copies that are not, and compares once more;
    /// what is whole nowhere is left as it is
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv move`.
#[derive(Debug, Args)]
pub struct KvMove {
    /// The shard
    #[arg(long, default_value = "0", value_name = "NUMBER")]
    pub shard: u32,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv move-slots`.
#[derive(Debug, Args)]
pub struct KvMoveSlots {
    /// The first and the last hash slot, such as 0-4095; `farcall kv status` shows whose they are
    #[arg(value_name = "FIRST-LAST")]
    pub slots: SlotRange,
    /// The shard that has them
    #[arg(long, value_name = "NUMBER")]
    pub from: u32,
    /// The shard that gets them
    #[arg(long, value_name = "NUMBER")]
    pub to: u32,
    /// Gives such a move up that is on its way; nothing is moved then
    #[arg(long)]
    pub give_up: bool,
    #[command(flatten)]
    pub place: KvPlace,
}

/// Tables that are named together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableList(pub Vec<TableArgument>);

impl FromStr for TableList {
    type Err = String;

    /// Commas separate tables, but for the one within `replicated=2,flushed`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut tables: Vec<String> = Vec::new();
        for word in text.split(',') {
            match tables.last_mut() {
                Some(last) if word == "flushed" && last.contains(":replicated=") => *last += ",flushed",
                _ => tables.push(word.to_owned()),
            }
        }
        tables.iter().map(|table| table.parse()).collect::<Result<_, _>>().map(Self)
    }
}

/// A table, and what its writes survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableArgument {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
}

impl FromStr for TableArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, level) = match text.rsplit_once(':') {
            Some((name, level)) => (name, parse_level(level)?),
            None => (text, Level::Memory),
        };
        if name.is_empty() {
            return Err("a table without a name; give names with a comma between two".to_owned());
        }
        Ok(Self { name: name.to_owned(), level })
    }
}

/// What a table survives, as it is written.
pub fn parse_level(text: &str) -> Result<Level, String> {
    Level::named(text).ok_or_else(|| format!("`{text}` is no level of a table; give {}", Level::FORMS))
}

/// What is added to a number.
fn parse_amount(text: &str) -> Result<i64, String> {
    let (least, most) = (i64::MIN, i64::MAX);
    text.parse().map_err(|_| format!("`{text}` is no whole number; give one from {least} to {most}"))
}

/// Whom a store serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AllowArgument {
    /// Processes of this machine, over a loopback address or shared memory
    Own,
    /// Every host that reaches the addresses of the store
    Any,
}

/// How to reach the store.
#[derive(Debug, Args)]
pub struct KvWay {
    #[command(flatten)]
    pub place: KvPlace,
    /// Whether to use slots in the memory of a daemon on this host
    #[arg(long, default_value = "auto", value_name = "WHEN")]
    pub slots: SlotsArgument,
}

/// When slots are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SlotsArgument {
    /// When a daemon of the store runs here, and the request fits; not with --registry, by which a request
    /// goes to the next primary: from a slot it cannot be taken back
    Auto,
    /// Always; what does not fit fails
    Only,
    /// Never
    Never,
}

/// `farcall kv get`.
#[derive(Debug, Args)]
pub struct KvGet {
    /// The object's key
    #[arg(value_name = "KEY")]
    pub key: String,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub way: KvWay,
}

/// `farcall kv put`.
#[derive(Debug, Args)]
pub struct KvPut {
    /// The object's key
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Its value; without one it is read from standard input
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub value: Option<String>,
    /// Takes the value from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub file: Option<PathBuf>,
    /// Writes only if there is no such object
    #[arg(long)]
    pub if_absent: bool,
    /// Writes only if the object has this version
    #[arg(long, value_name = "VERSION", value_parser = whole_number::<{ u64::MAX }>, conflicts_with = "if_absent")]
    pub if_version: Option<u64>,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub way: KvWay,
}

/// `farcall kv delete`.
#[derive(Debug, Args)]
pub struct KvDelete {
    /// The object's key
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Deletes only if the object has this version
    #[arg(long, value_name = "VERSION", value_parser = whole_number::<{ u64::MAX }>)]
    pub if_version: Option<u64>,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub way: KvWay,
}

/// `farcall kv incr`.
#[derive(Debug, Args)]
pub struct KvIncr {
    /// The object's key
    #[arg(value_name = "KEY")]
    pub key: String,
    /// What to add, perhaps negative
    #[arg(
        value_name = "AMOUNT",
        default_value = "1",
        allow_negative_numbers = true,
        value_parser = parse_amount
    )]
    pub amount: i64,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub way: KvWay,
}

/// `farcall kv scan`.
#[derive(Debug, Args)]
pub struct KvScan {
    /// Prints at most this many objects [default: all]
    #[arg(long, value_name = "OBJECTS", value_parser = whole_number::<{ u64::MAX }>)]
    pub limit: Option<u64>,
    /// Only objects whose key begins so; the whole table is read nevertheless
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Leaves the values out
    #[arg(long)]
    pub keys: bool,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv drop`.
#[derive(Debug, Args)]
pub struct KvDrop {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv stat`.
#[derive(Debug, Args)]
pub struct KvStat {
    #[command(flatten)]
    pub place: KvPlace,
}

/// A policy of eviction, by the name that it has in Redis.
fn eviction(text: &str) -> Result<Eviction, String> {
    policy_named(text).ok_or_else(|| {
        format!("`{text}` is none of noeviction, allkeys-lru, allkeys-lfu, allkeys-random and volatile-ttl")
    })
}

fn slot_size(text: &str) -> Result<Size, String> {
    size_within(text, (SLOT_BYTES_MIN, SLOT_BYTES_MAX))
}

fn size_within(text: &str, (least, most): (usize, usize)) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    if (least..=most).contains(&size.0) {
        return Ok(size);
    }
    Err(format!("`{text}` is not from {} to {}", Size(least), Size(most)))
}

fn host_port(text: &str) -> Result<HostPort, String> {
    HostPort::parse(text).ok_or_else(|| format!("`{text}` is not a host and a port, such as 127.0.0.1:7117"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_may_be_of_a_level() {
        let list = |text: &str| text.parse::<TableList>();
        let TableList(tables) = list("default,orders:replicated=2,flushed,stock:flushed").expect("three");
        let shown: Vec<String> =
            tables.iter().map(|table| format!("{} {}", table.name, table.level)).collect();
        assert_eq!(shown, ["default memory", "orders replicated=2,flushed", "stock flushed"]);
        let wrong = list("orders:replicated=9").expect_err("too many");
        assert!(wrong.starts_with("`replicated=9` is no level of a table; give `memory`"), "{wrong}");
    }
}
