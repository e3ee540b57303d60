//! The slots of a store's daemon on this host: objects without a system call, and without an endpoint.

use core::ffi::{c_char, c_void};

use farcall::bootstrap::HostPort;
use farcall::host_access;
use farcall::parameters::Settings;
use farcall_kv::daemon::{SlotCall, SlotCallFailure, SlotCalls, SlotOutcome, attach_on_host, name_on_host};
use farcall_kv::durable::Level;
use farcall_kv::slots::AttachError;

use crate::border::{ErrorText, Failure, give, guarded, reported, text, texts, timeout};
use crate::owner::Owner;
use crate::payload::PayloadHandle;
use crate::slot_outcome::{NO_OUTCOME, SlotOutcomeView, status_of, wrong_version};
use crate::status::Status::{
    self, FARCALL_INVALID_ARGUMENT, FARCALL_NO_OBJECT, FARCALL_NO_SERVER, FARCALL_PEER_DEAD, FARCALL_REFUSED,
    FARCALL_RESOURCES, FARCALL_SETTINGS,
};
use crate::store::{condition, name, value_of};

/// Slots of a daemon. Belong to the thread that attached to it.
pub struct SlotsHandle {
    owner: Owner,
    calls: SlotCalls,
    /// That of the last write that was waited for.
    level: Level,
    outcome: SlotOutcomeView,
}

impl SlotsHandle {
    /// The handle behind a pointer, if the calling thread may use it.
    ///
    /// # Safety
    /// `slots` is null or attached, and nothing else of its thread uses it.
    unsafe fn of<'a>(slots: *mut Self) -> Result<&'a mut Self, Status> {
        if slots.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        // SAFETY: attached, so it is there; the owner never changes, and the rest of the handle, which its
        // thread may be using, is not touched before it is known that this is that thread.
        unsafe {
            (*slots).owner.check()?;
            Ok(&mut *slots)
        }
    }

    /// Begins a request.
    ///
    /// # Safety
    /// `slots` is null or attached, and nothing else uses it.
    unsafe fn begin<'a>(
        slots: *mut Self,
        token: u64,
        call: impl FnOnce() -> Result<SlotCall<'a>, Failure>,
    ) -> Status {
        guarded(|| {
            // SAFETY: as promised.
            let handle = unsafe { Self::of(slots)? };
            let call = call().map_err(|_| FARCALL_INVALID_ARGUMENT)?;
            handle.calls.begin(&call, token).map_err(|failure| status_of(&failure))
        })
    }

    /// Waits for a write; its version and its sum, 0 of one that has none.
    ///
    /// # Safety
    /// `version` is null or may be written to.
    unsafe fn write(
        &mut self,
        call: &SlotCall<'_>,
        timeout_ns: u64,
        version: *mut u64,
    ) -> Result<i64, Failure> {
        let outcome = self.calls.call(call, timeout(timeout_ns));
        if let Err(failure) = &outcome
            && let Some(found) = wrong_version(failure)
        {
            // SAFETY: as promised.
            unsafe { give(version, found) };
        }
        let (after, sum, level) = match outcome.map_err(explained)? {
            SlotOutcome::Written { version, level } | SlotOutcome::Deleted { version, level } => {
                (version, 0, level)
            }
            SlotOutcome::Counted { version, sum, level } => (version, sum, level),
            SlotOutcome::Found { .. } | SlotOutcome::Nothing => unreachable!("a write reads nothing"),
        };
        self.level = level;
        // SAFETY: as promised.
        unsafe { give(version, after) };
        Ok(sum)
    }
}

