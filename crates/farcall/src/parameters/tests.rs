//! Every way to set a parameter, and every way to get it wrong.

use core::time::Duration;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::*;
use crate::bootstrap::LAUNCH_VARIABLES;

fn sources(file: Option<&str>, environment: &[(&str, &str)], assignments: &[&str]) -> Sources {
    Sources {
        file: file.map(|content| (PathBuf::from("cluster.toml"), content.to_owned())),
        environment: environment.iter().map(|(name, text)| (name.into(), text.into())).collect(),
        assignments: assignments.iter().map(|text| (*text).to_owned()).collect(),
    }
}

fn file_error(content: &str) -> String {
    Settings::from_sources(&sources(Some(content), &[], &[])).expect_err("the file is wrong").to_string()
}

fn environment_error(name: &str, text: &str) -> String {
    Settings::from_sources(&sources(None, &[(name, text)], &[]))
        .expect_err("the variable is wrong")
        .to_string()
}

fn assignment_error(assignment: &str) -> String {
    Settings::default().assign(assignment).expect_err("the assignment is wrong").to_string()
}

#[test]
fn the_defaults_are_the_declared_ones() {
    let settings = Settings::default();
    assert_eq!(settings.ring.ring_bytes, None);
    assert_eq!(settings.udp.mtu_bytes, None);
    assert_eq!(settings.endpoint.idle, Idle::Block);
    for (parameter, value) in settings.iter() {
        assert_eq!(parameter.domain.parse(parameter.default), Ok(value), "{}", parameter.name);
    }
}

#[test]
fn what_a_process_inherits_makes_the_same_settings_as_assignments() {
    let file = "[ring]\nring_bytes = \"8K\"\nbatch_bytes = 100\n";
    let environment = [("FARCALL_RING_BATCH_BYTES", "200"), ("FARCALL_RANK", "1"), ("PATH", "/bin")];
    let of_process = sources(Some(file), &environment, &[]);
    let mut inherited = of_process.inherited().expect("all are valid");
    inherited[..2].sort_unstable();
    assert_eq!(inherited, ["ring.batch_bytes=100", "ring.ring_bytes=8K", "ring.batch_bytes=200"]);
    let assigned = Sources { assignments: inherited, ..Sources::default() };
    let settings = |sources| Settings::from_sources(sources).expect("all are valid");
    assert_eq!(settings(&assigned), settings(&of_process));
}

#[test]
fn later_sources_overrule_earlier_ones() {
    let file = "[ring]\nring_bytes = \"8K\"\nbatch_bytes = 100\ncalls_max = 7\n";
    let environment =
        [("FARCALL_RING_RING_BYTES", "16K"), ("FARCALL_RING_BATCH_BYTES", "200"), ("PATH", "/bin")];
    let settings = Settings::from_sources(&sources(
        Some(file),
        &environment,
        &["ring.ring_bytes=32K", "ring.ring_bytes=64K"],
    ))
    .expect("all are valid");
    assert_eq!(settings.ring.ring_bytes, Some(64 << 10));
    assert_eq!(settings.ring.batch_bytes, 200);
    assert_eq!(settings.ring.calls_max, 7);
    assert_eq!(settings.ring.inline_bytes, None);
}

#[test]
fn every_type_can_be_set() {
    let mut settings = Settings::default();
    let assignments = [
        "ring.calls_max = 12",
        "ring.ring_bytes=1M",
        "endpoint.call_timeout=5ms",
        "basic.checksum=off",
        "endpoint.idle=spin",
        "udp.mtu_bytes=9000",
        "udp.bind_address=::1",
        "verbs.device=mlx5_0",
    ];
    for assignment in assignments {
        settings.assign(assignment).expect("the assignment is valid");
    }
    assert_eq!(settings.ring.calls_max, 12);
    assert_eq!(settings.ring.ring_bytes, Some(1 << 20));
    assert_eq!(settings.endpoint.call_timeout, Duration::from_millis(5));
    assert_eq!(settings.basic.checksum, Some(false));
    assert_eq!(settings.endpoint.idle, Idle::Spin);
    assert_eq!(settings.udp.mtu_bytes, Some(9000));
    assert_eq!(settings.udp.bind_address, Some("::1".parse().expect("an address")));
    assert_eq!(settings.verbs.device, Name::parse("mlx5_0"));
    settings.assign("udp.mtu_bytes=auto").expect("auto is a value");
    assert_eq!(settings.udp.mtu_bytes, None);
}

