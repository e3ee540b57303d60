//! The registry of a store's primaries and backups: a folder, for the processes of one machine, or etcd.
//!
//! In etcd the records of shards are keys below `PREFIX/kv/`, which stay; backups are keys under a lease that
//! their processes keep alive, so that one that is gone is not asked any more. Whether the process of a
//! primary has ended nobody can tell there: one that stands still loses its lease of etcd as well. So only
//! its record decides, when it has not changed for its lease.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use farcall::{ETCD_SCHEME, EtcdError, EtcdPlace, EtcdValue, EtcdValues};
use farcall_replica::{BackupEntry, Compared, FileRegistry, Life, Registry, RegistryError, Versioned};

/// What the places of folders begin with.
const FILE_SCHEME: &str = "file:";

/// The file that every registry in a folder has.
const FILE_LOCK: &str = "lock";

/// The folder of a store's keys below the prefix in etcd.
const ETCD_FOLDER: &str = "kv";

/// For so long after it was heard of last a backup counts as being there, in etcd.
const BACKUP_LEASE: Duration = Duration::from_secs(10);

/// How long a member of etcd may take for an answer before the next one is asked. Three that do not answer
/// take less than the default lease of a primary.
const ETCD_WITHIN: Duration = Duration::from_millis(500);

/// Where a registry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryPlace {
    /// In this folder.
    File(PathBuf),
    /// Below a prefix of this etcd.
    Etcd(EtcdPlace),
}

/// A text that names no registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no registry; give file: and a directory, such as file:/var/lib/farcall, or etcd:// and its \
     members, such as etcd://10.0.0.1:2379,10.0.0.2:2379/orders"
)]
pub struct NoRegistry(String);

impl FromStr for RegistryPlace {
    type Err = NoRegistry;

    fn from_str(text: &str) -> Result<Self, NoRegistry> {
        let place = match text.strip_prefix(FILE_SCHEME) {
            Some(folder) if !folder.is_empty() => Some(Self::File(folder.into())),
            Some(_) => None,
            None if text.starts_with(ETCD_SCHEME) => EtcdPlace::parse(text).map(Self::Etcd),
            None => None,
        };
        place.ok_or_else(|| NoRegistry(text.to_owned()))
    }
}

impl fmt::Display for RegistryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(folder) => write!(f, "{FILE_SCHEME}{}", folder.display()),
            Self::Etcd(place) => place.fmt(f),
        }
    }
}

impl From<PathBuf> for RegistryPlace {
    fn from(folder: PathBuf) -> Self {
        Self::File(folder)
    }
}

/// A registry that is used.
#[derive(Debug)]
pub struct OpenRegistry(Kind);

#[derive(Debug)]
enum Kind {
    File(FileRegistry),
    Etcd { values: EtcdValues, place: String },
}

impl OpenRegistry {
    /// The registry at a place. A folder is created if need be; etcd is not waited for.
    pub fn open(place: &RegistryPlace) -> Result<Self, RegistryError> {
        Ok(Self(match place {
            RegistryPlace::File(folder) => Kind::File(FileRegistry::open(folder)?),
            RegistryPlace::Etcd(at) => {
                Kind::Etcd { values: EtcdValues::at(at, ETCD_FOLDER, ETCD_WITHIN), place: at.to_string() }
            }
        }))
    }

    /// The registry at a place, for a caller that only looks: nothing is created. `None` where there is none:
    /// a folder that processes have used as one has a lock.
    pub fn existing(place: &RegistryPlace) -> Result<Option<Self>, RegistryError> {
        match place {
            // A folder that may not be looked into is an error, which opening it says.
            RegistryPlace::File(folder) if matches!(folder.join(FILE_LOCK).try_exists(), Ok(false)) => {
                Ok(None)
            }
            place => Self::open(place).map(Some),
        }
    }

    /// Whether it may be away for a while and come back, as other machines may.
    pub const fn may_come_back(&self) -> bool {
        matches!(self.0, Kind::Etcd { .. })
    }

    /// Says that the process with this incarnation lives, until it ends, where others can tell that.
    pub fn live(&self, incarnation: u64) -> Result<Option<Life>, RegistryError> {
        match &self.0 {
            Kind::File(registry) => registry.live(incarnation).map(Some),
            Kind::Etcd { .. } => Ok(None),
        }
    }

    /// Removes what is left of a process that has ended, and was replaced.
    pub fn bury(&self, incarnation: u64) {
        if let Kind::File(registry) = &self.0 {
            registry.bury(incarnation);
        }
    }

    /// Says that a process waits until it can be the primary of a shard, and where clients would find it.
    pub fn wait_for(&self, shard: u32, incarnation: u64, at: &str) -> Result<(), RegistryError> {
        let name = format!("{}{incarnation:016x}", waiting_for(shard));
        match &self.0 {
            Kind::File(registry) => registry.note(&name, at.as_bytes()),
            Kind::Etcd { values, .. } => {
                // Who is not listed takes over all the same.
                let _ = values.keep(&name, at, BACKUP_LEASE);
                Ok(())
            }
        }
    }

    /// Ends what [`OpenRegistry::wait_for`] began.
    pub fn waits_no_more(&self, shard: u32, incarnation: u64) {
        let name = format!("{}{incarnation:016x}", waiting_for(shard));
        match &self.0 {
            Kind::File(registry) => registry.remove_note(&name),
            Kind::Etcd { values, .. } => values.withdraw(&name),
        }
    }

