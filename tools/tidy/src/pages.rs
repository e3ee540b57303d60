//! ARCHITECTURE.md and the links of all pages: what they name is there, and what is there is named.

use crate::rust::code_of;
use crate::{File, Finding, Tree};

/// The map.
pub const MAP: &str = "ARCHITECTURE.md";

/// Its continuation.
const WHERE: &str = "docs/where.md";

/// Traits whose implementations have a conformance suite, as the table of seams lists them.
const SEAMS: [&str; 6] = ["Datagram", "LaneDriver", "Transport", "Library", "Names", "Disk"];

/// Crates and top-level folders that the map does not name.
pub fn unmapped(tree: &Tree) -> Vec<Finding> {
    let map = &tree.file(MAP).text;
    let mut owners: Vec<_> =
        tree.files.iter().filter(|file| file.path.contains('/')).map(File::owner).collect();
    owners.dedup();
    let is_missing = |owner: &&str| !owner.starts_with('.') && !map.contains(&format!("`{owner}`"));
    let finding =
        |owner| Finding::new(MAP, 1, format!("`{owner}` is missing: say in the map what it is for"));
    owners.into_iter().filter(is_missing).map(finding).collect()
}

/// Paths in backquotes that pages name and that are not there. A path begins with a top-level folder. The past keeps
/// its paths, and decision records have a rule of their own.
pub fn stale_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_present =
        |file: &&File| file.is_page() && !file.is_history() && !file.path.starts_with("docs/decisions/");
    for page in tree.files.iter().filter(is_present) {
        for (line, path) in quoted_paths(&page.text).filter(|(_, path)| !tree.has(path)) {
            findings.push(Finding::new(
                &page.path,
                line,
                format!("`{path}` is gone: name what took its place"),
            ));
        }
    }
    findings
}

/// What stands in backquotes and looks like a path from the root, with its line. What a fuzzer makes is none.
pub fn quoted_paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const TOP: [&str; 8] =
        ["crates/", "fabrics/", "tools/", "docs/", "fuzz/", "examples/", "scripts/", ".cargo/"];
    text.lines().enumerate().flat_map(|(at, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted
            .filter(|text| {
                TOP.iter().any(|top| text.starts_with(top)) && !text.contains([' ', '*', '{', '<'])
            })
            .filter(|text| !text.starts_with("fuzz/corpus") && !text.starts_with("fuzz/artifacts"))
            .map(move |text| (at + 1, text))
    })
}