#[test]
fn toml_takes_text_whole_numbers_booleans_and_dotted_names() {
    let file = "endpoint.idle = \"yield\"\n[basic]\nchecksum = false\nrtt_bytes = 4096\n";
    let settings = Settings::from_sources(&sources(Some(file), &[], &[])).expect("all are valid");
    assert_eq!(settings.endpoint.idle, Idle::Yield);
    assert_eq!(settings.basic.checksum, Some(false));
    assert_eq!(settings.basic.rtt_bytes, 4096);
}

#[test]
fn every_bound_fits_its_field_and_can_be_read_back() {
    for parameter in PARAMETERS {
        let mut texts = match parameter.domain.kind {
            Kind::Integer { min, max, .. } => vec![min.to_string(), max.to_string()],
            Kind::Size { min, max, .. } => vec![quantity::show_size(min), quantity::show_size(max)],
            Kind::Duration { min, max } => vec![quantity::show_duration(min), quantity::show_duration(max)],
            Kind::Boolean => vec!["true".to_owned(), "false".to_owned()],
            Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Kind::IpAddress => vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()],
            Kind::Name => vec!["x".to_owned(), "n".repeat(name::NAME_BYTES_MAX)],
            Kind::Path => vec!["/".to_owned(), "/".repeat(name::TEXT_BYTES_MAX)],
            Kind::Allow => ["same-user", "any", "group:0", "users:a", "users:1,b"].map(str::to_owned).into(),
            Kind::Sizes { min, max, count_max } => {
                let many = (min..).take(count_max - 1).map(|bytes| bytes.to_string() + ",");
                let (few, last) = (min.to_string(), quantity::show_size(u64::from(max)));
                vec![few, many.collect::<String>() + &last]
            }
        };
        texts.extend(parameter.domain.auto.then(|| "auto".to_owned()));
        for text in texts {
            let mut settings = Settings::default();
            settings.assign(&format!("{}={text}", parameter.name)).expect("a bound is a valid value");
            assert_eq!(parameter.value(&settings).to_string(), text, "{}", parameter.name);
        }
    }
}

#[test]
fn what_is_no_path_and_no_rule_is_refused() {
    let mut settings = Settings::default();
    for wrong in [
        "shm.directory=relative",
        "shm.directory=/a b",
        "shm.allow=users:",
        "shm.allow=users:a,",
        "shm.allow=group:a,b",
        "shm.allow=all",
        "shm.allow=user:a",
    ] {
        assert!(settings.assign(wrong).is_err(), "{wrong}");
    }
    assert_eq!(settings, Settings::default());
}

#[test]
fn declarations_are_complete_and_unambiguous() {
    let mut variables: HashSet<String> = LAUNCH_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
    variables.insert(CONFIG_VARIABLE.to_owned());
    for parameter in PARAMETERS {
        assert!(variables.insert(parameter.environment()), "{} collides", parameter.environment());
        assert!(
            parameter.doc.ends_with('.') && !parameter.doc.contains('\n'),
            "{}: one line",
            parameter.name
        );
    }
    assert_eq!(PARAMETERS[0].environment(), "FARCALL_RING_RING_BYTES");
    assert_eq!(PARAMETERS[0].domain.to_string(), "auto or a power of two from 4K to 64M");
    assert_eq!((PARAMETERS[0].domain.unit(), PARAMETERS[0].scope.word()), ("bytes", "endpoint"));
}

#[test]
fn an_unknown_name_leads_to_the_nearest() {
    let expected = "unknown parameter `ring.ring_byte`; did you mean `ring.ring_bytes`?";
    assert_eq!(assignment_error("ring.ring_byte=1M"), expected);
    assert_eq!(file_error("[ring]\nring_byte = 1\n"), format!("cluster.toml: {expected}"));
    assert_eq!(
        environment_error("FARCALL_RING_RING_BYTE", "1M"),
        "environment: unknown parameter `FARCALL_RING_RING_BYTE`; did you mean `FARCALL_RING_RING_BYTES`?"
    );
    assert_eq!(
        environment_error("FARCALL_RANKS", "1"),
        "environment: unknown parameter `FARCALL_RANKS`; did you mean `FARCALL_RANK`?"
    );
}

#[test]
fn variables_of_the_launch_and_of_tests_are_no_parameters() {
    let environment =
        [("FARCALL_RANK", "x"), ("FARCALL_CONFIG", "y"), ("FARCALL_TEST_ANYTHING", "z"), ("FAR", "1")];
    assert_eq!(Settings::from_sources(&sources(None, &environment, &[])), Ok(Settings::default()));
}

