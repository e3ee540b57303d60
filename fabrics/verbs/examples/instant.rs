//! A libibverbs with one device that does everything at once, in the thread of the caller: what the drivers
//! cost beside it is what they cost themselves. `scripts/bench-verbs-instructions` puts it in the place of
//! the real one.
//!
//! It does what the drivers ask of it, checks nothing and frees nothing. Queue pairs of one thread only may
//! talk at a time.
#![allow(unsafe_code, reason = "the other side of a C interface")]
#![allow(clippy::missing_safety_doc, missing_docs, reason = "the functions of libibverbs, under its names")]

#[path = "../src/sys/types/mod.rs"]
mod types;

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};
use types::*;

const PAIRS_MAX: usize = 16;
const GRH_BYTES: usize = 40;
/// `::ffff:127.0.0.1`.
const GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];

#[repr(C)]
struct Queue {
    base: ibv_cq,
    completions: VecDeque<ibv_wc>,
}

#[repr(C)]
struct Shared {
    base: ibv_srq,
    receives: usize,
    receives_max: usize,
}

#[repr(C)]
struct Pair {
    base: ibv_qp,
    peer: *mut Pair,
    receives: VecDeque<(u64, ibv_sge)>,
}

/// The queue pairs by number, from 1; addresses, because pointers are not for other threads.
static PAIRS: Mutex<[usize; PAIRS_MAX]> = Mutex::new([0; PAIRS_MAX]);

fn pair_of(number: u32) -> *mut Pair {
    let pairs = PAIRS.lock().expect("nobody panics");
    ptr::with_exposed_provenance_mut(pairs[number as usize - 1])
}

fn zeroed<T>() -> T {
    // SAFETY: used for structures of integers and pointers.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn leaked<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn descriptor() -> c_int {
    let event: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    event.into_raw_fd()
}

unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, count: c_int, into: *mut ibv_wc) -> c_int {
    // SAFETY: a queue of `ibv_create_cq`, used by one thread; room for `count` completions.
    unsafe {
        let completions = &mut (*queue.cast::<Queue>()).completions;
        let count = completions.len().min(count as usize);
        for index in 0..count {
            into.add(index).write(completions.pop_front().expect("counted"));
        }
        count as c_int
    }
}

unsafe extern "C" fn req_notify_cq(_queue: *mut ibv_cq, _solicited_only: c_int) -> c_int {
    0
}

unsafe extern "C" fn post_srq_recv(
    shared: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue of `ibv_create_srq` and a chain, as in libibverbs.
    unsafe {
        let shared = &mut *shared.cast::<Shared>();
        let mut next = first;
        while !next.is_null() {
            if shared.receives == shared.receives_max {
                *bad = next;
                return libc::ENOMEM;
            }
            shared.receives += 1;
            next = (*next).next;
        }
    }
    0
}

unsafe extern "C" fn post_recv(
    pair: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    _bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a pair of `ibv_create_qp` and a chain, as in libibverbs.
    unsafe {
        let receives = &mut (*pair.cast::<Pair>()).receives;
        let mut next = first;
        while !next.is_null() {
            receives.push_back(((*next).wr_id, *(*next).sg_list));
            next = (*next).next;
        }
    }
    0
}

unsafe extern "C" fn post_send(
    pair: *mut ibv_qp,
    first: *mut ibv_send_wr,
    _bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a pair of `ibv_create_qp` and a chain whose memory is there, as in libibverbs.
    unsafe {
        let pair = &mut *pair.cast::<Pair>();
        let mut next = first;
        while !next.is_null() {
            carry_out(pair, &*next);
            if (*next).send_flags & IBV_SEND_SIGNALED != 0 {
                let done = ibv_wc { wr_id: (*next).wr_id, qp_num: pair.base.qp_num, ..zeroed() };
                complete(pair.base.send_cq, done);
            }
            next = (*next).next;
        }
    }
    0
}

unsafe fn complete(queue: *mut ibv_cq, completion: ibv_wc) {
    // SAFETY: the caller's queue is one of `ibv_create_cq`.
    unsafe { (*queue.cast::<Queue>()).completions.push_back(completion) };
}

