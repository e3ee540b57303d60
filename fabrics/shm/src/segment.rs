//! Shared memory: sealed memfds and their mappings.
//!
//! A memfd has no name, so nothing is left behind when a process is killed. The creator seals its size, so
//! that no peer can shrink it; the receiver of one checks the seals, which also tell that it is a memfd, then
//! its size, before mapping it.
//!
//! Seals keep the length, not the pages: those come when they are touched, and a writer may give them back.
//! Where the system has none to give it ends the process that touches one (SIGBUS, or its group's memory
//! limit). It refuses pages to all only with `vm.overcommit_memory=2`; there own segments get all of theirs
//! when they are made.

use core::ops::Range;
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use farcall_driver::memory_file;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::quota::Claim;

/// The kind of file system that ordinary memfds are in.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A memfd of ours, to be passed to peers.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
}

/// Who may write to a segment besides its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAccess {
    /// Peers may read only; enforced by the kernel.
    Read,
    /// Peers may read and write.
    Write,
}

impl Segment {
    /// Creates and maps a segment of `bytes` zero bytes.
    pub fn create(name: &str, bytes: usize, peers: PeerAccess) -> io::Result<(Self, Mapping)> {
        let file = memory_file(name, bytes)?;
        if commits_strictly() {
            fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        }
        // The mapping comes first: the seal against future writers spares those that exist.
        let mapping = Mapping::new(file.as_fd(), bytes, PeerAccess::Write, None)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        if peers == PeerAccess::Read {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&file, seals | SealFlags::SEAL)?;
        Ok((Self { file }, mapping))
    }

    /// The descriptor to pass to a peer.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the system refuses pages that nobody has set aside.
fn commits_strictly() -> bool {
    std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|policy| policy.trim() == "2")
}

/// A mapped segment; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    access: PeerAccess,
    /// Whether pages could be given back and not be had again.
    is_committed: bool,
    /// Of a peer's memory.
    _claim: Option<Claim>,
}

