//! Whether the processes of silent peers live.
//!
//! An endpoint that is not polled sends nothing. Its process may answer for it: a watch says where, and asks
//! the processes of others. Nothing of it is on the path of messages: a transport turns to its watch when a
//! peer has been silent for half of the limit, and at the times at which it judges peers.

use farcall_base::Instant;
use farcall_protocol::session::{LifeQuestion, SessionId, Sessions};
use farcall_protocol::wire::LifePort;

/// Answers for one endpoint, and asks for it. Never blocks.
pub trait LifeWatch: Send {
    /// Where this process answers for the endpoint; `None` when it cannot.
    fn port(&self) -> Option<LifePort>;

    /// Begins to ask a peer's process. There may be no answer.
    fn ask(&mut self, question: LifeQuestion);

    /// The next answer that came.
    fn next_answer(&mut self) -> Option<LifeAnswer>;
}

/// What was learnt of a peer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeAnswer {
    /// Whose peer it is.
    pub session: SessionId,
    /// Whether its process lives and still has its endpoint.
    pub is_alive: bool,
}

/// The watch of a transport that may have none.
#[derive(Default)]
pub(crate) struct Watching(Option<Box<dyn LifeWatch>>);

impl Watching {
    /// From now on peers learn of this watch.
    pub(crate) fn by(watch: Box<dyn LifeWatch>) -> Self {
        Self(Some(watch))
    }

    /// Judges the peers whose time has come, by what is known of their processes.
    pub(crate) fn judge(&mut self, sessions: &mut Sessions, now: Instant) {
        let Some(watch) = &mut self.0 else { return sessions.handle_timeout(now) };
        while let Some(LifeAnswer { session, is_alive }) = watch.next_answer() {
            if is_alive {
                sessions.found_alive(session, now);
            } else {
                sessions.found_gone(session);
            }
        }
        sessions.handle_timeout(now);
        while let Some(question) = sessions.poll_question() {
            watch.ask(question);
        }
    }
}
