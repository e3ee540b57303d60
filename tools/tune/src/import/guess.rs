//! Values worth a first try, from a default.

use crate::space::ParameterEntry;

/// How far a first guess goes from the default of a number, in factors of four to either side.
const FACTORS: [f64; 4] = [1.0 / 16.0, 0.25, 4.0, 16.0];

/// Where a first guess goes between the bounds of a number, as parts of the way by factors.
const PARTS: [f64; 4] = [0.125, 0.375, 0.625, 0.875];

/// A parameter that is one of some words.
pub(super) fn words(name: &str, words: &[&str], default: &str) -> ParameterEntry {
    let mut values: Vec<toml::Value> =
        words.iter().map(|word| toml::Value::String((*word).to_owned())).collect();
    if !words.contains(&default) {
        values.insert(0, toml::Value::String(default.to_owned()));
    }
    entry(name, "categorical", values, default)
}

/// A parameter that is on or off, written as `off` and `on`.
pub(super) fn switch(name: &str, off: &str, on: &str, default: bool) -> ParameterEntry {
    ParameterEntry {
        default: Some(toml::Value::Boolean(default)),
        words: Some([off.to_owned(), on.to_owned()]),
        ..entry(name, "boolean", vec![false.into(), true.into()], "")
    }
}

/// A number around its default, within its bounds; a default of nought has no surroundings.
pub(super) fn number(
    name: &str,
    kind: &str,
    default: f64,
    bounds: (f64, f64),
    show: impl Fn(f64) -> toml::Value,
) -> ParameterEntry {
    let around = FACTORS.iter().map(|factor| (default * factor).round()).filter(|value| *value >= 1.0);
    let mut values: Vec<f64> = around.map(|value| value.clamp(bounds.0, bounds.1)).chain([default]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    ParameterEntry {
        default: Some(show(default)),
        ..entry(name, kind, values.into_iter().map(&show).collect(), "")
    }
}

/// A number whose default is a word: that, and powers of two between its bounds.
pub(super) fn number_or_word(
    name: &str,
    kind: &str,
    default: &str,
    bounds: (f64, f64),
    show: impl Fn(f64) -> toml::Value,
) -> ParameterEntry {
    let (first, last) = (bounds.0.max(1.0).log2(), bounds.1.log2());
    let power = |part: &f64| (first + part * (last - first)).round().exp2().clamp(bounds.0, bounds.1);
    let mut values: Vec<f64> = PARTS.iter().map(power).collect();
    values.dedup();
    let values = values.into_iter().map(&show);
    let word = toml::Value::String(default.to_owned());
    entry(name, kind, core::iter::once(word).chain(values).collect(), default)
}

fn entry(name: &str, kind: &str, values: Vec<toml::Value>, default: &str) -> ParameterEntry {
    ParameterEntry {
        name: name.to_owned(),
        kind: kind.to_owned(),
        values: Some(values),
        default: Some(toml::Value::String(default.to_owned())),
        ..ParameterEntry::default()
    }
}