// SAFETY: a mapping is only an address range that stays valid until the drop; all access to it is unsafe by
// itself.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a segment that a peer passed, after checking that it has `bytes` bytes and cannot shrink.
    ///
    /// The first call on the descriptor asks for its seals: that fails at once on whatever is no memfd, and
    /// nothing else is asked of such a thing, which could wait for a server of the peer's.
    pub fn of_peer(file: BorrowedFd<'_>, bytes: usize, access: PeerAccess) -> io::Result<Self> {
        Self::counted(file, bytes, access, None)
    }

    /// As [`of_peer`](Self::of_peer), with what it takes of a quota.
    pub(crate) fn counted(
        file: BorrowedFd<'_>,
        bytes: usize,
        access: PeerAccess,
        claim: Option<Claim>,
    ) -> io::Result<Self> {
        let seals = fcntl_get_seals(file).map_err(|_| io::Error::other("the peer's memory is no memfd"))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(io::Error::other("the peer's memory is not sealed against shrinking"));
        }
        // Memory of huge pages can be taken away again, and then an access would fault.
        if fstatfs(file)?.f_type != TMPFS_MAGIC {
            return Err(io::Error::other("the peer's memory is not of ordinary pages"));
        }
        let size = fstat(file)?.st_size;
        if size != bytes as i64 {
            return Err(io::Error::other(format!("the peer's memory has {size} bytes instead of {bytes}")));
        }
        Self::new(file, bytes, access, claim)
    }

    fn new(file: BorrowedFd<'_>, bytes: usize, access: PeerAccess, claim: Option<Claim>) -> io::Result<Self> {
        let protection = match access {
            PeerAccess::Read => ProtFlags::READ,
            PeerAccess::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { mmap(core::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { start, bytes, access, is_committed: commits_strictly(), _claim: claim })
    }

    /// Gives a mapping that can be written to the pages of its first `bytes` now. Who touches a page for the
    /// first time enters the kernel for some microseconds; of a ring's first round that would be one message
    /// in fifty.
    pub fn populate(&self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        // Kernels before 5.14 do not know how, and where memory is short, whoever needs a page will find out.
        // SAFETY: the range is ours, and advice of this kind changes nothing in it.
        _ = unsafe { madvise(self.start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
    }

    /// Gives the pages back that lie in `range` as a whole, to whomever they belong; an empty range is none.
    /// What is there reads as zero afterwards. Where the system refuses pages they are kept.
    pub fn give_back(&self, range: Range<usize>) {
        let page = rustix::param::page_size();
        let (start, end) = (range.start.next_multiple_of(page), range.end.min(self.bytes) / page * page);
        if start >= end || self.access == PeerAccess::Read || self.is_committed {
            return;
        }
        let place = self.at(start, end - start);
        // A page that stays is no harm.
        // SAFETY: the range is ours, in whole pages, and nothing has a reference into it: who calls this says
        // that what is there is free, and everything there is reached by pointers and atomics.
        _ = unsafe { madvise(place.as_ptr().cast(), end - start, Advice::LinuxRemove) };
    }

    /// The size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "mappings of nothing cannot be made")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// What this process may do with it.
    pub fn access(&self) -> PeerAccess {
        self.access
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// When fewer than `bytes` bytes follow it in the mapping.
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "an access outside the segment");
        // SAFETY: the result is inside the mapping or one past its end.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours since `new`; whatever points into it holds a reference to this mapping.
        let outcome = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "unmapping a mapping of ours cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn a_segment_keeps_its_size_and_its_readers_cannot_write() {
        let (segment, _mapping) = Segment::create("farcall-test", 8192, PeerAccess::Read).expect("memfd");
        assert!(ftruncate(&segment.file, 4096).is_err(), "sealed");
        assert!(Mapping::of_peer(segment.as_fd(), 8192, PeerAccess::Read).is_ok());
        assert!(Mapping::of_peer(segment.as_fd(), 8192, PeerAccess::Write).is_err());
    }

    #[test]
    fn a_populated_mapping_has_its_first_pages() {
        use std::os::unix::fs::FileExt;

        let bytes = 64 * rustix::param::page_size();
        let (_segment, mapping) = Segment::create("farcall-test", bytes, PeerAccess::Write).expect("memfd");
        let pages_there = || {
            let first = mapping.at(0, bytes).addr().get() / rustix::param::page_size();
            let mut words = [0; 64 * 8];
            let pagemap = std::fs::File::open("/proc/self/pagemap").expect("there is one");
            pagemap.read_exact_at(&mut words, first as u64 * 8).expect("pages of ours");
            // The uppermost bit: the page is present (`Documentation/admin-guide/mm/pagemap.rst` of Linux).
            words.as_chunks::<8>().0.iter().filter(|word| u64::from_le_bytes(**word) >> 63 == 1).count()
        };
        assert_eq!(pages_there(), 0);
        mapping.populate(10 * rustix::param::page_size());
        assert_eq!(pages_there(), 10);
        mapping.populate(usize::MAX);
        assert_eq!(pages_there(), 64);
        let page = rustix::param::page_size();
        // SAFETY: inside the mapping, and nobody else has it.
        unsafe { mapping.at(3 * page, 1).write(7) };
        mapping.give_back(2 * page + 1..10 * page - 1);
        assert_eq!(pages_there(), 64 - 6, "whole pages only");
        // SAFETY: as above.
        assert_eq!(unsafe { mapping.at(3 * page, 1).read() }, 0);
        mapping.give_back(30 * page..30 * page - 5);
        mapping.give_back(0..usize::MAX);
        assert_eq!(pages_there(), 0);
    }

    #[test]
    fn a_peers_segment_of_another_size_or_without_seals_is_refused() {
        let (segment, _mapping) = Segment::create("farcall-test", 8192, PeerAccess::Write).expect("memfd");
        assert!(Mapping::of_peer(segment.as_fd(), 4096, PeerAccess::Write).is_err());
        let loose = memfd_create("farcall-test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&loose, 4096).expect("size");
        assert!(Mapping::of_peer(loose.as_fd(), 4096, PeerAccess::Read).is_err());
    }
}
