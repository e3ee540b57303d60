//! Which recorded commands `explain --try` runs again. Records are sent around, and the words in one are
//! whoever's: `farcall tune FILE` runs any program, and other options read, write or start what they name.
//!
//! So only a measurement on a simulated fabric is run, with options whose values are numbers and names of
//! this program's own. Everything else is refused, and shown to whoever may run it.

use farcall::TransportKind;
use farcall::parameters::{Kind, PARAMETERS};
use farcall::simulated::profile::EMBEDDED;
use farcall_base::printable;
use farcall_lab::run::workload::SizeMix;

use crate::arguments::FABRIC;
use crate::commands::perf::WORKLOADS;
use crate::failure::Failure;

/// What may follow an option.
#[derive(Clone, Copy)]
enum Takes {
    /// Nothing.
    Nothing,
    /// Numbers, or words of the option's own.
    Plain,
    /// A word for which a file can stand, too: one of these.
    Name(fn(&str) -> bool),
    /// An assignment to a parameter.
    Assignment,
}

const TRANSPORT: &str = "--transport";

/// Options of both commands.
const OF_BOTH: &[(&str, Takes)] = &[
    (TRANSPORT, Takes::Name(are_simulated)),
    ("--fabric", Takes::Name(is_fabric)),
    ("--set", Takes::Assignment),
    ("--sizes", Takes::Plain),
    ("--count", Takes::Plain),
    ("--warmup", Takes::Plain),
    ("--nodes", Takes::Plain),
    ("--scale-topology", Takes::Nothing),
    ("--trace", Takes::Nothing),
];

const OF_PERF: &[(&str, Takes)] = &[
    ("--seconds", Takes::Plain),
    ("--in-flight", Takes::Plain),
    ("--concurrent-ops", Takes::Plain),
    ("--clients", Takes::Plain),
    ("--servers", Takes::Plain),
    ("--objects", Takes::Plain),
    ("--handler", Takes::Plain),
    ("--buffers", Takes::Plain),
    ("--workload", Takes::Name(SizeMix::is_embedded)),
    ("--load", Takes::Plain),
    ("--reply", Takes::Plain),
    ("--link-gbps", Takes::Plain),
];

const OF_SHUFFLE: &[(&str, Takes)] = &[
    ("--growth", Takes::Plain),
    ("--ops", Takes::Plain),
    ("--collective", Takes::Plain),
    ("--runs", Takes::Plain),
    ("--launches", Takes::Plain),
    ("--push", Takes::Plain),
    ("--max-pending", Takes::Plain),
    ("--max-outstanding-chunks", Takes::Plain),
    ("--chunk", Takes::Plain),
    ("--ranks", Takes::Plain),
    ("--placement", Takes::Plain),
];

/// Whose a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's.
    None,
    /// The user's own: what its command names is theirs as well.
    Own,
}

impl Trust {
    /// By the word of the user.
    pub fn of(is_own: bool) -> Self {
        if is_own { Self::Own } else { Self::None }
    }

    /// Refuses what may not be run because such a record says so.
    pub fn check(self, words: &[String], parameters: &[String]) -> Result<(), Failure> {
        match self {
            Self::None => check(words, parameters),
            Self::Own => match words.first().map(String::as_str) {
                Some("perf" | "shuffle") => Ok(()),
                _ => Err(Failure::Usage("--try runs `perf` and `shuffle`, and nothing else".to_owned())),
            },
        }
    }
}

/// Refuses the words of a recorded command that is more than a measurement on a simulated fabric.
fn check(words: &[String], parameters: &[String]) -> Result<(), Failure> {
    let refused = |what: String| {
        let command = in_shell(words);
        Failure::Usage(format!(
            "--try does not run {what} because a record says so; if the record is yours add --trust, or run \
             it yourself: `{command}`"
        ))
    };
    check_words(words).map_err(refused)?;
    let not_plain = parameters.iter().find(|assignment| !is_plain(assignment, true));
    not_plain.map_or(Ok(()), |assignment| Err(refused(format!("anything with `{}`", printable(assignment)))))
}

/// Says what is not allowed.
fn check_words(words: &[String]) -> Result<(), String> {
    let (command, mut rest) = words.split_first().ok_or("a command without words")?;
    let own = match command.as_str() {
        "perf" => OF_PERF,
        "shuffle" => OF_SHUFFLE,
        other => return Err(format!("`farcall {}`", printable(other))),
    };
    // Without one `perf` measures this machine.
    let mut is_simulated = command == "shuffle";
    while let Some((word, after)) = rest.split_first() {
        let shown = printable(word);
        rest = after;
        if command == "perf" && WORKLOADS.iter().any(|test| test.name() == word) {
            continue;
        }
        let (option, value) =
            word.split_once('=').map_or((&**word, None), |(name, value)| (name, Some(value)));
        let known = OF_BOTH.iter().chain(own).find(|(name, _)| *name == option);
        let Some((_, takes)) = known else { return Err(format!("`{shown}`")) };
        let value = match (takes, value) {
            (Takes::Nothing, None) => continue,
            (Takes::Nothing, Some(_)) => return Err(format!("`{shown}`")),
            (_, Some(value)) => value,
            (_, None) => {
                let Some((value, after)) = rest.split_first() else { return Err(format!("`{shown}`")) };
                rest = after;
                value
            }
        };
        let is_allowed = match takes {
            Takes::Nothing | Takes::Plain => !value.starts_with('-'),
            Takes::Name(is_known) => is_known(value),
            Takes::Assignment => is_plain(value, false),
        };
        if !is_allowed {
            return Err(format!("`{option} {}`", printable(value)));
        }
        is_simulated |= option == TRANSPORT;
    }
    if is_simulated { Ok(()) } else { Err("a command without a simulated --transport".to_owned()) }
}

