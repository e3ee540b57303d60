//! A second opinion on histories: Porcupine, a checker of others in Go, says the same of the same files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use farcall_base::Random;
use farcall_base::canary::{Rule, leave_out};
use farcall_swarm::FailoverCase;
use farcall_swarm::history::{Asked, Operation, Told, check, parse, write};

/// Histories of objects in one file of random ones.
const KEYS: u64 = 400;

/// Where Go is looked for.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// The program around Porcupine, if it can be built here; the sentence says why not.
fn porcupine(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/porcupine");
    let runs = |program: &&&str| Command::new(program).arg("version").output().is_ok();
    let go = GO.iter().find(runs).ok_or("there is no Go on this machine")?;
    let go = |arguments: &[&str]| {
        let mut go = Command::new(go);
        go.args(arguments).current_dir(&source).env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
        let output = go.output().expect("it ran a moment ago");
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    };
    go(&["mod", "download"]).map_err(|error| format!("Porcupine cannot be had: {error}"))?;
    let program = folder.join("porcupine");
    go(&["build", "-o", program.to_str().expect("text"), "."]).expect("it builds");
    Ok(program)
}

/// What happened to objects that are as they should be, or of which one answer is another one than it was.
fn drawn(seed: u64) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut history = Vec::new();
    for key in 0..KEYS {
        let begins = history.len();
        let mut object: Option<i64> = None;
        for client in 0..3 + random.below(15) {
            // It happens at this moment, and some time before and after is known of it.
            let at = 100 * client + 1000;
            let (began, ended) = (at - random.below(400), at + random.below(400));
            let value = random.below(4) as i64;
            let (asked, told) = match random.below(6) {
                0 => (Asked::Delete, if object.take().is_some() { Told::Done } else { Told::Nothing }),
                1 | 2 => {
                    object = Some(value);
                    (Asked::Put(value.to_string()), Told::Done)
                }
                3 => {
                    object = Some(object.unwrap_or(0) + value);
                    (Asked::Add(value), Told::Sum(object.expect("it was added")))
                }
                _ => (Asked::Get, object.map_or(Told::Nothing, |value| Told::Found(value.to_string()))),
            };
            let told = random.chance(0.9).then_some((ended, told));
            history.push(Operation { client, key: format!("k{key}"), began, told, asked });
        }
        let place = begins + random.index(history.len() - begins);
        if random.chance(0.5)
            && let Some((_, told)) = &mut history[place].told
        {
            match told {
                Told::Found(_) => *told = Told::Found(random.below(4).to_string()),
                Told::Sum(sum) => *sum += 1,
                Told::Nothing | Told::Done => {}
            }
        }
    }
    history
}

/// Histories of fail-over, as they are and with a rule left out.
fn of_fail_over() -> Vec<Vec<Operation>> {
    let case = |seed| FailoverCase { seed, steps: 8000, backups: 4, replicas: 2, flushed: false, shards: 1 };
    let histories = [(None, 1), (None, 2), (Some(Rule::Results), 6), (Some(Rule::Leases), 15)];
    let history = |(rule, seed)| {
        leave_out(rule);
        let findings = case(seed).judge();
        leave_out(None);
        findings.history
    };
    histories.into_iter().map(history).collect()
}

#[test]
fn porcupine_says_the_same_of_every_key() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("porcupine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room");
    let program = match porcupine(&folder) {
        Ok(program) => program,
        Err(why) => return println!("histories are not held against a second opinion here: {why}"),
    };
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let histories = of_fail_over().into_iter().chain((seed..seed + 5).map(drawn));
    let mut ours = BTreeMap::new();
    let mut command = Command::new(program);
    for (number, history) in histories.enumerate() {
        let path = folder.join(format!("{number}.history"));
        std::fs::write(&path, write(&history)).expect("room");
        let path = path.to_str().expect("text").to_owned();
        let read = parse(&std::fs::read_to_string(&path).expect("it was written")).expect("a history");
        let verdict = check(&read);
        assert_eq!(verdict.undecided, Vec::<String>::new());
        ours.extend(read.iter().map(|operation| ((path.clone(), operation.key.clone()), "ok")));
        ours.extend(verdict.unexplained.into_iter().map(|wrong| ((path.clone(), wrong.key), "illegal")));
        command.arg(path);
    }
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut theirs = BTreeMap::new();
    for line in text.lines() {
        let [path, key, verdict] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        theirs.insert((path.to_owned(), key.to_owned()), verdict);
    }
    let illegal = ours.values().filter(|&&verdict| verdict == "illegal").count();
    println!("{} keys, {illegal} of them without an order", ours.len());
    assert_eq!(text.lines().count(), ours.len(), "a line for each key");
    assert!(illegal > 100 && illegal < ours.len() / 2, "both are there");
    let undecided = theirs.values().filter(|&&verdict| verdict == "unknown").count();
    println!("{undecided} keys take Porcupine too long");
    assert!(undecided <= 2, "it says something of nearly all");
    for (key, verdict) in theirs.into_iter().filter(|(_, verdict)| *verdict != "unknown") {
        assert_eq!(ours.get(&key), Some(&verdict), "{key:?}, seed {seed}, in {}", folder.display());
    }
    std::fs::remove_dir_all(folder).expect("the test's own");
}
