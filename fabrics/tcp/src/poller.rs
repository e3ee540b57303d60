//! Which sockets have something: the kernel's own list of them (epoll), which is also what sleepers wait for.

use core::mem::MaybeUninit;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// The most sockets that one look brings.
const EVENTS_MAX: usize = 64;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The list.
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches a socket for what can be read, under this number. It leaves the list when it is closed.
    pub fn add(&self, file: &impl AsFd, number: u32) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, file, EventData::new_u64(u64::from(number)), EventFlags::IN)?)
    }

    /// Watches a socket of the list also for room to write, or not any more.
    pub fn watch_room(&self, file: &impl AsFd, number: u32, watch: bool) -> io::Result<()> {
        let flags = if watch { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, file, EventData::new_u64(u64::from(number)), flags)?)
    }

    /// Does not watch a socket of the list any more.
    pub fn remove(&self, file: &impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, file)?)
    }

    /// Stops and goes on to watch a socket at all.
    pub fn rest(&self, file: &impl AsFd, number: u32, rest: bool) -> io::Result<()> {
        let flags = if rest { EventFlags::empty() } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, file, EventData::new_u64(u64::from(number)), flags)?)
    }

    /// Appends the numbers of the sockets that have something.
    pub fn look(&self, numbers: &mut Vec<u32>) {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&NOW)) {
            numbers.extend(events.iter().map(|event| event.data.u64() as u32));
        }
    }

    /// Readable when a socket has something.
    pub fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
