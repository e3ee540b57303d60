//! The listings of UCX, Open MPI and libfabric.

use std::collections::BTreeMap;

use farcall::parameters::quantity::{parse_duration, parse_size, show_size};

use super::guess;
use crate::experiment::ExperimentFile;
use crate::space::ParameterEntry;

/// Why a listing cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// Nothing in it looks as it should.
    #[error("there is no parameter in it; give it the output of `{command}`")]
    Empty {
        /// The command whose output it should be.
        command: &'static str,
    },
}

fn listing(parameters: Vec<ParameterEntry>, command: &'static str) -> Result<ExperimentFile, ListingError> {
    let mut file = ExperimentFile::default();
    for parameter in parameters {
        // A variable that is listed twice is one. Lists of sizes and limits that stand for never are no
        // grids.
        let alone = ExperimentFile { parameter: vec![parameter.clone()], ..ExperimentFile::default() };
        if alone.space().is_ok() && file.parameter.iter().all(|known| known.name != parameter.name) {
            file.parameter.push(parameter);
        }
    }
    if file.parameter.is_empty() { Err(ListingError::Empty { command }) } else { Ok(file) }
}

/// The output of `ucx_info -c -f`: for each variable its comment, its syntax, and `NAME=default`.
pub fn ucx(text: &str) -> Result<ExperimentFile, ListingError> {
    let mut parameters = Vec::new();
    let mut about = String::new();
    let mut syntax = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim();
            match comment.strip_prefix("syntax:") {
                Some(found) => found.trim().clone_into(&mut syntax),
                None if about.is_empty() && !comment.starts_with("inherits:") => {
                    comment.clone_into(&mut about)
                }
                None => {}
            }
            continue;
        }
        if let Some((name, default)) = line.split_once('=').filter(|(name, _)| name.starts_with("UCX_")) {
            let entry = ucx_entry(name, default, &syntax);
            let about = (!about.is_empty()).then(|| about.clone());
            parameters.extend(entry.map(|entry| ParameterEntry {
                environment: Some(name.to_owned()),
                about,
                ..entry
            }));
        }
        about.clear();
        syntax.clear();
    }
    listing(parameters, "ucx_info -c -f")
}

fn ucx_entry(name: &str, default: &str, syntax: &str) -> Option<ParameterEntry> {
    let own = name.to_ascii_lowercase();
    if syntax.contains("[y|n|try]") || syntax.contains("<yes|no|try>") {
        return Some(guess::words(&own, &["y", "n", "try"], default));
    }
    if syntax.starts_with("<y|n>") || syntax.starts_with("[y|n]") {
        return Some(guess::switch(&own, "n", "y", default == "y"));
    }
    let choices = syntax
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .filter(|inside| inside.contains('|'));
    if let Some(choices) = choices {
        let words: Vec<&str> = choices.split('|').map(str::trim).collect();
        return Some(guess::words(&own, &words, default));
    }
    if syntax.contains("memory units") {
        return Some(size(&own, default));
    }
    if syntax.contains("unsigned integer") || syntax.contains("integer") {
        return integer(&own, default, (0.0, f64::MAX));
    }
    if syntax.contains("time value") {
        let nanos = parse_duration(default).ok()?.as_nanos() as f64;
        let show = |nanos: f64| {
            let span = core::time::Duration::from_nanos(nanos as u64);
            toml::Value::String(farcall::parameters::quantity::show_duration(span))
        };
        return Some(guess::number(&own, "duration", nanos, (0.0, f64::MAX), show));
    }
    None
}

/// A size around its default; where that is a word, some usual ones beside it.
fn size(name: &str, default: &str) -> ParameterEntry {
    // UCX writes `8k`, `8K` and `8256` as it likes; a fraction is rounded.
    let show = |bytes: f64| toml::Value::String(show_size(bytes as u64));
    match parse_size(default.trim_end_matches('b').trim_end_matches('B')) {
        Ok(bytes) => guess::number(name, "size", bytes as f64, (0.0, f64::MAX), show),
        Err(_) => ParameterEntry {
            kind: "size".to_owned(),
            ..guess::words(name, &[default, "1K", "8K", "64K", "512K"], default)
        },
    }
}

fn integer(name: &str, default: &str, bounds: (f64, f64)) -> Option<ParameterEntry> {
    let show = |number: f64| toml::Value::Integer(number as i64);
    Some(guess::number(
        name,
        "integer",
        default.parse().ok().filter(|one: &f64| one.is_finite())?,
        bounds,
        show,
    ))
}

