//! How a caller waits: by a sleep of its task or thread, or awake while its waits are short.
//!
//! The endpoint's thread finds the answer and then has to wake the caller, which takes longer than a call. A
//! caller that is polled again and again needs no wake-up. Only one that is the only one of its client does
//! so: of several, each would be polled without result for all others. Nor does one in the endpoint's own
//! thread, which would hold up what it waits for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use farcall_base::Instant;

use crate::endpoint::{Idler, Step};

/// The callers of a client that wait.
pub struct Watch {
    /// `None` where callers sleep.
    idler: Option<Mutex<Idler>>,
    waiting: AtomicUsize,
    /// The endpoint's thread.
    owner: ThreadId,
}

impl Watch {
    /// Of callers that wait in this way, made in the endpoint's thread.
    pub fn new(idler: Option<Idler>) -> Self {
        Self { idler: idler.map(Mutex::new), waiting: AtomicUsize::new(0), owner: thread::current().id() }
    }

    fn idler(&self) -> Option<MutexGuard<'_, Idler>> {
        // No code of others runs while it is locked.
        self.idler.as_ref().map(|idler| idler.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A caller begins to wait.
    pub fn begin(&self) {
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        if others == 0
            && let Some(mut idler) = self.idler()
        {
            idler.restart();
        }
    }

    /// Whether a caller that waits looks again at once, instead of when it is woken.
    pub fn goes_on(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.waiting.load(Ordering::Relaxed) != 1 || thread::current().id() == self.owner {
            return false;
        }
        self.idler().is_some_and(|mut idler| idler.idle(now()) != Step::Sleep)
    }

    /// A caller waits no more. The wait of the one that is left begins then: before, it slept.
    pub fn end(&self, now: impl FnOnce() -> Instant) {
        match (self.waiting.fetch_sub(1, Ordering::Relaxed), self.idler()) {
            (1, Some(mut idler)) => idler.found(now()),
            (2, Some(mut idler)) => idler.restart(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::parameters::Idle;

    const MOST: Duration = Duration::from_micros(200);

    fn watch_after_short_waits() -> (Watch, Instant) {
        let idler = Idler::new(Idle::Block, Duration::ZERO, MOST).of_callers();
        let watch = thread::spawn(move || Watch::new(idler)).join().expect("a thread for the endpoint");
        let mut now = Instant::from_nanos(1);
        for _ in 0..8 {
            watch.begin();
            assert!(!watch.goes_on(|| now), "nothing says that it will be short");
            now += MOST / 2;
            watch.end(|| now);
        }
        (watch, now)
    }

    #[test]
    fn a_caller_whose_waits_were_short_waits_awake_up_to_the_most() {
        let (watch, now) = watch_after_short_waits();
        watch.begin();
        assert!(watch.goes_on(|| now));
        assert!(watch.goes_on(|| now + MOST / 2));
        assert!(!watch.goes_on(|| now + MOST));
    }

    #[test]
    fn callers_that_are_several_sleep() {
        let (watch, now) = watch_after_short_waits();
        watch.begin();
        assert!(watch.goes_on(|| now));
        watch.begin();
        assert!(!watch.goes_on(|| now));
        watch.end(|| now + MOST);
        assert!(watch.goes_on(|| now + MOST), "the wait of the one that is left begins");
    }

    #[test]
    fn a_caller_in_the_thread_of_the_endpoint_sleeps() {
        let (watch, now) = watch_after_short_waits();
        let watch = Watch { owner: thread::current().id(), ..watch };
        watch.begin();
        assert!(!watch.goes_on(|| now), "nobody else would poll the endpoint");
    }

    #[test]
    fn callers_of_an_endpoint_that_never_blocks_sleep() {
        let watch = Watch::new(Idler::new(Idle::Spin, Duration::ZERO, MOST).of_callers());
        for _ in 0..9 {
            watch.begin();
            assert!(!watch.goes_on(|| Instant::ZERO));
            watch.end(|| Instant::ZERO);
        }
    }
}
