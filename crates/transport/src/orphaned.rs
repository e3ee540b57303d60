//! Messages that outlive their session: what a peer sent before it left can still be received, within bounds.

use std::collections::VecDeque;

use farcall_protocol::matching::{Matching, Source};

use crate::SessionId;

/// The most ended sessions of which unexpected messages are kept.
const ORPHANED_SESSIONS_MAX: usize = 64;

/// Ended sessions of which messages may be left, oldest first.
#[derive(Default)]
pub struct Orphaned(VecDeque<(Source, SessionId)>);

impl Orphaned {
    /// A session has ended. If it is one too many, the messages of the one that ended first are forgotten;
    /// `session_of` says which session a message came in.
    pub fn add<M>(
        &mut self,
        matching: &mut Matching<M>,
        source: Source,
        session: SessionId,
        session_of: impl Fn(&M) -> SessionId,
    ) {
        if matching.unexpected() == 0 {
            return self.0.clear();
        }
        self.0.push_back((source, session));
        if self.0.len() > ORPHANED_SESSIONS_MAX
            && let Some((source, oldest)) = self.0.pop_front()
        {
            matching.forget(source, |message| session_of(message) == oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use farcall_protocol::matching::{Pattern, Tag};

    use super::*;

    #[test]
    fn the_messages_of_the_session_that_ended_first_are_forgotten_first() {
        let (mut matching, mut orphaned) = (Matching::new(1), Orphaned::default());
        let source = Source::new(3, 0);
        let ended = (0..=ORPHANED_SESSIONS_MAX as u32).map(SessionId);
        for session in ended.clone() {
            matching.keep(source, Tag(9), session);
            orphaned.add(&mut matching, source, session, |&session| session);
        }
        const ANY: Pattern = Pattern { source: None, tag: None };
        let left: Vec<_> = core::iter::from_fn(|| matching.take(ANY)).map(|kept| kept.message).collect();
        assert_eq!(left, ended.skip(1).collect::<Vec<_>>());
    }
}
