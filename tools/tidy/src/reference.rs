//! The pages of the reference that come from the sources: what is counted, and what may go wrong.

use core::fmt::Write;

use crate::{File, Tree};

/// The page of counters.
pub const COUNTERS: &str = "docs/reference/counters.md";
/// The page of errors.
pub const ERRORS: &str = "docs/reference/errors.md";

/// Crates whose errors a user meets.
const PUBLIC: [&str; 3] = ["crates/farcall", "crates/kv", "crates/collective"];

/// Files of other crates with errors that these pass on.
const PASSED_ON: [&str; 2] = ["crates/driver/src/watched_file.rs", "crates/transport/src/outcome.rs"];

const GENERATED: &str = "FARCALL_TIDY_LOWER=1 cargo test -p farcall-tidy writes this page.";

/// The text of the page of counters: every `declare_counters!` of a product.
pub fn counters(tree: &Tree) -> String {
    let mut page = format!(
        "# Counters\n\n<!-- {GENERATED} -->\n\nWhat `farcall stat`, `top`, `ps` and `export` show. \
         [The counter file](../counters.md) has the format,\n[seen from outside](../metrics.md) the names \
         for monitoring systems.\n"
    );
    let declares = |file: &&File| file.is_product() && file.text.contains("declare_counters! {");
    for file in tree.files.iter().filter(declares) {
        // Examples in comments declare nothing.
        let code: String = file.text.split_inclusive('\n').filter(|line| !line.starts_with("///")).collect();
        for declaration in code.split("declare_counters! {").skip(1) {
            let Some((head, _)) = declaration.split_once('{') else { continue };
            let rows: Vec<_> = declaration.lines().map_while(Row::of_block).flatten().collect();
            if rows.is_empty() || !head.contains("pub struct ") {
                continue;
            }
            let title = head.split("pub struct ").nth(1).unwrap_or_default().trim();
            heading(&mut page, title.trim_end_matches("Counters"), &documentation(head));
            table(&mut page, ["counter", "counts", "sentence"], &rows);
        }
    }
    page
}

/// The text of the page of errors: every public enumeration of a public crate whose variants have sentences.
pub fn errors(tree: &Tree) -> String {
    let mut page = format!(
        "# Errors\n\n<!-- {GENERATED} -->\n\nWhat operations of the library and the store end with. The \
         sentence is what the error prints; behind it is\nthe cause, and what to do about it.\n"
    );
    let is_public = |file: &&File| {
        file.is_product() && (PUBLIC.contains(&file.owner()) || PASSED_ON.contains(&&*file.path))
    };
    for file in tree.files.iter().filter(is_public) {
        for (at, _) in file.text.match_indices("\npub enum ") {
            let (before, rest) = file.text.split_at(at + 1);
            let name = rest["pub enum ".len()..].split([' ', '{', '<']).next().unwrap_or_default();
            let body = rest.split("\n}").next().unwrap_or_default();
            let rows = variants(body);
            if !rows.is_empty() {
                heading(&mut page, name, &documentation_above(before));
                table(&mut page, ["variant", "sentence", "cause, and what to do"], &rows);
            }
        }
    }
    page
}

/// Three cells.
struct Row([String; 3]);

impl Row {
    /// A line of a declaration: a row, or nothing; `None` behind its end.
    fn of_block(line: &str) -> Option<Option<Self>> {
        if line == "}" {
            return None;
        }
        let row = || {
            let (name, rest) = line.trim().split_once(": \"")?;
            let (unit, sentence) = rest.split_once("\" => \"")?;
            let sentence = sentence.trim_end_matches(',').trim_end_matches('"');
            Some(Self([format!("`{name}`"), unit.to_owned(), sentence.to_owned()]))
        };
        Some(row())
    }
}

