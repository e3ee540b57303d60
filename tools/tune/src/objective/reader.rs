//! What a program says, as far as anybody will read it, and finding a metric's figure in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use regex::Regex;
use serde_json::Value as Json;

use crate::experiment::{ExperimentError, MetricEntry, Take};

/// Finds a figure.
#[derive(Clone, Debug)]
pub struct Reader {
    name: String,
    source: Source,
    take: Take,
}

#[derive(Clone, Debug)]
enum Source {
    Pattern(Regex),
    Json { pointer: String, conditions: Vec<(String, Json)> },
}

impl Reader {
    /// The reader of a metric.
    pub fn new(entry: &MetricEntry) -> Result<Self, ExperimentError> {
        let metric = || entry.name.clone();
        let source = match (&entry.pattern, &entry.json) {
            (Some(pattern), None) => {
                let pattern = Self::regex(&entry.name, pattern)?;
                if pattern.captures_len() < 2 {
                    return Err(ExperimentError::Group { metric: metric() });
                }
                Source::Pattern(pattern)
            }
            (None, Some(pointer)) if pointer.starts_with('/') => {
                let condition = |(name, value): (&String, &toml::Value)| {
                    let value = serde_json::to_value(value).unwrap_or(Json::Null);
                    (name.clone(), value)
                };
                let conditions = entry.conditions.iter().map(condition).collect();
                Source::Json { pointer: pointer.clone(), conditions }
            }
            (None, Some(pointer)) => {
                return Err(ExperimentError::Pointer { metric: metric(), pointer: pointer.clone() });
            }
            _ => return Err(ExperimentError::NoReader { metric: metric() }),
        };
        Ok(Self { name: metric(), source, take: entry.take.unwrap_or_default() })
    }

    /// A regular expression in which `^` and `$` are the ends of lines.
    pub fn regex(metric: &str, pattern: &str) -> Result<Regex, ExperimentError> {
        let built = regex::RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build();
        built.map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            ExperimentError::Pattern { metric: metric.to_owned(), reason }
        })
    }

    /// The figure in an output; otherwise a sentence that says why there is none.
    pub fn read(&self, output: &str) -> Result<f64, String> {
        let figures = match &self.source {
            Source::Pattern(pattern) => self.matches(pattern, output)?,
            Source::Json { pointer, conditions } => pointed(output, pointer, conditions),
        };
        let what = || match &self.source {
            Source::Pattern(pattern) => format!("the pattern `{pattern}` matches nothing in the output"),
            Source::Json { pointer, .. } => format!("no line of the output has a number at `{pointer}`"),
        };
        self.take.of(&figures).ok_or_else(|| format!("metric `{}` is missing: {}", self.name, what()))
    }

    fn matches(&self, pattern: &Regex, output: &str) -> Result<Vec<f64>, String> {
        let found = pattern.captures_iter(output).filter_map(|captures| captures.get(1));
        let number = |text: &str| {
            let number = number(text.trim());
            number.ok_or_else(|| format!("metric `{}` is no number: `{text}`", self.name))
        };
        found.map(|group| number(group.as_str())).collect()
    }
}

/// A number with a decimal point, and commas only between thousands: `3,14` is none.
fn number(text: &str) -> Option<f64> {
    let mut groups = text.split(',');
    let first = groups.next()?;
    let rest: Vec<_> = groups.collect();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = |text: &&str| text.split('.').next().is_some_and(|whole| whole.len() == 3 && digits(whole));
    let leading = first.trim_start_matches(['-', '+']);
    let grouped = rest.is_empty() || digits(leading) && (1..=3).contains(&leading.len()) && leading != "0";
    let last_only = rest.iter().rev().skip(1).all(|group| !group.contains('.'));
    (grouped && last_only && rest.iter().all(whole)).then(|| text.replace(',', "").parse().ok())?
}

/// The numbers at a pointer: in the output as a whole, or in each line that is an object with these fields.
fn pointed(output: &str, pointer: &str, conditions: &[(String, Json)]) -> Vec<f64> {
    let whole = serde_json::from_str::<Json>(output).into_iter().collect::<Vec<_>>();
    let documents = match whole.is_empty() {
        true => output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        false => whole,
    };
    let fits = |document: &&Json| conditions.iter().all(|(name, value)| document.get(name) == Some(value));
    documents.iter().filter(fits).filter_map(|document| document.pointer(pointer)?.as_f64()).collect()
}

