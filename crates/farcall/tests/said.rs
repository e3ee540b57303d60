//! What a process says on standard error is limited, counted, and as much as the settings want.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use farcall::Node;
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::said::{Kind, Level, MESSAGES_OF_PERIOD};

static NAILS: Kind = Kind::new(Level::Warning, "orders of nails");
static FIRE: Kind = Kind::new(Level::Error, "fires");

/// Set in the process that says something.
const SPEAKER: &str = "FARCALL_TEST_SPEAKER";

/// Says a thousand things of one kind and one of another, and ends with its input.
#[test]
fn speaker() {
    if std::env::var_os(SPEAKER).is_none() {
        return;
    }
    let settings = Settings::load([]).expect("they are valid");
    let _node = Node::new(Bootstrap::nowhere().expect("a node"), settings);
    (0..1000).for_each(|number| NAILS.say(format_args!("order {number} wants nails")));
    FIRE.say("the shop burns");
    io::stdin().read_to_end(&mut Vec::new()).expect("the input ends");
}

fn spawn(level: &str) -> Child {
    let mut speaker = Command::new(std::env::current_exe().expect("this program"));
    speaker.args(["speaker", "--exact", "--nocapture"]).env(SPEAKER, "1").env("FARCALL_LOG_LEVEL", level);
    speaker.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    speaker.spawn().expect("it starts")
}

/// What the process says; it ends after the line that `ends` knows, or at once.
fn lines(level: &str, ends: impl Fn(&str) -> bool) -> Vec<String> {
    let mut speaker = spawn(level);
    let mut input = speaker.stdin.take();
    let output = BufReader::new(speaker.stderr.take().expect("it is piped"));
    let mut said = Vec::new();
    for line in output.lines().map(|line| line.expect("text")).filter(|line| line.starts_with("farcall:")) {
        if ends(&line) {
            input = None;
        }
        said.push(line);
    }
    assert!(speaker.wait().expect("it ends").success());
    drop(input);
    said
}

#[test]
fn a_flood_is_five_lines_and_later_a_number() {
    let said = lines("all", |line| line.contains("more of this kind"));
    let mut expected: Vec<_> =
        (0..MESSAGES_OF_PERIOD).map(|number| format!("farcall: order {number} wants nails")).collect();
    expected.push("farcall: the shop burns".to_owned());
    expected.push("farcall: … 995 more of this kind in 10 s: orders of nails".to_owned());
    assert_eq!(said, expected);
}

#[test]
fn the_level_says_what_is_said() {
    let is_fire = |line: &str| line.contains("burns");
    assert_eq!(lines("warnings", is_fire).len(), MESSAGES_OF_PERIOD as usize + 1);
    assert_eq!(lines("errors", is_fire), ["farcall: the shop burns"]);
    let mut silent = spawn("off");
    drop(silent.stdin.take());
    let mut said = String::new();
    silent.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    assert!(silent.wait().expect("it ends").success());
    assert_eq!(said, "");
}
