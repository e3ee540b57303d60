//! How operations fail, in the words of somebody who uses a store, and with the status that scripts look at.

use core::error::Error;

use farcall::CallError;
use farcall::bootstrap::HostPort;
use farcall_base::printable;
use farcall_kv::daemon::SlotFailure;
use farcall_kv::store::{IncrementError, ReadError, WriteError};
use farcall_kv::{CreateTableAtError, Failure as KvFailure};

use super::place::unreachable;
use crate::failure::{Failure, Outcome};

/// What an operation was about, for the sentence.
#[derive(Clone, Copy)]
pub struct About<'a> {
    pub at: &'a HostPort,
    pub table: &'a str,
}

/// A refusal of the store.
pub trait Refusal: Error {
    /// What it means to somebody who asked about that table.
    fn meaning(&self, table: &str) -> Failure;
}

impl Refusal for ReadError {
    fn meaning(&self, table: &str) -> Failure {
        match self {
            Self::UnknownTable => no_table(table),
            Self::DiskFailed | Self::Collection | Self::TooLong => Failure::run(self),
        }
    }
}

impl Refusal for WriteError {
    fn meaning(&self, table: &str) -> Failure {
        match self {
            Self::UnknownTable => no_table(table),
            Self::WrongVersion { version } => {
                let found = match version {
                    0 => "there is no such object".to_owned(),
                    version => format!("the object has version {version}"),
                };
                Failure::Outcome(Outcome::ConditionFailed, format!("the condition does not hold: {found}"))
            }
            Self::OutOfMemory | Self::SameHash | Self::LogFull | Self::DiskFailed | Self::TooLong => {
                Failure::run(self)
            }
        }
    }
}

impl Refusal for IncrementError {
    fn meaning(&self, table: &str) -> Failure {
        match self {
            Self::Write(error) => error.meaning(table),
            Self::NotANumber | Self::Overflow => Failure::run(self),
        }
    }
}

impl Refusal for CreateTableAtError {
    fn meaning(&self, _: &str) -> Failure {
        Failure::run(self)
    }
}

/// How an operation failed.
pub trait Failed {
    /// The sentence and status for it.
    fn explained(&self, about: About<'_>) -> Failure;
}

impl<E: Refusal> Failed for KvFailure<E> {
    fn explained(&self, about: About<'_>) -> Failure {
        let no_answer = || unreachable(format!("the store at {} does not answer: {self}", about.at));
        match self {
            Self::Store(refusal) => refusal.meaning(about.table),
            Self::NotConnected(_) => no_answer(),
            Self::NoAnswer(CallError::TimedOut | CallError::PeerDown(_) | CallError::NotSent(_)) => {
                no_answer()
            }
            Self::NotReplicated(why) => level_not_reached(about, why),
            Self::Forgotten => no_answer(),
            Self::NoAnswer(_)
            | Self::WrongShard
            | Self::Busy
            | Self::NotAllowed { .. }
            | Self::Misunderstood => Failure::run(self),
        }
    }
}

impl<E: Refusal> Failed for SlotFailure<E> {
    fn explained(&self, about: About<'_>) -> Failure {
        match self {
            Self::Store(refusal) => refusal.meaning(about.table),
            Self::NotReplicated(why) => level_not_reached(about, why),
            Self::NoAnswer | Self::NotPassedOn | Self::TimedOut { .. } | Self::DaemonGone(_) => {
                unreachable(format!("the store at {} does not answer: {self}", about.at))
            }
            Self::RequestTooLong { .. }
            | Self::Full { .. }
            | Self::Busy
            | Self::AnswerTooLong
            | Self::NotAllowed
            | Self::Misunderstood => Failure::run(self),
        }
    }
}

/// The replicas of a shard do not allow it.
fn level_not_reached(about: About<'_>, why: &impl Error) -> Failure {
    let sentence = format!("the store at {}: {why}; `farcall kv status` says what it lacks", about.at);
    Failure::Outcome(Outcome::LevelNotReached, sentence)
}

/// There is no such table.
pub fn no_table(table: &str) -> Failure {
    Failure::Outcome(Outcome::NotFound, format!("there is no table `{}`", printable(table)))
}

#[cfg(test)]
mod tests {
    use farcall_kv::wire::NotReplicated;

    use super::*;

    fn explained(failed: &impl Failed) -> Failure {
        let at = HostPort::parse("box:7117").expect("a place");
        failed.explained(About { at: &at, table: "users" })
    }

    #[test]
    fn what_scripts_tell_apart_has_an_outcome() {
        let outcome = |failed: &KvFailure<WriteError>| match explained(failed) {
            Failure::Outcome(outcome, _) => Some(outcome),
            _ => None,
        };
        let store = KvFailure::Store;
        assert_eq!(outcome(&store(WriteError::UnknownTable)), Some(Outcome::NotFound));
        let wrong = store(WriteError::WrongVersion { version: 0 });
        assert_eq!(outcome(&wrong), Some(Outcome::ConditionFailed));
        assert_eq!(outcome(&KvFailure::NoAnswer(CallError::TimedOut)), Some(Outcome::Unreachable));
        assert_eq!(outcome(&KvFailure::Busy), None);
        assert_eq!(outcome(&store(WriteError::LogFull)), None);
        for why in [NotReplicated::TooFewReplicas, NotReplicated::LevelNotReached, NotReplicated::NotPrimary]
        {
            let not_reached = outcome(&KvFailure::NotReplicated(why));
            assert_eq!(not_reached, Some(Outcome::LevelNotReached), "{why:?}: a store answers");
        }
        let gone: SlotFailure<ReadError> = SlotFailure::NoAnswer;
        assert!(matches!(explained(&gone), Failure::Outcome(Outcome::Unreachable, _)));
    }
}
