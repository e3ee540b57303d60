//! Options that the command line gives, and those of them that nothing reads of what was chosen: a figure
//! beside such an option would be read as if it had been. An option that is left at its default is none.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches};

use super::Arguments;
use crate::failure::Failure;

/// What reads an option that not everything of a command reads: the option without its dashes, and its
/// readers.
pub type Readers<R> = (&'static str, &'static [R]);

/// The options that the command line gives, by their names in the grammar.
///
/// It is the first field of a command: the others take what they read out of what was matched.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<String>);

impl Given {
    fn of(matches: &ArgMatches) -> Self {
        let is_given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        Self(matches.ids().map(|id| id.as_str()).filter(is_given).map(str::to_owned).collect())
    }

    /// Whether an option of a command is given.
    pub fn has(&self, command: &str, option: &str) -> bool {
        self.options(command).iter().any(|given| given == option)
    }

    /// Refuses the options of a command that none of the chosen reads, each by a sentence of its own. `words`
    /// says what readers are; the chosen come with their words.
    pub fn check<R: PartialEq>(
        &self,
        command: &str,
        table: &[Readers<R>],
        (chosen, chosen_words): (&[R], &str),
        words: impl Fn(&[R]) -> String,
    ) -> Result<(), Failure> {
        let given = self.options(command);
        let is_unread = |(option, readers): &&Readers<R>| {
            given.iter().any(|given| given == option) && !readers.iter().any(|reader| chosen.contains(reader))
        };
        let refused = table.iter().filter(is_unread).map(|(option, readers)| {
            let readers = words(readers);
            Failure::Usage(format!("--{option} is read by {readers}, not by {chosen_words}: leave it out"))
        });
        Failure::all(refused.collect())
    }

    /// The options of a command that are given, as they are written.
    fn options(&self, command: &str) -> Vec<String> {
        let grammar = Arguments::command();
        let command = grammar.find_subcommand(command).expect("it is a command");
        let is_given = |option: &&Arg| self.0.iter().any(|name| option.get_id() == name.as_str());
        command.get_arguments().filter(is_given).filter_map(Arg::get_long).map(str::to_owned).collect()
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self::of(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::of(matches);
        Ok(())
    }
}

/// It has no options of its own.
impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Command as Asked;
    use super::*;

    #[test]
    fn what_has_its_default_is_not_given_and_an_old_name_is_the_option() {
        let line = "farcall perf echo --concurrent-ops 1 --seed 1 --set endpoint.idle=spin";
        let Asked::Perf(perf) = Arguments::parse_from(line.split(' ')).command else {
            panic!("{line} is perf")
        };
        assert_eq!(perf.given.options("perf"), ["in-flight", "set", "seed"]);
        assert!(perf.given.has("perf", "seed") && !perf.given.has("perf", "seconds"));
        let table: [Readers<u8>; 2] = [("seed", &[1, 2]), ("seconds", &[1])];
        let check = |chosen: &[u8]| {
            perf.given.check("perf", &table, (chosen, "these"), |readers| format!("{readers:?}"))
        };
        assert_eq!(check(&[3, 2]), Ok(()));
        let sentence = "--seed is read by [1, 2], not by these: leave it out";
        assert_eq!(check(&[3]), Err(Failure::Usage(sentence.to_owned())));
    }
}
