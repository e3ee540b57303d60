//! How a primary that begins reads a replica of its log, however long it takes until one is whole.

use core::time::Duration;

use farcall_disk::{Disk, DiskError};
use farcall_replica::{FetchError, Keeper, Place, Reach, Record, Recovery};

use super::images::Images;
use super::primary::{PrimaryError, Waits};

/// How long it waits before replicas none of which could be read are asked again: at first, and at most. It
/// becomes twice as long each time.
const FETCH_AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// How replicas are read until one is whole.
pub struct Fetching<'r> {
    record: &'r Record,
    recovery: Recovery,
    /// Replicas that were read, and are no log.
    damaged: Vec<Place>,
    is_told: bool,
    /// How long the next pause is.
    pause: Duration,
}

impl<'r> Fetching<'r> {
    pub fn new(record: &'r Record) -> Self {
        let [pause, _] = FETCH_AGAIN_AFTER;
        let recovery = Recovery::new(record.clone());
        Self { record, recovery, damaged: Vec::new(), is_told: false, pause }
    }

    /// What was read last is of no use. It is read again once no other can be: its backup may be repaired.
    pub fn is_damaged(&mut self, place: Place, why: &str) {
        self.recovery.is_damaged(&place, why);
        if !self.damaged.contains(&place) {
            self.damaged.push(place);
        }
    }

    /// Reads a replica, however long it takes until one can be read. While none can, the claim is not
    /// renewed, nor is it for one that was damaged: another process may reach one, or have the log.
    pub fn fetch(
        &mut self,
        images: &Images<'_>,
        reach: &mut dyn Reach,
        keeper: &Keeper,
        tell: &mut impl FnMut(Waits),
    ) -> Result<(u64, Place, Box<dyn Disk>), PrimaryError> {
        loop {
            let (mut made, damaged) = (Vec::new(), &self.damaged);
            let mut make = |place: &Place| {
                if !damaged.contains(place) {
                    keeper.set_renewing(true);
                }
                let (number, disk) = images.create().map_err(|_| FetchError::Here(DiskError::Full))?;
                made.push(number);
                Ok(disk.expect("one was made"))
            };
            let fetched = self.recovery.fetch(reach, &mut make);
            let kept = if fetched.is_ok() { made.pop() } else { None };
            // What was read in part is of no use to anybody.
            made.iter().for_each(|number| images.remove(*number));
            match fetched {
                Ok((place, disk)) => {
                    let number = kept.expect("it was read into one that was made");
                    return Ok((number, place, disk));
                }
                Err(error @ FetchError::NoReplica(_)) => self.wait(&error, keeper, tell),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits before all replicas are tried again: a backup may be about to start.
    fn wait(&mut self, error: &FetchError, keeper: &Keeper, tell: &mut impl FnMut(Waits)) {
        let [_, pause_max] = FETCH_AGAIN_AFTER;
        keeper.set_renewing(false);
        if !core::mem::replace(&mut self.is_told, true) {
            tell(Waits::Replica(error.to_string()));
        }
        std::thread::sleep(self.pause);
        self.pause = pause_max.min(self.pause * 2);
        self.recovery = Recovery::again(self.record.clone(), &self.damaged);
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::{Path, PathBuf};

    use farcall_disk::{Blocks, Job};
    use farcall_replica::{
        Candidate, Claim, Claimed, Held, LogId, MemoryRegistry, NoAnswer, Refusal, Request,
    };

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// A backup whose replica cannot be read to its end until it was tried so often.
    struct Flaky {
        failures: usize,
        begun: usize,
    }

    impl Reach for Flaky {
        fn ask(&mut self, _: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
            match Request::decode(message).expect("a request").1 {
                Request::Fence { .. } => {
                    let mut answer = Vec::new();
                    Held { replica: 5, bytes: BYTES }.encode(&mut answer);
                    Ok(answer)
                }
                Request::Read { at: 0, .. } => {
                    self.begun += 1;
                    // At first not even the begin can be read.
                    if self.begun == 1 { Err(NoAnswer::Silent) } else { Ok(b"log".to_vec()) }
                }
                Request::Read { .. } if self.begun <= self.failures => {
                    Err(NoAnswer::Refused(Refusal::DiskFailed))
                }
                _ => Ok(Vec::new()),
            }
        }
    }

    /// A claim whose one replica is at the flaky backup.
    pub fn claimed() -> (MemoryRegistry, Claimed) {
        let mut registry = MemoryRegistry::default();
        let mut candidate = Candidate::new(Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: "primary".to_owned(),
            incarnation: 1,
            lease: Duration::from_secs(600),
            wanted: 1,
            flushed: true,
        });
        let claimed = candidate.try_claim(&mut registry, &|| farcall_base::Instant::ZERO);
        let mut claimed = claimed.expect("it answers").expect("nobody has it");
        claimed.record.replicas = vec![Place { backup: "backup".to_owned(), replica: 5 }];
        (registry, claimed)
    }

    /// A folder of the test's own.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("farcall-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).expect("room");
            Self(folder)
        }

        fn files(&self) -> usize {
            std::fs::read_dir(&self.0).expect("it is there").count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the test's own");
        }
    }

    pub fn images(folder: &Path) -> Images<'_> {
        Images { folder: Some(folder), shard: 0, store: 9 }
    }

