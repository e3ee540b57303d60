//! A server of several threads under one name.
//!
//! Each thread has an endpoint of its own, so that none waits for another's handlers, and all of them are
//! listed under the name. Clients spread their calls over them as over servers on different machines.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Endpoint;
use crate::names::{Drained, ListenError, Listener};
use crate::node::{EndpointError, Node};

/// The most threads of one server.
pub const SERVER_THREADS_MAX: usize = 256;

/// A server on threads, until it is dropped or [leaves](ServerThreads::leave). When it is dropped, sessions
/// end, and with them what has not been answered.
#[must_use = "the server ends when this is dropped"]
pub struct ServerThreads {
    ending: Arc<OnceLock<Ending>>,
    threads: Vec<JoinHandle<Drained>>,
}

/// How a server ends.
#[derive(Clone, Copy)]
enum Ending {
    AtOnce,
    /// When it has answered, within that time.
    Leaving(Duration),
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// More threads than there may be, or none.
    #[error("a server has 1 to {SERVER_THREADS_MAX} threads, not {threads}")]
    Threads {
        /// How many were asked for.
        threads: usize,
    },
    /// A thread has no endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The name cannot be taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no thread to give.
    #[error("cannot start a thread: {reason}")]
    Thread {
        /// The system's own words.
        reason: String,
    },
}

impl Node {
    /// Serves under `name` on so many threads, each with an endpoint over `transport` that `install` gives
    /// its handlers. What handlers share must be safe to share.
    pub fn serve_on(
        &self,
        threads: usize,
        transport: &str,
        name: &str,
        mut install: impl FnMut(&Endpoint),
    ) -> Result<ServerThreads, ServeError> {
        if !(1..=SERVER_THREADS_MAX).contains(&threads) {
            return Err(ServeError::Threads { threads });
        }
        let mut endpoints = Vec::new();
        for _ in 0..threads {
            let endpoint = self.endpoint(transport)?;
            install(&endpoint);
            endpoints.push(endpoint);
        }
        let mut server = ServerThreads { ending: Arc::default(), threads: Vec::new() };
        for endpoint in endpoints {
            let listener = endpoint.listen(name)?;
            server.start(endpoint, listener)?;
        }
        Ok(server)
    }
}

impl ServerThreads {
    fn start(&mut self, endpoint: Endpoint, listener: Listener) -> Result<(), ServeError> {
        let ending = Arc::clone(&self.ending);
        let run = move || {
            endpoint.run_while(|| ending.get().is_none());
            match ending.get() {
                Some(Ending::Leaving(within)) => listener.leave(&endpoint, *within),
                Some(Ending::AtOnce) | None => Drained { unanswered: endpoint.requests_unanswered() },
            }
        };
        let named = std::thread::Builder::new().name("farcall-server".into());
        let thread = named
            .spawn(run)
            .map_err(|error| ServeError::Thread { reason: farcall_base::explained(&error) })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Whether all threads serve: one whose handler panics ends.
    pub fn is_whole(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Leaves before a planned stop, as [`Listener::leave`] does, on all threads at a time.
    ///
    /// # Panics
    /// As the first thread whose handler panicked.
    pub fn leave(mut self, within: Duration) -> Drained {
        // Set once: this takes the server, and dropping it comes after.
        let _set = self.ending.set(Ending::Leaving(within));
        let drained = core::mem::take(&mut self.threads).into_iter().map(|thread| match thread.join() {
            Ok(drained) => drained.unanswered,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Drained { unanswered: drained.sum() }
    }
}

impl Drop for ServerThreads {
    fn drop(&mut self) {
        // Fails when it has left already.
        let _set = self.ending.set(Ending::AtOnce);
        for thread in self.threads.drain(..) {
            // A panic was printed when it happened, and this may be another.
            let _outcome = thread.join();
        }
    }
}