/// Attaches to a daemon of a store on this host, which shares memory with this process from then on. `store`
/// is what `farcall kv serve --at` was given, such as `127.0.0.1:7117`. `settings` is null, or as in
/// `farcall_endpoint_open`. FARCALL_NO_SERVER if there is no daemon, FARCALL_REFUSED if it takes no more
/// clients.
///
/// From any thread: the slots belong to it from then on. Allocates. Blocks for 2 s at most for each daemon of
/// the store on this host, and before that for as long as the resolver of the system takes to look up the
/// host of `store`, if that is a name and no address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_attach(
    store: *const c_char,
    settings: *const *const c_char,
    slots: *mut *mut SlotsHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            if slots.is_null() {
                return Err(Failure::argument("the place for the slots is null"));
            }
            let at = HostPort::parse(text(store, "the store")?);
            let at = at.ok_or_else(|| Failure::argument("the store is to be written as host:port"))?;
            let mut chosen = Settings::load([]).map_err(|error| Failure::new(FARCALL_SETTINGS, error))?;
            for assignment in texts(settings, "a setting")? {
                chosen.assign(assignment).map_err(|error| Failure::new(FARCALL_SETTINGS, error))?;
            }
            let access = host_access(&chosen).map_err(|error| Failure::new(FARCALL_SETTINGS, error))?;
            let owner = Owner::this_thread().map_err(|error| Failure::new(FARCALL_RESOURCES, error))?;
            let client = attach_on_host(&name_on_host(&at), &access).map_err(|error| {
                let status = match error {
                    AttachError::NotThere => FARCALL_NO_SERVER,
                    AttachError::Refused { .. } => FARCALL_REFUSED,
                    AttachError::Unusable { .. } => FARCALL_RESOURCES,
                };
                Failure::new(status, error)
            })?;
            let (calls, level) = (SlotCalls::new(client), Level::Memory);
            let handle = SlotsHandle { owner, calls, level, outcome: NO_OUTCOME };
            give(slots, Box::into_raw(Box::new(handle)));
            Ok(())
        })
    }
}

/// Leaves the daemon, which gives the slots to others, also while a forked child lives. What was begun has no
/// outcome any more, and may have happened, or happen yet. Null is allowed. A forked child leaves the slots
/// of its parent alone: FARCALL_FORKED.
///
/// From the slots' thread. Frees. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_detach(slots: *mut SlotsHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if slots.is_null() {
            return Ok(());
        }
        SlotsHandle::of(slots)?;
        drop(Box::from_raw(slots));
        Ok(())
    })
}

/// How many requests can be in flight at a time, and how many outcomes `farcall_slots_next` owes. Either
/// place may be null.
///
/// From the slots' thread. Neither polls, blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_depth(
    slots: *mut SlotsHandle,
    depth: *mut usize,
    in_flight: *mut usize,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = SlotsHandle::of(slots)?;
        give(depth, handle.calls.depth());
        give(in_flight, handle.calls.in_flight());
        Ok(())
    })
}

/// Whether the daemon still lives: FARCALL_PEER_DEAD if it does not. Functions that wait, and
/// `farcall_slots_next`, look now and then by themselves.
///
/// From the slots' thread. Makes a system call. Neither polls, blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_check(slots: *mut SlotsHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe { SlotsHandle::of(slots)?.calls.check().map_err(|_| FARCALL_PEER_DEAD) })
}

/// As `farcall_store_get`, through a slot. `table` is of `farcall_table_number`. FARCALL_TOO_MANY if all
/// slots are in use, FARCALL_ANSWER_TOO_LONG if the value is longer than a slot: read it with a client of the
/// store.
///
/// From the slots' thread. Blocks for `timeout_ns` at most, and spins meanwhile; by default for 11 s. Runs no
/// callbacks. Allocates the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_get(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    timeout_ns: u64,
    value: *mut *mut PayloadHandle,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let handle = SlotsHandle::of(slots)?;
            let call = SlotCall::Get(name(table, key, key_length)?);
            match handle.calls.call(&call, timeout(timeout_ns)).map_err(explained)? {
                SlotOutcome::Found { version: found, value: bytes } => {
                    give(version, found);
                    if !value.is_null() {
                        give(value, PayloadHandle::copied(bytes));
                    }
                    Ok(())
                }
                _ => Err(FARCALL_NO_OBJECT.into()),
            }
        })
    }
}

/// As `farcall_store_put`, through a slot. FARCALL_TOO_LONG if key and value do not fit into a slot, which
/// has the bytes of `farcall kv serve --slot-bytes` less 20: write it with a client of the store.
/// FARCALL_TOO_MANY if all slots are in use. Nothing was changed then. With FARCALL_PEER_DEAD and
/// FARCALL_TIMED_OUT it may have happened.
///
/// From the slots' thread. Blocks for `timeout_ns` at most, and spins meanwhile; by default for 11 s. Runs no
/// callbacks. Allocates only at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_put(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    expected: u64,
    timeout_ns: u64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let handle = SlotsHandle::of(slots)?;
            let call = put((table, key, key_length), (value, value_length), expected)?;
            handle.write(&call, timeout_ns, version).map(drop)
        })
    }
}

