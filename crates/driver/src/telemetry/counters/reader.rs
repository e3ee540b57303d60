//! The reading side: another process's counters, without its help and without trusting it.
//!
//! The file is read with `pread` and never mapped, so that its owner can hurt nobody by writing while we
//! read. Every count in it is checked against a bound before use, and text is stripped of control characters
//! before anybody prints it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use farcall_base::is_printable;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, statx};

use super::CounterFile;
use super::layout::{
    COUNTERS_PER_GROUP_MAX, DESCRIPTION_BYTES, FILE_NAME, GROUP_BYTES, GROUP_COUNTERS, GROUP_LABEL,
    GROUP_STATE, GROUPS_MAX, HEADER_BYTES, HEADER_CAPACITY, HEADER_MAGIC, HEADER_OWNER, HEADER_UNLISTED,
    HEADER_VERSION, LABEL_BYTES_MAX, Layout, MAGIC, NAME_BYTES_MAX, STATE_LIVE, UNIT_BYTES_MAX, VERSION,
};
use crate::descriptors::memory_file;

/// What the memory file is called that others are compared with.
const FILE_NAME_OF_OWN: &str = "farcall-compared";

/// How often a group is read again because its owner replaced it meanwhile.
const TRIES_MAX: usize = 4;

/// All counters of a process at about one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that made the file.
    pub owner: u64,
    /// Groups that found no room in the file; their counts cannot be seen.
    pub unlisted_groups: u64,
    /// The groups, in the order of the file.
    pub groups: Vec<GroupSnapshot>,
}

/// One group: the counters of one endpoint, driver or session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Which endpoint, driver or session, such as `ring+shm#0`.
    pub label: String,
    /// Its counters, in the order of their declaration.
    pub counters: Vec<CounterSnapshot>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Its id.
    pub name: String,
    /// What one count is.
    pub unit: String,
    /// One line for people.
    pub doc: String,
    /// Its value when it was read.
    pub value: u64,
}

/// Why a process's counters cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CounterReadError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process asked for.
        pid: u32,
    },
    /// The process runs under another user, or protects itself: ask as that user.
    #[error("the counters of process {pid} may not be read by this user")]
    NotAllowed {
        /// The process asked for.
        pid: u32,
    },
    /// The process has no counter file: it does not use farcall, or has opened no endpoint yet.
    #[error("process {pid} has no farcall counters")]
    NoCounters {
        /// The process asked for.
        pid: u32,
    },
    /// Another version of farcall wrote the file: read it with that version's program.
    #[error("the counter file has version {version}, and this program reads version {VERSION}")]
    Version {
        /// The version met.
        version: u32,
    },
    /// What no correct process writes.
    #[error("the counter file is damaged: {what}")]
    Malformed {
        /// What was wrong.
        what: &'static str,
    },
    /// The system's own reason.
    #[error("the counter file cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl CounterFile {
    /// Reads the counters of process `pid`, which may be our own.
    pub fn open_process(pid: u32) -> Result<Snapshot, CounterReadError> {
        CounterReader::open(pid)?.read()
    }
}

/// The counter file of another process, kept open to be read again and again.
///
/// It outlives its process: what was counted last can be read after the end, however that came, until this is
/// dropped. Until then the system keeps the file's memory, some 64 KiB.
#[derive(Debug)]
pub struct CounterReader {
    file: File,
}

impl CounterReader {
    /// Finds the counter file of process `pid`, which may be our own.
    pub fn open(pid: u32) -> Result<Self, CounterReadError> {
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => CounterReadError::NoProcess { pid },
            io::ErrorKind::PermissionDenied => CounterReadError::NotAllowed { pid },
            _ => CounterReadError::Io(error),
        };
        let wanted = format!("/memfd:{FILE_NAME} (deleted)");
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(explain)? {
            let path = entry.map_err(explain)?.path();
            // A descriptor that was closed meanwhile was not the counter file, which stays open.
            if std::fs::read_link(&path).is_ok_and(|target| target.as_os_str() == wanted.as_str()) {
                let Some(file) = open_memory_file(&path).map_err(explain)? else {
                    return Err(CounterReadError::Malformed { what: "it is no memory file" });
                };
                return Ok(Self { file });
            }
        }
        Err(CounterReadError::NoCounters { pid })
    }

    /// Reads all counters now.
    pub fn read(&self) -> Result<Snapshot, CounterReadError> {
        read_snapshot(&self.file)
    }
}