/// The output of `ompi_info --all --parsable`: lines `mca:FRAMEWORK:COMPONENT:param:NAME:FIELD:…`.
pub fn open_mpi(text: &str) -> Result<ExperimentFile, ListingError> {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().splitn(7, ':').collect();
        let ["mca", _, _, "param", name, field, value] = fields[..] else { continue };
        let value = value.trim_matches('"').to_owned();
        found.entry(name.to_owned()).or_default().entry(field.to_owned()).or_default().push(value);
    }
    let parameters = found.iter().filter_map(|(name, fields)| {
        let one = |field: &str| fields.get(field).and_then(|values| values.first()).map(String::as_str);
        if one("status").is_some_and(|status| status != "writeable") {
            return None;
        }
        let default = one("value")?;
        let entry = open_mpi_entry(name, default, one("type").unwrap_or_default(), fields.get("enumerator"))?;
        let about = one("help").map(str::to_owned);
        Some(ParameterEntry { environment: Some(format!("OMPI_MCA_{name}")), about, ..entry })
    });
    listing(parameters.collect(), "ompi_info --all --parsable")
}

fn open_mpi_entry(
    name: &str,
    default: &str,
    kind: &str,
    choices: Option<&Vec<String>>,
) -> Option<ParameterEntry> {
    if kind == "bool" {
        return Some(guess::switch(
            name,
            "false",
            "true",
            matches!(default, "true" | "1" | "yes" | "enabled"),
        ));
    }
    // `value:0:ignore` or `value:0,text:ignore`: the last word is what people write.
    let word = |choice: &String| choice.rsplit(':').next().map(str::to_owned);
    let words: Vec<String> = choices.into_iter().flatten().filter_map(word).collect();
    if words.len() > 1 {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return Some(guess::words(name, &words, default));
    }
    match kind {
        "size_t" | "unsigned_long" | "unsigned_long_long"
            if name.contains("size") || name.contains("limit") =>
        {
            Some(size(name, default))
        }
        "int" | "unsigned" | "unsigned_int" | "size_t" | "unsigned_long" | "unsigned_long_long" | "long" => {
            integer(name, default, (f64::MIN, f64::MAX))
        }
        _ => None,
    }
}

/// The output of `fi_info -e`: lines `# NAME: TYPE`, `# description` and `#   value: default`, or
/// `NAME=value`.
pub fn libfabric(text: &str) -> Result<ExperimentFile, ListingError> {
    let mut parameters = Vec::new();
    let mut current: Option<(String, String)> = None;
    let mut about = None;
    for line in text.lines() {
        let line = line.trim_start_matches('#').trim();
        if let Some((name, kind)) = line.split_once(':').filter(|(name, _)| is_variable(name)) {
            parameters
                .extend(current.take().and_then(|(name, kind)| libfabric_entry(&name, &kind, about.take())));
            current = Some((name.to_owned(), kind.trim().to_owned()));
            about = None;
        } else if current.is_some() && about.is_none() && !line.is_empty() {
            about = Some(line.to_owned());
        }
    }
    parameters.extend(current.and_then(|(name, kind)| libfabric_entry(&name, &kind, about)));
    listing(parameters, "fi_info -e")
}

fn is_variable(name: &str) -> bool {
    name.starts_with("FI_")
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// libfabric does not print most defaults as values; where its sentence has one (`default: 8192`), it is
/// used.
fn libfabric_entry(name: &str, kind: &str, about: Option<String>) -> Option<ParameterEntry> {
    let own = name.to_ascii_lowercase();
    let sentence = about.clone().unwrap_or_default().to_ascii_lowercase();
    let after = sentence
        .split_once("default")
        .map(|(_, after)| after.trim_start_matches([':', ' ', '=', 'i', 's', '(']));
    let default =
        after.and_then(|after| after.split(|c: char| !c.is_ascii_alphanumeric()).next()).unwrap_or_default();
    let entry = if kind.starts_with("Boolean") {
        guess::switch(&own, "0", "1", matches!(default, "yes" | "true" | "on" | "1"))
    } else if kind.starts_with("Integer") || kind.starts_with("size_t") {
        integer(&own, default, (0.0, f64::MAX))?
    } else {
        return None;
    };
    Some(ParameterEntry { environment: Some(name.to_owned()), about, ..entry })
}
