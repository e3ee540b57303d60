//! UCX as a library of messages.

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant as WallTime};

use farcall_base::Instant;
use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{Destination, Wait, kept_from_children};
use farcall_transport::{Backlog, Library, Outgoing};

use crate::ffi::*;
use crate::peers::Peers;
use crate::sends::{Sends, Sent, no_param};
use crate::shared::{Announced, Body, HeadBytes, SharedBox, Ticket, UcxArrival};
use crate::worker::{Reach, WorkerBox};

/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);

/// How an instance is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UcxConfig {
    /// The longest payload that is accepted, in bytes.
    pub payload_bytes_max: usize,
    /// Whether its user may block until something arrives. Waking sleepers costs a little even while none
    /// sleeps.
    pub may_sleep: bool,
    /// Whether UCX is to notice dead peers and to report them. It then uses only what it can notice them
    /// over: version 1.13 does without shared memory.
    pub error_handling: bool,
    /// The networks that it listens on: whoever reaches them can stop the process.
    pub reach: Reach,
}

/// Why there is no instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UcxError {
    /// The library is not on this machine.
    #[error("{why}")]
    Absent {
        /// What was missing, and what to install.
        why: &'static str,
    },
    /// The library refused something; see its variables, such as `UCX_TLS`.
    #[error("UCX refuses {what}: {why}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// UCX's own words.
        why: String,
    },
    /// The worker is on too many networks at once: name fewer in `UCX_NET_DEVICES` or `UCX_TLS`.
    #[error(
        "an address of UCX has {bytes} bytes, too many; name fewer networks in UCX_NET_DEVICES or UCX_TLS"
    )]
    AddressTooLong {
        /// The address's length.
        bytes: usize,
    },
}

/// A payload that is being fetched.
struct Fetch {
    head: Option<Box<HeadBytes>>,
    memory: Vec<u8>,
    /// Held for the callback.
    ticket: Rc<Ticket>,
}

/// One worker of UCX.
pub struct Ucx {
    /// First of all that drops: nothing else is touched by UCX afterwards.
    worker: ManuallyDrop<WorkerBox>,
    peers: Peers,
    sends: Sends,
    fetches: Vec<Option<Fetch>>,
    shared: SharedBox,
    address: Address,
    payload_bytes_max: usize,
    /// Destinations that were found dead by sending, not by UCX's error handler.
    failed: Vec<Destination>,
    /// Peers without a session that something is still on its way to. To close their endpoints by force would
    /// not only drop it: UCX pairs endpoints of two workers, and the peer's, perhaps of our next session,
    /// would fail.
    resting: Vec<Destination>,
    /// Whether something came while the worker was being made ready to wake us.
    must_not_sleep: bool,
}

// SAFETY: the worker is in a mode in which several threads may use it one after the other; the pointers in
// here are used by UCX, inside calls that need `&mut self`, and by nobody else. Tickets are never cloned, so
// their counts move along.
#[expect(unsafe_code, reason = "UCX's handles are pointers")]
unsafe impl Send for Ucx {}

impl Ucx {
    /// A new worker.
    pub fn new(config: &UcxConfig) -> Result<Self, UcxError> {
        let mut worker = kept_from_children(|| WorkerBox::new(config.may_sleep, config.reach))?;
        let shared = SharedBox::new(worker.api, config.payload_bytes_max);
        worker.listen(shared.for_callbacks())?;
        let address = worker.address()?;
        Ok(Self {
            worker: ManuallyDrop::new(worker),
            peers: Peers::new(config.error_handling),
            sends: Sends::default(),
            fetches: Vec::new(),
            shared,
            address,
            payload_bytes_max: config.payload_bytes_max,
            failed: Vec::new(),
            resting: Vec::new(),
            must_not_sleep: false,
        })
    }

    /// Takes note of what the callbacks have left.
    #[inline]
    fn settle(&mut self) {
        let mut any_sent = false;
        while let Some(number) = self.shared.with(|shared| shared.sent.pop()) {
            self.sends.finish(number);
            any_sent = true;
        }
        if any_sent && !self.resting.is_empty() {
            self.close_rested();
        }
        while let Some(announced) = self.shared.with(|shared| shared.announced.pop()) {
            self.fetch(announced);
        }
        while let Some((number, fetched_bytes)) = self.shared.with(|shared| shared.fetched.pop()) {
            self.end_fetch(number, fetched_bytes);
        }
    }

