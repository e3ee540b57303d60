//! The sender's loops.

use core::sync::atomic::{AtomicU64, Ordering};

use farcall::{Context, Endpoint, Event, Loan, Peer, SendError, Sending};

use super::work::Limit;
use super::{LoopError, Mode, Share, tag_of, write_number};

/// After so many messages without a poll there is one at the end of the round over all slots, whatever is under way.
const MESSAGES_PER_POLL: u64 = 128;

/// What the slots of a sender have to do.
struct Slots {
    share: Share,
    /// Messages that each slot has sent.
    sent: Vec<u64>,
    /// Messages that no slot has sent yet.
    left: u64,
    payload: Vec<u8>,
}

impl Slots {
    fn new(share: Share) -> Self {
        Self {
            share,
            sent: vec![0; share.slots],
            left: share.messages,
            payload: vec![0; share.message_bytes],
        }
    }

    /// The slot's next message, whose first byte is its number; `None` when the slot has no more.
    #[inline]
    fn next(&mut self, slot: usize) -> Option<&[u8]> {
        let number = self.sent[slot];
        if number == self.share.of_slot(slot) {
            return None;
        }
        self.sent[slot] += 1;
        self.left -= 1;
        write_number(&mut self.payload, number);
        Some(&self.payload)
    }
}

/// Sends all messages of a thread.
pub fn send(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let slots = Slots::new(share);
    match mode {
        Mode::Futures | Mode::Handler => futures(endpoint, peer, slots, limit),
        Mode::Pointer => events(endpoint, peer, slots, limit),
        Mode::Callbacks
        | Mode::CallbacksReaped
        | Mode::CallbacksAvailable
        | Mode::CallbacksResubmit
        | Mode::Dynamic => callbacks(endpoint, peer, mode, slots, limit),
    }
}

fn futures(endpoint: &Endpoint, peer: Peer, mut slots: Slots, limit: &mut Limit) -> Result<(), LoopError> {
    let mut sendings: Vec<Option<Sending<'_>>> = (0..slots.share.slots).map(|_| None).collect();
    let mut left_at_poll = slots.left;
    while slots.left > 0 {
        let mut all_were_free = true;
        for (slot, sending) in sendings.iter_mut().enumerate() {
            if !sending.as_ref().is_none_or(Sending::is_complete) {
                all_were_free = false;
            } else if let Some(payload) = slots.next(slot) {
                let next = endpoint.send(peer, tag_of(slot), payload).start()?;
                let is_under_way = !next.is_complete();
                if let Some(complete) = sending.replace(next) {
                    complete.wait()?;
                }
                // As in plain loops, the library works when there is something that it has not taken yet.
                if is_under_way {
                    limit.look(endpoint.poll(|_, _| {}))?;
                    left_at_poll = slots.left;
                }
            }
        }
        // And where something is still under way, and now and then.
        let mut done = 1;
        if !all_were_free || left_at_poll - slots.left >= MESSAGES_PER_POLL {
            done = endpoint.poll(|_, _| {});
            left_at_poll = slots.left;
        }
        limit.look(done)?;
    }
    for sending in sendings.into_iter().flatten() {
        sending.wait()?;
    }
    Ok(())
}

/// Sends whose ends are events.
struct Posted {
    peer: Peer,
    slots: Slots,
    under_way: u64,
    failure: Option<SendError>,
}

impl Posted {
    /// A slot's send has ended: it sends its next message.
    fn take(&mut self, context: &mut Context<'_>, event: Event<'_>) {
        let Event::Sent { token, outcome } = event else { return };
        self.under_way -= 1;
        if let Err(error) = outcome.and_then(|()| self.send_next(context, token)) {
            self.failure = Some(error);
        }
    }

    fn send_next(&mut self, context: &mut Context<'_>, token: u64) -> Result<(), SendError> {
        let slot = token as usize;
        let Some(payload) = self.slots.next(slot) else { return Ok(()) };
        context.send(self.peer, tag_of(slot), payload).post(token)?;
        self.under_way += 1;
        Ok(())
    }
}

