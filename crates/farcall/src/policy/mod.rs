//! Policies: who may call, send, read, write and administer what.
//!
//! A policy is a text of rules, one a line; what no rule allows is refused.
//! A [`Policy`] is pure; a [`PolicyFile`] is where one comes from and looks whether it has changed. Whoever
//! enforces it asks once for each session what its [`Principal`] may do, and then looks a bit up: endpoints
//! do so for services and messages, a store for its tables.
//!
//! ```
//! use farcall::policy::{Object, Policy, Principal, Right};
//!
//! let policy: Policy = "service 10: call by uid 1000".parse()?;
//! let may_call = |who| policy.allows(&who, &Object::Services(10, 10), Right::Call);
//! assert_eq!(may_call(Principal::User(1000)), Some(1));
//! assert_eq!(may_call(Principal::Unproven), None);
//! # Ok::<(), farcall::policy::PolicyError>(())
//! ```

mod file;
mod parse;

pub use farcall_base::{KeyName, Principal};
pub use file::{PolicyFile, PolicyFileError};
pub use parse::{Misread, PolicyError, read_act, read_principal};

/// Something that a rule can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Right {
    /// To call a service.
    Call = 1,
    /// To send tagged messages.
    Send = 2,
    /// To read objects of a table.
    Read = 4,
    /// To write objects of a table.
    Write = 8,
    /// To create and drop a table; of a store, to look after it.
    Administer = 16,
}

/// Several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// None.
    pub const NONE: Self = Self(0);

    /// These, and that one.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right as u8)
    }

    /// These, and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether that one is among them.
    #[inline]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right as u8 != 0
    }
}

/// What something is done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The services from one number to another.
    Services(u16, u16),
    /// Tagged messages.
    Messages,
    /// The table of that name; every table without one.
    Table(Option<String>),
    /// A store as a whole.
    Store,
}

impl Object {
    /// What can be done with it.
    pub const fn rights(&self) -> Rights {
        match self {
            Self::Services(..) => Rights::NONE.with(Right::Call),
            Self::Messages => Rights::NONE.with(Right::Send),
            Self::Table(_) => Rights::NONE.with(Right::Read).with(Right::Write).with(Right::Administer),
            Self::Store => Rights::NONE.with(Right::Administer),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Services(first, last), Self::Services(from, to)) => first <= from && to <= last,
            (Self::Table(None), Self::Table(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// Those that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Any,
    Is(Principal),
    /// The holder of a certificate with that name.
    Named(String),
}

impl Who {
    fn includes(&self, principal: &Principal) -> bool {
        match (self, principal) {
            (Self::Any, _) => true,
            (Self::Is(wanted), is) => wanted == is,
            (Self::Named(name), Principal::Certificate(names)) => names.contains(name),
            (Self::Named(_), _) => false,
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    line: usize,
    object: Object,
    rights: Rights,
    who: Vec<Who>,
}

/// Rules. What none of them allows is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none, so that everything is refused.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The line, from 1, of the first rule that allows something; `None` if it is refused.
    pub fn allows(&self, principal: &Principal, object: &Object, right: Right) -> Option<usize> {
        let found =
            self.rules_for(principal).find(|rule| rule.rights.has(right) && rule.object.covers(object));
        found.map(|rule| rule.line)
    }

    /// The services that a principal may call, as ranges of their numbers that neither touch nor overlap, in
    /// ascending order.
    pub fn services_of(&self, principal: &Principal) -> Vec<(u16, u16)> {
        let range = |rule: &Rule| match rule.object {
            Object::Services(first, last) => Some((first, last)),
            _ => None,
        };
        let mut ranges: Vec<_> = self.rules_for(principal).filter_map(range).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|(first, last), (_, before)| {
            let touches = u32::from(*first) <= u32::from(*before) + 1;
            if touches {
                *before = (*before).max(*last);
            }
            touches
        });
        ranges
    }

    /// What a principal may do with tables, rule by rule: each with the name of one, or for every one.
    pub fn tables_of<'p>(
        &'p self,
        principal: &'p Principal,
    ) -> impl Iterator<Item = (Option<&'p str>, Rights)> {
        self.rules_for(principal).filter_map(|rule| match &rule.object {
            Object::Table(name) => Some((name.as_deref(), rule.rights)),
            _ => None,
        })
    }

    fn rules_for<'p>(&'p self, principal: &'p Principal) -> impl Iterator<Item = &'p Rule> {
        self.rules.iter().filter(move |rule| rule.who.iter().any(|who| who.includes(principal)))
    }
}

/// Reads `bytes` as the text of a policy, and as what the program is asked about one.
#[doc(hidden)]
pub fn fuzz_policy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(policy) = text.parse::<Policy>() {
        let principals = [Principal::Unproven, Principal::User(0), Principal::Password];
        for principal in &principals {
            for (first, last) in policy.services_of(principal) {
                let line = policy.allows(principal, &Object::Services(first, last), Right::Call);
                assert!(line.is_some_and(|line| line <= text.lines().count()));
            }
        }
    }
    let (act, principal) = (read_act(&text), read_principal(&text));
    assert!(act.is_err() || principal.is_err(), "an act has a colon behind its object");
}
