//! Parameter files of OTPO, Open MPI's tool for tuning its parameters (Chaarawi, Squyres, Gabriel, Feki
//! 2008).
//!
//! One parameter a line: `name -d default -p values` or `-r first last -t increment OP N`, `-i "condition"`
//! in reverse Polish notation, `-v` for a parameter that is not exported, `-a "text with $names$"` for one
//! that is put together from others. A condition that mentions the parameter itself filters combinations; one
//! that does not says when the parameter is in play.

use super::rpn::{RpnError, infix};
use crate::experiment::ExperimentFile;
use crate::space::{EmitEntry, Grid, GridFailure, ParameterEntry, RequireEntry, Step, Value};

/// What all of Open MPI's variables begin with.
const PREFIX: &str = "OMPI_MCA_";

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct OtpoError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: OtpoProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OtpoProblem {
    /// Something that belongs to no option.
    #[error("`{word}` belongs to no option; values are listed after -p")]
    Stray {
        /// What.
        word: String,
    },
    /// An option that OTPO does not have.
    #[error("there is no option `{option}`; use -d, -p, -r, -t, -i, -v and -a")]
    Option {
        /// What.
        option: String,
    },
    /// An option without what belongs to it.
    #[error("`{option}` needs {needs}")]
    Incomplete {
        /// Which.
        option: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// No values.
    #[error("`{name}` has no values; list them after -p, or give -r and -t")]
    NoValues {
        /// The parameter.
        name: String,
    },
    /// A range without values.
    #[error("the range of `{name}` is empty or too long")]
    Range {
        /// The parameter.
        name: String,
    },
    /// A quotation mark without its partner.
    #[error("a quotation mark is not closed")]
    Quote,
    /// A condition that cannot be read.
    #[error("the condition `{text}` {error}")]
    Condition {
        /// The condition.
        text: String,
        /// What is wrong.
        error: RpnError,
    },
    /// An aggregate whose `$` are not in pairs.
    #[error("a `$` in `{text}` has no partner")]
    Dollar {
        /// The aggregate.
        text: String,
    },
}

/// Reads a file. It has parameters only; what is to be run and read comes from elsewhere.
pub fn read(text: &str) -> Result<ExperimentFile, OtpoError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = |problem| OtpoError { line: index + 1, problem };
        let words = words(line).map_err(at)?;
        if let Some((name, options)) = words.split_first() {
            lines.push((index + 1, Line::read(name, options).map_err(at)?));
        }
    }
    let names: Vec<&str> = lines.iter().map(|(_, line)| line.name.as_str()).collect();
    let mut file = ExperimentFile::default();
    for (number, line) in &lines {
        let entered = line.enter(&names, &mut file);
        entered.map_err(|problem| OtpoError { line: *number, problem })?;
    }
    Ok(file)
}

