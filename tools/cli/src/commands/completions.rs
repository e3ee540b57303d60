//! `farcall completions`: what a shell needs to complete our words, from the grammar itself.
//!
//! Packages install the scripts where shells look for them; `source <(farcall completions bash)` tries one.
//! A script is made of the same grammar that parses the command line, so that it cannot lag behind.

use std::io::Write;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::arguments::Completions;
use crate::failure::Failure;

/// Prints the script. It is made in memory first: a reader that goes away is a failure of the output like
/// any other, not a panic of the generator.
pub fn run(completions: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "farcall", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Failure::output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use clap_complete::Shell;

    #[test]
    fn every_shell_is_told_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "farcall", &mut script);
            let script = String::from_utf8(script).expect("scripts are text");
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