/// Opens a memory file; `None` for any other. A process can have a file of that name open which is of a file
/// system of its own, and to open that, or to ask it anything, could take for ever: so it is known by its
/// device, which the kernel says without asking.
pub(super) fn open_memory_file(path: &Path) -> io::Result<Option<File>> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let device = |file: BorrowedFd<'_>| {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let status = statx(file, "", flags, StatxFlags::TYPE)?;
        let is_file = FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile;
        io::Result::Ok(is_file.then_some((status.stx_dev_major, status.stx_dev_minor)))
    };
    let own = memory_file(FILE_NAME_OF_OWN, 1)?;
    let is_memory_file = device(place.as_fd())?.is_some() && device(place.as_fd())? == device(own.as_fd())?;
    if !is_memory_file {
        return Ok(None);
    }
    // The path may lead elsewhere by now; what is open does not.
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).map(Some)
}

/// Reads a counter file, trusting nothing in it.
pub(super) fn read_snapshot(file: &File) -> Result<Snapshot, CounterReadError> {
    let header = read_array::<HEADER_BYTES>(file, 0)?;
    if word(&header, HEADER_MAGIC) != MAGIC {
        return Err(CounterReadError::Malformed { what: "it does not begin with the magic number" });
    }
    let version = half_word(&header, HEADER_VERSION);
    if version != VERSION {
        return Err(CounterReadError::Version { version });
    }
    let capacity = half_word(&header, HEADER_CAPACITY) as usize;
    if capacity > GROUPS_MAX {
        return Err(CounterReadError::Malformed { what: "it claims more groups than a file can have" });
    }
    let layout = Layout { capacity };
    if rustix::fs::fstat(file.as_fd()).map_err(io::Error::from)?.st_size != layout.file_bytes() as i64 {
        return Err(CounterReadError::Malformed { what: "its length does not fit its header" });
    }
    let mut groups = Vec::new();
    for slot in live_slots(file, layout)? {
        groups.extend(read_group(file, layout, slot)?);
    }
    Ok(Snapshot {
        owner: word(&header, HEADER_OWNER),
        unlisted_groups: word(&header, HEADER_UNLISTED),
        groups,
    })
}

/// The slots that were live a moment ago, by one reading of the whole table: most are not.
fn live_slots(file: &File, layout: Layout) -> io::Result<impl Iterator<Item = usize> + use<>> {
    let mut table = vec![0; layout.capacity * GROUP_BYTES];
    file.read_exact_at(&mut table, layout.group(0) as u64)?;
    Ok((0..layout.capacity)
        .filter(move |slot| word(&table, slot * GROUP_BYTES + GROUP_STATE) & STATE_LIVE != 0))
}

/// Reads a slot until it did not change meanwhile; `None` when it is not live, or changes all the time.
fn read_group(file: &File, layout: Layout, slot: usize) -> Result<Option<GroupSnapshot>, CounterReadError> {
    for _ in 0..TRIES_MAX {
        let group = read_array::<GROUP_BYTES>(file, layout.group(slot))?;
        let state = word(&group, GROUP_STATE);
        if state & STATE_LIVE == 0 {
            return Ok(None);
        }
        let snapshot = read_live_group(file, layout, slot, &group);
        let state_after = word(&read_array::<8>(file, layout.group(slot) + GROUP_STATE)?, 0);
        if state_after == state {
            return snapshot.map(Some);
        }
    }
    Ok(None)
}

fn read_live_group(
    file: &File,
    layout: Layout,
    slot: usize,
    group: &[u8; GROUP_BYTES],
) -> Result<GroupSnapshot, CounterReadError> {
    let count = word(group, GROUP_COUNTERS);
    if count > COUNTERS_PER_GROUP_MAX as u64 {
        return Err(CounterReadError::Malformed {
            what: "a group claims more counters than a group can have",
        });
    }
    let count = count as usize;
    let mut values = vec![0; count * 8];
    file.read_exact_at(&mut values, layout.values(slot) as u64)?;
    let mut descriptions = vec![0; count * DESCRIPTION_BYTES];
    file.read_exact_at(&mut descriptions, layout.descriptions(slot) as u64)?;
    let counters =
        descriptions.chunks_exact(DESCRIPTION_BYTES).zip(values.chunks_exact(8)).map(counter).collect();
    Ok(GroupSnapshot { label: text(&group[GROUP_LABEL..][..LABEL_BYTES_MAX]), counters })
}

fn counter((description, value): (&[u8], &[u8])) -> CounterSnapshot {
    let (name, rest) = description.split_at(NAME_BYTES_MAX);
    let (unit, doc) = rest.split_at(UNIT_BYTES_MAX);
    CounterSnapshot { name: text(name), unit: text(unit), doc: text(doc), value: word(value, 0) }
}

/// The text up to the first zero, fit for a terminal.
fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    let printable = |c: char| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER };
    String::from_utf8_lossy(&padded[..end]).chars().map(printable).collect()
}

fn read_array<const N: usize>(file: &File, offset: usize) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset as u64)?;
    Ok(bytes)
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

fn half_word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}
