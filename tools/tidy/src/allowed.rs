//! What is allowed nevertheless: a number of findings for a rule and a file or crate, which may only become less.

use std::collections::BTreeMap;
use std::fs;

use crate::{Finding, Tree};

/// Where the allowances are.
pub const PATH: &str = "tools/tidy/allowed.txt";

/// The allowances of one rule: by path the line of the entry and the number, and how many of them were used.
pub struct Allowed {
    rule: String,
    entries: BTreeMap<String, (usize, usize)>,
}

impl Allowed {
    /// Reads the lines `RULE PATH NUMBER reason…` of a rule.
    ///
    /// # Panics
    ///
    /// If a line has another form.
    pub fn of_rule(tree: &Tree, rule: &str) -> Self {
        let mut entries = BTreeMap::new();
        for (at, line) in tree.file(PATH).text.lines().enumerate() {
            let mut words = line.split_whitespace();
            if words.next() == Some(rule) {
                let path = words.next().unwrap_or_else(|| panic!("{PATH}:{}: a path is missing", at + 1));
                let number = words.next().and_then(|number| number.parse().ok());
                let number = number.unwrap_or_else(|| panic!("{PATH}:{}: a number is missing", at + 1));
                entries.insert(path.to_owned(), (at + 1, number));
            }
        }
        Self { rule: rule.to_owned(), entries }
    }

    /// The allowances of all rules, with those of this one lowered to what was found; `key` as below.
    ///
    /// # Panics
    ///
    /// If the allowances cannot be read.
    pub fn lowered(&self, tree: &Tree, findings: &[Finding], key: impl Fn(&Finding) -> String) -> String {
        let text = fs::read_to_string(tree.root.join(PATH)).expect("the allowances can be read");
        let found = |path: &str| findings.iter().filter(|finding| key(finding) == path).count();
        let lowered = |line: &str| {
            let mut words = line.split_whitespace();
            let (rule, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if rule != self.rule {
                return Some(line.to_owned());
            }
            let number = words.next().and_then(|number| number.parse().ok()).unwrap_or(0).min(found(path));
            let reason = words.map(|word| format!(" {word}")).collect::<String>();
            (number > 0).then(|| format!("{rule} {path} {number}{reason}"))
        };
        text.lines().filter_map(lowered).map(|line| line + "\n").collect()
    }

    /// Those findings that are not allowed, and one for each allowance that is larger than what was found. `key` says
    /// to which entry a finding belongs.
    pub fn judge(&self, findings: Vec<Finding>, key: impl Fn(&Finding) -> String) -> Vec<Finding> {
        let mut found: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for finding in findings {
            found.entry(key(&finding)).or_default().push(finding);
        }
        let mut judged = Vec::new();
        for (path, &(line, number)) in &self.entries {
            let there = found.get(path).map_or(0, Vec::len);
            if there < number {
                let rule = &self.rule;
                let what = format!(
                    "{rule} {path}: {number} allowed, {there} found; lower it, as tests/tidy.rs says"
                );
                judged.push(Finding::new(PATH, line, what));
            }
        }
        for (path, mut there) in found {
            let number = self.entries.get(&path).map_or(0, |&(_, number)| number);
            if there.len() > number {
                let count = there.len();
                if number > 0 {
                    let last = there.last_mut().expect("there is one");
                    last.what += &format!(" ({count} in {path}, {number} allowed)");
                }
                judged.append(&mut there);
            }
        }
        judged
    }
}