    #[test]
    fn replicas_that_cannot_be_read_to_their_end_leave_nothing_here() {
        let folder = Folder::new("flaky");
        let (registry, claimed) = claimed();
        let record = claimed.record.clone();
        let zero = || farcall_base::Instant::ZERO;
        let keeper = Keeper::start(Box::new(registry), claimed, zero).expect("a thread");
        let (mut reach, mut fetching) = (Flaky { failures: 3, begun: 0 }, Fetching::new(&record));
        let mut told = Vec::new();
        let mut tell = |waits| told.push(waits);
        let images = images(&folder.0);
        let fetched = fetching.fetch(&images, &mut reach, &keeper, &mut tell);
        let (number, place, mut disk) = fetched.expect("it can be read in the end");
        assert_eq!((reach.begun, place.replica, disk.bytes()), (4, 5, BYTES));
        assert_eq!(folder.files(), 1, "the one that was read");
        disk.begin(Job::Read { at: 0, blocks: Blocks::zeroed(4096) });
        assert_eq!(&disk.wait().expect("it is there").blocks[..4], b"log\0");
        assert!(matches!(told[..], [Waits::Replica(_)]), "it is said once: {told:?}");
        images.remove(number);
        assert_eq!(folder.files(), 0);
    }

    /// Two backups, of which one does not answer for so many rounds.
    struct Late {
        silent_rounds: usize,
        asked: usize,
    }

    impl Reach for Late {
        fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
            let Request::Fence { .. } = Request::decode(message).expect("a request").1 else {
                return Ok(b"log".to_vec());
            };
            if backup == "late" {
                self.asked += 1;
                if self.asked <= self.silent_rounds {
                    return Err(NoAnswer::Silent);
                }
            }
            let mut answer = Vec::new();
            Held { replica: if backup == "late" { 6 } else { 5 }, bytes: BYTES }.encode(&mut answer);
            Ok(answer)
        }
    }

    #[test]
    fn a_damaged_replica_is_read_again_behind_all_others_after_pauses_and_without_a_claim() {
        let folder = Folder::new("damaged");
        let (registry, mut claimed) = claimed();
        claimed.record.replicas.push(Place { backup: "late".to_owned(), replica: 6 });
        let record = claimed.record.clone();
        let zero = || farcall_base::Instant::ZERO;
        let keeper = Keeper::start(Box::new(registry), claimed, zero).expect("a thread");
        let (mut reach, mut fetching) = (Late { silent_rounds: 2, asked: 0 }, Fetching::new(&record));
        let images = images(&folder.0);
        let mut told = 0;
        let mut fetch = |fetching: &mut Fetching<'_>| {
            let fetched = fetching.fetch(&images, &mut reach, &keeper, &mut |_| told += 1);
            let (number, place, _) = fetched.expect("one can be read");
            images.remove(number);
            place
        };
        let [pause, _] = FETCH_AGAIN_AFTER;
        for (pauses, renews) in [(0, true), (1, false)] {
            let place = fetch(&mut fetching);
            assert_eq!((&*place.backup, keeper.is_renewing()), ("backup", renews));
            assert_eq!(fetching.pause, pause * (1 << pauses));
            fetching.is_damaged(place, "it is no log");
        }
        let place = fetch(&mut fetching);
        assert_eq!((&*place.backup, keeper.is_renewing()), ("late", true), "it was never damaged");
        assert_eq!((fetching.pause, told), (pause * 4, 1));
    }
}