/// Variants with an `#[error("…")]`, by name, sentence and documentation.
fn variants(body: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut documentation, mut sentence, mut is_open) = (String::new(), String::new(), false);
    for line in body.lines().skip(1) {
        let text = line.trim();
        // Fields of variants, and their documentation, are further in.
        let is_of_variant = line.len() - line.trim_start().len() == 4;
        if is_open {
            sentence.push_str(text.trim_end_matches('\\'));
            is_open = !text.ends_with(")]");
        } else if !is_of_variant {
        } else if let Some(line) = text.strip_prefix("///") {
            documentation.push_str(line);
        } else if let Some(rest) = text.strip_prefix("#[error(") {
            sentence = rest.trim_end_matches('\\').to_owned();
            is_open = !text.ends_with(")]");
        } else if text.starts_with(|c: char| c.is_ascii_uppercase()) {
            let name = text.split([' ', '(', '{', ',']).next().unwrap_or_default();
            if let Some(sentence) = quoted(&sentence) {
                rows.push(Row([format!("`{name}`"), sentence, documentation.trim().to_owned()]));
            }
            documentation.clear();
            sentence.clear();
        }
    }
    rows
}

/// What is between the first quote and the last.
fn quoted(text: &str) -> Option<String> {
    let (from, to) = (text.find('"')?, text.rfind('"')?);
    (from < to).then(|| text[from + 1..to].replace("\\\"", "\""))
}

/// The `///` lines of a text.
fn documentation(head: &str) -> String {
    let lines = head.lines().filter_map(|line| line.trim().strip_prefix("///"));
    lines.collect::<String>().trim().to_owned()
}

/// The `///` lines that end a text, above attributes.
fn documentation_above(before: &str) -> String {
    let lines: Vec<_> =
        before.lines().rev().take_while(|line| line.starts_with("///") || line.starts_with("#[")).collect();
    let lines = lines.into_iter().rev().filter_map(|line| line.strip_prefix("///"));
    lines.collect::<String>().trim().to_owned()
}

fn heading(page: &mut String, title: &str, about: &str) {
    write!(page, "\n## {title}\n\n").expect("a string takes everything");
    let mut columns = 0;
    for word in plain(about).split_whitespace() {
        let separator = if columns == 0 {
            ""
        } else if columns + 1 + word.chars().count() > crate::style::COLUMNS_MAX {
            columns = 0;
            "\n"
        } else {
            columns += 1;
            " "
        };
        columns += word.chars().count();
        page.push_str(separator);
        page.push_str(word);
    }
    page.push('\n');
}

fn table(page: &mut String, titles: [&str; 3], rows: &[Row]) {
    write!(page, "\n| {} |\n|---|---|---|\n", titles.join(" | ")).expect("a string takes everything");
    for Row(cells) in rows {
        let cells = cells.each_ref().map(|cell| plain(cell));
        writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes everything");
    }
}

/// References of rustdoc as names, and nothing that ends a cell.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, behind)) = link.split_once("`]") else { break };
        // Where a link leads is for rustdoc.
        let behind = match behind.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, behind)) => behind,
            None => behind,
        };
        plain.push_str(before);
        plain.push('`');
        plain.push_str(name);
        plain.push('`');
        rest = behind;
    }
    plain.push_str(rest);
    plain.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_become_tables() {
        let source = "farcall_driver::declare_counters! {\n    /// What a kettle did.\n    pub struct KettleCounters {\n        boils: \"times\" => \"How often | it boiled\",\n    }\n}\n";
        let page = counters(&Tree::of(&[("crates/a/src/counters.rs", source)]));
        let end = "\n## Kettle\n\nWhat a kettle did.\n\n| counter | counts | sentence |\n|---|---|---|\n| `boils` | times | How often \\| it boiled |\n";
        assert!(page.ends_with(end), "{page}");
    }

    #[test]
    fn variants_have_their_sentence_and_their_documentation() {
        let source = "/// Why [`Kettle::boil`] failed.\n#[derive(Debug)]\npub enum BoilError {\n    /// It is empty:\n    /// fill it.\n    #[error(\"no water in {kettle}\")]\n    Empty {\n        /// Which.\n        kettle: u8,\n    },\n    /// Others.\n    Other,\n}\n";
        let page = errors(&Tree::of(&[("crates/farcall/src/boil.rs", &format!("\n{source}"))]));
        let end = "\n## BoilError\n\nWhy `Kettle::boil` failed.\n\n| variant | sentence | cause, and what to do |\n|---|---|---|\n| `Empty` | no water in {kettle} | It is empty: fill it. |\n";
        assert!(page.ends_with(end), "{page}");
    }
}