impl Take {
    fn of(self, figures: &[f64]) -> Option<f64> {
        match self {
            Self::Last => figures.last().copied(),
            Self::First => figures.first().copied(),
            Self::Min => figures.iter().copied().min_by(f64::total_cmp),
            Self::Max => figures.iter().copied().max_by(f64::total_cmp),
            Self::Mean => (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64),
        }
    }
}

/// The most of an output that is read: what a benchmark prints by mistake in an endless loop is not worth the
/// memory.
const OUTPUT_MAX: u64 = 16 << 20;

/// The most of each stream that is kept in a log.
const LOG_MAX: usize = 256 << 10;

/// The text in a file; what is not UTF-8 is replaced.
pub(super) fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A file that cannot be read is an output that says nothing.
    let _ = File::open(path).and_then(|file| file.take(OUTPUT_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a text, which tells more about a failure than the beginning.
pub(super) fn tail(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(LOG_MAX);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(toml: &str) -> Result<Reader, ExperimentError> {
        Reader::new(&toml::from_str(&format!("name = \"m\"\n{toml}")).expect(toml))
    }

    fn read(toml: &str, output: &str) -> Result<f64, String> {
        reader(toml).expect(toml).read(output)
    }

    #[test]
    fn patterns_take_the_match_that_is_asked_for() {
        let output = "  0: 1 bytes in 3.25 usec\n  1: 2 bytes in 1,250 usec\n  2: 3 bytes in 4 usec\n";
        for (take, figure) in
            [("last", 4.0), ("first", 3.25), ("min", 3.25), ("max", 1250.0), ("mean", 419.083_333_333_333_3)]
        {
            assert_eq!(
                read(&format!("pattern = 'in ([0-9.,]+) usec$'\ntake = \"{take}\""), output),
                Ok(figure)
            );
        }
    }

    #[test]
    fn commas_stand_between_thousands_or_make_no_number() {
        assert_eq!(number("1,250"), Some(1250.0));
        assert_eq!(number("1,234,567.5"), Some(1_234_567.5));
        assert_eq!(number("-3.5e2"), Some(-350.0));
        for wrong in ["3,14", "1,1", "0,250", "1,2345", "1.5,000", "1,,000", ",5", "banana", ""] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn json_is_read_whole_or_by_lines() {
        let lines = "noise\n{\"name\":\"a\",\"value\":1}\n{\"name\":\"b\",\"value\":2.5,\"size\":64}\n";
        assert_eq!(read("json = \"/value\"\nwhere = { name = \"b\", size = 64 }", lines), Ok(2.5));
        assert_eq!(read("json = \"/value\"\ntake = \"first\"", lines), Ok(1.0));
        assert_eq!(read("json = \"/r/1/x\"", "{\"r\": [{}, {\"x\": 7}]}"), Ok(7.0));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(
            read("pattern = 'x=([0-9]+)'", "y=3"),
            Err("metric `m` is missing: the pattern `x=([0-9]+)` matches nothing in the output".to_owned())
        );
        assert_eq!(read("pattern = 'x=(.*)'", "x=fast"), Err("metric `m` is no number: `fast`".to_owned()));
        assert_eq!(
            read("json = \"/v\"", "{}"),
            Err("metric `m` is missing: no line of the output has a number at `/v`".to_owned())
        );
    }

    #[test]
    fn readers_that_cannot_read_are_refused() {
        let error = |toml: &str| reader(toml).expect_err(toml).to_string();
        assert_eq!(error(""), "metric `m` needs either a `pattern` or a `json` pointer");
        assert_eq!(
            error("pattern = 'a'"),
            "the pattern of `m` has no group; put parentheses around the figure"
        );
        assert_eq!(error("pattern = '(a'"), "the pattern of `m` is no regular expression: unclosed group");
        assert_eq!(
            error("json = \"value\""),
            "`value` of metric `m` is no JSON pointer; it begins with `/`, such as `/results/0/value`"
        );
    }
}