fn events(endpoint: &Endpoint, peer: Peer, slots: Slots, limit: &mut Limit) -> Result<(), LoopError> {
    let mut posted = Posted { peer, slots, under_way: 0, failure: None };
    for slot in 0..posted.slots.share.slots {
        if let Some(payload) = posted.slots.next(slot) {
            endpoint.send(peer, tag_of(slot), payload).post(slot as u64)?;
            posted.under_way += 1;
        }
    }
    let (mut left_at_poll, mut poll_is_due) = (posted.slots.left, true);
    while posted.under_way > 0 {
        if poll_is_due {
            left_at_poll = posted.slots.left;
        }
        let take = |context: &mut Context<'_>, event: Event<'_>| posted.take(context, event);
        let done = if poll_is_due { endpoint.poll(take) } else { endpoint.reap(take) };
        // As with futures: the library works where something is under way, and now and then.
        poll_is_due = done == 0 || left_at_poll - posted.slots.left >= MESSAGES_PER_POLL;
        if let Some(error) = posted.failure {
            return Err(error.into());
        }
        limit.look(done)?;
    }
    endpoint.poll(|_, _| {});
    Ok(())
}

/// A callback frees its slot. Of the mode `Dynamic` each message has memory of its own.
fn callbacks(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    mut slots: Slots,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let (in_rounds, reaps, dynamic) = (mode.is_in_rounds(), mode.reaps(), mode == Mode::Dynamic);
    // A worker process has one run: what its callbacks share is never given back.
    let free: &'static [AtomicU64] =
        (0..slots.share.slots).map(|_| AtomicU64::new(1)).collect::<Vec<_>>().leak();
    let completed: &'static AtomicU64 = Box::leak(Box::default());
    let mut begun = 0;
    let mut left_at_poll = slots.left;
    while slots.left > 0 || completed.load(Ordering::Relaxed) < begun {
        let may_begin = !in_rounds || completed.load(Ordering::Relaxed) == begun;
        for (slot, is_free) in free.iter().enumerate() {
            if !may_begin || is_free.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let Some(payload) = slots.next(slot) else { continue };
            is_free.store(0, Ordering::Relaxed);
            begun += 1;
            let tag = tag_of(slot);
            let send = match dynamic {
                true => endpoint.send(peer, tag, lent(endpoint, payload)?),
                false => endpoint.send(peer, tag, payload),
            };
            let end = move |_: &mut Context<'_>, outcome: Result<(), SendError>| {
                // A failure leaves the slot taken, and the run ends by its limit.
                if outcome.is_ok() {
                    is_free.store(1, Ordering::Relaxed);
                    // No other thread writes here.
                    completed.store(completed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
            };
            let under_way = if reaps { send.then(end) } else { send.now_or_then(end) }?;
            // As in plain loops, the library works when there is something that it has not taken yet.
            if under_way.is_some() {
                limit.look(endpoint.poll(|_, _| {}))?;
                left_at_poll = slots.left;
            }
        }
        let reaped = if reaps { endpoint.reap(|_, _| {}) } else { 0 };
        let mut done = 1;
        // As with futures: where something is under way, and now and then.
        if completed.load(Ordering::Relaxed) < begun || left_at_poll - slots.left >= MESSAGES_PER_POLL {
            done = reaped + endpoint.poll(|_, _| {});
            left_at_poll = slots.left;
        }
        limit.look(done)?;
    }
    endpoint.poll(|_, _| {});
    Ok(())
}

/// A copy in memory that the library owns from now on.
fn lent(endpoint: &Endpoint, payload: &[u8]) -> Result<Loan, LoopError> {
    let mut loan = endpoint.loan(payload.len())?;
    loan.copy_from_slice(payload);
    Ok(loan)
}
