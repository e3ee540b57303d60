//! The orders of adding: CONTRIBUTING.md says which places to touch for a new parameter, counter, driver and
//! so on. Each of its orders is held against what has been added by it before. What is in the tree is at all
//! of those places, and is named at no other.

use crate::rust::{code_of, names_of};
use crate::{File, Finding, Tree, records};

/// Where the orders are.
const PAGE: &str = "CONTRIBUTING.md";

const PARAMETERS: &str = "crates/farcall/src/parameters/table.rs";
const FABRICS: &str = "crates/farcall/src/transports/mod.rs";
const TRANSPORTS: &str = "crates/farcall/src/transports/table.rs";
const PERF_TESTS: &str = "tools/cli/src/commands/perf/mod.rs";
const COMMANDS: &str = "tools/cli/src/arguments.rs";
const PROGRAM: &str = "tools/cli/src/main.rs";
const PEERS: &str = "tools/lab/src/compare/peers/list.rs";
const PEERS_PAGE: &str = "docs/peers.md";
const FUZZ_TARGETS: &str = "fuzz/fuzz_targets/";

/// What an order's earlier results are checked by.
type Check = fn(&Tree) -> Vec<Finding>;

/// The orders, by what they begin with.
const ORDERS: [(&str, Check); 10] = [
    ("A parameter", parameters),
    ("A counter", counters),
    ("A driver", drivers),
    ("A transport", pairs),
    ("An external library", libraries),
    ("A perf test", perf_tests),
    ("A command", commands),
    ("A peer", peers),
    ("A fuzz target", fuzz_targets),
    ("A decision", records::decisions),
];

/// Orders that nothing checks, checks without an order, and what is not where its order says.
pub fn broken(tree: &Tree) -> Vec<Finding> {
    let page = &tree.file(PAGE).text;
    let (before, orders) = page.split_once("## How to add").expect("the orders have a heading");
    let first_line = before.lines().count() + 1;
    let mut findings = Vec::new();
    let written: Vec<_> = orders
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((first_line + at, line.strip_prefix("**")?.split_once(".**")?.0)))
        .collect();
    for (line, order) in &written {
        if !ORDERS.iter().any(|(name, _)| name == order) {
            findings.push(Finding::new(PAGE, *line, format!("nothing checks the order `{order}`")));
        }
    }
    for (order, check) in ORDERS {
        if !written.iter().any(|(_, name)| *name == order) {
            findings.push(Finding::new(PAGE, first_line, format!("the order `{order}` is missing")));
        }
        findings.extend(check(tree));
    }
    findings
}

/// A parameter is one line of the table, and its field does something.
pub fn parameters(tree: &Tree) -> Vec<Finding> {
    let (_, table) = tree.file(PARAMETERS).text.split_once("parameters! {").expect("the table is there");
    let skipped = tree.file(PARAMETERS).text.lines().count() - table.lines().count();
    let fields = table.lines().enumerate().filter_map(|(at, line)| {
        let (name, rest) = line.trim_start().split_once(": ")?;
        let is_field = rest.contains(" = \"") && name.chars().all(|c| c.is_lowercase() || c == '_');
        is_field.then_some((skipped + at + 1, name))
    });
    let used = Names::of(tree.files.iter().filter(|file| file.is_product() && file.path != PARAMETERS));
    let unused = fields.filter(|(_, name)| !used.has(name));
    unused
        .map(|(line, name)| {
            Finding::new(PARAMETERS, line, format!("no code reads `{name}`: an option that does nothing"))
        })
        .collect()
}

/// A counter is one line of a `declare_counters!`, and its crate counts with it.
pub fn counters(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let declares = |file: &&File| file.is_product() && file.text.contains("declare_counters! {");
    for file in tree.files.iter().filter(declares) {
        let of_owner = |other: &&File| other.is_product() && other.owner() == file.owner();
        let used = Names::of(tree.files.iter().filter(of_owner));
        for (at, line) in file.text.lines().enumerate() {
            let Some((name, rest)) = line.trim_start().split_once(": \"") else { continue };
            if !name.starts_with("//") && rest.contains("\" => \"") && used.count(name) < 2 {
                let what = format!("nothing counts with `{name}`: delete it, or count");
                findings.push(Finding::new(&file.path, at + 1, what));
            }
        }
    }
    findings
}