/// Threads that products start and that no table of threads names.
pub fn unlisted_threads(tree: &Tree) -> Vec<Finding> {
    let tables = [MAP, WHERE].map(|page| tree.file(page).text.as_str());
    let is_listed = |name: &str| tables.iter().any(|table| table.contains(&format!("`{name}`")));
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product()) {
        for (line, name) in thread_names(&file.text).filter(|(_, name)| !is_listed(name)) {
            let what = format!("the thread `{name}` is missing in the tables of threads ({MAP}, {WHERE})");
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// The names that a source gives to threads, each with its line.
fn thread_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const BUILDER: &str = "thread::Builder::new()";
    text.match_indices(BUILDER).filter_map(|(at, _)| {
        let rest = text[at + BUILDER.len()..].trim_start().strip_prefix(".name(\"")?;
        Some((text[..at].matches('\n').count() + 1, &rest[..rest.find('"')?]))
    })
}

/// Implementations of a seam that no row of the table of seams names, and rows without a suite.
pub fn unlisted_seams(tree: &Tree) -> Vec<Finding> {
    let map = &tree.file(MAP).text;
    let rows: Vec<_> = map.lines().enumerate().filter(|(_, line)| line.starts_with('|')).collect();
    let mut findings = Vec::new();
    for seam in SEAMS {
        let Some(&(at, row)) = rows.iter().find(|(_, row)| row.contains(&format!("`{seam}`"))) else {
            findings.push(Finding::new(MAP, 1, format!("the table of seams has no row for `{seam}`")));
            continue;
        };
        if let Some((again, _)) =
            rows.iter().find(|(other, row)| *other > at && row.contains(&format!("`{seam}`")))
        {
            findings.push(Finding::new(MAP, again + 1, format!("a second row for `{seam}`: make it one")));
        }
        let suite = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        if quoted_paths(suite).next().is_none() {
            findings.push(Finding::new(MAP, at + 1, format!("`{seam}` has no conformance suite in its row")));
        }
        for file in tree.files.iter().filter(|file| file.is_product() && implements(file, seam)) {
            if !quoted_paths(row).any(|(_, path)| file.path.starts_with(path)) {
                let what =
                    format!("implements `{seam}`: name it in the table of seams, and run the suite over it");
                findings.push(Finding::new(&file.path, 1, what));
            }
        }
    }
    findings
}

fn implements(file: &File, seam: &str) -> bool {
    file.text.contains(seam)
        && code_of(&file.text)
            .lines()
            .any(|line| line.starts_with("impl") && line.contains(&format!(" {seam} for ")))
}

/// Links of pages to files that are not there.
pub fn broken_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_page()) {
        for (at, line) in file.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                if !target.is_empty() && !target.contains("://") && !tree.has(&joined(&file.path, target)) {
                    findings.push(Finding::new(
                        &file.path,
                        at + 1,
                        format!("the link to {target} leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// The list of the book's chapters.
pub const CONTENTS: &str = "docs/SUMMARY.md";

/// Pages of `docs` that are no chapter of the book. Decisions become chapters by themselves, diaries none.
pub fn not_in_the_book(tree: &Tree) -> Vec<Finding> {
    let contents = &tree.file(CONTENTS).text;
    let is_missing = |file: &&File| {
        let is_listed_itself =
            file.path.starts_with("docs/decisions/0") || file.is_history() || file.path == CONTENTS;
        let chapter = file.path.strip_prefix("docs/").filter(|_| file.is_page() && !is_listed_itself);
        chapter.is_some_and(|chapter| !contents.contains(&format!("]({chapter})")))
    };
    let finding = |file: &File| {
        Finding::new(CONTENTS, 1, format!("{} is no chapter: list it where it belongs", file.path))
    };
    tree.files.iter().filter(is_missing).map(finding).collect()
}

/// Links of pages to headings that are not there.
pub fn broken_anchors(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_page()) {
        for (at, line) in file.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let Some((target, anchor)) = link.split_once('#') else { continue };
                let path = if target.is_empty() { file.path.clone() } else { joined(&file.path, target) };
                let page = tree.files.iter().find(|file| file.path == path);
                if page.is_some_and(|page| !anchors(&page.text).any(|found| found == anchor)) {
                    findings.push(Finding::new(
                        &file.path,
                        at + 1,
                        format!("{path} has no heading #{anchor}"),
                    ));
                }
            }
        }
    }
    findings
}

/// What headings are called in links.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// The path that a relative link of a page means.
fn joined(page: &str, target: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| `Datagram` | `crates/a` | `docs/b.md` |\n[b](docs/b.md) [c](docs/c.md#x) [w](https://w)\n`crates/gone`\n";

    fn tree() -> Tree {
        let driver = "impl Datagram for A {\n}\n";
        Tree::of(&[
            (MAP, PAGE),
            ("docs/b.md", "[up](../ARCHITECTURE.md)"),
            ("crates/a/src/lib.rs", driver),
            ("crates/z/src/lib.rs", driver),
        ])
    }

    #[test]
    fn a_crate_that_the_map_does_not_name_is_found() {
        let found: Vec<_> = unmapped(&tree()).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`crates/z`") && found[1].contains("`docs`"));
    }

    #[test]
    fn a_thread_that_no_table_names_is_found() {
        let source = "std::thread::Builder::new().name(\"known\".into());\nthread::Builder::new()\n    .name(\"new\".to_owned());\n";
        let tree = Tree::of(&[(MAP, "| `known` |"), (WHERE, ""), ("crates/a/src/lib.rs", source)]);
        let found = unlisted_threads(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("`new`") && found[0].line == 2, "{found:?}");
    }

    #[test]
    fn an_implementation_outside_of_its_row_is_found() {
        let found = unlisted_seams(&tree());
        assert!(found.iter().any(|finding| finding.path == "crates/z/src/lib.rs"));
        assert!(!found.iter().any(|finding| finding.path == "crates/a/src/lib.rs"));
    }

    #[test]
    fn a_page_outside_of_the_book_and_a_link_to_no_heading_are_found() {
        let tree = Tree::of(&[
            (CONTENTS, "[A](a.md)"),
            ("docs/a.md", "# A `b`: c\n[good](b.md#one-two) [bad](b.md#three) [own](#a-b-c)"),
            ("docs/b.md", "## One, two"),
        ]);
        assert_eq!(not_in_the_book(&tree).len(), 1);
        let bad: Vec<_> = broken_anchors(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(bad, ["docs/b.md has no heading #three"]);
    }

    #[test]
    fn what_is_gone_is_found() {
        assert_eq!(broken_links(&tree()).len(), 1);
        let stale: Vec<_> = stale_paths(&tree()).into_iter().map(|finding| finding.line).collect();
        assert_eq!(stale, [3]);
    }
}
