//! The thread that answers for all endpoints of this process, and asks for them.
//!
//! It is started with the first endpoint that can be silent and ends with the last. It sleeps in the kernel
//! until somebody asks or an endpoint wants to know something.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farcall_base::Entropy;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::REQUESTS_MAX;
use super::answering::{Asker, Askers, NoDescriptor};
use super::asking::{Asked, AskedOnes, Request};
use super::place::{Key, Place, Process};
use super::ports::listen;
use crate::bootstrap::random;

/// How often connections are looked at that may have become idle.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long accepting rests after the system had no descriptor for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The keeper of this process, while anybody needs it.
static KEEPER: Mutex<Weak<Keeper>> = Mutex::new(Weak::new());

/// The thread and what it shares.
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    key: Key,
    process: Process,
    waker: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: Vec<Arc<TcpListener>>,
    endpoints: BTreeSet<u64>,
    requests: Vec<Request>,
    is_over: bool,
}

impl Keeper {
    /// The one of this process.
    pub fn of_process() -> io::Result<Arc<Self>> {
        let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = keeper.upgrade() {
            return Ok(keeper);
        }
        let started = Arc::new(Self::start()?);
        *keeper = Arc::downgrade(&started);
        Ok(started)
    }

    fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            key: Key(u64::from_le_bytes(random())),
            process: Process::current(),
            waker: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let name = "farcall-life".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || Turns::new(of_thread).run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// From now on answers, at this address of the machine, for another endpoint.
    pub fn answer_at(&self, ip: IpAddr, first_port: Option<u16>) -> io::Result<Place> {
        let mut state = self.shared.lock();
        let address = state.address_at(ip, first_port)?;
        let endpoint = u64::from_le_bytes(random());
        state.endpoints.insert(endpoint);
        drop(state);
        self.shared.wake();
        let Shared { key, process, .. } = *self.shared;
        Ok(Place { address, endpoint, key, process })
    }

    /// The endpoint is not there any more.
    pub fn forget(&self, endpoint: u64) {
        self.shared.lock().endpoints.remove(&endpoint);
    }

    /// Asks a peer's process. The answer, if there is one, comes into the mailbox.
    pub fn ask(&self, request: Request) {
        let mut state = self.shared.lock();
        if state.requests.len() < REQUESTS_MAX {
            state.requests.push(request);
        }
        drop(state);
        self.shared.wake();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It does not panic; if it did, nobody would be there to be told.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Only a counter that is full refuses, and that one wakes as well.
        let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
    }
}

impl State {
    /// Where the process listens at an address of the machine; begins to if it does not yet.
    fn address_at(&mut self, ip: IpAddr, first_port: Option<u16>) -> io::Result<SocketAddr> {
        let addresses = self.listeners.iter().filter_map(|listener| listener.local_addr().ok());
        if let Some(address) = addresses.into_iter().find(|address| address.ip() == ip) {
            return Ok(address);
        }
        let listener = listen(ip, first_port)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.listeners.push(Arc::new(listener));
        Ok(address)
    }
}

/// What the thread owns.
struct Turns {
    shared: Arc<Shared>,
    listeners: Vec<Arc<TcpListener>>,
    askers: Askers,
    asked: AskedOnes,
    /// When accepting goes on, if it rests.
    accept_again: Option<Instant>,
}

impl Turns {
    fn new(shared: Arc<Shared>) -> Self {
        let asked = AskedOnes::new(Entropy::from_seed(random()));
        Self { shared, listeners: Vec::new(), askers: Askers::default(), asked, accept_again: None }
    }

    fn run(mut self) {
        loop {
            let ready = self.wait();
            let now = Instant::now();
            let (endpoints, requests) = {
                let mut state = self.shared.lock();
                if state.is_over {
                    return;
                }
                self.listeners.clone_from(&state.listeners);
                (state.endpoints.clone(), core::mem::take(&mut state.requests))
            };
            let is_ready = |descriptor: RawFd| ready.contains(&descriptor);
            self.askers.serve(
                |asker: &Asker| is_ready(asker.stream.as_raw_fd()),
                self.shared.key,
                &endpoints,
                now,
            );
            self.asked.go_on(|asked: &Asked| is_ready(asked.stream.as_raw_fd()), now);
            self.accept_again = self.accept_again.filter(|again| *again > now);
            for listener in self.listeners.iter().filter(|listener| is_ready(listener.as_raw_fd())) {
                let accept = || listener.accept().map(|(stream, _)| stream);
                if self.askers.accept(accept, now) == Err(NoDescriptor) {
                    self.accept_again = Some(now + ACCEPT_REST);
                }
            }
            self.asked.ask_all(requests, now);
        }
    }

    /// Sleeps until something happens; what it happened to.
    fn wait(&self) -> BTreeSet<RawFd> {
        let read = |descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
        let mut waited: Vec<PollFd<'_>> = vec![read(self.shared.waker.as_fd())];
        // One that has connections which cannot be accepted would be ready all the time.
        let listened = if self.accept_again.is_some() { &[][..] } else { &self.listeners };
        waited.extend(listened.iter().map(|listener| read(listener.as_fd())));
        waited.extend(self.askers.iter().map(|asker| read(asker.stream.as_fd())));
        waited.extend(self.asked.iter().map(|asked| {
            let flags = if asked.is_connecting() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(asked.stream.as_fd(), flags)
        }));
        let has_connections = !self.askers.is_empty() || !self.asked.is_empty();
        let limit = match self.accept_again {
            Some(again) => Some(timespec(again.saturating_duration_since(Instant::now()))),
            None => has_connections.then_some(LOOK_EVERY),
        };
        if poll(&mut waited, limit.as_ref()).is_err() {
            // Interrupted, or out of memory for a moment: that must not become a busy loop.
            std::thread::sleep(Duration::from_millis(1));
            return BTreeSet::new();
        }
        let is_ready = |polled: &&PollFd<'_>| !polled.revents().is_empty();
        let ready = waited.iter().filter(is_ready).map(|polled| polled.as_fd().as_raw_fd()).collect();
        self.quiet_waker();
        ready
    }

    fn quiet_waker(&self) {
        let mut count = [0; 8];
        // Nothing to read where something else woke the thread.
        let _ = rustix::io::read(&self.shared.waker, &mut count);
    }
}

/// Rounded up, so that a time that is waited for has come when the wait ends.
fn timespec(duration: Duration) -> Timespec {
    let duration = duration + Duration::from_micros(1);
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn turns(listener: &Arc<TcpListener>) -> Turns {
        let shared = Shared {
            key: Key(1),
            process: Process::current(),
            waker: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor"),
            state: Mutex::default(),
        };
        let mut turns = Turns::new(Arc::new(shared));
        turns.listeners.push(Arc::clone(listener));
        turns
    }

    #[test]
    fn a_connection_that_cannot_be_accepted_wakes_nobody_until_accepting_goes_on() {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let _asker = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let mut turns = turns(&listener);
        let refused = turns.askers.accept(|| Err(rustix::io::Errno::MFILE.into()), Instant::now());
        assert_eq!(refused, Err(NoDescriptor));
        turns.accept_again = Some(Instant::now() + Duration::from_secs(3600));
        turns.shared.wake();
        let ready = turns.wait();
        assert!(!ready.contains(&listener.as_raw_fd()), "{ready:?}");
        turns.accept_again = None;
        assert!(turns.wait().contains(&listener.as_raw_fd()));
    }
}
