//! Public items that nothing names.

use std::collections::HashSet;

use crate::rust::{code_of, names_of};
use crate::{Finding, Tree};

/// Kinds of items whose names are looked for.
const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];

/// Public items of product code whose names occur nowhere else in the workspace. A re-export is no use, and neither is a
/// comment; a name that several items share is used if any of them is.
pub fn dead(tree: &Tree) -> Vec<Finding> {
    let sources: Vec<_> =
        tree.files.iter().filter(|file| file.is_rust()).map(|file| (file, code_of(&file.text))).collect();
    let mut uses = HashSet::new();
    for (file, code) in &sources {
        uses.extend(used_names(code));
        // Functions that serde knows by their names.
        let attributes = file.text.lines().filter(|line| line.trim_start().starts_with("#["));
        uses.extend(attributes.flat_map(|line| names_of(line).map(|(_, name)| name)));
    }
    let mut findings = Vec::new();
    for (file, code) in sources.iter().filter(|(file, _)| file.is_product()) {
        for (line, name) in public_items(code) {
            if !uses.contains(name) {
                let what =
                    format!("`{name}` is public and named nowhere else: delete it, or make it private");
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
    findings
}

/// The names in code, without those of `pub use` and without those that an item is defined by.
fn used_names(code: &str) -> Vec<&str> {
    let names: Vec<_> = names_of(code).map(|(_, name)| name).collect();
    let exported = exported_ranges(code);
    let base = code.as_ptr() as usize;
    let mut used = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let offset = name.as_ptr() as usize - base;
        let is_defined = at > 0 && KINDS.contains(&names[at - 1]);
        if !is_defined && !exported.iter().any(|range| range.contains(&offset)) {
            used.push(*name);
        }
    }
    used
}

/// Where `pub use` statements are.
fn exported_ranges(code: &str) -> Vec<std::ops::Range<usize>> {
    code.match_indices("pub use ")
        .map(|(start, _)| start..code[start..].find(';').map_or(code.len(), |end| start + end))
        .collect()
}

/// The public items of code, each with its line: `pub`, and after it nothing but qualifiers before the kind. Items that
/// a macro names are none, and neither are functions that other languages call: they are listed in
/// `crates/ffi/symbols.txt`.
fn public_items(code: &str) -> Vec<(usize, &str)> {
    let mut items = Vec::new();
    for (at, line) in code.lines().enumerate() {
        let mut words = line.split_whitespace();
        if words.next() != Some("pub") || line.contains(" extern ") {
            continue;
        }
        let mut kind = words.next();
        while matches!(kind, Some("unsafe" | "async" | "const")) && line.contains(" fn ") {
            kind = words.next();
        }
        if kind.is_some_and(|kind| KINDS.contains(&kind))
            && let Some(name) = words.next()
        {
            let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if !name.is_empty() {
                items.push((at + 1, name));
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_dead_if_only_its_definition_and_exports_name_it() {
        let lib = "pub use a::{dead, used};\nmod a;\n";
        let a = "/// `dead` is called.\npub fn dead() {}\npub const fn used() {}\npub struct Used;\npub(crate) fn private() {}\npub unsafe extern \"C\" fn of_c() {}\n";
        let b = "fn b(_: crate::Used) { crate::used() }\n";
        let tree =
            Tree::of(&[("crates/a/src/lib.rs", lib), ("crates/a/src/a.rs", a), ("crates/a/tests/b.rs", b)]);
        let found: Vec<_> = dead(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(found, [("crates/a/src/a.rs".to_owned(), 2)]);
    }
}
