//! The receiver's loops.
//!
//! None is inlined: compiled into one function they would take each other's registers.

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use farcall::{Context, Endpoint, Event, Peer, ReceiveOutcome, Receiving};
use farcall_limit::read_every_word;

use super::work::Limit;
use super::{LoopError, Mode, READY, Share, tag_of};

/// Receives all messages of a thread. Says that it is ready when its first receives are posted.
pub fn receive(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    match share.handler.is_zero() {
        true => receive_by::<false>(endpoint, peer, mode, share, limit),
        false => receive_by::<true>(endpoint, peer, mode, share, limit),
    }
}

/// Loops that work on each message are apart: the others are not to ask.
fn receive_by<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    match mode {
        Mode::Futures => futures::<WORKS>(endpoint, peer, share, limit),
        Mode::Pointer => events::<WORKS>(endpoint, peer, share, limit),
        Mode::Handler => handler::<WORKS>(endpoint, peer, share, limit),
        Mode::Callbacks | Mode::CallbacksReaped | Mode::CallbacksAvailable | Mode::Dynamic => {
            callbacks::<WORKS>(endpoint, peer, mode, share, limit)
        }
        Mode::CallbacksResubmit => resubmit::<WORKS>(endpoint, peer, share, limit),
    }
}

/// Reads a message, and works on it if it is to; whether it is the slot's message of that number.
#[inline]
pub(super) fn look_at<const WORKS: bool>(message: &[u8], share: &Share, number: u64) -> bool {
    black_box(read_every_word(message));
    if WORKS {
        work_on(share.handler);
    }
    message.len() == share.message_bytes && message.first().is_none_or(|&first| first == number as u8)
}

/// Keeps the core at work for that long.
fn work_on(handler: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < handler {
        spin_loop();
    }
}

fn say_ready(endpoint: &Endpoint, peer: Peer) -> Result<(), LoopError> {
    Ok(endpoint.send(peer, READY, b"").wait()?)
}

#[inline(never)]
fn futures<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let post = |slot| endpoint.receive(peer, tag_of(slot)).start();
    let posted = (0..share.used_slots()).map(|slot| post(slot).map(|receiving| (Some(receiving), 0_u64)));
    let mut slots: Vec<(Option<Receiving<'_>>, u64)> = posted.collect::<Result<_, _>>()?;
    say_ready(endpoint, peer)?;
    let mut left = share.messages;
    while left > 0 {
        let left_before = left;
        for (slot, (receiving, received)) in slots.iter_mut().enumerate() {
            let Some(complete) = receiving.take_if(|receiving| receiving.is_complete()) else { continue };
            if !look_at::<WORKS>(&complete.wait()?, &share, *received) {
                return Err(LoopError::Wrong);
            }
            *received += 1;
            left -= 1;
            if *received < share.of_slot(slot) {
                *receiving = Some(post(slot)?);
            }
        }
        // As in plain loops, the library works when it has not brought yet what is waited for.
        let first = slots.first().and_then(|(receiving, _)| receiving.as_ref());
        let is_there = first.is_some_and(Receiving::is_complete);
        let done = if is_there { 1 } else { endpoint.poll(|_, _| {}) };
        limit.look(done + (left_before - left) as usize)?;
    }
    Ok(())
}

