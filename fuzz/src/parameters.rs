//! Text from users and files: parameters, quantities and policies.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use farcall::parameters::quantity::{parse_duration, parse_size, show_duration, show_size};
use farcall::parameters::{PARAMETERS, Settings, Sources};

/// Reads the bytes as a policy, as a configuration file, as assignments, as variables, and as values of every
/// parameter.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    farcall::policy::fuzz_policy(bytes);
    values_survive_being_shown(&text);
    let file = Some(("some.toml".into(), text.clone().into_owned()));
    settings_survive_being_shown(&Sources { file, ..Sources::default() });
    let assignments = text.lines().map(str::to_owned).collect();
    settings_survive_being_shown(&Sources { assignments, ..Sources::default() });
    let environment = bytes.split(|byte| *byte == b'\n').filter_map(variable).collect();
    settings_survive_being_shown(&Sources { environment, ..Sources::default() });
}

fn variable(line: &[u8]) -> Option<(OsString, OsString)> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    Some((OsString::from_vec(line[..equals].to_vec()), OsString::from_vec(line[equals + 1..].to_vec())))
}

/// What a parameter shows of a value reads as the same value.
fn values_survive_being_shown(text: &str) {
    for parameter in PARAMETERS {
        if let Ok(value) = parameter.domain.parse(text) {
            let shown = value.to_string();
            assert_eq!(parameter.domain.parse(&shown), Ok(value), "{} from {text:?}", parameter.name);
        }
    }
    if let Ok(bytes) = parse_size(text) {
        assert_eq!(parse_size(&show_size(bytes)).ok(), Some(bytes), "a size from {text:?}");
    }
    if let Ok(duration) = parse_duration(text) {
        let again = parse_duration(&show_duration(duration)).ok();
        assert_eq!(again, Some(duration), "a duration from {text:?}");
    }
}

/// Accepted settings can be written down and read again; refused ones have an error of one paragraph of text.
fn settings_survive_being_shown(sources: &Sources) {
    match Settings::from_sources(sources) {
        Ok(settings) => {
            let assign = |(parameter, value): (&farcall::parameters::Parameter, _)| {
                format!("{}={value}", parameter.name)
            };
            let assignments = settings.iter().map(assign).collect();
            let again = Settings::from_sources(&Sources { assignments, ..Sources::default() });
            assert_eq!(again.expect("its own values"), settings);
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error says something"),
    }
}
