//! Whether the policy of the store lets a memcached client do what it asks for. Such clients prove no more
//! than those of Redis, and their table is that of Redis' first database.

use farcall::policy::Right;

use super::meta::{Meta, MetaVerb};
use super::parse::Verb;
use crate::resp::{Engine, Session};

/// The right that a request needs on the table, if it needs one.
fn needed(verb: &Verb<'_>) -> Option<Right> {
    match verb {
        // Another time to expire is written, too.
        Verb::Get { exptime, .. } => Some(if exptime.is_some() { Right::Write } else { Right::Read }),
        Verb::Store(_) | Verb::Delete(_) | Verb::Add { .. } | Verb::Touch { .. } | Verb::Flush { .. } => {
            Some(Right::Write)
        }
        Verb::Meta(meta) => Some(needed_by_meta(meta)),
        Verb::Debug(_) | Verb::Statistics(_) => Some(Right::Read),
        Verb::Version | Verb::Verbosity | Verb::Quit | Verb::NoOp => None,
    }
}

fn needed_by_meta(meta: &Meta<'_>) -> Right {
    let changes = meta.options.exptime.or(meta.options.creates).or(meta.options.renews);
    match meta.verb {
        MetaVerb::Get if changes.is_none() => Right::Read,
        MetaVerb::Get | MetaVerb::Set | MetaVerb::Delete | MetaVerb::Add => Right::Write,
    }
}

/// Refuses what the policy does not allow, if there is one, with the line to answer.
pub fn check(engine: &mut Engine, session: &Session, verb: &Verb<'_>) -> Result<(), String> {
    needed(verb).map_or(Ok(()), |right| may(engine, session, right))
}

/// As [`check`], of the client's table.
pub fn may(engine: &mut Engine, session: &Session, right: Right) -> Result<(), String> {
    engine.allows(session, 0, right).map_err(|reason| format!("CLIENT_ERROR {reason}"))
}
