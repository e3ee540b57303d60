//! Who says what was left out when nothing more of that kind happens: a thread that is there as long as a
//! number waits. A forked child has the list of its parent and no thread: it begins with an empty one.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Kind;

/// The kinds of which something was left out.
struct Waiting {
    /// The process whose list this is: its thread is there while there is a kind.
    process: u32,
    kinds: Vec<&'static Kind>,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { process: 0, kinds: Vec::new() });

impl Waiting {
    /// Adds a kind, unless it is there; says whether a thread is to be started for it.
    fn add(&mut self, process: u32, kind: &'static Kind) -> bool {
        if self.process != process {
            *self = Self { process, kinds: Vec::new() };
        }
        if self.kinds.iter().any(|other| core::ptr::eq(*other, kind)) {
            return false;
        }
        self.kinds.push(kind);
        self.kinds.len() == 1
    }
}

/// Says at the end of the kind's period what was left out of it.
pub fn remind(kind: &'static Kind) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.add(std::process::id(), kind) {
        let thread = std::thread::Builder::new().name("farcall-said".to_owned());
        if thread.spawn(say_numbers).is_err() {
            // The next message of the kind says it.
            waiting.kinds.clear();
        }
    }
}

fn say_numbers() {
    while let Some(end) = first_end() {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let kinds = WAITING.lock().unwrap_or_else(PoisonError::into_inner).kinds.clone();
        for kind in kinds {
            let left_out = kind.limiter().end(Instant::now());
            left_out.into_iter().for_each(|left_out| kind.say_left_out(left_out));
        }
    }
}

/// When the first period ends of which something was left out. With none of them the thread ends, and the
/// next reminder starts another one.
fn first_end() -> Option<Instant> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.kinds.retain(|kind| kind.limiter().has_left_out());
    waiting.kinds.iter().filter_map(|kind| kind.limiter().ends_at()).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::Level;

    #[test]
    fn a_forked_child_has_no_thread_and_starts_its_own() {
        static ONE: Kind = Kind::new(Level::Warning, "ones");
        static OTHER: Kind = Kind::new(Level::Warning, "others");
        let mut waiting = Waiting { process: 0, kinds: Vec::new() };
        let added = [(7, &ONE), (7, &ONE), (7, &OTHER), (8, &ONE), (8, &ONE), (8, &OTHER)];
        let started = added.map(|(process, kind)| waiting.add(process, kind));
        assert_eq!(started, [true, false, false, true, false, false]);
        assert_eq!(waiting.kinds.len(), 2);
    }
}
