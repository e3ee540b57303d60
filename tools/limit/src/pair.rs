//! Threads on cores of their own that start together.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use crate::{Core, CorePair, LimitError, pin_to};

/// Runs `initiator` and `responder` at the same time, each pinned to its core, and returns what the initiator
/// found.
///
/// Neither side starts before both are pinned; when one cannot be, or has no thread, neither starts.
pub(crate) fn run_pair<Found, Done>(
    cores: CorePair,
    initiator: impl FnOnce() -> Found + Send,
    responder: impl FnOnce() -> Done + Send,
) -> Result<(Found, Done), LimitError>
where
    Found: Send,
    Done: Send,
{
    let (found, mut done) = run_star((cores.initiator, initiator), [(cores.responder, responder)])?;
    Ok((found, done.pop().expect("there is one responder")))
}

/// As [`run_pair`], with any number of responders.
pub(crate) fn run_star<Found, Done>(
    (core, initiator): (Core, impl FnOnce() -> Found + Send),
    responders: impl IntoIterator<Item = (Core, impl FnOnce() -> Done + Send)>,
) -> Result<(Found, Vec<Done>), LimitError>
where
    Found: Send,
    Done: Send,
{
    thread::scope(|scope| {
        // A side that is dropped on the way out of here ends without having started.
        let responders = responders.into_iter().map(|(core, responder)| Side::new(scope, core, responder));
        let responders = responders.collect::<Result<Vec<_>, _>>()?;
        let initiator = Side::new(scope, core, initiator)?;
        responders.iter().try_for_each(Side::await_pinned)?;
        initiator.await_pinned()?;
        let responders: Vec<_> = responders.into_iter().map(Side::start).collect();
        let found = ended(initiator.start());
        Ok((found, responders.into_iter().map(ended).collect()))
    })
}

/// What a side that was started has found.
fn ended<Done>(side: ScopedJoinHandle<'_, Option<Done>>) -> Done {
    side.join().expect("a bare loop does not panic").expect("it was started")
}

/// A thread that is pinned and waits to be started. It ends when it is dropped before that.
struct Side<'scope, Done> {
    pinned: Receiver<Result<(), LimitError>>,
    start: SyncSender<()>,
    thread: ScopedJoinHandle<'scope, Option<Done>>,
}

impl<'scope, Done: Send + 'scope> Side<'scope, Done> {
    fn new(
        scope: &'scope Scope<'scope, '_>,
        core: Core,
        run: impl FnOnce() -> Done + Send + 'scope,
    ) -> Result<Self, LimitError> {
        let ((report, pinned), (start, started)) = (sync_channel(1), sync_channel(1));
        let life = move || {
            // Nobody may want to know any more; then nobody starts this side either.
            let _ = report.send(pin_to(core).map_err(LimitError::from));
            started.recv().ok().map(|()| run())
        };
        let thread = thread::Builder::new()
            .spawn_scoped(scope, life)
            .map_err(|error| LimitError::Thread { reason: error.to_string() })?;
        Ok(Self { pinned, start, thread })
    }

    fn await_pinned(&self) -> Result<(), LimitError> {
        self.pinned.recv().expect("pinning does not panic")
    }

    fn start(self) -> ScopedJoinHandle<'scope, Option<Done>> {
        // It waits for exactly this.
        let _ = self.start.send(());
        self.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoresError, allowed_cores};

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
