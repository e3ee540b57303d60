//! Whose an endpoint is: one thread's, and not that of a forked copy.

use core::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::status::Status::{self, FARCALL_FORKED, FARCALL_WRONG_THREAD};

/// The smallest page there is.
const PAGE_BYTES: usize = 4096;

/// The thread that owns an endpoint, written into a page that a forked child sees empty.
pub struct Owner {
    page: NonNull<libc::pthread_t>,
}

impl Owner {
    /// This thread. Costs a page.
    pub fn this_thread() -> std::io::Result<Self> {
        // SAFETY: new memory, at a place of the kernel's choice.
        let page = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE)?
        };
        let owner = Self { page: NonNull::new(page.cast()).expect("the kernel maps nothing at 0") };
        // SAFETY: the page is ours, and large enough; `pthread_self` cannot fail.
        unsafe {
            madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)?;
            owner.page.write(libc::pthread_self());
        }
        Ok(owner)
    }

    /// Fails in every other thread, and in a child.
    #[inline]
    pub fn check(&self) -> Result<(), Status> {
        // SAFETY: the page is mapped as long as this lives; `pthread_self` cannot fail.
        let (owner, this) = unsafe { (self.page.read(), libc::pthread_self()) };
        match owner {
            owner if owner == this => Ok(()),
            0 => Err(FARCALL_FORKED),
            _ => Err(FARCALL_WRONG_THREAD),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: nothing else knows the page.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}
