//! Collective operations: all members of a group call the same function, in the same order.

use core::cell::RefCell;
use core::ffi::c_void;
use core::time::Duration;

use farcall::Endpoint;
use farcall_collective::{Collective, CollectiveError, Element, GROUP_IDS, Group, GroupId, max, min};

use crate::border::{ErrorText, Failure, bytes, bytes_mut, give, guarded, reported, timeout};
use crate::endpoint::EndpointHandle;
use crate::node::NodeHandle;
use crate::status::Status::{self, FARCALL_GROUP_FAILED, FARCALL_INVALID_ARGUMENT, FARCALL_TIMED_OUT};
use crate::status::of_end;

/// Elements of `farcall_group_all_reduce`, in the byte order of this machine.
pub const FARCALL_INT8: u32 = 0;
/// As FARCALL_INT8.
pub const FARCALL_INT16: u32 = 1;
/// As FARCALL_INT8.
pub const FARCALL_INT32: u32 = 2;
/// As FARCALL_INT8.
pub const FARCALL_INT64: u32 = 3;
/// As FARCALL_INT8.
pub const FARCALL_UINT8: u32 = 4;
/// As FARCALL_INT8.
pub const FARCALL_UINT16: u32 = 5;
/// As FARCALL_INT8.
pub const FARCALL_UINT32: u32 = 6;
/// As FARCALL_INT8.
pub const FARCALL_UINT64: u32 = 7;
/// As FARCALL_INT8.
pub const FARCALL_FLOAT: u32 = 8;
/// As FARCALL_INT8.
pub const FARCALL_DOUBLE: u32 = 9;

/// Adds; integers wrap around.
pub const FARCALL_SUM: u32 = 0;
/// Multiplies; integers wrap around.
pub const FARCALL_PRODUCT: u32 = 1;
/// Takes the lesser.
pub const FARCALL_MIN: u32 = 2;
/// Takes the greater.
pub const FARCALL_MAX: u32 = 3;

/// A member's view of a group of processes, which MPI calls a communicator. Belongs to the endpoint's thread.
pub struct GroupHandle {
    // Functions of another group of the endpoint may run in a callback, and not those of this one.
    group: RefCell<Group<'static>>,
    endpoint: *mut EndpointHandle,
}

/// Runs an operation of a group to its end.
///
/// # Safety
/// `group` is null or open; `error` as of `reported`.
unsafe fn run(
    group: *mut GroupHandle,
    timeout_ns: u64,
    error: *mut ErrorText,
    operation: impl FnOnce(&mut Group<'static>, Option<Duration>) -> Result<(), Failure>,
) -> Status {
    // SAFETY: as promised; the endpoint cannot be closed before.
    unsafe {
        reported(error, || {
            let handle = group.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?;
            EndpointHandle::outside(handle.endpoint)?;
            let mut group = handle.group.try_borrow_mut().map_err(|_| Status::FARCALL_IN_CALLBACK)?;
            operation(&mut group, timeout(timeout_ns))
        })
    }
}

fn wait<T>(operation: Collective<'_, T>, within: Option<Duration>) -> Result<T, Failure> {
    let outcome = match within {
        Some(within) => operation.within(within).wait(),
        None => operation.wait(),
    };
    outcome.map_err(|error| {
        let status = match &error {
            CollectiveError::TimedOut { .. } => FARCALL_TIMED_OUT,
            CollectiveError::MemberDown { reason, .. } => of_end(reason),
            _ => FARCALL_GROUP_FAILED,
        };
        Failure::new(status, error)
    })
}

/// Refuses memory that is read and written at the same time.
fn apart(one: &[u8], other: &[u8]) -> Result<(), Failure> {
    let (one, other) = (one.as_ptr_range(), other.as_ptr_range());
    if one.start < other.end && other.start < one.end {
        return Err(Failure::argument("the memory to send and the memory to receive overlap"));
    }
    Ok(())
}

fn all_of(bytes: usize, group: &Group<'_>) -> Result<usize, Failure> {
    let all = bytes.checked_mul(group.size() as usize);
    all.ok_or_else(|| Failure::argument("the parts of all members together are too long"))
}

/// Makes the group of these ranks of the node's world, of which this process is one; all of the world where
/// `ranks` is null. Groups of an endpoint that exist at the same time or one after another have different
/// numbers, the same at all members. Uses endpoint 0 of each process. Exchanges no messages. To be closed
/// before the endpoint.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_open(
    node: *const NodeHandle,
    endpoint: *mut EndpointHandle,
    number: u16,
    ranks: *const u32,
    members: usize,
    group: *mut *mut GroupHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let node = &node.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?.node;
            let handle = EndpointHandle::outside(endpoint)?;
            if group.is_null() {
                return Err(Failure::argument("the place for the group is null"));
            }
            if number >= GROUP_IDS {
                return Err(Failure::argument(&format!("the number of a group is below {GROUP_IDS}")));
            }
            let ranks: Vec<u32> = match ranks.is_null() {
                true => (0..node.size()).collect(),
                false => core::slice::from_raw_parts(ranks, members).to_vec(),
            };
            // It is closed before the endpoint, which lives until then in one place.
            let lasting: &'static Endpoint = &*core::ptr::from_ref(&*handle.endpoint);
            let made = Group::new(lasting, GroupId::new(number), node.rank(), ranks);
            let made = made.map_err(|error| Failure::new(FARCALL_INVALID_ARGUMENT, error))?;
            handle.add_child();
            give(group, Box::into_raw(Box::new(GroupHandle { group: RefCell::new(made), endpoint })));
            Ok(())
        })
    }
}

