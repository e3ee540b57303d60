//! Whether a shard lives and whether it is of use, for whatever restarts processes and sends them clients.
//!
//! The thread that serves is asked in its own loop, so that a thread that hangs is seen. While nobody asks
//! this costs it a load for each turn.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall_kv::wire::Code;

use crate::failure::Failure;
use crate::http::{Answer, Request, Server, TEXT};

/// A thread that has not turned for as long hangs. Its longest sleep is a tenth of a second.
const LATE: Duration = Duration::from_secs(5);

/// Between two looks for the answer of the thread that serves.
const LOOK: Duration = Duration::from_millis(5);

/// In place of a code: the shard does not serve yet.
const STARTING: u8 = u8::MAX;

/// In place of [`Code::NotPrimary`]: the lease is over because the registry does not answer.
const SILENT_REGISTRY: u8 = u8::MAX - 1;

/// What the thread that serves and those that answer probes share.
pub struct Health {
    asked: AtomicU64,
    answered: AtomicU64,
    /// [`STARTING`], [`SILENT_REGISTRY`], or a [`Code`]: [`Code::Done`] if the shard is of use.
    state: AtomicU8,
}

impl Health {
    /// Answers probes at `HOST:PORT` from now on, and says where.
    pub fn listen(at: &str) -> Result<(Arc<Self>, String), Failure> {
        let server = Server::bind(at)?;
        let at = server.address().to_string();
        let (asked, answered, state) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU8::new(STARTING));
        let health = Arc::new(Self { asked, answered, state });
        let answering = Arc::clone(&health);
        let serve = move || server.serve(&|request: &Request| answering.answer(request));
        thread::Builder::new().name("farcall-health".to_owned()).spawn(serve).map_err(Failure::run)?;
        Ok((health, at))
    }

    /// Whether the thread that serves has something to say: in its first turn, and when it is asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != self.answered.load(Ordering::Relaxed) || self.is_starting()
    }

    /// What keeps the shard from being of use, from the thread that serves, and whether its registry is
    /// silent.
    pub fn tell(&self, hindrance: Option<Code>, is_registry_silent: bool) {
        let asked = self.asked.load(Ordering::Relaxed);
        let state = match hindrance {
            Some(Code::NotPrimary) if is_registry_silent => SILENT_REGISTRY,
            hindrance => hindrance.unwrap_or(Code::Done) as u8,
        };
        self.state.store(state, Ordering::Relaxed);
        self.answered.store(asked, Ordering::Release);
    }

    #[inline]
    fn is_starting(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STARTING
    }

    /// Asks the thread that serves; false if it does not answer.
    fn ask(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let begun = Instant::now();
        while self.answered.load(Ordering::Acquire) < asked {
            if begun.elapsed() >= LATE {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    fn answer(&self, request: &Request) -> Answer {
        let only_lives = match request.path.as_str() {
            "/healthz" => true,
            "/readyz" => false,
            _ => {
                return Answer::not_found(
                    "/healthz says whether the shard lives, /readyz whether it is of use",
                );
            }
        };
        let hindrance = if self.is_starting() {
            (!only_lives).then_some("the shard does not serve yet")
        } else if !self.ask() {
            Some("the thread that serves has not turned for 5 s")
        } else {
            sentence(self.state.load(Ordering::Relaxed)).filter(|_| !only_lives)
        };
        match hindrance {
            None => Answer::good(TEXT, "ok\n".to_owned()),
            Some(sentence) => Answer {
                status: "503 Service Unavailable",
                content_type: TEXT,
                body: format!("{sentence}\n"),
            },
        }
    }
}

/// What keeps a shard from being of use.
fn sentence(state: u8) -> Option<&'static str> {
    match state {
        state if state == Code::Done as u8 => None,
        SILENT_REGISTRY => Some(
            "the registry does not answer, and the lease is over: nothing is read or written until it does",
        ),
        state if state == Code::NotPrimary as u8 => Some("another process is, or may be, the primary"),
        state if state == Code::TooFewReplicas as u8 => {
            Some("too few backups hold the log: no write is taken")
        }
        state if state == Code::LevelNotReached as u8 => {
            Some("backups do not confirm in time: no write reaches its level")
        }
        _ => Some("the disk of durable tables has failed: no write is taken; restart on a sound disk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(health: &Health, path: &str) -> (bool, String) {
        let answer = health.answer(&Request { path: path.to_owned(), ..Request::default() });
        (answer.status == "200 OK", answer.body)
    }

    #[test]
    fn a_shard_lives_before_it_is_of_use_and_is_asked_in_its_turns() {
        let (health, _) = Health::listen("127.0.0.1:0").expect("a free port");
        assert!(get(&health, "/healthz").0);
        assert_eq!(get(&health, "/readyz"), (false, "the shard does not serve yet\n".to_owned()));
        let serve = |hindrance| {
            if health.is_asked() {
                health.tell(hindrance, false);
            }
        };
        serve(None);
        thread::scope(|threads| {
            let asking = threads.spawn(|| (get(&health, "/healthz"), get(&health, "/readyz")));
            while !asking.is_finished() {
                serve(None);
            }
            let ok = (true, "ok\n".to_owned());
            assert_eq!(asking.join().expect("it does not panic"), (ok.clone(), ok));
        });
        thread::scope(|threads| {
            let asking = threads.spawn(|| (get(&health, "/healthz").0, get(&health, "/readyz").1));
            while !asking.is_finished() {
                serve(Some(Code::NotPrimary));
            }
            let said = "another process is, or may be, the primary\n".to_owned();
            assert_eq!(asking.join().expect("it does not panic"), (true, said));
        });
        // Nobody turns it any more.
        assert_eq!(
            get(&health, "/healthz"),
            (false, "the thread that serves has not turned for 5 s\n".to_owned())
        );
        assert!(!get(&health, "/elsewhere").0);
    }

    #[test]
    fn each_hindrance_has_its_sentence() {
        let codes = [Code::NotPrimary, Code::TooFewReplicas, Code::LevelNotReached, Code::DiskFailed];
        for code in codes {
            assert!(sentence(code as u8).is_some(), "{code:?}");
        }
        let said = |hindrance, silent| {
            let (health, _) = Health::listen("127.0.0.1:0").expect("a free port");
            health.tell(hindrance, silent);
            sentence(health.state.load(Ordering::Relaxed)).unwrap_or_default()
        };
        assert!(said(Some(Code::NotPrimary), true).starts_with("the registry does not answer"));
        assert!(said(Some(Code::NotPrimary), false).starts_with("another process"));
        assert_eq!(said(None, true), "", "the lease is not over yet");
        assert_eq!(sentence(Code::Done as u8), None);
    }
}