#[test]
fn variables_that_orchestrators_and_module_systems_set_are_no_parameters() {
    // The first ones are those of a service of Kubernetes that is called farcall.
    let names = ["SERVICE_HOST", "SERVICE_PORT", "PORT", "PORT_7117_TCP", "PORT_7117_TCP_ADDR"];
    for name in names.into_iter().chain(["ROOT", "HOME", "DIR", "VERSION", "BIN_PATH"]) {
        let name = format!("FARCALL_{name}");
        let environment = [(name.as_str(), "tcp://10.0.0.5:7117")];
        assert_eq!(
            Settings::from_sources(&sources(None, &environment, &[])),
            Ok(Settings::default()),
            "{name}"
        );
    }
}

#[test]
fn a_value_out_of_range_leads_to_the_nearest_valid_one() {
    let cases = [
        ("ring.ring_bytes=100", "out of range; the nearest valid value is 4K"),
        ("ring.ring_bytes=1G", "out of range; the nearest valid value is 64M"),
        ("ring.ring_bytes=999999999999999999999999T", "out of range; the nearest valid value is 64M"),
        ("ring.ring_bytes=5000", "not a power of two; the nearest valid value is 4K"),
        ("ring.ring_bytes=7000", "not a power of two; the nearest valid value is 8K"),
        ("ring.calls_max=0", "out of range; the nearest valid value is 1"),
        ("ring.calls_max=65536", "out of range; the nearest valid value is 65535"),
        ("homa.cutoffs=0,1K,2G", "out of range; the nearest valid value is 1,1K,1G"),
        ("endpoint.call_timeout=2ns", "out of range; the nearest valid value is 1us"),
        ("endpoint.call_timeout=86400s", "out of range; the nearest valid value is 3600s"),
    ];
    for (assignment, rest) in cases {
        assert_eq!(assignment_error(assignment), format!("{assignment} is {rest}"));
    }
}

#[test]
fn a_value_of_another_type_is_told_what_is_valid() {
    let cases = [
        ("ring.ring_bytes=big", "auto or a power of two from 4K to 64M; the default is auto"),
        ("ring.calls_max=4K", "a whole number from 1 to 65535; the default is 4096"),
        ("endpoint.call_timeout=10", "a duration from 1us to 3600s; the default is 10s"),
        ("basic.checksum=yes", "auto, true or false; the default is auto"),
        ("udp.mtu_bytes=", "auto or a size from 576 to 65507; the default is auto"),
        ("udp.bind_address=localhost", "auto or an IP address such as 127.0.0.1; the default is auto"),
        ("verbs.device=mlx5 0", "auto or a name of up to 31 characters without spaces; the default is auto"),
        (
            "homa.cutoffs=2K,1K",
            "auto or up to 7 ascending sizes from 1 to 1G, between commas; the default is auto",
        ),
        ("endpoint.idle=blok", "one of spin, yield, block; did you mean `block`?"),
    ];
    for (assignment, rest) in cases {
        assert_eq!(assignment_error(assignment), format!("{assignment} is not {rest}"));
    }
}

#[test]
fn an_argument_must_be_an_assignment() {
    let expected = "`ring.ring_bytes` sets nothing; write name=value, such as ring.ring_bytes=1M";
    assert_eq!(assignment_error("ring.ring_bytes"), expected);
}

#[test]
fn errors_name_the_source_they_are_in() {
    let expected = "environment: FARCALL_RING_CALLS_MAX=0 is out of range; the nearest valid value is 1";
    assert_eq!(environment_error("FARCALL_RING_CALLS_MAX", "0"), expected);
    let expected = "cluster.toml: ring.calls_max=0 is out of range; the nearest valid value is 1";
    assert_eq!(file_error("ring.calls_max = 0"), expected);
}

#[test]
fn a_variable_that_is_not_text_is_refused() {
    let environment = vec![(OsString::from("FARCALL_RING_CALLS_MAX"), OsStr::from_bytes(b"\xff").to_owned())];
    let error = Settings::from_sources(&Sources { environment, ..Sources::default() }).expect_err("not text");
    assert_eq!(error, SettingsError::NotText { variable: "FARCALL_RING_CALLS_MAX".to_owned() });
}

#[test]
fn a_malformed_file_is_refused_with_the_place() {
    let message = file_error("[ring\n");
    assert!(
        message.starts_with("cluster.toml is not valid TOML: ") && message.contains("line 1"),
        "{message}"
    );
    let expected =
        "cluster.toml: `ring.calls_max` must be a string, a whole number or a boolean, not a float";
    assert_eq!(file_error("ring.calls_max = 1.5"), expected);
}