/// Ends the use of a group. Null is allowed.
///
/// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_close(group: *mut GroupHandle) -> Status {
    // SAFETY: the caller's promises, as in the header; the endpoint cannot be closed before.
    guarded(|| unsafe {
        let Some(handle) = group.as_ref() else { return Ok(()) };
        let endpoint = EndpointHandle::outside(handle.endpoint)?;
        if handle.group.try_borrow_mut().is_err() {
            return Err(Status::FARCALL_IN_CALLBACK);
        }
        drop(Box::from_raw(group));
        endpoint.remove_child();
        Ok(())
    })
}

/// The number of this member, from 0 in the order of the ranks, and the number of members. Either place may
/// be null.
///
/// From the endpoint's thread, not while an operation of the group waits. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_rank(
    group: *mut GroupHandle,
    rank: *mut u32,
    members: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header; the endpoint cannot be closed before.
    guarded(|| unsafe {
        let handle = group.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?;
        EndpointHandle::of(handle.endpoint)?;
        let group = handle.group.try_borrow().map_err(|_| Status::FARCALL_IN_CALLBACK)?;
        give(rank, group.own());
        give(members, group.size());
        Ok(())
    })
}

/// Returns when all members have called it. FARCALL_DEFAULT_TIMEOUT is 30 s, here and in the functions below.
/// A group whose operation failed is of no further use, at any member; `error` names the member at fault.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
/// Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_barrier(
    group: *mut GroupHandle,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe { run(group, timeout_ns, error, |group, within| wait(group.barrier(), within)) }
}

/// Fills a buffer at all members with what the root has in it; as long at all of them.
///
/// As `farcall_group_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_broadcast(
    group: *mut GroupHandle,
    root: u32,
    buffer: *mut c_void,
    length: usize,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        run(group, timeout_ns, error, |group, within| {
            let buffer = bytes_mut(buffer, length)?;
            is_member(group, root)?;
            wait(group.broadcast(root, buffer), within)
        })
    }
}

/// Combines the values of all members element by element, in place: `element` is FARCALL_DOUBLE or another of
/// those, `op` FARCALL_SUM or another of those. All have the same bits afterwards.
///
/// As `farcall_group_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_all_reduce(
    group: *mut GroupHandle,
    values: *mut c_void,
    count: usize,
    element: u32,
    op: u32,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        run(group, timeout_ns, error, |group, within| match element {
            FARCALL_INT8 => reduce::<i8>(group, values, count, op, within),
            FARCALL_INT16 => reduce::<i16>(group, values, count, op, within),
            FARCALL_INT32 => reduce::<i32>(group, values, count, op, within),
            FARCALL_INT64 => reduce::<i64>(group, values, count, op, within),
            FARCALL_UINT8 => reduce::<u8>(group, values, count, op, within),
            FARCALL_UINT16 => reduce::<u16>(group, values, count, op, within),
            FARCALL_UINT32 => reduce::<u32>(group, values, count, op, within),
            FARCALL_UINT64 => reduce::<u64>(group, values, count, op, within),
            FARCALL_FLOAT => reduce::<f32>(group, values, count, op, within),
            FARCALL_DOUBLE => reduce::<f64>(group, values, count, op, within),
            _ => Err(Failure::argument("there is no such type of elements")),
        })
    }
}

