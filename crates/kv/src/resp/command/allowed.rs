//! Whether the policy of the store lets a client run a command.
//!
//! A command needs the right to read or to write the table of its client's database, by the effect that its
//! row declares; a writing command may reply what was there. Channels belong to no database: they go with
//! the first.

use super::call::{Done, Refusal};
use super::entry::{Command, Effect};
use super::{Engine, table_name};
use crate::decimal;
use crate::guard::Need;
use crate::resp::DATABASES;
use crate::resp::parse::Args;
use crate::resp::session::Session;
use farcall::policy::Right;

/// How Redis' refusals of this kind begin.
const NOT_ALLOWED: &str = "NOPERM ";

impl Engine {
    /// Refuses a command that the policy does not allow, if there is one.
    #[inline]
    pub fn check_policy(&mut self, command: &Command, args: Args<'_>, session: &Session) -> Done {
        if self.guard.is_none() { Ok(()) } else { self.ask_policy(command, args, session) }
    }

    fn ask_policy(&mut self, command: &Command, args: Args<'_>, session: &Session) -> Done {
        let database = session.database;
        if command.name == "copy" {
            self.want(session, database, Right::Read)?;
            return self.want(session, other_database(command, args).unwrap_or(database), Right::Write);
        }
        match command.effect {
            Effect::Reads => self.want(session, database, Right::Read)?,
            Effect::Writes | Effect::Grows => self.want(session, database, Right::Write)?,
            Effect::None => return self.ask_about_others(command, args, session),
        }
        // These reach further than the client's database.
        match command.name {
            "flushall" => (0..DATABASES).try_for_each(|other| self.want(session, other, Right::Write)),
            "move" => match other_database(command, args) {
                Some(other) => {
                    self.want(session, database, Right::Read)?;
                    self.want(session, other, Right::Write)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Commands about no objects.
    fn ask_about_others(&mut self, command: &Command, args: Args<'_>, session: &Session) -> Done {
        let about = |word: &str| args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        match (command.group, command.name) {
            ("transactions", "watch") => self.want(session, session.database, Right::Read),
            ("pubsub", "publish") => self.want(session, 0, Right::Write),
            ("pubsub", _) => self.want(session, 0, Right::Read),
            ("connection", "client") if ["kill", "list", "unblock", "no-evict"].into_iter().any(about) => {
                self.want_store(session)
            }
            ("cluster", "cluster") if about("countkeysinslot") => {
                self.want(session, session.database, Right::Read)
            }
            ("server", "config") if !about("get") => self.want_store(session),
            ("server", "info" | "config") => self.want_anything(session),
            _ => Ok(()),
        }
    }

    /// Whether the policy lets a client of another door read or write a database; if not, why.
    pub fn allows(&mut self, session: &Session, database: usize, right: Right) -> Result<(), String> {
        self.want(session, database, right).map_err(|refusal| {
            let text = refusal.text();
            text.strip_prefix(NOT_ALLOWED).unwrap_or(text).to_owned()
        })
    }

    fn want(&mut self, session: &Session, database: usize, right: Right) -> Done {
        let verb = if right == Right::Read { "read" } else { "write" };
        let need = Need::On(self.tables[database], right);
        self.ask(session, need, || format!("{verb} the table `{}`", table_name(database)))
    }

    fn want_store(&mut self, session: &Session) -> Done {
        self.ask(session, Need::Store, || "administer the store".to_owned())
    }

    fn want_anything(&mut self, session: &Session) -> Done {
        self.ask(session, Need::Anything, || "use the store".to_owned())
    }

    fn ask(&mut self, session: &Session, need: Need, what: impl FnOnce() -> String) -> Done {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        if guard.has(&session.principal, need) {
            return Ok(());
        }
        self.counters.not_allowed.increment();
        Err(Refusal::new(format!("{NOT_ALLOWED}{}", guard.refuse(&session.principal, &what()))))
    }
}

/// The database that a command moves or copies to, if it names one that there is.
fn other_database(command: &Command, args: Args<'_>) -> Option<usize> {
    let at = match command.name {
        "move" => 2,
        // The last one counts.
        _ => (3..args.len()).rev().find(|at| args.at(*at).eq_ignore_ascii_case(b"db"))? + 1,
    };
    let number = decimal::parse(args.get(at)?)?;
    usize::try_from(number).ok().filter(|number| *number < DATABASES)
}
