//! The name that somebody probably meant.

/// The candidate with the fewest single-character edits from `text`, the first of several.
///
/// # Panics
/// When there are no candidates.
pub fn nearest<T: AsRef<str>>(text: &str, candidates: impl IntoIterator<Item = T>) -> T {
    candidates
        .into_iter()
        .min_by_key(|candidate| edits(text, candidate.as_ref()))
        .expect("there is at least one candidate")
}

/// Insertions, deletions and substitutions that turn one text into the other (Levenshtein's distance).
pub(super) fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, character) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..=to.len() {
            let substituted = diagonal + usize::from(to[column - 1] != character);
            diagonal = row[column];
            row[column] = substituted.min(row[column] + 1).min(row[column - 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let cases =
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("block", "blok", 1)];
        for (from, to, count) in cases {
            assert_eq!(edits(from, to), count, "{from} to {to}");
        }
    }

    #[test]
    fn the_first_of_the_closest_candidates_wins() {
        assert_eq!(nearest("yeild", ["spin", "yield", "block"]), "yield");
        assert_eq!(nearest("x", ["a", "b"]), "a");
    }
}
