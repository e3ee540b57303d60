//! Two threads on two cores that start together.

use std::sync::Barrier;
use std::thread;

use crate::{Core, CorePair, CoresError, LimitError, pin_to};

/// Runs `initiator` and `responder` at the same time, each pinned to its core, and returns what the initiator
/// found.
///
/// Neither side starts before both are pinned; when one cannot be, neither starts.
pub(crate) fn run_pair<Found, Done>(
    cores: CorePair,
    initiator: impl FnOnce() -> Found + Send,
    responder: impl FnOnce() -> Done + Send,
) -> Result<(Found, Done), LimitError>
where
    Found: Send,
    Done: Send,
{
    let start = Start { barrier: Barrier::new(2), refusal: std::sync::Mutex::new(None) };
    thread::scope(|scope| {
        let responder = scope.spawn(|| start.pinned_to(cores.responder).map(|()| responder()));
        let initiator = scope.spawn(|| start.pinned_to(cores.initiator).map(|()| initiator()));
        let found = initiator.join().expect("a bare loop does not panic")?;
        let done = responder.join().expect("a bare loop does not panic")?;
        Ok((found, done))
    })
}

/// Where the two sides meet before they start.
struct Start {
    barrier: Barrier,
    refusal: std::sync::Mutex<Option<CoresError>>,
}

impl Start {
    /// Pins the calling thread and waits for the other side; fails on both sides when either cannot be
    /// pinned.
    fn pinned_to(&self, core: Core) -> Result<(), LimitError> {
        let refusal = || self.refusal.lock().expect("nothing panics while it holds the lock");
        if let Err(error) = pin_to(core) {
            *refusal() = Some(error);
        }
        self.barrier.wait();
        refusal().clone().map_or(Ok(()), |error| Err(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_cores;

    #[test]
    fn both_sides_run_where_they_should() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let (initiator, responder) =
            run_pair(cores, allowed_cores, allowed_cores).expect("both can be pinned");
        assert_eq!(initiator, Ok(vec![cores.initiator]));
        assert_eq!(responder, Ok(vec![cores.responder]));
    }

    #[test]
    fn neither_side_starts_when_one_cannot_be_pinned() {
        let allowed = allowed_cores().expect("the mask can be read")[0];
        let nowhere = Core(usize::MAX);
        for cores in [
            CorePair { initiator: nowhere, responder: allowed },
            CorePair { initiator: allowed, responder: nowhere },
        ] {
            let outcome =
                run_pair(cores, || unreachable!("must not start"), || unreachable!("must not start"));
            assert!(
                matches!(outcome, Err(LimitError::Cores(CoresError::NotAllowed { core, .. })) if core == nowhere)
            );
        }
    }
}