unsafe fn carry_out(pair: &mut Pair, request: &ibv_send_wr) {
    // SAFETY: as for `post_send`; the kinds of requests are those that the drivers make, with one part each.
    unsafe {
        let part = &*request.sg_list;
        let (local, bytes) =
            (ptr::with_exposed_provenance_mut::<u8>(part.addr as usize), part.length as usize);
        match request.opcode {
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                let remote = ptr::with_exposed_provenance_mut::<u8>(request.wr.rdma.remote_addr as usize);
                ptr::copy_nonoverlapping(local, remote, bytes);
                let peer = &mut *pair.peer;
                let shared = &mut *peer.base.srq.cast::<Shared>();
                assert!(shared.receives > 0, "there is a receive for every write");
                shared.receives -= 1;
                let (imm_data, qp_num) = (request.imm_data, peer.base.qp_num);
                let opcode = IBV_WC_RECV_RDMA_WITH_IMM;
                complete(peer.base.recv_cq, ibv_wc { opcode, imm_data, qp_num, ..zeroed() });
            }
            IBV_WR_RDMA_READ => {
                let remote = ptr::with_exposed_provenance::<u8>(request.wr.rdma.remote_addr as usize);
                ptr::copy_nonoverlapping(remote, local, bytes);
            }
            IBV_WR_SEND => {
                let peer = &mut *pair_of(request.wr.ud.remote_qpn);
                // A datagram without a receive is lost.
                let Some((wr_id, into)) = peer.receives.pop_front() else { return };
                let start = ptr::with_exposed_provenance_mut::<u8>(into.addr as usize);
                start.write(0x60);
                ptr::copy_nonoverlapping(GID.as_ptr(), start.add(8), GID.len());
                ptr::copy_nonoverlapping(local, start.add(GRH_BYTES), bytes);
                let byte_len = (GRH_BYTES + bytes) as u32;
                let src_qp = pair.base.qp_num;
                let arrival = ibv_wc { wr_id, byte_len, src_qp, wc_flags: IBV_WC_GRH, ..zeroed() };
                complete(peer.base.recv_cq, arrival);
            }
            other => unreachable!("no driver makes requests of kind {other}"),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: room for the count.
    unsafe { *count = 1 };
    leaked([leaked(zeroed::<ibv_device>()), ptr::null_mut()]).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(_list: *mut *mut ibv_device) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(_device: *mut ibv_device) -> *const c_char {
    c"instant0".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let context = leaked(MaybeUninit::<ibv_context>::zeroed()).cast::<ibv_context>();
    // SAFETY: memory for a context; only its fields are written.
    unsafe {
        (&raw mut (*context).device).write(device);
        (&raw mut (*context).async_fd).write(descriptor());
        let ops = &raw mut (*context).ops;
        (&raw mut (*ops).poll_cq).write(poll_cq);
        (&raw mut (*ops).req_notify_cq).write(req_notify_cq);
        (&raw mut (*ops).post_srq_recv).write(post_srq_recv);
        (&raw mut (*ops).post_send).write(post_send);
        (&raw mut (*ops).post_recv).write(post_recv);
    }
    context
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(_context: *mut ibv_context) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(_context: *mut ibv_context, into: *mut ibv_device_attr) -> c_int {
    const MANY: c_int = 1 << 16;
    let limits = ibv_device_attr {
        max_qp: PAIRS_MAX as c_int,
        max_qp_wr: MANY,
        max_cqe: MANY,
        max_srq_wr: MANY,
        max_qp_rd_atom: 1,
        phys_port_cnt: 1,
        ..zeroed()
    };
    // SAFETY: room for the attributes.
    unsafe { into.write(limits) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    _context: *mut ibv_context,
    _port: u8,
    into: *mut ibv_port_attr,
) -> c_int {
    let port = ibv_port_attr {
        state: IBV_PORT_ACTIVE,
        active_mtu: 5,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        ..zeroed()
    };
    // SAFETY: room for the attributes.
    unsafe { into.write(port) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    _context: *mut ibv_context,
    into: *mut ibv_gid_entry,
    _room: usize,
    _flags: u32,
    _entry_bytes: usize,
) -> isize {
    let entry = ibv_gid_entry { gid: GID, port_num: 1, gid_type: IBV_GID_TYPE_ROCE_V2, ..zeroed() };
    // SAFETY: room for at least one entry.
    unsafe { into.write(entry) };
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(_context: *mut ibv_context) -> *mut ibv_pd {
    leaked(0u64).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(_domain: *mut ibv_pd) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    _access: c_int,
) -> *mut ibv_mr {
    // The memory is reached by address, from other queue pairs.
    let _exposed = addr.expose_provenance();
    leaked(ibv_mr { pd, addr, length, ..zeroed() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(_registration: *mut ibv_mr) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    leaked(ibv_comp_channel { context, fd: descriptor() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(_channel: *mut ibv_comp_channel) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    depth: c_int,
    _of_user: *mut c_void,
    _channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    leaked(Queue { base: ibv_cq { context }, completions: VecDeque::with_capacity(depth as usize) }).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(_queue: *mut ibv_cq) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    _channel: *mut ibv_comp_channel,
    _queue: *mut *mut ibv_cq,
    _of_user: *mut *mut c_void,
) -> c_int {
    -1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(_queue: *mut ibv_cq, _count: c_uint) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(domain: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: attributes with queues of ours.
    let (send_cq, recv_cq, srq) = unsafe { ((*init).send_cq, (*init).recv_cq, (*init).srq) };
    // SAFETY: a queue of `ibv_create_cq`.
    let context = unsafe { (*send_cq).context };
    let mut pairs = PAIRS.lock().expect("nobody panics");
    let place = pairs.iter().position(|pair| *pair == 0).expect("few pairs");
    let qp_num = place as u32 + 1;
    let base = ibv_qp { context, pd: domain, send_cq, recv_cq, srq, qp_num, ..zeroed() };
    let pair = leaked(Pair { base, peer: ptr::null_mut(), receives: VecDeque::with_capacity(1 << 12) });
    pairs[place] = pair.expose_provenance();
    pair.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    pair: *mut ibv_qp,
    attributes: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    if mask & IBV_QP_DEST_QPN != 0 {
        // SAFETY: a pair of `ibv_create_qp`, and attributes that name another one.
        unsafe { (*pair.cast::<Pair>()).peer = pair_of((*attributes).dest_qp_num) };
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(_pair: *mut ibv_qp) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(domain: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    let _domain = domain;
    // SAFETY: attributes as in libibverbs.
    let receives_max = unsafe { (*init).max_wr as usize };
    // The context is what the drivers call the queue through: there is one device, so any context's table
    // will do. SAFETY: a new context of the one device.
    let context = unsafe { ibv_open_device(ptr::null_mut()) };
    leaked(Shared { base: ibv_srq { context }, receives: 0, receives_max }).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(_shared: *mut ibv_srq) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(_domain: *mut ibv_pd, _route: *mut ibv_ah_attr) -> *mut ibv_ah {
    leaked(0u64).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(_handle: *mut ibv_ah) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    _context: *mut ibv_context,
    _event: *mut ibv_async_event,
) -> c_int {
    -1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}
