//! How a log is read in parts at its backups: segment by segment, from one replica after the other, so that
//! all of them share the work.

use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, TransportKind};
use farcall_base::printable;
use farcall_disk::{Blocks, DiskError};
use farcall_replica::{LogId, PIECE_BYTES_MAX, Place, Reach, Record, Recovery, Registry, Request, Subject};

use super::primary::OverEndpoint;
use super::segments::{Asked, SegmentRequest};
use super::{OpenRegistry, RegistryPlace};
use crate::durable::parts::{PartReplay, ReplayedPart};
use crate::durable::{BlockSource, Ending, LogError, outline, outline_until};
use crate::placement::{Exported, Fetched, LogEnd, PartOf};
use crate::wire::identity_after;

/// What was read and the shard has not taken yet: so many pages, and clients.
const AHEAD: usize = 4;

/// Clients that the shard takes in one turn.
const CLIENTS_AT_ONCE: usize = 64;

/// How a thread reaches the registry and the backups of a store, by an endpoint of its own.
#[derive(Clone, Debug)]
pub struct WayToBackups {
    /// Where the registry is.
    pub registry: RegistryPlace,
    /// Settings of the endpoint, and its transport.
    pub settings: Settings,
    /// See there.
    pub transport: TransportKind,
    /// How long a backup may take for an answer.
    pub within: Duration,
}

impl WayToBackups {
    /// An endpoint that reaches backups. It needs its node.
    pub(super) fn endpoint(&self) -> Result<(Node, Endpoint), String> {
        let bootstrap = Bootstrap::nowhere().map_err(|error| error.to_string())?;
        let node = Node::new(bootstrap, self.settings.clone());
        let endpoint = node.endpoint(self.transport.name()).map_err(|error| error.to_string())?;
        Ok((node, endpoint))
    }
}

/// A log at the backups that have it.
pub(super) struct LogAtBackups<'r> {
    reach: &'r mut dyn Reach,
    log: LogId,
    shards: u32,
    epoch: u64,
    /// The fenced replicas, and how long they are.
    held: Vec<(Place, u64)>,
    /// Which is asked next.
    next: usize,
}

impl<'r> LogAtBackups<'r> {
    /// Fences the replicas that a record names which was claimed: the primary before acknowledges nothing
    /// from then on.
    pub fn fence(reach: &'r mut dyn Reach, record: &Record) -> Result<Self, String> {
        let mut recovery = Recovery::new(record.clone());
        recovery.fence(reach).map_err(|error| error.to_string())?;
        let (held, troubles) = recovery.held();
        if held.is_empty() {
            let why = if troubles.is_empty() { "it never had any".to_owned() } else { troubles.join("; ") };
            return Err(format!("no replica of shard {} can be read: {why}", record.log.shard));
        }
        let held = held.to_vec();
        let Record { log, shards, epoch, .. } = *record;
        Ok(Self { reach, log, shards, epoch, held, next: 0 })
    }

    /// Where the log ends, and its segments, by the first replica that is whole.
    pub fn outline(&mut self) -> Result<(LogEnd, Vec<Ending>), String> {
        let of = (self.log.shard, self.shards);
        let nothing = || LogError::NotALog;
        let (log, segments) = self.of_any(|image| outline(image, of)?.ok_or_else(nothing))?;
        let Ending { segment, frame, bytes, crc } = *segments.last().ok_or("the log has no segments")?;
        Ok((LogEnd { log, segment, frame, bytes, crc }, segments))
    }

    /// The segments of a log that ends there.
    pub fn segments_until(&mut self, end: LogEnd) -> Result<Vec<Ending>, String> {
        let LogEnd { log, segment, frame, bytes, crc } = end;
        self.of_any(|image| outline_until(image, log, Ending { segment, frame, bytes, crc }))
    }

    /// What the first replica says that can.
    fn of_any<T>(
        &mut self,
        mut read: impl FnMut(&mut RemoteImage<'_>) -> Result<T, LogError>,
    ) -> Result<T, String> {
        let mut troubles = Vec::new();
        for (place, bytes) in &self.held {
            let subject = Subject { log: self.log, replica: place.replica, epoch: self.epoch };
            let mut image =
                RemoteImage { reach: &mut *self.reach, backup: &place.backup, subject, bytes: *bytes };
            match read(&mut image) {
                Ok(found) => return Ok(found),
                Err(error) => troubles.push(format!("{}: {error}", place.backup)),
            }
        }
        Err(self.unreadable(&troubles))
    }

    /// What a backup says about a segment: another one each time, unless it cannot.
    pub fn ask(&mut self, log: u64, segment: Ending, asked: &Asked) -> Result<Vec<u8>, String> {
        let mut troubles = Vec::new();
        for _ in 0..self.held.len() {
            let (place, _) = &self.held[self.next % self.held.len()];
            self.next += 1;
            let subject = Subject { log: self.log, replica: place.replica, epoch: self.epoch };
            let request = SegmentRequest { subject, log, segment, asked: asked.clone() };
            match self.reach.ask(&place.backup, &request.encode()) {
                Ok(answer) => return Ok(answer),
                Err(why) => troubles.push(format!("{}: {why:?}", place.backup)),
            }
        }
        Err(self.unreadable(&troubles))
    }

    fn unreadable(&self, troubles: &[String]) -> String {
        format!("the log of shard {} cannot be read: {}", self.log.shard, troubles.join("; "))
    }

    /// Has the backups drop what they have of the log up to now: others have all of it.
    pub fn drop_all(&mut self, record: &Record) {
        let subject = Subject { log: self.log, replica: record.first_replica(), epoch: self.epoch };
        let message = Request::Fence { retained: Vec::new() }.encode(subject);
        for (place, _) in &self.held {
            // What stays is dropped by the next primary of the shard.
            let _ = self.reach.ask(&place.backup, &message);
        }
    }
}

/// The image of a log at a backup.
struct RemoteImage<'i> {
    reach: &'i mut dyn Reach,
    backup: &'i str,
    subject: Subject,
    bytes: u64,
}

