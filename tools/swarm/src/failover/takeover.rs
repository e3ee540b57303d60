//! A process of a history becomes the primary, while everything else goes on.

use farcall_base::SipKey;
use farcall_disk::{Disk, MemoryDisk};
use farcall_kv::Shard;
use farcall_kv::durable::Level;
use farcall_kv::placement::settle;
use farcall_kv::replicated::{MoverSteps, answer_segment};
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_replica::{
    Answered, Candidate, Claim, Claimed, FetchError, Handled, LogId, Mirror, MirrorOf, NoAnswer, Place,
    Reach, Recovery, Refusal,
};

use super::network::InFlight;
use super::primary::{Primary, TABLE};
use super::spreading::SpreadTrouble;
use super::world::{LEASE, LOG_BYTES_MAX, World};

impl World {
    /// A candidate looks whether its shard has a primary, and becomes one if there is none.
    pub(super) fn stand_for_primary(&mut self) {
        if self.is_recovering {
            return;
        }
        let number = self.random.below(u64::from(self.case.shards)) as u32;
        // Most of the time nobody is there who would serve the last of several shards again.
        let may_be_spread = number > 0 && number + 1 == self.case.shards && !self.is_healing;
        let is_rival = self.spread_trouble == SpreadTrouble::SpreaderEnds;
        let is_left = may_be_spread && !is_rival && self.findings.primaries > 3;
        if is_left && self.random.chance(0.9) {
            return;
        }
        let Some((incarnation, mut candidate)) = self.candidates.remove(&number) else {
            self.incarnations += 1;
            let candidate = self.new_candidate(self.incarnations, number);
            self.candidates.insert(number, (self.incarnations, candidate));
            return;
        };
        let clock = self.clock();
        match candidate.try_claim(&mut self.registry.clone(), &clock) {
            Ok(Some(claimed)) => {
                self.is_recovering = true;
                let begun = self.take_over(incarnation, claimed);
                self.is_recovering = false;
                match begun {
                    Some(primary) => self.primaries.push(primary),
                    None => self.registry.ended(incarnation),
                }
            }
            // Somebody is, or the registry is silent.
            Ok(None) | Err(_) => _ = self.candidates.insert(number, (incarnation, candidate)),
        }
    }

    pub(super) fn new_candidate(&self, incarnation: u64, shard: u32) -> Candidate {
        Candidate::new(Claim {
            log: LogId { store: 7, shard },
            shards: self.case.shards,
            primary: format!("primary:{incarnation}"),
            incarnation,
            lease: LEASE,
            wanted: u32::from(self.case.replicas),
            flushed: self.case.flushed,
        })
    }

    /// Brings back what the last primary had; `None` if that cannot be now.
    fn take_over(&mut self, incarnation: u64, claimed: Claimed) -> Option<Primary> {
        let (record, number) = (claimed.record.clone(), claimed.record.log.shard);
        // What others are about to take over they will not; what they have taken over is theirs.
        let map = settle(&mut self.registry.clone(), (number, self.case.shards)).ok()?;
        let is_taken = map.taken(number).is_some_and(|taken| record.is_from_before(taken.epoch));
        let mut recovery = Recovery::new(record.clone());
        let mut make = |_: &Place| Ok(Box::new(MemoryDisk::new()) as Box<dyn Disk>);
        let image: Box<dyn Disk> = if record.replicas.is_empty() || is_taken {
            Box::new(MemoryDisk::new())
        } else {
            match recovery.fetch(&mut Candidacy { world: self, incarnation }, &mut make) {
                Ok((_, disk)) => disk,
                Err(FetchError::Replaced | FetchError::NoReplica(_) | FetchError::Here(_)) => return None,
            }
        };
        let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough");
        let mut shard = Shard::new(store, number, self.case.shards);
        let of = MirrorOf {
            record,
            revision: claimed.revision,
            set_at: claimed.set_at,
            lease: LEASE,
            own: 0,
            domain: "primaries".to_owned(),
            clock: self.clock(),
        };
        let (mirror, disk) = Mirror::new(of, image);
        if let Err(error) = shard.open_mirrored_log(disk, mirror.clone(), LOG_BYTES_MAX) {
            self.clients.book.violations.push(format!("a replica that counts cannot be opened: {error}"));
            return None;
        }
        let level = Level::Replicated { replicas: self.case.replicas, flushed: self.case.flushed };
        shard.create_table_at(TABLE, level).expect("one table");
        if self.case.shards > 1 {
            shard.adopt(&map);
        }
        self.findings.primaries += 1;
        let mover = (self.case.shards > 1).then(|| MoverSteps::new(number, &map));
        Some(Primary::new(incarnation, shard, mirror, mover))
    }
}

/// The way of a process to the backups, while everything else goes on.
pub struct Candidacy<'w> {
    pub world: &'w mut World,
    pub incarnation: u64,
}

impl Reach for Candidacy<'_> {
    fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
        let world = &mut *self.world;
        for _ in 0..world.random.below(3) {
            world.step();
        }
        let place = world.nodes.iter().position(|node| node.at == backup).ok_or(NoAnswer::Silent)?;
        if world.is_cut(self.incarnation, backup) {
            return Err(NoAnswer::Silent);
        }
        let node = &mut world.nodes[place];
        let Some(process) = &mut node.backup else { return Err(NoAnswer::Silent) };
        let (promised, network) = (&mut node.promised, &mut world.network);
        let mut others = |number: u64, answer: Answered| {
            if let Some((primary, token)) = promised.remove(&number) {
                let answer = answer.map_err(NoAnswer::Refused);
                network.push(InFlight::From { primary, token, answer });
            }
        };
        if let Some(answer) = answer_segment(process, message, &mut others) {
            return answer.map_err(NoAnswer::Refused);
        }
        let number = match process.handle(message) {
            Handled::Now(answer) => return answer.map_err(NoAnswer::Refused),
            Handled::Later(number) => number,
        };
        for _ in 0..1000 {
            match process.poll() {
                Some((done, answer)) if done == number => return answer.map_err(NoAnswer::Refused),
                Some((done, answer)) => others(done, answer),
                None => {}
            }
        }
        Err(NoAnswer::Refused(Refusal::DiskFailed))
    }
}
