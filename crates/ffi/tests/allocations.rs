//! A short call from C allocates nothing once it was made a few times, on either side, whichever function
//! makes it. The functions are called as C calls them; allocations are counted by the test's own allocator.

#![allow(unsafe_code, reason = "an allocator, and functions of C")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

// For its symbols.
use farcall_ffi as _;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the thread has an endpoint: the test harness allocates, too.
    static CONVERSES: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every request is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let counts = WATCHING.load(Ordering::Relaxed) && CONVERSES.get();
        ALLOCATIONS.fetch_add(u64::from(counts), Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A handle of the library.
type Handle = *mut c_void;

#[repr(C)]
struct NodeOptions {
    size: usize,
    kind: u32,
    processes: u32,
    address: *const c_char,
}

/// `farcall_peer_t`, of which the library says the length.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Peer([u32; 3]);

unsafe extern "C" {
    fn farcall_node_open_version(
        version: u32,
        options: *const NodeOptions,
        node: *mut Handle,
        error: Handle,
    ) -> c_int;
    fn farcall_node_close(node: Handle) -> c_int;
    fn farcall_endpoint_open(
        node: Handle,
        transport: *const c_char,
        settings: *const *const c_char,
        endpoint: *mut Handle,
        error: Handle,
    ) -> c_int;
    fn farcall_endpoint_close(endpoint: Handle) -> c_int;
    fn farcall_peer(
        endpoint: Handle,
        rank: u32,
        number: u32,
        timeout_ns: u64,
        peer: *mut Peer,
        error: Handle,
    ) -> c_int;
    fn farcall_serve(
        endpoint: Handle,
        service: u16,
        handler: extern "C" fn(Handle, Handle, Handle),
        context: Handle,
    ) -> c_int;
    fn farcall_request_data(request: Handle) -> *const c_void;
    fn farcall_request_length(request: Handle) -> usize;
    fn farcall_reply(request: Handle, data: *const c_void, length: usize) -> c_int;
    fn farcall_poll_idle(endpoint: Handle, done: *mut usize) -> c_int;
    fn farcall_call(
        endpoint: Handle,
        peer: Peer,
        service: u16,
        data: *const c_void,
        length: usize,
        timeout_ns: u64,
        answer: *mut Handle,
        code: *mut u8,
    ) -> c_int;
    fn farcall_call_into(
        endpoint: Handle,
        peer: Peer,
        service: u16,
        data: *const c_void,
        length: usize,
        timeout_ns: u64,
        into: *mut c_void,
        room: usize,
        got: *mut usize,
        code: *mut u8,
    ) -> c_int;
    fn farcall_payload_data(payload: Handle) -> *const c_void;
    fn farcall_payload_length(payload: Handle) -> usize;
    fn farcall_payload_share(payload: Handle) -> Handle;
    fn farcall_payload_release(payload: Handle);
}

const OK: c_int = 0;
const ALONE: u32 = 2;
const ECHO: u16 = 1;
const LONG_NS: u64 = 60_000_000_000;

/// The most bytes of an answer that are kept without an allocation.
const SHORT_BYTES_MAX: usize = 232;

/// Calls that are watched, of each length.
const CALLS: usize = 1000;

extern "C" fn echo(_: Handle, _: Handle, request: Handle) {
    // SAFETY: the request of a handler that runs.
    let replied =
        unsafe { farcall_reply(request, farcall_request_data(request), farcall_request_length(request)) };
    assert_eq!(replied, OK);
}

/// A node that can be given to a thread.
#[derive(Clone, Copy)]
struct Shared(Handle);

// SAFETY: nodes may be used by all threads.
unsafe impl Send for Shared {}

impl Shared {
    fn endpoint(self) -> Handle {
        let mut endpoint = null_mut();
        let idle = [c"endpoint.idle=spin".as_ptr(), null()];
        let transport: &CStr = c"ring+shm";
        // SAFETY: texts and places are there, the node is open.
        let opened = unsafe {
            farcall_endpoint_open(self.0, transport.as_ptr(), idle.as_ptr(), &raw mut endpoint, null_mut())
        };
        assert_eq!(opened, OK);
        CONVERSES.set(true);
        endpoint
    }
}

/// Serves until told to stop.
fn serve(node: Shared, is_open: &mpsc::Sender<()>, stop: &AtomicBool) {
    let endpoint = node.endpoint();
    // SAFETY: the endpoint is this thread's, and open until it is closed.
    unsafe {
        assert_eq!(farcall_serve(endpoint, ECHO, echo, null_mut()), OK);
        is_open.send(()).expect("the test waits");
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(farcall_poll_idle(endpoint, null_mut()), OK);
        }
        assert_eq!(farcall_endpoint_close(endpoint), OK);
    }
}

