//! As much of Rust's grammar as the rules need: what is comment, what is text, what is code.

/// The source with comments and the contents of texts replaced by spaces. Lines stay lines.
pub fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let blank = blank_length(rest, code.chars().next_back());
        if blank == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..blank].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[blank..];
        }
    }
    code
}

/// The bytes of the comment, text or character at the start of `rest`; 0 if there is code.
fn blank_length(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let prefix = rest.bytes().take_while(|byte| b"brc".contains(byte)).count();
    let after = if is_word { rest } else { &rest[prefix.min(2)..] };
    let skipped = rest.len() - after.len();
    let hashes = after.bytes().take_while(|&byte| byte == b'#').count();
    if hashes > 0 && skipped > 0 && after[hashes..].starts_with('"') || rest.starts_with("r\"") && !is_word {
        let end = format!("\"{}", "#".repeat(hashes));
        let start = skipped + hashes + 1;
        return rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len());
    }
    match after.chars().next() {
        Some('"') => skipped + 1 + end_of_text(&after[1..]),
        Some('\'') => character_length(after).map_or(0, |length| skipped + length),
        _ => 0,
    }
}

/// The bytes up to and with the quote that ends a text.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character_length(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return text[2..].char_indices().skip(1).find(|&(_, c)| c == '\'').map(|(at, _)| at + 3);
    }
    chars.next().filter(|&(_, c)| c == '\'').map(|(at, _)| at + 1)
}

/// The identifiers and keywords of code, with the line of each, from 1.
pub fn names_of(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(at, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(move |name| (at + 1, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blank_and_code_is_not() {
        let source =
            "let a = \"x // y\"; // it's\nlet b: &'a str = r#\"q\"r\"#; let c = '\\''; let d = '\"'; end";
        let code = code_of(source);
        assert_eq!(code.lines().count(), 2);
        let names: Vec<_> = names_of(&code).map(|(_, name)| name).collect();
        assert_eq!(names, ["let", "a", "let", "b", "a", "str", "let", "c", "let", "d", "end"]);
    }

    #[test]
    fn lines_stay_where_they_are() {
        let code = code_of("/* one\ntwo */ fn three() {}\n\"four\nfive\" six");
        let names: Vec<_> = names_of(&code).collect();
        assert_eq!(names, [(2, "fn"), (2, "three"), (4, "six")]);
    }
}
