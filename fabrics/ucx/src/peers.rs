//! Endpoints of UCX, by the numbers that the layer above knows them by.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::collections::HashMap;
use std::rc::Rc;

use farcall_base::{Address, AddressError};
use farcall_driver::Destination;

use crate::address::unwrap;
use crate::ffi::*;
use crate::sends::no_param;
use crate::shared::{Shared, SharedBox, Ticket};
use crate::worker::{WorkerBox, zeroed};

/// One peer.
struct Peer {
    endpoint: *mut Endpoint,
    address: Address,
    is_lost: bool,
    /// Whether it has been silent for too long, as far as the layer above knows.
    is_silent: bool,
}

/// All peers. Numbers are never used again.
#[derive(Default)]
pub struct Peers {
    peers: Vec<Option<Peer>>,
    /// For the error handlers. Kept as long as the worker, which may run one until its end.
    tickets: Vec<Rc<Ticket>>,
    by_address: HashMap<Address, u32>,
    error_handling: bool,
}

impl Peers {
    /// No peers yet; whether UCX is to notice when they die.
    pub fn new(error_handling: bool) -> Self {
        Self { error_handling, ..Self::default() }
    }

    /// The peer at an address: known already, or with a new endpoint.
    pub fn resolve(
        &mut self,
        worker: &mut WorkerBox,
        shared: &SharedBox,
        to: &Address,
    ) -> Result<Destination, AddressError> {
        if let Some(&number) = self.by_address.get(to) {
            return Ok(Destination(number));
        }
        let number = self.peers.len() as u32;
        let ticket = shared.ticket(number);
        let endpoint = create(worker, to, &ticket, self.error_handling)?;
        let address = to.clone();
        self.peers.push(Some(Peer { endpoint, address, is_lost: false, is_silent: false }));
        self.tickets.push(ticket);
        self.by_address.insert(to.clone(), number);
        Ok(Destination(number))
    }

    /// The endpoint to send to; `None` when the peer was forgotten or is lost.
    #[inline]
    pub fn endpoint(&self, to: Destination) -> Option<*mut Endpoint> {
        let peer = self.peers.get(to.0 as usize)?.as_ref()?;
        (!peer.is_lost).then_some(peer.endpoint)
    }

    /// Lets the next session to an address have a new endpoint.
    pub fn supersede(&mut self, address: &Address) {
        self.by_address.remove(address);
    }

    /// Takes note that nothing reaches the peer any more. A new session to its address gets a new endpoint.
    /// False when that was known.
    pub fn lose(&mut self, lost: Destination) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(lost.0 as usize) else { return false };
        if self.by_address.get(&peer.address) == Some(&lost.0) {
            self.by_address.remove(&peer.address);
        }
        !core::mem::replace(&mut peer.is_lost, true)
    }

    /// Takes note that a peer is silent, or no more.
    pub fn set_silent(&mut self, to: Destination, is_silent: bool) {
        if let Some(Some(peer)) = self.peers.get_mut(to.0 as usize) {
            peer.is_silent = is_silent;
        }
    }

    /// Whether what is on its way to a peer can be waited for after the end of its session. What is `short`
    /// always can, as long as UCX may still deliver it.
    pub fn may_rest(&self, to: Destination, short: bool) -> bool {
        let peer = self.peers.get(to.0 as usize).and_then(Option::as_ref);
        peer.is_some_and(|peer| !peer.is_lost && (short || !peer.is_silent))
    }

    /// Closes the endpoint of a peer. When the peer is lost, or `by_force`, what is on its way is given up.
    ///
    /// UCX does not end a worker with messages in flight on an endpoint that is being closed in order, so
    /// this must be by force when there are any. Without error handling there is no force; then the endpoint
    /// stays open.
    pub fn forget(
        &mut self,
        worker: &mut WorkerBox,
        shared: &mut SharedBox,
        to: Destination,
        by_force: bool,
    ) {
        if let Some(peer) = self.peers.get_mut(to.0 as usize).and_then(Option::take) {
            if self.by_address.get(&peer.address) == Some(&to.0) {
                self.by_address.remove(&peer.address);
            }
            let by_force = by_force || peer.is_lost;
            if self.error_handling || !by_force {
                close(worker, shared, peer.endpoint, by_force);
            }
        }
    }

    /// All that there have been, forgotten ones too.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> + use<> {
        (0..self.peers.len() as u32).map(Destination)
    }
}

fn close(worker: &mut WorkerBox, shared: &mut SharedBox, endpoint: *mut Endpoint, by_force: bool) {
    let flags = if by_force { UCP_EP_CLOSE_FLAG_FORCE } else { 0 };
    let param = RequestParam {
        op_attr_mask: UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        flags,
        callback: OperationCallback { send: Some(on_closed) },
        user_data: shared.for_callbacks().cast(),
        ..no_param()
    };
    // SAFETY: the endpoint was created and is closed once, here, because its peer was taken out.
    #[expect(unsafe_code, reason = "a call of UCX")]
    let request = unsafe { (worker.api.ucp_ep_close_nbx)(endpoint, &param) };
    if !request.is_null() && !is_error(request) {
        shared.with(|shared| shared.closing.push(request));
    }
}

fn create(
    worker: &mut WorkerBox,
    to: &Address,
    ticket: &Rc<Ticket>,
    error_handling: bool,
) -> Result<*mut Endpoint, AddressError> {
    // SAFETY: the structure holds numbers and pointers; null and 0 are among their values.
    #[expect(unsafe_code, reason = "a structure of C")]
    let mut params: EndpointParams = unsafe { zeroed() };
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
        | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
        | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = unwrap(to)?.as_ptr().cast();
    params.err_mode = if error_handling { UCP_ERR_HANDLING_MODE_PEER } else { UCP_ERR_HANDLING_MODE_NONE };
    let argument = Rc::as_ptr(ticket).cast_mut().cast();
    params.err_handler = ErrorHandler { callback: Some(on_error), argument };
    let mut endpoint = null_mut();
    // SAFETY: the worker lives, and the ticket outlives it. The address is what another worker gave, as far
    // as a checksum tells: that it was neither cut nor damaged. It does not tell who made it. UCX reads
    // addresses without looking for their ends, so a member of the cluster that forges one breaks this;
    // nothing short of a key could tell, and SECURITY.md says that UCX is for networks on which every process
    // is trusted.
    #[expect(unsafe_code, reason = "a call of UCX")]
    let status = unsafe { (worker.api.ucp_ep_create)(worker.worker, &params, &mut endpoint) };
    if status == UCS_OK { Ok(endpoint) } else { Err(AddressError::WrongKind { driver: "ucx" }) }
}

/// UCX's callback for an endpoint that has failed.
///
/// # Safety
/// For UCX only, with the ticket of the endpoint.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_error(ticket: *mut c_void, _: *mut Endpoint, _: Status) {
    // SAFETY: the ticket and the shared state outlive the worker, and nobody has a reference to the latter
    // while UCX runs.
    unsafe {
        let Ticket { shared, number } = *ticket.cast::<Ticket>();
        (*shared).lost.push_back(Destination(number));
    }
}

/// UCX's callback for an endpoint that has been closed.
///
/// # Safety
/// For UCX only, with the shared state of the worker.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_closed(request: *mut c_void, _: Status, shared: *mut c_void) {
    // SAFETY: as above; the request is the one that ends here.
    unsafe {
        let shared = shared.cast::<Shared>();
        let closing = &mut (*shared).closing;
        closing.retain(|&other| other != request);
        ((*shared).api.ucp_request_free)(request);
    }
}
