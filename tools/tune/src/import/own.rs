//! farcall's own parameters: declared once, and so known with type, range and default.

use core::time::Duration;

use farcall::parameters::quantity::{show_duration, show_size};
use farcall::parameters::{Kind, PARAMETERS, Parameter, Value};

use super::guess;
use crate::experiment::ExperimentFile;
use crate::space::ParameterEntry;

/// Ports and the numbers of addresses: numbers, and still nothing to try.
const PLACES: [&str; 5] = ["udp.port", "tcp.port", "verbs.port", "verbs.gid_index", "net.life_port"];

/// A space of all of them, but for injected faults, places such as addresses and devices, and lists.
pub fn farcall() -> ExperimentFile {
    let is_tuned =
        |parameter: &&Parameter| !parameter.name.starts_with("fault.") && !PLACES.contains(&parameter.name);
    let tuned = PARAMETERS.iter().filter(is_tuned);
    ExperimentFile { parameter: tuned.filter_map(entry).collect(), ..ExperimentFile::default() }
}

fn entry(parameter: &Parameter) -> Option<ParameterEntry> {
    let name = parameter.name;
    let default = parameter.domain.parse(parameter.default).ok()?;
    let text = |text: String| toml::Value::String(text);
    let entry = match parameter.domain.kind {
        Kind::Integer { min, max, .. } => {
            let show = |number: f64| toml::Value::Integer(number as i64);
            number(name, "integer", &default, (min as f64, max as f64), show)
        }
        Kind::Size { min, max, .. } => {
            let show = |bytes: f64| text(show_size(bytes as u64));
            number(name, "size", &default, (min as f64, max as f64), show)
        }
        Kind::Duration { min, max } => {
            let show = |nanos: f64| text(show_duration(Duration::from_nanos(nanos as u64)));
            number(name, "duration", &default, (nanos(min), nanos(max)), show)
        }
        Kind::Boolean => match default {
            Value::Boolean(default) => guess::switch(name, "false", "true", default),
            _ => guess::words(name, &["false", "true"], parameter.default),
        },
        Kind::Choice(words) => guess::words(name, words, parameter.default),
        Kind::IpAddress | Kind::Name | Kind::Path | Kind::Allow | Kind::Sizes { .. } => return None,
    };
    Some(ParameterEntry { set: Some(name.to_owned()), about: Some(parameter.doc.to_owned()), ..entry })
}

/// A number around its default; where that is `auto`, which has no surroundings, anywhere within its bounds.
fn number(
    name: &str,
    kind: &str,
    default: &Value,
    bounds: (f64, f64),
    show: impl Fn(f64) -> toml::Value,
) -> ParameterEntry {
    match default {
        Value::Integer(default) | Value::Size(default) => {
            guess::number(name, kind, *default as f64, bounds, show)
        }
        Value::Duration(default) => guess::number(name, kind, nanos(*default), bounds, show),
        word => guess::number_or_word(name, kind, &word.to_string(), bounds, show),
    }
}

fn nanos(span: Duration) -> f64 {
    span.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use farcall::parameters::{PARAMETERS, Parameter, Settings};

    #[test]
    fn every_value_is_one_that_farcall_accepts() {
        let file = super::farcall();
        let space = file.space().expect("the space is right");
        for (parameter, entry) in space.parameters.iter().zip(&file.parameter) {
            assert_eq!(entry.set.as_ref(), Some(&parameter.name));
            assert!(parameter.levels.len() > 1, "{} has nothing to try", parameter.name);
            for level in &parameter.levels {
                let assignment = format!("{}={}", parameter.name, level.text);
                Settings::default().assign(&assignment).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn all_is_there_but_faults_places_and_lists() {
        let file = super::farcall();
        let is_there = |parameter: &&Parameter| {
            file.parameter.iter().any(|entry| entry.set.as_deref() == Some(parameter.name))
        };
        let missing = PARAMETERS.iter().filter(|parameter| !is_there(parameter));
        let missing: Vec<_> =
            missing.map(|parameter| parameter.name).filter(|name| !name.starts_with("fault.")).collect();
        let expected = [
            "shm.directory",
            "shm.allow",
            "homa.cutoffs",
            "udp.bind_address",
            "udp.port",
            "tcp.bind_address",
            "tcp.port",
            "tls.cluster_key",
            "tls.cert",
            "tls.key",
            "tls.ca",
            "security.key_file",
            "security.identity_file",
            "security.peers_file",
            "security.policy_file",
            "verbs.device",
            "verbs.port",
            "verbs.gid_index",
            "ofi.provider",
            "net.interface",
            "net.life_port",
        ];
        assert_eq!(missing, expected);
    }
}
