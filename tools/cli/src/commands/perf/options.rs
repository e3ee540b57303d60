//! Which tests of `farcall perf` read which options.
//!
//! Options that every test reads are not here, and neither are those that are looked at elsewhere: of
//! simulated fabrics, which transports must be on, and what goes with `--vary`.

use super::WORKLOADS;
use super::workload::Workload;
use crate::arguments::Perf;
use crate::arguments::given::Readers;
use crate::failure::Failure;

/// Tests that read the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Round trips in a closed loop.
    Echo,
    /// Messages that are sent when they are due.
    OpenLoop,
    /// Reads and writes of a store in a closed loop.
    Store,
}

const ECHO: &[Family] = &[Family::Echo];
const OPEN_LOOP: &[Family] = &[Family::OpenLoop];
const STORE: &[Family] = &[Family::Store];
const CLOSED_LOOPS: &[Family] = &[Family::Echo, Family::Store];

/// The options that some tests read, and which.
const READERS: [Readers<Family>; 15] = [
    ("arrivals", OPEN_LOOP),
    ("buffers", ECHO),
    ("durability", STORE),
    ("handler", ECHO),
    ("in-flight", CLOSED_LOOPS),
    ("link-gbps", OPEN_LOOP),
    ("load", OPEN_LOOP),
    ("nodes", OPEN_LOOP),
    ("objects", STORE),
    ("reply", OPEN_LOOP),
    ("sizes", CLOSED_LOOPS),
    ("speed", OPEN_LOOP),
    ("vary", ECHO),
    ("warmup", CLOSED_LOOPS),
    ("workload", OPEN_LOOP),
];

/// Refuses options that none of the tests reads.
pub fn check(perf: &Perf, tests: &[&'static dyn Workload]) -> Result<(), Failure> {
    let chosen: Vec<Family> = tests.iter().map(|test| test.family()).collect();
    let of = |families: &[Family]| names(WORKLOADS.iter().filter(|test| families.contains(&test.family())));
    perf.given.check("perf", &READERS, (&chosen, &names(tests.iter())), of)
}

fn names<'a>(tests: impl Iterator<Item = &'a &'static dyn Workload>) -> String {
    tests.map(|test| test.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    /// The other options.
    const OF_ALL: [&str; 21] = [
        "blocks",
        "clients",
        "count",
        "dry-run",
        "fabric",
        "figure",
        "guard",
        "help",
        "hosts",
        "json",
        "place",
        "quiet",
        "record",
        "scale-topology",
        "schedule",
        "seconds",
        "seed",
        "servers",
        "set",
        "trace",
        "transport",
    ];

    #[test]
    fn every_option_is_of_all_tests_or_says_whose_it_is() {
        let grammar = Arguments::command();
        let perf = grammar.find_subcommand("perf").expect("it is a command");
        let options: Vec<&str> = perf.get_arguments().filter_map(|option| option.get_long()).collect();
        let is_known =
            |option: &&str| OF_ALL.contains(option) || READERS.iter().any(|(name, _)| name == option);
        let unknown: Vec<_> = options.iter().filter(|option| !is_known(option)).collect();
        assert!(unknown.is_empty(), "no line of READERS and none of OF_ALL has {unknown:?}");
        let is_gone = |name: &&str| !options.contains(name);
        let gone: Vec<_> = READERS.iter().map(|(name, _)| *name).filter(is_gone).collect();
        assert!(gone.is_empty(), "there is no option {gone:?}");
    }

    fn table() -> String {
        let titles = names(WORKLOADS.iter()).replace(", ", " | ");
        let head = format!("| of `perf` | {titles} |\n|---|{}\n", "---|".repeat(WORKLOADS.len()));
        let row = |(option, readers): &Readers<Family>| {
            let cells =
                WORKLOADS.iter().map(|test| if readers.contains(&test.family()) { " x |" } else { " |" });
            format!("| `--{option}` |{}\n", cells.collect::<String>())
        };
        head + &READERS.iter().map(row).collect::<String>()
    }

    /// `FARCALL_TIDY_LOWER=1` writes it.
    #[test]
    fn the_documented_table_of_tests_and_options_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(path).expect("the page is there");
        let begin = page.find("| of `perf` |").expect("the page has the table");
        let end = begin + page[begin..].find("\n\n").expect("something is behind it") + 1;
        if std::env::var_os("FARCALL_TIDY_LOWER").is_some() {
            std::fs::write(path, page[..begin].to_owned() + &table() + &page[end..])
                .expect("it can be written");
        } else {
            assert_eq!(page[begin..end], table(), "FARCALL_TIDY_LOWER=1 writes the table of docs/options.md");
        }
    }
}