/// A call whose answer is kept, looked at, and released.
fn call(endpoint: Handle, peer: Peer, data: &[u8]) {
    let mut answer = null_mut();
    // SAFETY: the endpoint is this thread's; the answer is ours until it is released.
    unsafe {
        let (bytes, length) = (data.as_ptr().cast(), data.len());
        assert_eq!(
            farcall_call(endpoint, peer, ECHO, bytes, length, LONG_NS, &raw mut answer, null_mut()),
            OK
        );
        let shared = farcall_payload_share(answer);
        assert_ne!(shared, answer);
        farcall_payload_release(answer);
        let came = core::slice::from_raw_parts(
            farcall_payload_data(shared).cast::<u8>(),
            farcall_payload_length(shared),
        );
        assert_eq!(came, data);
        farcall_payload_release(shared);
    }
}

/// A call whose answer comes into memory of the caller.
fn call_into(endpoint: Handle, peer: Peer, data: &[u8]) {
    let (mut into, mut got) = ([0_u8; SHORT_BYTES_MAX], 0);
    // SAFETY: the endpoint is this thread's; the memory has as many bytes.
    let status = unsafe {
        let (bytes, length, room) = (data.as_ptr().cast(), data.len(), into.len());
        let into = into.as_mut_ptr().cast();
        farcall_call_into(endpoint, peer, ECHO, bytes, length, LONG_NS, into, room, &raw mut got, null_mut())
    };
    assert_eq!((status, &into[..got]), (OK, data));
}

#[test]
fn short_calls_allocate_nothing() {
    let options = NodeOptions { size: size_of::<NodeOptions>(), kind: ALONE, processes: 0, address: null() };
    let mut node = null_mut();
    // SAFETY: options and places are there.
    assert_eq!(unsafe { farcall_node_open_version(1, &raw const options, &raw mut node, null_mut()) }, OK);
    let (shared, stop) = (Shared(node), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let (opened, is_open) = mpsc::channel();
        let stop = &stop;
        threads.spawn(move || serve(shared, &opened, stop));
        let _stops = Stop(stop);
        is_open.recv().expect("it opens");
        let (endpoint, mut peer) = (shared.endpoint(), Peer::default());
        // SAFETY: the endpoint is this thread's.
        assert_eq!(unsafe { farcall_peer(endpoint, 0, 0, LONG_NS, &raw mut peer, null_mut()) }, OK);
        let data: Vec<u8> = (0..SHORT_BYTES_MAX).map(|at| at as u8).collect();
        for make in [call, call_into] {
            for length in [0, 30, SHORT_BYTES_MAX] {
                // A lap of the ring, and the first handles.
                (0..CALLS).for_each(|_| make(endpoint, peer, &data[..length]));
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                WATCHING.store(true, Ordering::Relaxed);
                (0..CALLS).for_each(|_| make(endpoint, peer, &data[..length]));
                WATCHING.store(false, Ordering::Relaxed);
                assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{length} bytes");
            }
        }
        // What is longer is no copy of the handle's.
        call(endpoint, peer, &[7; SHORT_BYTES_MAX + 1]);
        call(endpoint, peer, &vec![7; 1 << 20]);
        // SAFETY: nothing is in flight.
        assert_eq!(unsafe { farcall_endpoint_close(endpoint) }, OK);
    });
    // SAFETY: its endpoints are closed.
    assert_eq!(unsafe { farcall_node_close(node) }, OK);
}

/// Ends the server, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