/// A driver is a crate of `fabrics`, in the manifest, with rows of pairs and the suite of its shape.
pub fn drivers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, variant) in variants_of(tree.file(FABRICS), "Fabric") {
        let name = variant.to_lowercase();
        findings.extend(fabric(tree, line, &name, "conformance"));
        if !tree.file(TRANSPORTS).text.contains(&format!("Fabric::{variant}")) {
            findings.push(Finding::new(FABRICS, line, format!("`{variant}` has no row in {TRANSPORTS}")));
        }
    }
    findings
}

/// An external library is a crate of `fabrics`, in the manifest, with a row and the suite of libraries.
pub fn libraries(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, variant) in variants_of(tree.file(FABRICS), "LibraryKind") {
        let name = variant.to_lowercase();
        findings.extend(fabric(tree, line, &name, "library_conformance!"));
        if !tree.file(TRANSPORTS).text.contains(&format!("LibraryKind::{variant}")) {
            findings.push(Finding::new(FABRICS, line, format!("`{variant}` has no row in {TRANSPORTS}")));
        }
    }
    findings
}

/// What is missing of the crate of a fabric: itself, its line in the manifest, its suite.
fn fabric(tree: &Tree, line: usize, name: &str, suite: &str) -> Vec<Finding> {
    let folder = format!("fabrics/{name}");
    let tests = format!("{folder}/tests/");
    let mut missing = Vec::new();
    if !tree.has(&folder) {
        missing.push(format!("`{folder}` is missing"));
    }
    if !tree.file("Cargo.toml").text.contains(&format!("farcall-{name} = ")) {
        missing.push(format!("Cargo.toml does not name farcall-{name}"));
    }
    let is_suite = |file: &File| file.path.starts_with(&tests) && file.text.contains(suite);
    if !tree.files.iter().any(is_suite) {
        missing.push(format!("no test of `{tests}` runs the suite `{suite}`"));
    }
    missing.into_iter().map(|what| Finding::new(FABRICS, line, what)).collect()
}

/// A pair is one row of the table: below the tools, nothing outside of the transports' folder knows it.
pub fn pairs(tree: &Tree) -> Vec<Finding> {
    let table = tree.file(TRANSPORTS);
    let rows = table.text.lines().filter_map(|line| line.trim_start().split_once(" = pair("));
    let pairs: Vec<_> = rows.map(|(constant, _)| constant).collect();
    let home = folder_of(TRANSPORTS);
    let is_below =
        |file: &&File| file.is_product() && !file.path.starts_with("tools/") && !file.path.starts_with(home);
    named_in(tree.files.iter().filter(is_below), &pairs, "is one row of the table of transports")
}

/// A perf test is a file and a row: nothing outside of their folder knows it.
pub fn perf_tests(tree: &Tree) -> Vec<Finding> {
    let (home, list) = (folder_of(PERF_TESTS), tree.file(PERF_TESTS));
    let rows = list.text.lines().enumerate().filter_map(|(at, line)| {
        let row = line.trim().strip_prefix('&')?.strip_suffix(',')?;
        Some((at + 1, row.split_once("::")?))
    });
    let rows: Vec<_> = rows.collect();
    let gone = rows.iter().filter(|(_, (file, _))| !tree.has(&format!("{home}{file}.rs")));
    let mut findings: Vec<_> = gone
        .map(|(line, (file, _))| Finding::new(PERF_TESTS, *line, format!("`{home}{file}.rs` is missing")))
        .collect();
    let tests: Vec<_> = rows.iter().map(|(_, (_, test))| *test).filter(|test| is_own_name(test)).collect();
    let elsewhere = |file: &&File| {
        file.is_product() && file.path.starts_with("tools/cli/") && !file.path.starts_with(home)
    };
    findings.extend(named_in(tree.files.iter().filter(elsewhere), &tests, "is a row of WORKLOADS"));
    findings
}

/// Whether a name says of what it is: `BASIC` and the like are also other things' names.
fn is_own_name(name: &str) -> bool {
    name.contains('_') || name.chars().any(char::is_lowercase) && name != "Echo"
}

/// A command is a variant of the grammar, a file of its name, and a line of the program.
pub fn commands(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, variant) in variants_of(tree.file(COMMANDS), "Command") {
        let name = variant.to_lowercase();
        let files =
            [format!("tools/cli/src/commands/{name}.rs"), format!("tools/cli/src/commands/{name}/mod.rs")];
        if !files.iter().any(|file| tree.has(file)) {
            findings.push(Finding::new(COMMANDS, line, format!("`{}` is missing", files[0])));
        }
        let dispatch = [format!("Command::{variant}("), format!("commands::{name}::run(")];
        if !dispatch.iter().all(|words| tree.file(PROGRAM).text.contains(words)) {
            findings.push(Finding::new(COMMANDS, line, format!("{PROGRAM} does not run `{name}`")));
        }
    }
    findings
}

