//! The mapped memory file beneath the counters, as atomics with checked offsets.
//!
//! The mapping and its descriptor are never given back: counters live as long as the process, and a handle to
//! one is a plain `&'static`.
#![expect(unsafe_code, reason = "memory shared with other processes can only be had by mapping it")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{SealFlags, fcntl_add_seals};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::descriptors::memory_file;

/// A memory file, mapped for the life of the process.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    #[cfg_attr(not(test), expect(dead_code, reason = "kept open so that `/proc/PID/fd` shows the file"))]
    file: OwnedFd,
}

// SAFETY: the memory is reached only as atomics, and stays mapped for ever.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes and maps a memory file of `bytes` zero bytes, whose length cannot change any more.
    pub fn create(name: &str, bytes: usize) -> io::Result<Self> {
        let file = memory_file(name, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is affected.
        let base = unsafe {
            mmap(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0");
        Ok(Self { base, bytes, file })
    }

    /// The eight bytes at `offset`.
    ///
    /// # Panics
    /// When `offset` is not a multiple of 8 within the file.
    pub fn word(&self, offset: usize) -> &'static AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "no word at {offset}");
        // SAFETY: within the mapping, which is page-aligned, never unmapped, and cannot shrink (sealed).
        unsafe { self.base.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// The `length` bytes at `offset`.
    ///
    /// # Panics
    /// When they are not all within the file.
    pub fn bytes(&self, offset: usize, length: usize) -> &'static [AtomicU8] {
        assert!(offset <= self.bytes && length <= self.bytes - offset, "no {length} bytes at {offset}");
        // SAFETY: within the mapping, which is never unmapped and cannot shrink (sealed).
        unsafe { core::slice::from_raw_parts(self.base.add(offset).cast::<AtomicU8>().as_ptr(), length) }
    }

    /// The file, for readers in this process.
    #[cfg(test)]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }
}