/// A number that is combined; integers wrap around.
trait Number: Element + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $plus:expr, $times:expr;)+) => {$(
        impl Number for $number {
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }

            fn times(self, other: Self) -> Self {
                $times(self, other)
            }
        }
    )+};
}

numbers! {
    i8: Self::wrapping_add, Self::wrapping_mul;
    i16: Self::wrapping_add, Self::wrapping_mul;
    i32: Self::wrapping_add, Self::wrapping_mul;
    i64: Self::wrapping_add, Self::wrapping_mul;
    u8: Self::wrapping_add, Self::wrapping_mul;
    u16: Self::wrapping_add, Self::wrapping_mul;
    u32: Self::wrapping_add, Self::wrapping_mul;
    u64: Self::wrapping_add, Self::wrapping_mul;
    f32: core::ops::Add::add, core::ops::Mul::mul;
    f64: core::ops::Add::add, core::ops::Mul::mul;
}

/// # Safety
/// `values` has `count` elements that nothing else uses.
unsafe fn reduce<T: Number>(
    group: &mut Group<'static>,
    values: *mut c_void,
    count: usize,
    op: u32,
    within: Option<Duration>,
) -> Result<(), Failure> {
    let values = values.cast::<T>();
    if count > 0 && (values.is_null() || !values.is_aligned()) {
        return Err(Failure::argument("the values are null or not aligned for their type"));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(FARCALL_INVALID_ARGUMENT.into());
    }
    let values = match count {
        0 => &mut [],
        // SAFETY: as promised, and looked at above.
        _ => unsafe { core::slice::from_raw_parts_mut(values, count) },
    };
    let combine = match op {
        FARCALL_SUM => T::plus,
        FARCALL_PRODUCT => T::times,
        FARCALL_MIN => min,
        FARCALL_MAX => max,
        _ => return Err(Failure::argument("there is no such operation")),
    };
    wait(group.all_reduce(values, combine), within)
}

/// Collects a part of each member, `length` bytes at all of them, in `parts` at the root, which has room for
/// all, in the order of the members. `parts` of the others may be null.
///
/// As `farcall_group_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_gather(
    group: *mut GroupHandle,
    root: u32,
    part: *const c_void,
    length: usize,
    parts: *mut c_void,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        run(group, timeout_ns, error, |group, within| {
            let part = bytes(part, length)?;
            is_member(group, root)?;
            let is_root = group.own() == root;
            let room = if is_root { bytes_mut(parts, all_of(length, group)?)? } else { &mut [] };
            apart(part, room)?;
            let collected = wait(group.gather(root, part), within)?;
            if let Some(other) = collected.iter().position(|part| part.len() != length).filter(|_| is_root) {
                let sentence = format!("member {other} gave another length than the root");
                return Err(Failure::new(FARCALL_INVALID_ARGUMENT, sentence));
            }
            for (place, part) in room.chunks_exact_mut(length.max(1)).zip(&collected) {
                place.copy_from_slice(part);
            }
            Ok(())
        })
    }
}

/// Collects a part of each member, `length` bytes at all of them, in `parts` at all members.
///
/// As `farcall_group_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_all_gather(
    group: *mut GroupHandle,
    part: *const c_void,
    length: usize,
    parts: *mut c_void,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        run(group, timeout_ns, error, |group, within| {
            let (part, room) = (bytes(part, length)?, bytes_mut(parts, all_of(length, group)?)?);
            apart(part, room)?;
            wait(group.all_gather(part, room), within)
        })
    }
}

/// Gives each member its part of `sent`, `length` bytes for each, and collects in `received` what the members
/// had for this one. The two do not overlap.
///
/// As `farcall_group_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_group_all_to_all(
    group: *mut GroupHandle,
    sent: *const c_void,
    received: *mut c_void,
    length: usize,
    timeout_ns: u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        run(group, timeout_ns, error, |group, within| {
            let all = all_of(length, group)?;
            let (sent, received) = (bytes(sent, all)?, bytes_mut(received, all)?);
            apart(sent, received)?;
            wait(group.all_to_all(sent, received), within)
        })
    }
}

fn is_member(group: &Group<'_>, root: u32) -> Result<(), Failure> {
    if root < group.size() {
        return Ok(());
    }
    Err(Failure::argument(&format!("the root is one of the {} members, from 0", group.size())))
}
