//! The notes of a program say which probes it has; the documented table is theirs.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{LONG, Pair, settings};
use farcall::{CallError, Service, TransportKind};
use farcall_driver::probes::PROBES;

const ECHO: Service = Service(7);
const CALLS: usize = 20;

/// Uses what has probes, so that it is in this program: calls of two endpoints of this thread, in flight at
/// the same time.
fn call_each_way() {
    let pairs = [TransportKind::RING_SHM, TransportKind::BASIC_UDP].map(|kind| {
        Pair::new(kind, settings(&["endpoint.idle=block"]), |endpoint| {
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        })
    });
    for _ in 0..CALLS {
        let calls =
            pairs.each_ref().map(|pair| pair.client.call(pair.server, ECHO, b"").within(LONG).start());
        for call in calls {
            call.expect("it begins").wait().expect("an answer");
        }
        for pair in &pairs {
            let long = vec![0; pair.client.limits().message_bytes_max + 1];
            let refused = pair.client.call(pair.server, ECHO, &long[..]).within(LONG).wait();
            assert!(matches!(refused, Err(CallError::NotSent(_))), "{refused:?}");
        }
    }
}

/// The probes in the notes of this program: how many arguments each has, wherever it is.
fn noted() -> BTreeMap<String, usize> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("readelf").arg("-n").arg(program).output().expect("readelf, of binutils");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(str::trim);
    let mut noted = BTreeMap::new();
    while let Some(line) = lines.next() {
        if line != "Provider: farcall" {
            continue;
        }
        let name = lines.next().and_then(|line| line.strip_prefix("Name: ")).expect("a name follows");
        let arguments = lines.find_map(|line| line.strip_prefix("Arguments:")).expect("arguments follow");
        let arguments = arguments.split_whitespace().filter(|argument| argument.contains('@')).count();
        let before = noted.insert(name.to_owned(), arguments);
        assert!(before.is_none_or(|before| before == arguments), "{name} is the same wherever it is");
    }
    noted
}

#[test]
fn the_notes_of_a_program_are_the_documented_probes() {
    call_each_way();
    let declared: BTreeMap<_, _> =
        PROBES.iter().map(|probe| (probe.name.to_owned(), probe.arguments.len())).collect();
    assert_eq!(noted(), declared);
    let page = include_str!("../../../docs/probes.md");
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected = PROBES
        .iter()
        .map(|probe| format!("| `{}` | {} | {} |", probe.name, probe.arguments.join(", "), probe.doc));
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

/// The arguments, by number, that a line of a script uses.
fn used(line: &str) -> Vec<usize> {
    let numbers = line.match_indices("arg").filter_map(|(place, _)| {
        let digits = line[place + 3..].chars().take_while(char::is_ascii_digit).collect::<String>();
        digits.parse().ok()
    });
    numbers.collect()
}

/// Two endpoints of a process, even of a thread, have sessions and calls of the same numbers.
#[test]
fn scripts_tell_sessions_of_different_endpoints_apart() {
    for script in ["calls.bt", "sessions.bt"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bpf/").to_owned() + script;
        let text = std::fs::read_to_string(path).expect("the script is there");
        let mut probe = None;
        for line in text.lines() {
            if let Some((_, name)) = line.split_once(":farcall:") {
                probe = Some(PROBES.iter().find(|probe| probe.name == name).expect("there is such a probe"));
            }
            let Some(probe) = probe else { continue };
            let place = |name: &str| probe.arguments.iter().position(|argument| *argument == name);
            let used = used(line);
            assert!(used.iter().all(|number| *number < probe.arguments.len()), "{script}: {line}");
            if place("session").is_some_and(|session| used.contains(&session)) {
                let endpoint = place("endpoint").expect("a session is one of an endpoint");
                assert!(used.contains(&endpoint), "{script}: {line}");
            }
            // Handlers of one thread may run within each other.
            assert!(!line.contains("[tid]"), "{script}: {line}");
        }
    }
}

/// What a script says of a process that calls, or `None` where bpftrace is not there or not allowed.
fn run_script(script: &str, until: &str) -> Option<String> {
    let program = std::env::current_exe().expect("this program");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bpf/").to_owned() + script;
    let mut command = Command::new("bpftrace");
    command.args(["-c", &format!("{} caller --exact --nocapture", program.display()), &script]).arg(&program);
    command
        .env("FARCALL_TEST_CALLER", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(tracer) = command.spawn() else {
        println!("left out: there is no bpftrace");
        return None;
    };
    let output = tracer.wait_with_output().expect("it ends");
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_refused = ["permitted", "root", "BTF", "debugfs", "tracefs"].iter().any(|word| why.contains(word));
    if !output.status.success() && is_refused {
        println!("left out: bpftrace is not allowed here: {why}");
        return None;
    }
    assert!(output.status.success() && said.contains(until), "{script}: {said} {why}");
    Some(said.into_owned())
}

/// What the scripts look at.
#[test]
fn caller() {
    if std::env::var_os("FARCALL_TEST_CALLER").is_some() {
        call_each_way();
    }
}

#[test]
fn the_scripts_see_calls_handlers_and_sessions() {
    if let Some(said) = run_script("calls.bt", "@nanoseconds_of_service[7]") {
        let ends = BufReader::new(said.as_bytes()).lines().map_while(Result::ok);
        let ends: Vec<String> = ends.filter(|line| line.starts_with("@ends_of_service[7")).collect();
        let answered = format!("@ends_of_service[7, 0]: {}", 2 * CALLS);
        assert!(ends.contains(&answered) && ends.contains(&"@ends_of_service[7, 2]: 2".to_owned()), "{said}");
        assert_eq!(ends.len(), 2, "{said}");
    }
    if let Some(said) = run_script("sessions.bt", "@nanoseconds_of_handler[7]") {
        assert!(said.contains(" is up") && said.contains("@packets_of_flush"), "{said}");
    }
}