/// Whether an assignment is to a field of a simulated fabric, or to a parameter that is no path, address or
/// name of a device. Names that there are not are ignored where parameters come from a record.
fn is_plain(assignment: &str, is_ignored: bool) -> bool {
    if assignment.starts_with(FABRIC) {
        return true;
    }
    let name = assignment.split('=').next().unwrap_or_default().trim();
    let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name);
    parameter.map_or(is_ignored, |parameter| match parameter.domain.kind {
        Kind::Integer { .. } | Kind::Size { .. } | Kind::Duration { .. } | Kind::Sizes { .. } => true,
        Kind::Boolean | Kind::Choice(_) => true,
        Kind::IpAddress | Kind::Name | Kind::Path | Kind::Allow => false,
    })
}

fn are_simulated(names: &str) -> bool {
    names.split(',').all(|name| name.parse().is_ok_and(TransportKind::is_simulated))
}

fn is_fabric(name: &str) -> bool {
    EMBEDDED.iter().any(|(embedded, _)| *embedded == name)
}

/// The command as a shell takes it, so that whoever copies it runs this and nothing else.
fn in_shell(words: &[String]) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=+%".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_safe) {
        true => word.clone(),
        false => format!("'{}'", printable(word).replace('\'', r"'\''")),
    };
    ["farcall".to_owned()].into_iter().chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str], parameters: &[&str]) -> Option<String> {
        let owned = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match check(&owned(words), &owned(parameters)) {
            Ok(()) => None,
            Err(Failure::Usage(sentence)) => Some(sentence),
            Err(other) => panic!("{other:?} is no usage"),
        }
    }

    const ECHO: [&str; 4] = ["perf", "echo", "--transport", "ring+sim"];

    #[test]
    fn what_could_start_read_or_write_anything_is_refused() {
        for (words, named) in [
            (&[][..], "a command without words"),
            (&["tune", "/tmp/evil.toml"], "`farcall tune`"),
            (&["kv", "serve"], "`farcall kv`"),
            (&["compare", "--program", "/tmp/evil"], "`farcall compare`"),
            (&["--quiet"], "`farcall --quiet`"),
            (&["perf", "echo"], "a command without a simulated --transport"),
            (&["perf", "--transport", "ring+shm"], "`--transport ring+shm`"),
            (&["perf", "--transport", "ring+sim,ring+shm"], "`--transport ring+sim,ring+shm`"),
            (&["perf", "/tmp/evil"], "`/tmp/evil`"),
            (&["shuffle", "--", "x"], "`--`"),
        ] {
            let sentence = said(words, &[]).unwrap_or_else(|| panic!("{words:?} is run"));
            assert!(sentence.starts_with(&format!("--try does not run {named} because")), "{sentence}");
        }
        for more in [
            &["--hosts", "a,b"][..],
            &["--place", "pack"],
            &["--record=/tmp/x"],
            &["--json", "/tmp/x"],
            &["--trace=/tmp/x"],
            &["--schedule", "/tmp/x"],
            &["--arrivals", "/tmp/x"],
            &["--workload", "/tmp/x"],
            &["--fabric", "/tmp/x"],
            &["--fabric=/tmp/x"],
            &["--durability", "flushed"],
            &["--vary", "ring.inline_bytes"],
            &["--set", "tls.key=/tmp/x"],
            &["--set=shm.directory=/tmp/x"],
            &["--set", "udp.bind_address=0.0.0.0"],
            &["--set", "verbs.device=x"],
            &["--set", "no.parameter=1"],
            &["--sizes", "--record"],
            &["--sizes"],
            &["--in", "4"],
            &["-h"],
        ] {
            let words = [&ECHO[..], more].concat();
            assert!(said(&words, &[]).is_some(), "{words:?} is run");
        }
        assert!(said(&ECHO, &["endpoint.idle=spin", "security.key_file=/tmp/x"]).is_some());
    }

    #[test]
    fn measurements_on_simulated_fabrics_are_run() {
        let more = ["--sizes=1K", "--in-flight", "8", "--set", "fabric.link.gbps=40", "--trace"];
        assert_eq!(said(&[&ECHO[..], &more].concat(), &["endpoint.idle=spin", "older.name=/x"]), None);
        assert_eq!(said(&["shuffle", "--nodes", "4"], &[]), None);
        let open = ["perf", "echoWorkload", "--workload", "W3", "--transport", "homa+sim,basic+sim"];
        assert_eq!(said(&open, &[]), None);
    }

    #[test]
    fn the_command_that_is_shown_is_one_of_a_shell() {
        let sentence = said(&["tune", "a b;'c'\u{1b}", ""], &[]).expect("it is refused");
        assert!(sentence.ends_with(r"`farcall tune 'a b;'\''c'\''\u{1b}' ''`"), "{sentence}");
    }
}
