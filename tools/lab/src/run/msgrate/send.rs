//! The sender's loops.
//!
//! None is inlined, as none of the receiver's is.

use core::sync::atomic::{AtomicU64, Ordering};

use farcall::{Context, Endpoint, Event, Loan, Peer, SendError, Sending};

use super::work::Limit;
use super::{LoopError, Mode, Share, tag_of, write_number};

/// After this many messages without a poll there is one at the end of the round over all slots, whatever is
/// in flight.
const MESSAGES_PER_POLL: u64 = 128;

/// What the slots of a sender have to do.
struct Work {
    share: Share,
    /// Messages that no slot has sent yet.
    left: u64,
    payload: Vec<u8>,
}

impl Work {
    fn new(share: Share) -> Self {
        Self { share, left: share.messages, payload: vec![0; share.message_bytes] }
    }

    /// The next message of a slot that has sent this many, which this counts; `None` when the slot has no
    /// more.
    ///
    /// Its first byte is its number.
    #[inline]
    fn next(&mut self, slot: usize, sent: &mut u64) -> Option<&[u8]> {
        let number = *sent;
        if number == self.share.of_slot(slot) {
            return None;
        }
        *sent += 1;
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
    let work = Work::new(share);
    match mode {
        Mode::Futures | Mode::Handler => futures(endpoint, peer, work, limit),
        Mode::Pointer => events(endpoint, peer, work, limit),
        Mode::Callbacks
        | Mode::CallbacksReaped
        | Mode::CallbacksAvailable
        | Mode::CallbacksResubmit
        | Mode::Dynamic => callbacks(endpoint, peer, mode, work, limit),
    }
}

#[inline(never)]
fn futures(endpoint: &Endpoint, peer: Peer, mut work: Work, limit: &mut Limit) -> Result<(), LoopError> {
    let mut slots: Vec<(Option<Sending<'_>>, u64)> = (0..work.share.slots).map(|_| (None, 0)).collect();
    let mut left_at_poll = work.left;
    while work.left > 0 {
        let left_before = work.left;
        let mut all_were_free = true;
        for (slot, (sending, sent)) in slots.iter_mut().enumerate() {
            if let Some(in_flight) = sending.take_if(|sending| sending.is_complete()) {
                in_flight.wait()?;
            } else if sending.is_some() {
                all_were_free = false;
                continue;
            }
            let Some(payload) = work.next(slot, sent) else { continue };
            let next = endpoint.send(peer, tag_of(slot), payload).start()?;
            if next.is_complete() {
                next.wait()?;
                continue;
            }
            // As in plain loops, the library works when there is something that it has not taken yet.
            *sending = Some(next);
            limit.look(1 + endpoint.poll(|_, _| {}))?;
            left_at_poll = work.left;
        }
        // And where something is still in flight, and now and then.
        let mut done = 1;
        if !all_were_free || left_at_poll - work.left >= MESSAGES_PER_POLL {
            done = endpoint.poll(|_, _| {});
            left_at_poll = work.left;
        }
        limit.look(done + (left_before - work.left) as usize)?;
    }
    for sending in slots.into_iter().filter_map(|(sending, _)| sending) {
        sending.wait()?;
    }
    Ok(())
}

/// Sends whose ends are events.
struct Posted {
    peer: Peer,
    work: Work,
    /// Messages that each slot has sent.
    sent: Vec<u64>,
    in_flight: u64,
    failure: Option<SendError>,
}

impl Posted {
    /// A slot's send has ended: it sends its next message.
    fn take(&mut self, context: &mut Context<'_>, event: Event<'_>) {
        let Event::Sent { token, outcome } = event else { return };
        self.in_flight -= 1;
        if let Err(error) = outcome.and_then(|()| self.send_next(context, token)) {
            self.failure = Some(error);
        }
    }

    fn send_next(&mut self, context: &mut Context<'_>, token: u64) -> Result<(), SendError> {
        let slot = token as usize;
        let Some(payload) = self.work.next(slot, &mut self.sent[slot]) else { return Ok(()) };
        context.send(self.peer, tag_of(slot), payload).post(token)?;
        self.in_flight += 1;
        Ok(())
    }
}

#[inline(never)]
fn events(endpoint: &Endpoint, peer: Peer, work: Work, limit: &mut Limit) -> Result<(), LoopError> {
    let sent = vec![0; work.share.slots];
    let mut posted = Posted { peer, work, sent, in_flight: 0, failure: None };
    for (slot, sent) in posted.sent.iter_mut().enumerate() {
        if let Some(payload) = posted.work.next(slot, sent) {
            endpoint.send(peer, tag_of(slot), payload).post(slot as u64)?;
            posted.in_flight += 1;
        }
    }
    let (mut left_at_poll, mut poll_is_due) = (posted.work.left, true);
    while posted.in_flight > 0 {
        if poll_is_due {
            left_at_poll = posted.work.left;
        }
        let take = |context: &mut Context<'_>, event: Event<'_>| posted.take(context, event);
        let done = if poll_is_due { endpoint.poll(take) } else { endpoint.reap(take) };
        // As with futures: the library works where something is in flight, and now and then.
        poll_is_due = done == 0 || left_at_poll - posted.work.left >= MESSAGES_PER_POLL;
        if let Some(error) = posted.failure {
            return Err(error.into());
        }
        limit.look(done)?;
    }
    endpoint.poll(|_, _| {});
    Ok(())
}

/// A callback frees its slot. Of the mode `Dynamic` each message has memory of its own.
#[inline(never)]
fn callbacks(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    mut work: Work,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let (in_rounds, reaps, dynamic) = (mode.is_in_rounds(), mode.reaps(), mode == Mode::Dynamic);
    // A worker process has one run: what its callbacks share is never given back.
    let free: &'static [AtomicU64] =
        (0..work.share.slots).map(|_| AtomicU64::new(1)).collect::<Vec<_>>().leak();
    let mut sent = vec![0; work.share.slots];
    let completed: &'static AtomicU64 = Box::leak(Box::default());
    let mut begun = 0;
    let mut left_at_poll = work.left;
    while work.left > 0 || completed.load(Ordering::Relaxed) < begun {
        let left_before = work.left;
        let may_begin = !in_rounds || completed.load(Ordering::Relaxed) == begun;
        for (slot, (is_free, sent)) in free.iter().zip(&mut sent).enumerate() {
            if !may_begin || is_free.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let Some(payload) = work.next(slot, sent) else { continue };
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
            let in_flight = if reaps { send.then(end) } else { send.now_or_then(end) }?;
            // As in plain loops, the library works when there is something that it has not taken yet.
            if in_flight.is_some() {
                limit.look(1 + endpoint.poll(|_, _| {}))?;
                left_at_poll = work.left;
            }
        }
        let reaped = if reaps { endpoint.reap(|_, _| {}) } else { 0 };
        let mut done = 1;
        // As with futures: where something is in flight, and now and then.
        if completed.load(Ordering::Relaxed) < begun || left_at_poll - work.left >= MESSAGES_PER_POLL {
            done = reaped + endpoint.poll(|_, _| {});
            left_at_poll = work.left;
        }
        limit.look(done + (left_before - work.left) as usize)?;
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