/// Splits a line at spaces; what is between quotation marks is one word, braces are as good as spaces.
fn words(line: &str) -> Result<Vec<String>, OtpoProblem> {
    let line = line.trim();
    if line.starts_with('#') {
        return Ok(Vec::new());
    }
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        match index % 2 {
            0 => words
                .extend(part.split([' ', '\t', '{', '}']).filter(|word| !word.is_empty()).map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    if line.matches('"').count() % 2 == 1 { Err(OtpoProblem::Quote) } else { Ok(words) }
}

#[derive(Default)]
struct Line {
    name: String,
    default: Option<String>,
    values: Vec<String>,
    range: Option<(f64, f64)>,
    step: Option<Step>,
    condition: Option<String>,
    is_virtual: bool,
    aggregate: Option<String>,
}

impl Line {
    fn read(name: &str, mut words: &[String]) -> Result<Self, OtpoProblem> {
        let mut line = Self { name: name.to_owned(), ..Self::default() };
        let incomplete = |option, needs| OtpoProblem::Incomplete { option, needs };
        let number = |word: Option<&String>| word.and_then(|word| word.parse::<f64>().ok());
        while let Some((option, rest)) = words.split_first() {
            let taken = match option.as_str() {
                "-v" => {
                    line.is_virtual = true;
                    0
                }
                "-d" | "-i" | "-a" => {
                    let place = match option.as_str() {
                        "-d" => &mut line.default,
                        "-i" => &mut line.condition,
                        _ => &mut line.aggregate,
                    };
                    *place = Some(rest.first().ok_or(incomplete("-d, -i or -a", "a text"))?.clone());
                    1
                }
                "-p" => {
                    line.values = rest.iter().take_while(|word| !is_option(word)).cloned().collect();
                    line.values.len()
                }
                "-r" => {
                    let ends = (number(rest.first()), number(rest.get(1)));
                    let (Some(first), Some(last)) = ends else { return Err(incomplete("-r", "two numbers")) };
                    line.range = Some((first, last));
                    2
                }
                "-t" => {
                    line.step =
                        Some(step(rest).ok_or(incomplete("-t", "`increment`, an operator and a number"))?);
                    3
                }
                word if is_option(word) => return Err(OtpoProblem::Option { option: word.to_owned() }),
                word => return Err(OtpoProblem::Stray { word: word.to_owned() }),
            };
            words = &rest[taken..];
        }
        Ok(line)
    }

    /// Adds what the line says to the file.
    fn enter(&self, names: &[&str], file: &mut ExperimentFile) -> Result<(), OtpoProblem> {
        if let Some(aggregate) = &self.aggregate {
            let template = template(aggregate)?;
            file.emit.push(EmitEntry { environment: format!("{PREFIX}{}", self.name), template });
            return Ok(());
        }
        let values = self.all_values()?;
        let mut entry = ParameterEntry {
            name: self.name.clone(),
            kind: kind_of(&values).to_owned(),
            environment: (!self.is_virtual).then(|| format!("{PREFIX}{}", self.name)),
            is_virtual: self.is_virtual,
            default: self.default_of(&values),
            ..ParameterEntry::default()
        };
        if let Some(text) = &self.condition {
            let failed = |error| OtpoProblem::Condition { text: text.clone(), error };
            let condition = infix(text, names).map_err(failed)?;
            if condition.names.contains(&self.name) {
                file.require.push(RequireEntry { that: condition.text });
            } else {
                entry.when = Some(condition.text);
            }
        }
        entry.values = Some(values.iter().map(|text| toml_value(text)).collect());
        file.parameter.push(entry);
        Ok(())
    }

    fn all_values(&self) -> Result<Vec<String>, OtpoProblem> {
        let name = || self.name.clone();
        let Some((first, last)) = self.range else {
            return if self.values.is_empty() {
                Err(OtpoProblem::NoValues { name: name() })
            } else {
                Ok(self.values.clone())
            };
        };
        let step = self.step.ok_or(OtpoProblem::NoValues { name: name() })?;
        let grid: Result<Grid, GridFailure> = Grid::new(first, last, step);
        let grid = grid.map_err(|_| OtpoProblem::Range { name: name() })?;
        Ok(grid.values.iter().map(f64::to_string).collect())
    }

    /// The default where it is one of the values, else the value closest to it: OTPO never used its defaults,
    /// and its example has many that its own ranges do not contain.
    fn default_of(&self, values: &[String]) -> Option<toml::Value> {
        let default = self.default.as_ref()?;
        if values.contains(default) {
            return Some(toml_value(default));
        }
        let number = |text: &String| text.parse().map_or_else(|_| Value::Word(text.clone()), Value::Number);
        let numbers: Vec<Value> = values.iter().map(number).collect();
        let nearest = crate::space::nearest_value(&number(default), &numbers);
        Some(toml_value(&nearest.to_string()))
    }
}

fn is_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphabetic()))
}

fn step(words: &[String]) -> Option<Step> {
    let [method, operator, number, ..] = words else { return None };
    let number: f64 = number.parse().ok().filter(|_| method == "increment")?;
    match operator.as_str() {
        "+" => Some(Step::Add(number)),
        "-" => Some(Step::Add(-number)),
        "*" => Some(Step::Multiply(number)),
        "/" => Some(Step::Multiply(1.0 / number)),
        _ => None,
    }
}

fn kind_of(values: &[String]) -> &'static str {
    let all = |test: fn(&String) -> bool| values.iter().all(test);
    if all(|text| text.parse::<i64>().is_ok()) {
        "integer"
    } else if all(|text| text.parse::<f64>().is_ok_and(f64::is_finite)) {
        "real"
    } else {
        "categorical"
    }
}

fn toml_value(text: &str) -> toml::Value {
    let whole = text.parse().map(toml::Value::Integer);
    whole.unwrap_or_else(|_| toml::Value::String(text.to_owned()))
}

/// `$name$` becomes `{name}`.
fn template(aggregate: &str) -> Result<String, OtpoProblem> {
    let parts: Vec<&str> = aggregate.split('$').collect();
    if parts.len().is_multiple_of(2) {
        return Err(OtpoProblem::Dollar { text: aggregate.to_owned() });
    }
    let part = |(index, part): (usize, &&str)| match index % 2 {
        0 => part.replace('{', "{{").replace('}', "}}"),
        _ => format!("{{{part}}}"),
    };
    Ok(parts.iter().enumerate().map(part).collect())
}

#[cfg(test)]
#[path = "otpo_tests.rs"]
mod tests;
