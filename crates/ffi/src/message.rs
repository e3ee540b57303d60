//! Tagged messages: sent, received, and handled where no receive waits for them.

use core::ffi::c_void;

use farcall::{
    AnySource, AnyTag, Context, Outgoing, ReceiveOutcome, Received, SendError, SourceChoice, Tag, TagChoice,
};

use crate::border::{bytes, give, guarded, timeout};
use crate::call::copy_into;
use crate::endpoint::{Carried, EndpointHandle, PeerNumbers};
use crate::payload::{LoanHandle, PayloadHandle, take_loan};
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_OK};

/// Asks for messages with any tag.
pub const FARCALL_ANY_TAG: u64 = u64::MAX;

/// A piece of memory that is read.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Piece {
    /// Where it is; null is allowed where there are no bytes.
    pub data: *const c_void,
    /// Its length in bytes.
    pub length: usize,
}

/// How a receive ended. The library's memory, valid while the callback runs.
#[repr(C)]
pub struct MessageView {
    /// `sizeof(farcall_message_t)` of the library, which may be larger than the program's.
    pub size: usize,
    /// FARCALL_OK, or why there is no message.
    pub status: Status,
    /// The tag of the message.
    pub tag: u32,
    /// Its sender.
    pub peer: PeerNumbers,
    /// Its bytes, read where they arrived; null when there is no message.
    pub data: *const c_void,
    /// Its length in bytes.
    pub length: usize,
}

/// What the library passes: the view, and behind it what it was made of.
#[repr(C)]
struct MessageSource<'a> {
    view: MessageView,
    received: Option<Received<'a>>,
}

/// Takes the end of a send, once: FARCALL_OK when its memory is free and the message cannot be taken back.
pub type SentCallback =
    Option<extern "C" fn(context: *mut c_void, endpoint: *mut EndpointHandle, status: Status)>;

/// Takes a message, or the reason why there is none.
pub type MessageCallback =
    Option<extern "C" fn(context: *mut c_void, endpoint: *mut EndpointHandle, message: *const MessageView)>;

/// Sends a message and waits until it has left: the bytes were copied, and it cannot be taken back. That the
/// peer has received it is not said by that.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
/// where the peer makes no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_send(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    tag: u32,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let endpoint = &EndpointHandle::outside(endpoint)?.endpoint;
        let send = endpoint.send(peer.into(), Tag(tag), bytes(data, length)?);
        match timeout(timeout_ns) {
            Some(within) => send.within(within).wait()?,
            None => send.wait()?,
        }
        Ok(())
    })
}

/// Sends a message, which leaves with the next poll; `callback`, which may be null, gets its end during a
/// later poll. `operation`, which may be null, is its number for `farcall_cancel`, UINT32_MAX if it has ended
/// already. The bytes are copied.
///
/// From the endpoint's thread, also inside a callback. Neither polls nor blocks. Allocates where the bytes
/// must be kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_send_async(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    tag: u32,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
    callback: SentCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let payload = bytes(data, length)?.into();
        begin(endpoint, peer, tag, payload, timeout_ns, callback, context, operation)
    })
}

/// As `farcall_send_async`, with a loan, which is gone in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_send_loan_async(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    tag: u32,
    loan: *mut LoanHandle,
    timeout_ns: u64,
    callback: SentCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let payload = take_loan(loan)?.into();
        begin(endpoint, peer, tag, payload, timeout_ns, callback, context, operation)
    })
}

/// Sends several messages to one peer, in their order; their ends are not reported. `sent`, which may be
/// null, is the number of those that were accepted: the first that was not ends it, and the status says why.
///
/// From the endpoint's thread, not inside a callback. Neither polls nor blocks: poll between batches.
/// Allocates where the bytes must be kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_send_many(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    tag: u32,
    pieces: *const Piece,
    count: usize,
    sent: *mut usize,
) -> Status {
    let mut accepted = 0;
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        let status = guarded(|| {
            let endpoint = &EndpointHandle::outside(endpoint)?.endpoint;
            if pieces.is_null() && count > 0 {
                return Err(FARCALL_INVALID_ARGUMENT);
            }
            for place in 0..count {
                let Piece { data, length } = *pieces.add(place);
                drop(endpoint.send(peer.into(), Tag(tag), bytes(data, length)?).start()?);
                accepted += 1;
            }
            Ok(())
        });
        give(sent, accepted);
        status
    }
}

