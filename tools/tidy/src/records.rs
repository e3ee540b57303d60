//! Decision records and walks: they name code that exists.

use std::collections::BTreeSet;

use crate::rust::{code_of, names_of};
use crate::{File, Finding, Tree};

/// Where the decision records are, and their index.
const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

/// The paragraphs of a record.
const PARAGRAPHS: [&str; 5] =
    ["**Context.**", "**Decision.**", "**Measured.**", "**Price.**", "**Delete when.**"];

/// Records without one of their paragraphs, without a line in the index, or about code that is gone.
pub fn decisions(tree: &Tree) -> Vec<Finding> {
    let index = &tree.file(INDEX).text;
    let mut findings = Vec::new();
    for record in tree.files.iter().filter(|file| file.path.starts_with(FOLDER) && file.path != INDEX) {
        let name = &record.path[FOLDER.len()..];
        if !index.contains(&format!("({name})")) {
            findings.push(Finding::new(INDEX, 1, format!("{name} is missing from the index")));
        }
        for paragraph in PARAGRAPHS.iter().filter(|paragraph| !record.text.contains(**paragraph)) {
            findings.push(Finding::new(&record.path, 1, format!("has no paragraph {paragraph}")));
        }
        findings.extend(stale_code(tree, record));
    }
    findings
}

/// What is wrong with the line `Date: …. Code: …` of a record, which may be broken.
fn stale_code(tree: &Tree, record: &File) -> Vec<Finding> {
    let head: String = record.text.split("**Context.**").next().unwrap_or_default().to_owned();
    let Some((_, code)) = head.split_once("Code: ").filter(|(date, _)| date.contains("\nDate: 20")) else {
        return vec![Finding::new(&record.path, 3, "has no line `Date: YYYY-MM-DD. Code: …`")];
    };
    let named: Vec<_> = code.split('`').skip(1).step_by(2).collect();
    let gone = named.iter().filter(|path| !tree.has(path));
    let finding = |path: &&str| {
        Finding::new(
            &record.path,
            3,
            format!("names `{path}`, which is gone: delete the record, or name what took its place"),
        )
    };
    let none = named.is_empty().then(|| Finding::new(&record.path, 3, "names no code"));
    gone.map(finding).chain(none).collect()
}

/// Steps of a walk whose file or function does not exist. A line is a path and the functions passed through in it.
pub fn walks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for walk in tree.files.iter().filter(|file| file.path.starts_with("docs/walks/")) {
        for (at, line) in
            walk.text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let path = words.next().unwrap_or_default();
            let Some(file) = tree.files.iter().find(|file| file.path == path) else {
                findings.push(Finding::new(&walk.path, at + 1, format!("{path} is gone")));
                continue;
            };
            let code = code_of(&file.text);
            let defined = functions_of(&code);
            for function in words.filter(|function| !defined.contains(function)) {
                findings.push(Finding::new(&walk.path, at + 1, format!("{path} has no function {function}")));
            }
        }
    }
    findings
}

fn functions_of(code: &str) -> BTreeSet<&str> {
    let names: Vec<_> = names_of(code).map(|(_, name)| name).collect();
    names.windows(2).filter(|pair| pair[0] == "fn").map(|pair| pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(code: &str) -> String {
        format!("# 0001: A\n\nDate: 2026-11-21. Code: {code}.\n\n{}\n", PARAGRAPHS.join(" x\n\n"))
    }

    #[test]
    fn a_record_about_code_that_is_gone_is_found() {
        let (right, stale) = (record("`crates/a`"), record("`crates/b`"));
        let tree = Tree::of(&[
            (INDEX, "(0001-a.md) (0002-b.md)"),
            ("docs/decisions/0001-a.md", &right),
            ("docs/decisions/0002-b.md", &stale),
            ("docs/decisions/0003-c.md", "# 0003: C\n"),
            ("crates/a/src/lib.rs", ""),
        ]);
        let mut found: Vec<_> = decisions(&tree).into_iter().map(|finding| finding.path).collect();
        found.dedup();
        assert_eq!(found, ["docs/decisions/0002-b.md", INDEX, "docs/decisions/0003-c.md"]);
    }

    #[test]
    fn a_walk_through_a_function_that_is_gone_is_found() {
        let tree = Tree::of(&[
            ("docs/walks/a.txt", "# a walk\ncrates/a/src/lib.rs here gone\ncrates/b.rs x\n"),
            ("crates/a/src/lib.rs", "fn here() {} // fn gone"),
        ]);
        let lines: Vec<_> = walks(&tree).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