    /// Where processes would serve a shard that wait for it.
    pub fn waiting(&mut self, shard: u32) -> Result<Vec<String>, RegistryError> {
        let prefix = waiting_for(shard);
        let text = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
        match &mut self.0 {
            Kind::File(registry) => {
                let mut waiting = Vec::new();
                for (name, at) in registry.notes(&prefix)? {
                    match u64::from_str_radix(&name[prefix.len()..], 16) {
                        Ok(incarnation) if registry.has_ended(incarnation) => {
                            registry.remove_note(&name);
                            registry.bury(incarnation);
                        }
                        Ok(_) => waiting.push(text(at)),
                        // Somebody else's.
                        Err(_) => {}
                    }
                }
                Ok(waiting)
            }
            Kind::Etcd { values, place } => {
                let found = values.list(&prefix).map_err(|error| silent(place, error))?;
                Ok(found.into_iter().map(|found| text(found.value)).collect())
            }
        }
    }

    /// Says that a backup is there. In etcd only as long as this is not dropped, and once etcd answers: then
    /// this returns before it does.
    pub fn announce(&self, backup: &BackupEntry) -> Result<(), RegistryError> {
        match &self.0 {
            Kind::File(registry) => registry.announce(backup),
            Kind::Etcd { values, place } => {
                let text = String::from_utf8_lossy(&backup.encode()).into_owned();
                if values.keep(&backup.key(), &text, BACKUP_LEASE) {
                    return Ok(());
                }
                let reason = "no thread can be started that keeps an entry there".to_owned();
                Err(RegistryError { place: place.clone(), reason })
            }
        }
    }
}

impl Registry for OpenRegistry {
    fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError> {
        match &mut self.0 {
            Kind::File(registry) => registry.load(key),
            Kind::Etcd { values, place } => {
                Ok(values.load(key).map_err(|error| silent(place, error))?.map(versioned))
            }
        }
    }

    fn compare_and_set(&mut self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, RegistryError> {
        match &mut self.0 {
            Kind::File(registry) => registry.compare_and_set(key, expected, value),
            Kind::Etcd { values, place } => {
                let found = values.compare_and_set(key, expected, value).map_err(|e| silent(place, e))?;
                Ok(match (found.was_set, found.revision) {
                    (true, revision) => Compared::Set(revision),
                    (false, 0) => Compared::Other(None),
                    (false, revision) => Compared::Other(Some(Versioned { revision, value: found.value })),
                })
            }
        }
    }

    fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError> {
        match &mut self.0 {
            Kind::File(registry) => registry.backups(),
            Kind::Etcd { values, place } => {
                let found = values.list(BackupEntry::PREFIX).map_err(|error| silent(place, error))?;
                let mut found: Vec<_> =
                    found.iter().filter_map(|entry| BackupEntry::decode(&entry.value)).collect();
                found.sort();
                Ok(found)
            }
        }
    }

    fn has_ended(&mut self, incarnation: u64) -> bool {
        match &mut self.0 {
            Kind::File(registry) => registry.has_ended(incarnation),
            Kind::Etcd { .. } => false,
        }
    }
}

/// What the keys of processes begin with that wait for a shard.
fn waiting_for(shard: u32) -> String {
    format!("waiting-{shard}-")
}

fn versioned(EtcdValue { revision, value }: EtcdValue) -> Versioned {
    Versioned { revision, value }
}

fn silent(place: &str, error: EtcdError) -> RegistryError {
    RegistryError { place: place.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_listed_until_it_ends() {
        let folder = std::env::temp_dir().join(format!("farcall-waiting-{}", std::process::id()));
        let open = || OpenRegistry::open(&RegistryPlace::File(folder.clone())).expect("a folder");
        let (mut registry, other) = (open(), open());
        let life = other.live(7).expect("it is alone");
        other.wait_for(3, 7, "127.0.0.1:7118").expect("room");
        assert_eq!(registry.waiting(3), Ok(vec!["127.0.0.1:7118".to_owned()]));
        assert_eq!(registry.waiting(0), Ok(Vec::new()), "another shard");
        drop(life);
        assert_eq!(registry.waiting(3), Ok(Vec::new()));
        let left = std::fs::read_dir(&folder).expect("it is there").count();
        assert_eq!(left, 1, "nothing but the lock of the folder");
        let life = other.live(8).expect("it is alone");
        other.wait_for(3, 8, "here").expect("room");
        other.waits_no_more(3, 8);
        assert_eq!(registry.waiting(3), Ok(Vec::new()), "it is the primary, or gave up");
        drop(life);
        std::fs::remove_dir_all(&folder).expect("the test's own");
    }

    #[test]
    fn a_look_at_a_folder_makes_nothing() {
        let folder = std::env::temp_dir().join(format!("farcall-look-{}", std::process::id()));
        let place = RegistryPlace::File(folder.clone());
        let look = || OpenRegistry::existing(&place).expect("it may be looked at");
        assert!(look().is_none() && !folder.exists());
        std::fs::create_dir(&folder).expect("a folder");
        assert!(look().is_none(), "it is a folder of something else");
        assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0);
        OpenRegistry::open(&place).expect("a registry");
        assert!(look().is_some());
        std::fs::remove_dir_all(&folder).expect("the test's own");
    }

    #[test]
    fn places_are_read_and_written() {
        for text in ["file:/var/lib/registry", "etcd://a:2379,b:2379/orders"] {
            let place: RegistryPlace = text.parse().expect("a place");
            assert_eq!(place.to_string(), text);
        }
        let short: RegistryPlace = "etcd://[::1]:2379".parse().expect("a place");
        assert_eq!(short.to_string(), "etcd://[::1]:2379/farcall");
        for text in ["file:", "/var/lib/registry", "etcd://", "etcd://a", "http://a:1"] {
            let error = text.parse::<RegistryPlace>().expect_err("it is none");
            assert!(error.to_string().starts_with(&format!("`{text}` is no registry; give")), "{error}");
        }
    }
}