/// # Safety
/// As of `farcall_send_async`.
#[expect(clippy::too_many_arguments, reason = "those of the function of C")]
#[inline]
unsafe fn begin(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    tag: u32,
    payload: Outgoing<'_>,
    timeout_ns: u64,
    callback: SentCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Result<(), Status> {
    // SAFETY: as promised.
    let handle = unsafe { EndpointHandle::of(endpoint)? };
    let (peer, tag, within) = (peer.into(), Tag(tag), timeout(timeout_ns));
    let Some(callback) = callback else {
        match (handle.inside(), within) {
            (None, None) => drop(handle.endpoint.send(peer, tag, payload).start()?),
            (None, Some(within)) => drop(handle.endpoint.send(peer, tag, payload).within(within).start()?),
            (Some(context), None) => context.send(peer, tag, payload).detach()?,
            (Some(context), Some(within)) => context.send(peer, tag, payload).within(within).detach()?,
        }
        // SAFETY: as promised.
        unsafe { give(operation, u32::MAX) };
        return Ok(());
    };
    let carried = Carried { endpoint, context };
    let end = move |context: &mut Context<'_>, outcome: Result<(), SendError>| {
        let Carried { endpoint, context: user } = carried.get();
        let status = outcome.map_or_else(Status::from, |()| FARCALL_OK);
        // SAFETY: callbacks run in polls, of an endpoint that is open.
        unsafe { &*endpoint }.during(context, || callback(user, endpoint, status));
    };
    let begun = match (handle.inside(), within) {
        (None, None) => handle.endpoint.send(peer, tag, payload).then(end),
        (None, Some(within)) => handle.endpoint.send(peer, tag, payload).within(within).then(end),
        (Some(context), None) => context.send(peer, tag, payload).then(end),
        (Some(context), Some(within)) => context.send(peer, tag, payload).within(within).then(end),
    }?;
    // SAFETY: as promised.
    unsafe { give(operation, begun.map_or(u32::MAX, farcall::Operation::number)) };
    Ok(())
}

/// Waits for a message from `from`, null for any sender, with that tag or FARCALL_ANY_TAG, and copies it into
/// `room` bytes at `into`. `got`, `sender` and `sender_tag` may be null. A message that is longer ends the
/// receive with FARCALL_TRUNCATED and is gone; `got` is its length then.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
/// Does not allocate for what is short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_receive_into(
    endpoint: *mut EndpointHandle,
    from: *const PeerNumbers,
    tag: u64,
    timeout_ns: u64,
    into: *mut c_void,
    room: usize,
    got: *mut usize,
    sender: *mut PeerNumbers,
    sender_tag: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let message = wait(endpoint, from, tag, timeout_ns)?;
        give(sender, message.peer().into());
        give(sender_tag, message.tag().0);
        copy_into(&message, into, room, got)
    })
}

/// As `farcall_receive_into`, and keeps the message, to be released with `farcall_payload_release`; a long
/// one that lies in the sender's memory is not copied. Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_receive(
    endpoint: *mut EndpointHandle,
    from: *const PeerNumbers,
    tag: u64,
    timeout_ns: u64,
    message: *mut *mut PayloadHandle,
    sender: *mut PeerNumbers,
    sender_tag: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if message.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        let received = wait(endpoint, from, tag, timeout_ns)?;
        give(sender, received.peer().into());
        give(sender_tag, received.tag().0);
        let short = PayloadHandle::copy(&received);
        give(message, short.unwrap_or_else(|| PayloadHandle::give(received.take())));
        Ok(())
    })
}

/// # Safety
/// `endpoint` is null or open, `from` null or a peer.
#[inline]
unsafe fn wait<'a>(
    endpoint: *mut EndpointHandle,
    from: *const PeerNumbers,
    tag: u64,
    timeout_ns: u64,
) -> Result<farcall::Message<'a>, Status> {
    // SAFETY: as promised.
    let (endpoint, from) = unsafe { (&EndpointHandle::outside(endpoint)?.endpoint, source(from)) };
    let receive = endpoint.receive(from, tag_choice(tag)?);
    Ok(match timeout(timeout_ns) {
        Some(within) => receive.within(within).wait()?,
        None => receive.wait()?,
    })
}

/// # Safety
/// `from` is null or a peer.
unsafe fn source(from: *const PeerNumbers) -> SourceChoice {
    // SAFETY: as promised.
    unsafe { from.as_ref() }.map_or_else(|| AnySource.into(), |from| farcall::Peer::from(*from).into())
}

