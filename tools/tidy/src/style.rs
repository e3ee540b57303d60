//! Columns, forced attributes, tiny files, and what must not be in a source at all.

use crate::rust::{code_of, names_of};
use crate::{File, Finding, Tree};

/// The most columns of a line.
pub const COLUMNS_MAX: usize = 110;

/// A file with fewer lines is tiny: most likely half of another one's concept.
pub const TINY_LINES: usize = 40;

/// Lines over [`COLUMNS_MAX`] columns. Tables, fenced blocks and addresses of pages cannot be broken; texts of Rust are
/// left to its formatter.
pub fn long_lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() || file.is_page()) {
        let mut is_fenced = false;
        for (at, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            is_fenced ^= file.is_page() && line.trim_start().starts_with("```");
            let is_table = file.is_page() && line.trim_start().starts_with('|') || is_table_in_comment(line);
            let is_text = file.is_rust() && !line.trim_start().starts_with("//") && line.contains('"');
            if columns > COLUMNS_MAX && !is_fenced && !is_table && !is_text && !line.contains("://") {
                findings.push(Finding::new(
                    &file.path,
                    at + 1,
                    format!("{columns} columns; wrap at {COLUMNS_MAX}"),
                ));
            }
        }
    }
    findings
}

fn is_table_in_comment(line: &str) -> bool {
    let comment = line.trim_start().trim_start_matches(['/', '!']);
    line.trim_start().starts_with("//") && comment.trim_start().starts_with('|')
}

/// Attributes that force or forbid inlining, or call a function cold, in product code.
pub fn forced_attributes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product()) {
        for (at, line) in code_of(&file.text).lines().enumerate() {
            for attribute in ["#[inline(always)]", "#[inline(never)]", "#[cold]"] {
                if line.contains(attribute) {
                    let what =
                        format!("{attribute}: measure that it pays, and lower another crate's number for it");
                    findings.push(Finding::new(&file.path, at + 1, what));
                }
            }
        }
    }
    findings
}

/// Product files of fewer than [`TINY_LINES`] lines.
pub fn tiny_files(tree: &Tree) -> Vec<Finding> {
    let is_tiny = |file: &&File| file.is_product() && file.text.lines().count() < TINY_LINES;
    let finding = |file: &File| {
        let lines = file.text.lines().count();
        Finding::new(
            &file.path,
            lines,
            format!("{lines} lines: join it with the file whose concept it shares"),
        )
    };
    tree.files.iter().filter(is_tiny).map(finding).collect()
}

/// Lints about dead code that are switched off in product code. Tests share helpers of which each uses a part.
pub fn hidden_dead_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product()) {
        let code = code_of(&file.text);
        let names: Vec<_> = names_of(&code).collect();
        for pair in names.windows(2) {
            if (pair[0].1, pair[1].1) == ("allow", "dead_code") {
                findings.push(Finding::new(
                    &file.path,
                    pair[0].0,
                    "hidden dead code: delete it, or `expect` it with a reason",
                ));
            }
        }
    }
    findings
}

/// Stubs, and paths of somebody's machine.
pub fn forbidden(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.owner() != "tools/tidy") {
        let code = if file.is_rust() { code_of(&file.text) } else { String::new() };
        for (at, line) in code.lines().enumerate() {
            if line.contains("todo!(") || line.contains("unimplemented!(") {
                findings.push(Finding::new(&file.path, at + 1, "a stub: finish it or leave it out"));
            }
        }
        for (at, line) in file.text.lines().enumerate() {
            if ["/work/", "/home/", "/root/"].iter().any(|path| line.contains(path)) {
                findings.push(Finding::new(
                    &file.path,
                    at + 1,
                    "a path of one machine: name it from the root",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_long_line_is_found_and_a_long_table_is_not() {
        let long = "x ".repeat(60);
        let page = format!("{long}\n| {long}\n```\n{long}\n```\nhttps://{long}\nshort\n");
        assert_eq!(lines(&long_lines(&Tree::of(&[("docs/a.md", &page)]))), [1]);
        let source = format!("// {long}\nlet a = \"{long}\";\n{long}\n/// | {long}\n");
        assert_eq!(lines(&long_lines(&Tree::of(&[("crates/a/src/lib.rs", &source)]))), [1, 3]);
    }

    #[test]
    fn columns_are_characters() {
        let line = "é".repeat(COLUMNS_MAX);
        assert!(long_lines(&Tree::of(&[("docs/a.md", &line)])).is_empty());
    }

    #[test]
    fn attributes_count_in_product_code_only() {
        let source = "#[cold]\nfn a() {}\n// #[cold]\n#[inline(always)]\nfn b() {}\n#[inline]\nfn c() {}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", source), ("crates/a/tests/a.rs", source)]);
        assert_eq!(lines(&forced_attributes(&tree)), [1, 4]);
    }

    #[test]
    fn stubs_and_hidden_dead_code_are_found() {
        let source = "#[allow(dead_code)]\nfn a() { todo!() }\n// todo!\nlet todo = 1;\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", source), ("docs/a.md", "cd /home/me\n")]);
        assert_eq!(lines(&forbidden(&tree)), [2, 1]);
        assert_eq!(lines(&hidden_dead_code(&tree)), [1]);
    }
}
