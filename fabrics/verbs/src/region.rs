//! Registered memory: pinned, and known to the network card.
//!
//! Registration is explicit and owned: a region is mapped, registered, and on its drop taken back in the
//! reverse order. No allocator is hooked and no registration is cached. The pages are shared ones, so that a
//! `fork` of the process does not replace them under the card.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::sync::Arc;

use farcall_driver::LoanMemory;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::device::Device;
use crate::error::VerbsError;
use crate::sys;

/// What a region of huge pages is a multiple of, in bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that this process has registered now.
static PINNED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of memory that this process has registered with RDMA devices now.
pub fn pinned_bytes() -> u64 {
    PINNED_BYTES.load(Ordering::Relaxed)
}

/// Memory that the network card may read and write, zero at first.
pub struct Region {
    device: Arc<Device>,
    registration: *mut sys::ibv_mr,
    start: NonNull<u8>,
    bytes: usize,
    /// The memory must stay mapped: somebody may read it for ever.
    leak: bool,
}

// SAFETY: a region is an address range and a registration, both valid on any thread; access to it is unsafe
// by itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps and registers at least `bytes` bytes that the card may write for this process and, with the flags
    /// of `access`, for its peers. With `huge_pages` they are in huge pages if the system has some to give.
    pub fn new(
        device: &Arc<Device>,
        bytes: usize,
        access: c_int,
        huge_pages: bool,
    ) -> Result<Self, VerbsError> {
        let (start, bytes) = map(bytes.max(1), huge_pages)?;
        let flags = sys::IBV_ACCESS_LOCAL_WRITE | access;
        // SAFETY: a live domain and a mapping of that length, which stays until the registration is gone.
        let registration =
            unsafe { (device.library.ibv_reg_mr)(device.domain, start.as_ptr().cast(), bytes, flags) };
        if registration.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: the mapping was made above, and nothing refers to it.
            let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
            return Err(explain(error, bytes));
        }
        PINNED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Self { device: Arc::clone(device), registration, start, bytes, leak: false })
    }

    /// Where byte `offset` lies.
    ///
    /// # Panics
    /// When fewer than `bytes` bytes follow it in the region.
    #[inline]
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "an access outside the region");
        // SAFETY: inside the mapping or one past its end.
        unsafe { self.start.add(offset) }
    }

    /// `bytes` bytes at `offset` as a part of a request.
    ///
    /// # Panics
    /// As [`Region::at`].
    #[inline]
    pub fn part(&self, offset: usize, bytes: usize) -> sys::ibv_sge {
        let addr = self.at(offset, bytes).as_ptr().addr() as u64;
        sys::ibv_sge { addr, length: bytes as u32, lkey: self.local_key() }
    }

    /// What requests of this process name it by.
    #[inline]
    pub fn local_key(&self) -> u32 {
        // SAFETY: the registration lives as long as this.
        unsafe { (*self.registration).lkey }
    }

    /// What requests of peers name it by.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the registration lives as long as this.
        unsafe { (*self.registration).rkey }
    }

    /// Keeps the memory mapped for ever: parts of it have been handed out and will not come back.
    pub fn leak(&mut self) {
        self.leak = true;
    }
}

// SAFETY: a region is a mapping of this process's own, writable, zero at first, and mapped as long as it
// lives; its users say in which parts the card may write.
unsafe impl LoanMemory for Region {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        Self::at(self, offset, bytes)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        PINNED_BYTES.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        // SAFETY: a live registration; the poster of requests on it holds this region until they are over.
        unsafe { (self.device.library.ibv_dereg_mr)(self.registration) };
        if !self.leak {
            // SAFETY: exactly the mapping of `map`, to which nothing refers any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

fn map(bytes: usize, huge_pages: bool) -> Result<(NonNull<u8>, usize), VerbsError> {
    let try_to = |bytes, flags| {
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is affected.
        unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
    };
    let huge_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
    let huge = huge_pages.then(|| try_to(huge_bytes, MapFlags::SHARED | MapFlags::HUGETLB).ok()).flatten();
    let (start, bytes) = match huge {
        Some(start) => (start, huge_bytes),
        None => {
            let bytes = bytes.next_multiple_of(rustix::param::page_size());
            let mapped = try_to(bytes, MapFlags::SHARED);
            (mapped.map_err(|error| VerbsError::System { what: "map memory", source: error.into() })?, bytes)
        }
    };
    Ok((NonNull::new(start.cast()).expect("the kernel maps nothing at address 0"), bytes))
}

/// The limit on locked memory shows itself as "out of memory".
fn explain(error: io::Error, needed_bytes: usize) -> VerbsError {
    if error.raw_os_error() == Some(libc::ENOMEM)
        && let Some(limit_bytes) = rustix::process::getrlimit(rustix::process::Resource::Memlock).current
    {
        return VerbsError::LockedMemory { needed_bytes, limit_bytes };
    }
    VerbsError::System { what: "register memory", source: error }
}
