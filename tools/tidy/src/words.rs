//! The words of the glossary: those of its table "Not this, but that" are used nowhere.

use std::collections::HashMap;

use crate::{File, Finding, Tree};

/// Where the words are defined.
pub const GLOSSARY: &str = "docs/glossary.md";

/// A phrase that is not used, and what stands in its place.
pub struct Banned {
    words: Vec<String>,
    instead: String,
}

/// The rows of the table.
///
/// # Panics
///
/// If the glossary has no such table.
pub fn banned(tree: &Tree) -> Vec<Banned> {
    let (_, table) =
        tree.file(GLOSSARY).text.split_once("## Not this, but that").expect("the table is there");
    let rows = table.lines().skip_while(|line| !line.starts_with("|-")).skip(1);
    let mut banned = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (phrases, instead) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for phrase in phrases.split(", ") {
            let words = phrase.split_whitespace().map(str::to_lowercase).collect();
            banned.push(Banned { words, instead: instead.to_owned() });
        }
    }
    assert!(!banned.is_empty(), "{GLOSSARY} bans no words");
    banned
}

/// Uses of banned phrases, across lines of a comment and in names of code as well.
pub fn uses(tree: &Tree, banned: &[Banned]) -> Vec<Finding> {
    let is_checked =
        |file: &&File| file.path != GLOSSARY && !file.is_history() && file.owner() != "tools/tidy";
    let mut by_first: HashMap<&str, Vec<&Banned>> = HashMap::new();
    for phrase in banned {
        by_first.entry(&phrase.words[0]).or_default().push(phrase);
    }
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(is_checked) {
        let words = words_of(&file.text);
        for at in 0..words.len() {
            for phrase in by_first.get(words[at].1.as_str()).into_iter().flatten() {
                let here = words[at..].iter().take(phrase.words.len()).map(|(_, word)| word);
                if here.eq(&phrase.words) {
                    let (said, instead) = (phrase.words.join(" "), &phrase.instead);
                    findings.push(Finding::new(
                        &file.path,
                        words[at].0,
                        format!("not \"{said}\", but: {instead}"),
                    ));
                }
            }
        }
    }
    findings
}

/// The words of a text in lower case, each with its line. Names of code are several words; the end of a sentence or a
/// statement is a word that no phrase has.
fn words_of(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut end = |word: &mut String| {
            if !word.is_empty() {
                words.push((at + 1, std::mem::take(word)));
            }
        };
        let mut was_lower = false;
        for c in line.chars() {
            if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
                end(&mut word);
            }
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
            } else if matches!(c, '\'' | '’') {
                word.push('\'');
            } else if matches!(c, '.' | ',' | ';' | ':' | '(' | ')' | '{' | '}' | '|') {
                word.push('.');
                end(&mut word);
            }
            was_lower = c.is_lowercase();
        }
        end(&mut word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# G\n\n## Not this, but that\n\n| not | but |\n|---|---|\n| under way, anew | in flight |\n\n| no | x |\n";

    fn found_in(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(GLOSSARY, TABLE), ("crates/a/src/lib.rs", text)]);
        uses(&tree, &banned(&tree)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_phrase_is_found_across_lines_and_in_names() {
        assert_eq!(
            found_in("/// One is under\n/// way.\nlet calls_under_way = UnderWay;\nfn put_anew() {}\n"),
            [1, 3, 3, 4]
        );
    }

    #[test]
    fn other_words_are_none() {
        assert_eq!(found_in("// Under. Way of the thunder way, renew; no x.\n"), [] as [usize; 0]);
    }
}
