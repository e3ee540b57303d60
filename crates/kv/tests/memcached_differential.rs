//! Random requests, to us and to the memcached of this machine: the answers are the same. Where there is no
//! memcached nothing is tested, and it says so; `scripts/prepare test` installs it.

mod memcached;
mod redis;

use std::io::{Read, Write};

use farcall_base::Random;
use memcached::Memcached;
use redis::Served;
use redis::reference::{Reference, one_of};

/// A memcached at a socket of its own; `None` when there is none.
fn memcached_beside(name: &str) -> Option<Reference> {
    Reference::start("memcached", &["-s", "socket", "-u", "root", "-m", "64"], name)
}

/// What a request looks like: `k` is a key, `v` a value with its length in front, `n` a number, `f` flags,
/// `x` an exptime; `a|b` one of these words, and `?x` a word that may be left out.
const TEXT: &[&str] = &[
    "get k k",
    "get k",
    "set k f x v",
    "set k f 0 v",
    "add k f 0 v",
    "replace k f 0 v",
    "append k f 0 v",
    "prepend k f 0 v",
    "cas k f 0 v:1",
    "incr k n",
    "decr k n",
    "touch k x",
    "gat x k k",
    "delete k",
    "delete k 0",
    "delete k 5",
    "set k f 0 v:noreply",
    "incr k n noreply",
    "delete k noreply",
    "get",
    "incr k",
    "touch k",
    "verbosity 1",
];
const META: &[&str] = &[
    "mg k ?v ?f ?s ?t ?k ?Oabc ?q",
    "mg k v ?N30 ?t",
    "mg k ?v R10|R200|R5000",
    "mg k v T100|T0",
    "ms k v ?F7|F0|F4294967295 ?T100 ?k ?Oxyz ?q",
    "ms k v ME|MA|MP|MR|MS ?q",
    "ms k v C1 ?MA|MR|MP",
    "md k ?I ?T30 ?q ?k ?Oxyz",
    "md k C1 ?q",
    "ma k ?v ?t ?q ?D5|D18446744073709551615 ?MI|MD|M+|M-",
    "ma k N0|N90 ?J7 ?v ?t ?Oq",
    "ma k ?T40 t ?q",
    "mg k v v",
    "mg",
    "ms k bad",
    "ma k MX",
    "md k T30 ?I",
];

fn request(draws: &mut Random, pattern: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut value = None;
    for word in pattern.split(' ') {
        let word = match word.strip_prefix('?') {
            Some(_) if draws.below(2) == 0 => continue,
            Some(word) => word,
            None => word,
        };
        let with_value = word == "v" || word.starts_with("v:");
        let stores = !matches!(words.first().map(String::as_str), Some("mg" | "ma" | "md"));
        words.push(match word {
            _ if with_value && stores => {
                let text = one_of(draws, &["", "x", "12", "18446744073709551610", "a b", "0", "999"]);
                value = Some(text);
                let behind = word.strip_prefix("v:").map_or(String::new(), |behind| format!(" {behind}"));
                format!("{}{behind}", text.len())
            }
            "k" => format!("key:{}", draws.below(3)),
            "n" => one_of(draws, &["1", "0", "7", "18446744073709551615", "-1", "x"]).to_owned(),
            "f" => one_of(draws, &["0", "1", "4294967295"]).to_owned(),
            "x" => one_of(draws, &["0", "1000", "-1", "2592001"]).to_owned(),
            word => one_of(draws, &word.split('|').collect::<Vec<_>>()).to_owned(),
        });
    }
    let line = words.join(" ");
    value.map_or_else(|| line.clone(), |value| format!("{line}|{value}"))
}

fn differ(name: &str, patterns: &[&str]) {
    let Some(reference) = memcached_beside(name) else { return };
    let served = Served::start();
    let (mut ours, mut theirs) = (Memcached::of(&served), Memcached { stream: reference.connect() });
    let seed = std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FARCALL_TEST_SEED={seed}");
    let (mut draws, mut history) = (Random::new(seed), Vec::new());
    // The first write of each has version 1, which requests name as one that no object has.
    assert_eq!([ours.ask("set first 0 0 1|x"), theirs.ask("set first 0 0 1|x")], ["STORED|", "STORED|"]);
    for _ in 0..STEPS {
        let pattern =
            if draws.below(4) == 0 { one_of(&mut draws, TEXT) } else { one_of(&mut draws, patterns) };
        let request = request(&mut draws, pattern);
        let answers = [ours.ask(&request), theirs.ask(&request)].map(|answer| with_whole_times(&answer));
        // They pad a number that becomes shorter: both get it again.
        if ["incr ", "decr ", "ma "].iter().any(|verb| request.starts_with(verb))
            && let Some(again) = written_again(&mut ours, &request)
        {
            assert_eq!([ours.ask(&again), theirs.ask(&again)], ["HD|", "HD|"]);
        }
        history.push(request);
        if answers.iter().all(|answer| answer.contains("ERROR")) {
            // Of two things that are wrong either may be said first.
            continue;
        }
        let last = history.len().saturating_sub(30);
        assert_eq!(answers[0], answers[1], "ours and theirs; seed {seed}:\n{}", history[last..].join("\n"));
    }
}

/// An answer with the times that were asked for in place of what is left of them: seconds pass, and theirs
/// begin together.
fn with_whole_times(answer: &str) -> String {
    const ASKED: [u32; 6] = [30, 40, 50, 90, 100, 1000];
    let whole = |word: &str| {
        let (time, rest) = word.strip_prefix('t')?.split_once('|').unwrap_or((&word[1..], ""));
        let time: u32 = time.parse().ok()?;
        let asked = ASKED.iter().find(|asked| time <= **asked + 1)?;
        Some(format!("t{asked}|{rest}"))
    };
    let words: Vec<_> =
        answer.split(' ').map(|word| whole(word).unwrap_or_else(|| word.to_owned())).collect();
    words.join(" ")
}

/// What writes the value that a request's key has here, if it has one.
fn written_again<S: Read + Write>(ours: &mut Memcached<S>, request: &str) -> Option<String> {
    let key = request.split(' ').nth(1)?;
    let found = ours.ask(&format!("get {key}"));
    let mut lines = found.strip_prefix("VALUE ")?.split('|');
    let (bytes, value) = (lines.next()?.rsplit(' ').next()?, lines.next()?);
    Some(format!("ms {key} {bytes}|{value}"))
}

/// Requests of one run.
const STEPS: usize = 5000;

#[test]
fn text_commands_do_what_those_of_memcached_do() {
    differ("text", TEXT);
}

#[test]
fn meta_commands_do_what_those_of_memcached_do() {
    differ("meta", META);
}
