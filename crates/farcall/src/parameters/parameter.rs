//! What is known about one parameter beside its value.

use super::{Domain, Settings, Value};

/// What a parameter applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The process as a whole.
    Process,
    /// One endpoint, fixed when it is made.
    Endpoint,
    /// One session, agreed with the peer when it is opened.
    Session,
}

impl Scope {
    /// The scope in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Endpoint => "endpoint",
            Self::Session => "session",
        }
    }
}

/// The declaration of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Group and name, such as `ring.ring_bytes`.
    pub name: &'static str,
    /// The values it may take.
    pub domain: Domain,
    /// The value it has when nothing says otherwise, as text.
    pub default: &'static str,
    /// What it applies to.
    pub scope: Scope,
    /// One line of documentation.
    pub doc: &'static str,
    pub(super) set: fn(&mut Settings, Value),
    pub(super) get: fn(&Settings) -> Value,
}

impl Parameter {
    /// The environment variable that sets it, such as `FARCALL_RING_RING_BYTES`.
    pub fn environment(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Its value in `settings`.
    pub fn value(&self, settings: &Settings) -> Value {
        (self.get)(settings)
    }
}

/// What all of farcall's environment variables begin with.
pub(super) const ENVIRONMENT_PREFIX: &str = "FARCALL_";