/// A peer is an entry of the list, a file with its parser, and a line of the page.
pub fn peers(tree: &Tree) -> Vec<Finding> {
    let (home, list) = (folder_of(PEERS), tree.file(PEERS));
    let mut findings = Vec::new();
    for (at, line) in list.text.lines().enumerate() {
        let value = |field: &str| line.trim().strip_prefix(field)?.strip_suffix(',');
        if let Some(name) = value("name: ")
            && !tree.file(PEERS_PAGE).text.contains(&name.replace('"', "`"))
        {
            findings.push(Finding::new(PEERS, at + 1, format!("{PEERS_PAGE} does not say what {name} is")));
        }
        if let Some((file, _)) = value("measure: ").and_then(|path| path.split_once("::"))
            && !tree.has(&format!("{home}{file}.rs"))
        {
            findings.push(Finding::new(PEERS, at + 1, format!("`{home}{file}.rs` is missing")));
        }
    }
    findings
}

/// A fuzz target is a function, a program, an entry of the manifest, a test and a folder of kept inputs.
pub fn fuzz_targets(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for target in tree.files.iter().filter(|file| file.path.starts_with(FUZZ_TARGETS)) {
        let name = target.path[FUZZ_TARGETS.len()..].trim_end_matches(".rs");
        let places = [
            ("fuzz/src/lib.rs", format!("pub fn {name}(")),
            ("fuzz/Cargo.toml", format!("name = \"{name}\"")),
            ("fuzz/tests/corpus.rs", name.to_owned()),
        ];
        for (path, words) in places {
            if !tree.file(path).text.contains(&words) {
                findings.push(Finding::new(&target.path, 1, format!("{path} has no `{words}`")));
            }
        }
        if !tree.has(&format!("fuzz/seeds/{name}")) {
            findings.push(Finding::new(&target.path, 1, format!("`fuzz/seeds/{name}` is missing")));
        }
    }
    findings
}

/// The folder of a file, with the `/` at its end.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| &path[..=folder.len()])
}

/// The variants of an enum, each with its line.
fn variants_of<'a>(file: &'a File, name: &str) -> Vec<(usize, &'a str)> {
    let head = format!("pub enum {name} {{");
    let lines = file.text.lines().enumerate().skip_while(|(_, line)| *line != head).skip(1);
    let variants = lines.take_while(|(_, line)| *line != "}").filter_map(|(at, line)| {
        let variant = line.trim().split(['(', ',']).next().unwrap_or_default();
        variant.starts_with(char::is_uppercase).then_some((at + 1, variant))
    });
    variants.collect()
}

/// Where files name something that they should not know; `why` says what it is instead.
fn named_in<'a>(files: impl Iterator<Item = &'a File>, names: &[&str], why: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.filter(|file| names.iter().any(|name| file.text.contains(name))) {
        for (line, name) in names_of(&code_of(&file.text)).filter(|(_, name)| names.contains(name)) {
            findings.push(Finding::new(&file.path, line, format!("`{name}` {why}; name it nowhere else")));
        }
    }
    findings
}

/// The names in the code of some files.
struct Names(std::collections::HashMap<String, usize>);

