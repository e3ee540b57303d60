//! Who says what was left out when nothing more of that kind happens: a thread that is there as long as a
//! number waits.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Kind;

/// The kinds of which something was left out. The thread is there while there is one.
static WAITING: Mutex<Vec<&'static Kind>> = Mutex::new(Vec::new());

/// Says at the end of the kind's period what was left out of it.
pub fn remind(kind: &'static Kind) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.iter().any(|other| core::ptr::eq(*other, kind)) {
        return;
    }
    waiting.push(kind);
    if waiting.len() == 1 {
        let thread = std::thread::Builder::new().name("farcall-said".to_owned());
        if thread.spawn(say_numbers).is_err() {
            // The next message of the kind says it.
            waiting.clear();
        }
    }
}

fn say_numbers() {
    while let Some(end) = first_end() {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for kind in waiting {
            let left_out = kind.limiter().end(Instant::now());
            left_out.into_iter().for_each(|left_out| kind.say_left_out(left_out));
        }
    }
}

/// When the first period ends of which something was left out. With none of them the thread ends, and the
/// next reminder starts another one.
fn first_end() -> Option<Instant> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain(|kind| kind.limiter().has_left_out());
    waiting.iter().filter_map(|kind| kind.limiter().ends_at()).min()
}
