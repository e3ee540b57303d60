//! rdma_cm's identifiers, owned: each a listener, or one end of a connection.

use core::ffi::{CStr, c_int, c_void};
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::channel::EventChannel;
use crate::error::VerbsError;
use crate::sys::{self, Library};

/// How long rdma_cm may look for an address or a way. The deadline of the lane is the caller's, and mostly
/// shorter.
const RESOLVE_MS: c_int = 5000;
/// Requests that may wait for a listener.
const BACKLOG: c_int = 1024;

/// An identifier of rdma_cm.
pub struct CmId {
    channel: Arc<EventChannel>,
    id: *mut sys::rdma_cm_id,
}

// SAFETY: librdmacm's objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for CmId {}
// SAFETY: as above.
unsafe impl Sync for CmId {}

impl CmId {
    /// An identifier for reliable connections.
    pub fn new(channel: &Arc<EventChannel>) -> Result<Self, VerbsError> {
        let (mut id, context) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: a live channel, which this holds; the library writes the identifier that it made.
        let result = unsafe {
            (channel.library.rdma_create_id)(channel.raw(), &raw mut id, context, sys::RDMA_PS_TCP)
        };
        check("make an identifier of rdma_cm", result)?;
        Ok(Self { channel: Arc::clone(channel), id })
    }

    /// Takes over an identifier that the library made.
    ///
    /// # Safety
    /// It must be a live identifier of this channel that nobody else owns.
    pub unsafe fn from_raw(channel: &Arc<EventChannel>, id: *mut sys::rdma_cm_id) -> Self {
        Self { channel: Arc::clone(channel), id }
    }

    /// Whether it is the one that an event is about.
    pub fn is(&self, about: *const sys::rdma_cm_id) -> bool {
        core::ptr::eq(self.id, about)
    }

    /// Takes an address of this machine, and a free port.
    pub fn bind(&self, to: IpAddr) -> Result<(), VerbsError> {
        let mut address = SocketAddress::of(SocketAddr::new(to, 0));
        // SAFETY: a live identifier and an address of either family.
        let result = unsafe { (self.channel.library.rdma_bind_addr)(self.id, address.raw()) };
        check("take an address with rdma_cm", result)
    }

    /// The port taken.
    pub fn port(&self) -> u16 {
        // SAFETY: a live identifier.
        u16::from_be(unsafe { (self.channel.library.rdma_get_src_port)(self.id) })
    }

    /// Whether it belongs to this port of the device of this name.
    pub fn is_on(&self, library: &Library, device: &str, port: u8) -> bool {
        // SAFETY: a live identifier, whose context is null or lives as long, and its device with it; names
        // are strings of C.
        unsafe {
            let context = (*self.id).verbs;
            !context.is_null()
                && (*self.id).port_num == port
                && CStr::from_ptr((library.ibv_get_device_name)((*context).device)).to_bytes()
                    == device.as_bytes()
        }
    }

    /// Lets peers ask for connections.
    pub fn listen(&self) -> Result<(), VerbsError> {
        // SAFETY: a live identifier.
        let result = unsafe { (self.channel.library.rdma_listen)(self.id, BACKLOG) };
        check("listen with rdma_cm", result)
    }

    /// Starts to find out where an address is.
    pub fn resolve_address(&self, place: SocketAddr) -> Result<(), VerbsError> {
        let (mut to, from) = (SocketAddress::of(place), core::ptr::null_mut());
        // SAFETY: a live identifier and an address of either family; our own is bound already.
        let result = unsafe { (self.channel.library.rdma_resolve_addr)(self.id, from, to.raw(), RESOLVE_MS) };
        check("look for the peer's address with rdma_cm", result)
    }

    /// Starts to find out the way there.
    pub fn resolve_route(&self) -> Result<(), VerbsError> {
        // SAFETY: a live identifier.
        let result = unsafe { (self.channel.library.rdma_resolve_route)(self.id, RESOLVE_MS) };
        check("look for the way to the peer with rdma_cm", result)
    }

    /// Asks the peer to connect with a queue pair, and says something.
    pub fn connect(&self, mut terms: sys::rdma_conn_param, said: &[u8]) -> Result<(), VerbsError> {
        terms.private_data = said.as_ptr().cast();
        terms.private_data_len = u8::try_from(said.len()).expect("private data is short");
        // SAFETY: a live identifier; the library copies the terms and what is said.
        let result = unsafe { (self.channel.library.rdma_connect)(self.id, &raw mut terms) };
        check("connect with rdma_cm", result)
    }

    /// Agrees to connect with a queue pair.
    pub fn accept(&self, mut terms: sys::rdma_conn_param) -> Result<(), VerbsError> {
        // SAFETY: a live identifier; the library copies the terms.
        let result = unsafe { (self.channel.library.rdma_accept)(self.id, &raw mut terms) };
        check("accept a connection of rdma_cm", result)
    }

    /// Refuses to connect.
    pub fn reject(self) {
        // SAFETY: a live identifier, and nothing to say. Fails only when the peer is gone.
        let _peer_gone = unsafe { (self.channel.library.rdma_reject)(self.id, core::ptr::null(), 0) };
    }

    /// Tells the peer that our queue pair is ready.
    pub fn establish(&self) -> Result<(), VerbsError> {
        // SAFETY: a live identifier.
        let result = unsafe { (self.channel.library.rdma_establish)(self.id) };
        check("finish a connection of rdma_cm", result)
    }

    /// What a queue pair needs to enter a state, and which of the attributes are meant.
    pub fn attributes(&self, state: c_int) -> Result<(sys::ibv_qp_attr, c_int), VerbsError> {
        let mut attributes = sys::ibv_qp_attr { qp_state: state, ..sys::ibv_qp_attr::default() };
        let mut mask = 0;
        // SAFETY: a live identifier; the library writes attributes and mask.
        let result =
            unsafe { (self.channel.library.rdma_init_qp_attr)(self.id, &raw mut attributes, &raw mut mask) };
        check("ask rdma_cm for the state of a queue pair", result)?;
        Ok((attributes, mask))
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: live, and used by nobody else. Its events have been acknowledged as they were read, so this
        // waits for nothing; a connection ends with it.
        unsafe { (self.channel.library.rdma_destroy_id)(self.id) };
    }
}

/// An address as C has it.
#[repr(C)]
union SocketAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketAddress {
    fn of(address: SocketAddr) -> Self {
        // SAFETY: all fields are integers, for which zeros are valid.
        let mut this: Self = unsafe { core::mem::zeroed() };
        match address {
            SocketAddr::V4(v4) => {
                this.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(v6) => {
                this.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
            }
        }
        this
    }

    fn raw(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

fn check(what: &'static str, result: c_int) -> Result<(), VerbsError> {
    if result == 0 { Ok(()) } else { Err(VerbsError::last(what)) }
}