#[inline(never)]
fn events<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let mut received = vec![0_u64; share.slots];
    for slot in 0..share.used_slots() {
        endpoint.receive(peer, tag_of(slot)).post(slot as u64)?;
    }
    say_ready(endpoint, peer)?;
    let mut left = share.messages;
    let mut failure = None;
    while left > 0 {
        let done = endpoint.poll(|context, event| {
            let Event::Received { token, outcome } = event else { return };
            let slot = token as usize;
            match outcome {
                Ok(message) if look_at::<WORKS>(message, &share, received[slot]) => {}
                Ok(_) => failure = Some(LoopError::Wrong),
                Err(error) => failure = Some(error.clone().into()),
            }
            received[slot] += 1;
            left -= 1;
            if received[slot] < share.of_slot(slot)
                && let Err(error) = context.receive(peer, tag_of(slot)).post(token)
            {
                failure = Some(error.into());
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        limit.look(done)?;
    }
    Ok(())
}

#[inline(never)]
fn handler<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let state = State::shared(share);
    let mut numbers = vec![0_u64; share.slots];
    endpoint.on_message(move |_, message| {
        let slot = message.tag().0 as usize;
        state.note(slot < numbers.len() && look_at::<WORKS>(&message, &state.share, numbers[slot]));
        if let Some(number) = numbers.get_mut(slot) {
            *number += 1;
        }
    });
    say_ready(endpoint, peer)?;
    state.poll_until_all(endpoint, limit)
}

/// A callback frees its slot.
#[inline(never)]
fn callbacks<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    mode: Mode,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    let (in_rounds, reaps) = (mode.is_in_rounds(), mode.reaps());
    let state = State::shared(share);
    let mut begun = vec![0_u64; share.slots];
    let (mut begun_total, mut is_ready) = (0, false);
    while state.received() < share.messages {
        let mut done = 0;
        if !in_rounds || state.received() == begun_total {
            for (slot, (begun, number)) in begun.iter_mut().zip(&state.numbers).enumerate() {
                let is_free = number.load(Ordering::Relaxed) == *begun;
                if !is_free || *begun == share.of_slot(slot) {
                    continue;
                }
                *begun += 1;
                begun_total += 1;
                let receive = endpoint.receive(peer, tag_of(slot));
                let take = move |_: &mut Context<'_>, outcome: &ReceiveOutcome<'_>| {
                    _ = state.take::<WORKS>(number, outcome)
                };
                if reaps {
                    receive.then(take)?;
                } else if receive.now_or_then(take)?.is_none() {
                    done += 1;
                }
            }
        }
        if !is_ready {
            is_ready = true;
            say_ready(endpoint, peer)?;
        }
        // What lies there needs no work of the library.
        if reaps {
            done = endpoint.reap(|_, _| {});
        }
        state.look(if done == 0 { endpoint.poll(|_, _| {}) } else { done }, limit)?;
    }
    Ok(())
}

#[inline(never)]
fn resubmit<const WORKS: bool>(
    endpoint: &Endpoint,
    peer: Peer,
    share: Share,
    limit: &mut Limit,
) -> Result<(), LoopError> {
    fn again<const WORKS: bool>(
        context: &mut Context<'_>,
        peer: Peer,
        slot: usize,
        state: &'static State,
        outcome: &ReceiveOutcome<'_>,
    ) {
        if state.take::<WORKS>(&state.numbers[slot], outcome) < state.share.of_slot(slot) {
            let posted = context
                .receive(peer, tag_of(slot))
                .then(move |context, outcome| again::<WORKS>(context, peer, slot, state, outcome));
            if posted.is_err() {
                state.failed.store(true, Ordering::Relaxed);
            }
        }
    }
    let state = State::shared(share);
    for slot in 0..share.used_slots() {
        endpoint
            .receive(peer, tag_of(slot))
            .then(move |context, outcome| again::<WORKS>(context, peer, slot, state, outcome))?;
    }
    say_ready(endpoint, peer)?;
    state.poll_until_all(endpoint, limit)
}

/// What callbacks and their loop share. Only one thread writes to it.
struct State {
    share: Share,
    /// Messages that each slot has received.
    numbers: Vec<AtomicU64>,
    received: AtomicU64,
    failed: AtomicBool,
}

impl State {
    /// A worker process has one run: what its callbacks share is never given back.
    fn shared(share: Share) -> &'static Self {
        Box::leak(Box::new(Self {
            share,
            numbers: (0..share.slots).map(|_| AtomicU64::new(0)).collect(),
            received: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }))
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    #[inline]
    fn note(&self, is_right: bool) {
        if !is_right {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.received.store(self.received() + 1, Ordering::Relaxed);
    }

    /// Takes the next message of a slot; gives how many it has then.
    #[inline]
    fn take<const WORKS: bool>(&self, numbers: &AtomicU64, outcome: &ReceiveOutcome<'_>) -> u64 {
        let number = numbers.load(Ordering::Relaxed);
        self.note(outcome.as_ref().is_ok_and(|message| look_at::<WORKS>(message, &self.share, number)));
        numbers.store(number + 1, Ordering::Relaxed);
        number + 1
    }

    fn poll(&self, endpoint: &Endpoint, limit: &mut Limit) -> Result<(), LoopError> {
        self.look(endpoint.poll(|_, _| {}), limit)
    }

    fn look(&self, done: usize, limit: &mut Limit) -> Result<(), LoopError> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(LoopError::Wrong);
        }
        limit.look(done)
    }

    fn poll_until_all(&self, endpoint: &Endpoint, limit: &mut Limit) -> Result<(), LoopError> {
        while self.received() < self.share.messages {
            self.poll(endpoint, limit)?;
        }
        Ok(())
    }
}
