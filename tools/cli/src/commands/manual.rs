//! `farcall manual`: pages for `man`, from the grammar itself.
//!
//! What `--help` says and what a page says are one text. `make man` writes the pages, `make deb` packs them.
//! The same text as a chapter of the book is checked by `arguments/reference.rs`.

use std::fs;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::arguments::Manual;
use crate::failure::Failure;

/// Writes `farcall.1`, and a page for each command and each command of those.
pub fn run(manual: &Manual) -> Result<(), Failure> {
    let folder = &manual.folder;
    let failed = |error| Failure::Run(format!("cannot write to {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is underlined or escaped in pages cannot be looked for; the names of options can.
    #[test]
    fn a_page_has_the_options_of_its_command() {
        let grammar = Arguments::command();
        let perf = grammar.find_subcommand("perf").expect("it is a command");
        let mut page = Vec::new();
        clap_mangen::Man::new(perf.clone()).render(&mut page).expect("memory takes everything");
        let page = String::from_utf8(page).expect("pages are text").replace('\\', "");
        let options: Vec<_> = perf.get_arguments().filter_map(|option| option.get_long()).collect();
        assert!(options.len() > 20);
        for option in options {
            assert!(page.contains(&format!("--{option}")), "{option}");
        }
    }
}
