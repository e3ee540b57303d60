//! farcall's own parameters: declared once, and so known with type, range and default.

use farcall::parameters::quantity::{show_duration, show_size};
use farcall::parameters::{Kind, PARAMETERS, Parameter};

use super::guess;
use crate::experiment::ExperimentFile;
use crate::space::ParameterEntry;

/// A space of all of them, but for addresses and injected faults, which nobody tunes.
pub fn farcall() -> ExperimentFile {
    let tuned = PARAMETERS.iter().filter(|parameter| !parameter.name.starts_with("fault."));
    ExperimentFile { parameter: tuned.filter_map(entry).collect(), ..ExperimentFile::default() }
}

fn entry(parameter: &Parameter) -> Option<ParameterEntry> {
    let name = parameter.name;
    let value = parameter.domain.parse(parameter.default).ok()?;
    let text = |text: String| toml::Value::String(text);
    use farcall::parameters::Value;
    let entry = match (parameter.domain.kind, value) {
        (Kind::Integer { min, max, .. }, Value::Integer(default)) => {
            let show = |number: f64| toml::Value::Integer(number as i64);
            guess::number(name, "integer", default as f64, (min as f64, max as f64), show)
        }
        (Kind::Size { min, max, .. }, Value::Size(default)) => {
            let show = |bytes: f64| text(show_size(bytes as u64));
            guess::number(name, "size", default as f64, (min as f64, max as f64), show)
        }
        (Kind::Duration { min, max }, Value::Duration(default)) => {
            let show = |nanos: f64| text(show_duration(core::time::Duration::from_nanos(nanos as u64)));
            let nanos = |span: core::time::Duration| span.as_nanos() as f64;
            guess::number(name, "duration", nanos(default), (nanos(min), nanos(max)), show)
        }
        (Kind::Boolean, Value::Boolean(default)) => guess::switch(name, "false", "true", default),
        (Kind::Choice(words), _) => guess::words(name, words, parameter.default),
        // `auto`, which has no surroundings, and addresses.
        _ => return None,
    };
    Some(ParameterEntry { set: Some(name.to_owned()), about: Some(parameter.doc.to_owned()), ..entry })
}

#[cfg(test)]
mod tests {
    use farcall::parameters::Settings;

    #[test]
    fn every_value_is_one_that_farcall_accepts() {
        let file = super::farcall();
        let space = file.space().expect("the space is right");
        assert!(space.parameters.len() > 10);
        for (parameter, entry) in space.parameters.iter().zip(&file.parameter) {
            assert_eq!(entry.set.as_ref(), Some(&parameter.name));
            for level in &parameter.levels {
                let assignment = format!("{}={}", parameter.name, level.text);
                Settings::default().assign(&assignment).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}