    /// Closes the endpoints that only waited for their messages to leave.
    #[cold]
    fn close_rested(&mut self) {
        let Self { resting, sends, peers, worker, shared, .. } = self;
        resting.retain(|&to| {
            let rests = sends.any_to(to);
            if !rests {
                peers.forget(worker, shared, to, false);
            }
            rests
        });
    }

    /// Lets UCX work until all is `done`, for [`LINGER`] at most.
    fn linger(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let give_up_at = WallTime::now() + LINGER;
        while !done(self) && WallTime::now() < give_up_at {
            self.worker.progress();
            self.settle();
        }
    }

    /// Whether payloads are being fetched.
    fn is_fetching(&self) -> bool {
        self.fetches.iter().any(Option::is_some)
    }

    /// The next destination that was lost and has not been given up here.
    #[cold]
    fn take_loss(&mut self) -> Option<Destination> {
        loop {
            let lost = self.failed.pop().or_else(|| self.shared.with(|shared| shared.lost.pop_front()))?;
            if !self.peers.lose(lost) {
                continue;
            }
            match self.resting.iter().position(|&resting| resting == lost) {
                Some(place) => {
                    self.resting.swap_remove(place);
                    self.forget(lost);
                }
                None => return Some(lost),
            }
        }
    }

    /// Fetches a long payload from its sender.
    #[cold]
    fn fetch(&mut self, announced: Announced) {
        let Announced { head, descriptor, length } = announced;
        let vacant = self.fetches.iter().position(Option::is_none);
        let number = vacant.unwrap_or_else(|| {
            self.fetches.push(None);
            self.fetches.len() - 1
        });
        let ticket = self.shared.ticket(number as u32);
        let fetch = self.fetches[number].insert(Fetch { head, memory: vec![0; length], ticket });
        let param = RequestParam {
            op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
            callback: OperationCallback { fetch: Some(on_fetched) },
            user_data: Rc::as_ptr(&fetch.ticket).cast_mut().cast(),
            ..no_param()
        };
        let memory = fetch.memory.as_mut_ptr().cast();
        let (api, worker) = (self.worker.api, self.worker.worker);
        // SAFETY: the descriptor came from UCX and is used once. Nobody touches the memory, and the ticket is
        // kept, until UCX returns null, an error, or calls `on_fetched`; then `end_fetch` runs, and not
        // before.
        #[expect(unsafe_code, reason = "a call of UCX")]
        let request =
            unsafe { (api.ucp_am_recv_data_nbx)(worker, descriptor.as_ptr(), memory, length, &param) };
        if request.is_null() || is_error(request) {
            self.end_fetch(number as u32, request.is_null().then_some(length));
        }
    }

    fn end_fetch(&mut self, number: u32, fetched_bytes: Option<usize>) {
        if let Some(fetch) = self.fetches[number as usize].take()
            && fetched_bytes == Some(fetch.memory.len())
        {
            let Fetch { head, memory, .. } = fetch;
            let arrival = UcxArrival::new(head, Body::Fetched(memory.into()));
            self.shared.with(|shared| shared.arrivals.extend(arrival));
        }
    }
}

/// UCX's callback for a payload that has been fetched, or cannot be.
///
/// # Safety
/// For UCX only, with the ticket of a fetch.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_fetched(request: *mut c_void, status: Status, length: usize, ticket: *mut c_void) {
    // SAFETY: the ticket and the shared state outlive the worker, and nobody has a reference to the latter
    // while UCX runs. The request is the one that ends here.
    unsafe {
        let Ticket { shared, number } = *ticket.cast::<Ticket>();
        (*shared).fetched.push((number, (status == UCS_OK).then_some(length)));
        ((*shared).api.ucp_request_free)(request);
    }
}

impl Library for Ucx {
    type Arrival = UcxArrival;