fn tag_choice(tag: u64) -> Result<TagChoice, Status> {
    match u32::try_from(tag) {
        Ok(tag) => Ok(Tag(tag).into()),
        Err(_) if tag == FARCALL_ANY_TAG => Ok(AnyTag.into()),
        Err(_) => Err(FARCALL_INVALID_ARGUMENT),
    }
}

/// Asks for a message of at most `room` bytes, or of SIZE_MAX, from `from`, null for any sender,
/// with that tag or FARCALL_ANY_TAG; `callback` gets it, once, during a later poll. A longer one ends the
/// receive with FARCALL_TRUNCATED. `operation`, which may be null, is its number for `farcall_cancel`.
///
/// From the endpoint's thread, also inside a callback. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_receive_async(
    endpoint: *mut EndpointHandle,
    from: *const PeerNumbers,
    tag: u64,
    room: usize,
    timeout_ns: u64,
    callback: MessageCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let (handle, callback) = (EndpointHandle::of(endpoint)?, callback.ok_or(FARCALL_INVALID_ARGUMENT)?);
        let carried = Carried { endpoint, context };
        let end = move |context: &mut Context<'_>, outcome: &ReceiveOutcome<'_>| {
            report(carried, callback, context, outcome.as_ref().copied().map_err(Clone::clone));
        };
        let (from, tag, within) = (source(from), tag_choice(tag)?, timeout(timeout_ns));
        let begun = match (handle.inside(), within) {
            (None, None) => handle.endpoint.receive(from, tag).at_most(room).then(end),
            (None, Some(within)) => handle.endpoint.receive(from, tag).at_most(room).within(within).then(end),
            (Some(context), None) => context.receive(from, tag).at_most(room).then(end),
            (Some(context), Some(within)) => {
                context.receive(from, tag).at_most(room).within(within).then(end)
            }
        }?;
        give(operation, begun.number());
        Ok(())
    })
}

/// Gives messages that no receive waits for to `callback`, during polls, instead of letting them wait.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_on_message(
    endpoint: *mut EndpointHandle,
    callback: MessageCallback,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        let callback = callback.ok_or(FARCALL_INVALID_ARGUMENT)?;
        let carried = Carried { endpoint, context };
        handle.endpoint.on_message(move |context, received| {
            report(carried, callback, context, Ok(received));
        });
        Ok(())
    })
}

/// Gives a callback of C a message, or the reason why there is none.
///
/// # Safety
/// The endpoint is open and in a poll.
#[inline]
unsafe fn report(
    carried: Carried,
    callback: extern "C" fn(*mut c_void, *mut EndpointHandle, *const MessageView),
    context: &mut Context<'_>,
    outcome: ReceiveOutcome<'_>,
) {
    let size = size_of::<MessageView>();
    let source = match outcome {
        Ok(received) => {
            let (peer, tag) = (received.peer().into(), received.tag().0);
            let (data, length) = (received.as_ptr().cast(), received.len());
            let view = MessageView { size, status: FARCALL_OK, tag, peer, data, length };
            MessageSource { view, received: Some(received) }
        }
        Err(error) => {
            let peer = PeerNumbers { session: u32::MAX, rank: u32::MAX, endpoint: u32::MAX };
            let (status, data) = (error.into(), core::ptr::null());
            MessageSource {
                view: MessageView { size, status, tag: 0, peer, data, length: 0 },
                received: None,
            }
        }
    };
    let Carried { endpoint, context: user } = carried.get();
    // SAFETY: as promised.
    unsafe { &*endpoint }.during(context, || callback(user, endpoint, (&raw const source).cast()));
}

/// Takes a message, to be released later; a long one that lies in the sender's memory is not copied.
/// `message` is the pointer that the callback got.
///
/// In the callback. Allocates. Does not block. FARCALL_INVALID_ARGUMENT if there is no message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_message_take(
    message: *const MessageView,
    payload: *mut *mut PayloadHandle,
) -> Status {
    // SAFETY: the library made the message, as a part of what it was made of.
    guarded(|| unsafe {
        let source = message.cast::<MessageSource<'_>>().as_ref().filter(|_| !payload.is_null());
        let received = source.and_then(|source| source.received).ok_or(FARCALL_INVALID_ARGUMENT)?;
        let short = PayloadHandle::copy(&received);
        give(payload, short.unwrap_or_else(|| PayloadHandle::give(received.take())));
        Ok(())
    })
}