/// As `farcall_store_remove`, through a slot.
///
/// As `farcall_slots_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_remove(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    expected: u64,
    timeout_ns: u64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let handle = SlotsHandle::of(slots)?;
            let call = SlotCall::Delete(name(table, key, key_length)?, condition(expected));
            handle.write(&call, timeout_ns, version).map(drop)
        })
    }
}

/// As `farcall_store_increment`, through a slot.
///
/// As `farcall_slots_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_increment(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    amount: i64,
    timeout_ns: u64,
    sum: *mut i64,
    version: *mut u64,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let handle = SlotsHandle::of(slots)?;
            let call = SlotCall::Increment(name(table, key, key_length)?, amount);
            give(sum, handle.write(&call, timeout_ns, version)?);
            Ok(())
        })
    }
}

/// What the last write survives that was waited for through these slots; as `farcall_store_level`.
///
/// From the slots' thread. Neither polls, blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_level(slots: *mut SlotsHandle, level: *mut u32) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        give(level, u32::from(SlotsHandle::of(slots)?.level.to_wire()));
        Ok(())
    })
}

/// Begins to read an object: `farcall_slots_next` gives its outcome, with the token. Key and value of a
/// request are copied before this returns. FARCALL_TOO_MANY if all slots are in use, FARCALL_TOO_LONG if the
/// key is longer than a slot, FARCALL_PEER_DEAD if the daemon is gone: nothing was begun.
///
/// From the slots' thread. Neither polls nor blocks. Allocates only at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_begin_get(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    token: u64,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe { SlotsHandle::begin(slots, token, || Ok(SlotCall::Get(name(table, key, key_length)?))) }
}

/// Begins to write an object, if the one that is there has version `expected`, FARCALL_ABSENT or
/// FARCALL_ANY_VERSION.
///
/// As `farcall_slots_begin_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_begin_put(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    expected: u64,
    token: u64,
) -> Status {
    let call = || {
        // SAFETY: the caller's promises, as in the header.
        unsafe { put((table, key, key_length), (value, value_length), expected) }
    };
    // SAFETY: as above.
    unsafe { SlotsHandle::begin(slots, token, call) }
}

/// Begins to delete an object, if the one that is there has version `expected`, or FARCALL_ANY_VERSION.
///
/// As `farcall_slots_begin_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_begin_remove(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    expected: u64,
    token: u64,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        SlotsHandle::begin(slots, token, || {
            Ok(SlotCall::Delete(name(table, key, key_length)?, condition(expected)))
        })
    }
}

/// Begins to add to the number that an object is.
///
/// As `farcall_slots_begin_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_begin_increment(
    slots: *mut SlotsHandle,
    table: u64,
    key: *const c_void,
    key_length: usize,
    amount: i64,
    token: u64,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        SlotsHandle::begin(slots, token, || Ok(SlotCall::Increment(name(table, key, key_length)?, amount)))
    }
}

/// Looks for what has come of the requests that were begun: `outcome` is the next, in whatever order they
/// come, and null if nothing has come since. To be called again and again. Once the daemon has ended every
/// request that it has not answered has the status FARCALL_PEER_DEAD; it may have happened.
///
/// From the slots' thread. Polls: looks at shared memory, and runs no callbacks; in many thousand looks makes
/// a system call. Neither blocks nor allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_slots_next(
    slots: *mut SlotsHandle,
    outcome: *mut *const SlotOutcomeView,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = SlotsHandle::of(slots)?;
        if outcome.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        let next =
            handle.calls.next().map(|(token, came)| SlotOutcomeView { token, ..SlotOutcomeView::of(&came) });
        let view = next.map_or(core::ptr::null(), |view| {
            handle.outcome = view;
            &raw const handle.outcome
        });
        give(outcome, view);
        Ok(())
    })
}

/// # Safety
/// Key and value have as many bytes.
unsafe fn put<'a>(
    (table, key, key_length): (u64, *const c_void, usize),
    (value, value_length): (*const c_void, usize),
    expected: u64,
) -> Result<SlotCall<'a>, Failure> {
    // SAFETY: as promised.
    let (name, value) = unsafe { (name(table, key, key_length)?, value_of(value, value_length)?) };
    Ok(SlotCall::Put(name, value, condition(expected)))
}

fn explained(failure: SlotCallFailure) -> Failure {
    Failure::new(status_of(&failure), failure)
}
