//! Slots with nothing behind them: how many requests a second two cores can exchange through a line for each
//! request and a line for each response.
//!
//! The client keeps as many requests in flight as there are slots. Both sides look at nothing but the slot
//! that comes next, and fetch lines a few slots ahead, for reading and for writing. What a request and its
//! response say is as long as a short key with a short value, and a version with a short value.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::memory::{LINE_BYTES, SharedMemory};
use crate::pair::run_pair;
use crate::{CorePair, LimitError};

/// Words of a request and of a response; the line's first word says whose turn it is.
const REQUEST_WORDS: usize = 4;
const RESPONSE_WORDS: usize = 2;

/// How many slots ahead lines are fetched.
const SLOTS_AHEAD: usize = 4;

/// Requests that a client with this many slots gets answered in a second, over `requests` of them.
///
/// # Panics
/// When there are no slots.
pub fn slot_rate(cores: CorePair, slots: usize, requests: u64) -> Result<f64, LimitError> {
    assert!(slots > 0, "a client has slots");
    let memory = SharedMemory::new(2 * slots * LINE_BYTES)?;
    let is_over = AtomicBool::new(false);
    let (seconds, ()) = run_pair(
        cores,
        || {
            let seconds = ask(&memory, slots, requests);
            is_over.store(true, Ordering::Relaxed);
            seconds
        },
        || answer(&memory, slots, &is_over),
    )?;
    Ok(requests as f64 / seconds)
}

/// The words of a slot's line: first come the requests' lines, then the responses'.
#[inline(always)]
fn line<'m>(memory: &'m SharedMemory, line: usize) -> impl Fn(usize) -> &'m AtomicU64 {
    move |word| memory.word(line * LINE_BYTES + word * 8)
}

/// Writes a message of this many words, and then the round that it belongs to.
#[inline(always)]
fn write<'m>(line: impl Fn(usize) -> &'m AtomicU64, words: usize, round: u64, value: u64) {
    (1..=words).for_each(|word| line(word).store(value, Ordering::Relaxed));
    line(0).store(round, Ordering::Release);
}

/// Reads such a message.
#[inline(always)]
fn read<'m>(line: impl Fn(usize) -> &'m AtomicU64, words: usize) -> u64 {
    (1..=words).fold(0, |value, word| value ^ line(word).load(Ordering::Relaxed))
}

fn ask(memory: &SharedMemory, slots: usize, requests: u64) -> f64 {
    let put = |slot, round, value| write(line(memory, slot), REQUEST_WORDS, round, value);
    let begun = Instant::now();
    (0..slots).for_each(|slot| put(slot, 1, 1));
    let (mut slot, mut round) = (0, 1);
    for _ in 0..requests {
        let response = line(memory, slots + slot);
        while response(0).load(Ordering::Acquire) != round {}
        let ahead = slot_ahead(slot, slots);
        prefetch(memory, slots + ahead);
        claim(memory, ahead);
        let value = read(response, RESPONSE_WORDS);
        put(slot, round + 1, value);
        slot += 1;
        if slot == slots {
            (slot, round) = (0, round + 1);
        }
    }
    begun.elapsed().as_secs_f64()
}

fn answer(memory: &SharedMemory, slots: usize, is_over: &AtomicBool) {
    let (mut slot, mut round) = (0, 1);
    loop {
        let request = line(memory, slot);
        while request(0).load(Ordering::Acquire) != round {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
        let ahead = slot_ahead(slot, slots);
        prefetch(memory, ahead);
        claim(memory, slots + ahead);
        let value = read(request, REQUEST_WORDS);
        write(line(memory, slots + slot), RESPONSE_WORDS, round, value);
        slot += 1;
        if slot == slots {
            (slot, round) = (0, round + 1);
        }
    }
}

/// The slot whose lines are fetched; with so few that there is none ahead, it is this one.
#[inline(always)]
fn slot_ahead(slot: usize, slots: usize) -> usize {
    let ahead = slot + SLOTS_AHEAD;
    let ahead = if ahead < slots { ahead } else { ahead.wrapping_sub(slots) };
    if ahead < slots { ahead } else { slot }
}

/// Starts to fetch a line for reading.
#[inline(always)]
fn prefetch(memory: &SharedMemory, line: usize) {
    let line = memory.bytes_at(line * LINE_BYTES, LINE_BYTES);
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "prefetching is an intrinsic")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The same for writing.
#[inline(always)]
fn claim(memory: &SharedMemory, line: usize) {
    let line = memory.bytes_at(line * LINE_BYTES, LINE_BYTES);
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the prefetch intrinsics ask for a shared copy, which does not help")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address, and every 64-bit
    // processor takes the instruction (at worst as a no-op).
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_with_any_number_of_slots() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for slots in [1, 3, 16] {
            // Few: on a machine with other work every one may have to wait for a core.
            let rate = slot_rate(cores, slots, 50).expect("both cores can be had");
            assert!(rate.is_finite() && rate > 0.0);
        }
    }
}