impl Names {
    fn of<'a>(files: impl Iterator<Item = &'a File>) -> Self {
        let mut counts = std::collections::HashMap::new();
        for file in files {
            for (_, name) in names_of(&code_of(&file.text)) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn count(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_parameter_that_nothing_reads_is_found() {
        let table = "use a;\nparameters! {\n    ring: RingSettings {\n        read: usize = \"1\", x;\n        idle: usize = \"1\", x;\n    }\n}\n";
        let tree = Tree::of(&[(PARAMETERS, table), ("crates/a/src/lib.rs", "fn a() { settings.ring.read }")]);
        let found = what(parameters(&tree));
        assert!(
            found.len() == 1 && found[0].starts_with("crates/farcall/src/parameters/table.rs:5:"),
            "{found:?}"
        );
    }

    #[test]
    fn a_counter_that_counts_nothing_is_found() {
        let counters_rs = "declare_counters! {\n    pub struct C {\n        sent: \"n\" => \"x\",\n        lost: \"n\" => \"x\",\n    }\n}\n";
        let tree = Tree::of(&[
            ("crates/a/src/counters.rs", counters_rs),
            ("crates/a/src/lib.rs", "fn a(c: &C) { c.sent.increment() }"),
            ("crates/b/src/lib.rs", "fn b(c: &C) { c.lost.increment() }"),
        ]);
        let found = what(counters(&tree));
        assert!(found.len() == 1 && found[0].starts_with("crates/a/src/counters.rs:4:"), "{found:?}");
    }

    #[test]
    fn a_driver_without_its_crate_manifest_row_and_suite_is_found() {
        let kinds = "pub enum Fabric {\n    /// Memory.\n    Shm,\n    Gone,\n}\n";
        let tree = Tree::of(&[
            (FABRICS, kinds),
            (TRANSPORTS, "RING_SHM = pair(RING, Fabric::Shm)"),
            ("Cargo.toml", "farcall-shm = { path = \"fabrics/shm\" }"),
            ("fabrics/shm/tests/conformance.rs", "use farcall_driver::conformance;"),
        ]);
        let found = drivers(&tree);
        assert!(found.len() == 4 && found.iter().all(|finding| finding.line == 4), "{found:?}");
    }

    #[test]
    fn a_pair_that_is_known_outside_of_its_table_is_found() {
        let tree = Tree::of(&[
            (TRANSPORTS, "        RING_SHM = pair(RING, Fabric::Shm), \"ring+shm\",\n"),
            ("crates/a/src/lib.rs", "\nfn a() -> Kind { Kind::RING_SHM }\n"),
            ("tools/a/src/lib.rs", "fn a() -> Kind { Kind::RING_SHM }\n"),
        ]);
        let found = pairs(&tree);
        assert!(
            found.len() == 1 && (&*found[0].path, found[0].line) == ("crates/a/src/lib.rs", 2),
            "{found:?}"
        );
    }

    #[test]
    fn a_perf_test_that_is_known_outside_of_its_folder_is_found() {
        let list = "    &open_loop::EchoWorkload,\n    &store::MULTI_READ,\n";
        let tree = Tree::of(&[
            (PERF_TESTS, list),
            ("tools/cli/src/commands/perf/open_loop.rs", "struct EchoWorkload;"),
            ("tools/cli/src/arguments/perf.rs", "fn a() { EchoWorkload }"),
        ]);
        let found = what(perf_tests(&tree));
        assert!(found.len() == 2 && found[0].contains("store.rs` is missing"), "{found:?}");
        assert!(found[1].starts_with("tools/cli/src/arguments/perf.rs:1:"), "{found:?}");
    }

    #[test]
    fn a_command_without_its_file_or_its_line_is_found() {
        let tree = Tree::of(&[
            (COMMANDS, "pub enum Command {\n    Perf(Perf),\n    Gone(Box<Gone>),\n}\n"),
            (PROGRAM, "Command::Perf(perf) => commands::perf::run(&perf),"),
            ("tools/cli/src/commands/perf/mod.rs", ""),
        ]);
        assert_eq!(commands(&tree).iter().map(|finding| finding.line).collect::<Vec<_>>(), [3, 3]);
    }

    #[test]
    fn a_peer_that_no_page_names_and_one_without_a_file_are_found() {
        let list = "        name: \"ucx-cma\",\n        measure: ucx::posix,\n        name: \"zmq\",\n        measure: zmq::pair,\n";
        let tree = Tree::of(&[
            (PEERS, list),
            (PEERS_PAGE, "| `ucx-cma` | UCX |"),
            ("tools/lab/src/compare/peers/ucx.rs", ""),
        ]);
        assert_eq!(peers(&tree).iter().map(|finding| finding.line).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_fuzz_target_that_nothing_runs_is_found() {
        let tree = Tree::of(&[
            ("fuzz/fuzz_targets/ring.rs", ""),
            ("fuzz/src/lib.rs", "pub fn ring(bytes: &[u8]) {}"),
            ("fuzz/Cargo.toml", "name = \"ring\""),
            ("fuzz/tests/corpus.rs", "fn other() {}"),
            ("fuzz/seeds/ring/a", ""),
        ]);
        assert_eq!(
            what(fuzz_targets(&tree)),
            ["fuzz/fuzz_targets/ring.rs:1: fuzz/tests/corpus.rs has no `ring`"]
        );
    }
}