impl BlockSource for RemoteImage<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn blocks(&mut self, at: u64, bytes: usize) -> Result<Blocks, LogError> {
        /// What a backup that does not answer is taken for: a disk with an error of the device.
        const NO_ANSWER: LogError = LogError::Disk(DiskError::Failed { code: 5 });
        let mut blocks = Blocks::zeroed(bytes);
        for (number, to) in blocks.chunks_mut(PIECE_BYTES_MAX).enumerate() {
            let at = at + (number * PIECE_BYTES_MAX) as u64;
            let read = Request::Read { at, bytes: to.len() as u32 };
            let piece = self.reach.ask(self.backup, &read.encode(self.subject)).map_err(|_| NO_ANSWER)?;
            to.get_mut(..piece.len()).ok_or(NO_ANSWER)?.copy_from_slice(&piece);
        }
        Ok(blocks)
    }
}

/// Reads the part of a spread that a shard takes, in a thread of its own, which ends when nobody wants to
/// have it any more.
pub(crate) fn read_part(way: &WayToBackups, part: PartOf) -> io::Result<Receiver<Fetched>> {
    let (to, fetched) = sync_channel(AHEAD);
    let way = way.clone();
    thread::Builder::new().name("farcall-part".to_owned()).spawn(move || {
        if let Err(reason) = read(&way, &part, &to) {
            // Nobody may wait for it any more.
            let _ = to.send(Fetched::Failed(reason));
        }
    })?;
    Ok(fetched)
}

fn read(way: &WayToBackups, part: &PartOf, to: &SyncSender<Fetched>) -> Result<(), String> {
    let record = record_of(way, part)?;
    let (_node, endpoint) = way.endpoint()?;
    let mut reach = OverEndpoint::new(&endpoint, way.within);
    let replayed = replay(&mut reach, &record, part)?;
    send(replayed, part.spread.number, to)
}

/// Sends what was read, until nobody wants to have it any more.
pub(super) fn send(replayed: ReplayedPart, number: u64, to: &SyncSender<Fetched>) -> Result<(), String> {
    let ReplayedPart { mut store, mut exporter, mut clients, last_version, .. } = replayed;
    // Under numbers that only this spread has given: what one that is given up leaves is nobody's.
    clients.iter_mut().for_each(|it| it.client = identity_after(it.client, number));
    let sent = |fetched| to.send(fetched).is_ok();
    for clients in clients.chunks(CLIENTS_AT_ONCE) {
        if !sent(Fetched::Clients(clients.to_vec())) {
            return Ok(());
        }
    }
    loop {
        match exporter.next_page(&mut store)? {
            Exported::Page(page) => {
                if !sent(Fetched::Page(page, last_version)) {
                    return Ok(());
                }
            }
            Exported::Nothing => {}
            Exported::All => break,
        }
    }
    sent(Fetched::All(last_version));
    Ok(())
}

/// Does again what the log says of the part, in a store of its own.
pub(super) fn replay(reach: &mut dyn Reach, record: &Record, part: &PartOf) -> Result<ReplayedPart, String> {
    let from = part.spread.from;
    let plan = part.spread.plan.as_ref().ok_or("the spread has no plan")?;
    let mut log = LogAtBackups::fence(reach, record)?;
    let asked = Asked::Records(part.spread.ranges_to(part.own));
    let mut replay = PartReplay::new(part.memory_bytes).map_err(|error| error.to_string())?;
    for segment in log.segments_until(plan.end)? {
        let records = log.ask(plan.end.log, segment, &asked)?;
        replay.replay(&records).map_err(|error| error.to_string())?;
    }
    replay.finish().map_err(|error| match error {
        LogError::Pieces { key } => format!(
            "the string `{}` has more than 1 MiB, and what is taken over in parts goes in pages of whole \
             objects; start a process that serves shard {from}",
            printable(&key)
        ),
        error => error.to_string(),
    })
}

/// The record of the shard, as it was claimed for the spread.
fn record_of(way: &WayToBackups, part: &PartOf) -> Result<Record, String> {
    let mut registry = OpenRegistry::open(&way.registry).map_err(|error| error.to_string())?;
    claimed_record(&mut registry, part)
}

/// See there.
pub(super) fn claimed_record(registry: &mut dyn Registry, part: &PartOf) -> Result<Record, String> {
    let found = registry.load(&Record::key(part.spread.from)).map_err(|error| error.to_string())?;
    let record = found.and_then(|found| Record::decode(&found.value));
    let is_claimed = |record: &Record| record.epoch == part.spread.epoch && record.shards == part.shards;
    record.filter(is_claimed).ok_or_else(|| format!("another process has claimed shard {}", part.spread.from))
}