    fn name(&self) -> &'static str {
        "ucx"
    }

    fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let to = self.peers.resolve(&mut self.worker, &self.shared, to)?;
        self.resting.retain(|&resting| resting != to);
        self.peers.set_silent(to, false);
        Ok(to)
    }

    /// UCX pairs endpoints of two workers. When a peer closes one by force, as it does when it gives up its
    /// session, the endpoint here fails that was paired with it, whatever uses it meanwhile.
    fn resolve_again(&mut self, to: &Address) -> Result<Destination, AddressError> {
        self.peers.supersede(to);
        self.resolve(to)
    }

    /// It proves nothing.
    fn principal(&self, _of: Destination) -> Principal {
        Principal::Unproven
    }

    fn forget(&mut self, to: Destination) {
        let any_in_flight = self.sends.any_to(to);
        if any_in_flight && self.peers.may_rest(to, self.sends.are_short_to(to)) {
            return self.resting.push(to);
        }
        self.peers.forget(&mut self.worker, &mut self.shared, to, any_in_flight);
    }

    fn presume_dead(&mut self, to: Destination) {
        self.peers.set_silent(to, true);
    }

    #[inline]
    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        let Some(endpoint) = self.peers.endpoint(to) else { return };
        match self.sends.send(self.worker.api, &self.shared, (to, endpoint), head, payload) {
            Sent::Accepted => {}
            Sent::Failed => self.failed.push(to),
        }
    }

    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        self.send(to, head, payload);
    }

    #[inline]
    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>) {
        let Some(endpoint) = self.peers.endpoint(to) else { return message.clear() };
        match self.sends.send_composed(self.worker.api, &self.shared, (to, endpoint), message) {
            Sent::Accepted => {}
            Sent::Failed => self.failed.push(to),
        }
    }

    #[inline]
    fn backlog(&self, to: Destination) -> Backlog {
        if self.sends.any_waits_for(to) { Backlog::Some } else { Backlog::None }
    }

    #[inline]
    fn progress(&mut self) -> usize {
        let done = self.worker.progress();
        // Whatever is said to have been done: callbacks also run in other calls of UCX.
        self.settle();
        done
    }

    #[inline]
    fn next_arrival(&mut self) -> Option<UcxArrival> {
        self.shared.with(|shared| shared.arrivals.pop_front())
    }

    #[inline]
    fn release(&mut self, arrival: UcxArrival) {
        match arrival.body {
            // SAFETY: the data came from this worker and is released once, because the arrival is consumed.
            #[expect(unsafe_code, reason = "a call of UCX")]
            Body::InPlace { data, .. } => unsafe {
                (self.worker.api.ucp_am_data_release)(self.worker.worker, data.as_ptr().cast());
            },
            Body::Copied(buffer) => self.shared.with(|shared| shared.spares.keep(buffer)),
            Body::Empty | Body::Fetched(_) => {}
        }
    }

    #[inline]
    fn next_loss(&mut self) -> Option<Destination> {
        let any_lost = !self.failed.is_empty() || self.shared.with(|shared| !shared.lost.is_empty());
        if any_lost { self.take_loss() } else { None }
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        (self.must_not_sleep || !self.failed.is_empty()).then_some(Instant::ZERO)
    }
}

impl Wait for Ucx {
    fn prepare_wait(&mut self) {
        self.must_not_sleep = self.worker.descriptor().is_none() || !self.worker.arm();
    }

    fn finish_wait(&mut self) {
        self.must_not_sleep = false;
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.worker.descriptor().into_iter().collect()
    }
}

/// The last messages, such as the good-bye, get a moment to leave.
impl Drop for Ucx {
    fn drop(&mut self) {
        self.linger(|this| this.sends.is_empty() && !this.is_fetching());
        let is_fetching = self.is_fetching();
        for to in self.peers.destinations() {
            let by_force = is_fetching || self.sends.any_to(to);
            self.peers.forget(&mut self.worker, &mut self.shared, to, by_force);
        }
        self.linger(|this| this.sends.is_empty() && this.shared.with(|shared| shared.closing.is_empty()));
        for request in self.shared.with(|shared| core::mem::take(&mut shared.closing)) {
            // SAFETY: the request is not complete, so its callback has not freed it, and being freed here it
            // never will.
            #[expect(unsafe_code, reason = "a call of UCX")]
            unsafe {
                (self.worker.api.ucp_request_free)(request);
            }
        }
        while let Some(arrival) = self.next_arrival() {
            self.release(arrival);
        }
        if self.sends.is_empty() && !self.is_fetching() {
            // SAFETY: it is not used again.
            #[expect(unsafe_code, reason = "a worker that is only dropped when UCX permits it")]
            unsafe {
                ManuallyDrop::drop(&mut self.worker);
            }
        } else {
            // Without error handling UCX cannot give up messages to a peer that is gone, nor end a worker
            // that has some. The worker and all that it may touch stay until the process ends.
            core::mem::forget(core::mem::take(&mut self.sends));
            core::mem::forget(core::mem::take(&mut self.fetches));
            core::mem::forget(core::mem::take(&mut self.peers));
            self.shared.leak();
        }
    }
}
