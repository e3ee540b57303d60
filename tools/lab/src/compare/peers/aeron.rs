//! Aeron over its `aeron:ipc` channels, by the sample programs that its own jar `aeron-all` has, as Maven
//! keeps it.
//!
//! `Ping` and `Pong` are processes of their own beside a media driver that sleeps, since nothing goes through
//! it; `Ping` prints the round trips' histogram in microseconds. `EmbeddedExclusiveIpcThroughput` is one
//! process with a thread on either core, which prints messages and milliseconds about once a second until it
//! is interrupted.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::launch::{Server, bounded_on, interrupted_after, last_words, output_answering, output_of};
use super::{Ask, PeerError, PeerFigure};

const PROGRAM: &str = "java";

/// `Ping` warms up in this many rounds.
const WARMUP_ROUNDS: u64 = 10;

/// Round trips of one of them; with ten thousand calls of a method the machine translates it for good.
const WARMUP_MAX: u64 = 10_000;

/// `Ping` asks at its end whether it is to begin again.
const NOT_AGAIN: &str = "n\n";

/// Aeron reaches into what Java keeps to itself; and numbers are printed as these programs' readers expect
/// them.
const JAVA: [&str; 6] = [
    "--add-opens",
    "java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Duser.language=en",
    "-Duser.country=US",
];

const SLEEPING_DRIVER: [&str; 4] = [
    "-Daeron.threading.mode=SHARED",
    "-Daeron.shared.idle.strategy=org.agrona.concurrent.SleepingMillisIdleStrategy",
    "-Daeron.dir.delete.on.start=true",
    "-Daeron.dir.delete.on.shutdown=true",
];

const OVER_MEMORY: [&str; 3] = [
    "-Daeron.sample.ping.channel=aeron:ipc",
    "-Daeron.sample.pong.channel=aeron:ipc",
    "-Daeron.sample.exclusive.publications=true",
];

/// The newest of the jars. It is looked for once.
pub fn jar() -> Option<&'static Path> {
    static JAR: OnceLock<Option<PathBuf>> = OnceLock::new();
    JAR.get_or_init(|| {
        let home = PathBuf::from(std::env::var_os("HOME")?);
        newest_jar(&home.join(".m2/repository/io/aeron/aeron-all"))
    })
    .as_deref()
}

/// Of a folder with one for each version.
pub(super) fn newest_jar(versions: &Path) -> Option<PathBuf> {
    let version = |name: &str| name.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>();
    let jars = std::fs::read_dir(versions).ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let jar = versions.join(&name).join(format!("aeron-all-{name}.jar"));
        Some((version(&name)?, jar)).filter(|(_, jar)| jar.is_file())
    });
    jars.max().map(|(_, jar)| jar)
}

/// Round trips between two processes.
pub fn ping_pong(ask: Ask) -> Result<PeerFigure, PeerError> {
    let folder = Folder::new();
    let (initiator, responder) = (ask.cores.initiator, ask.cores.responder);
    let mut driver = bounded_on(responder, PROGRAM);
    driver.args(java(&folder)?).args(SLEEPING_DRIVER).arg("io.aeron.driver.MediaDriver");
    let _driver = Server::start(driver)?.with_file(PROGRAM, &folder.0.join("cnc.dat"))?;
    let mut pong = bounded_on(responder, PROGRAM);
    pong.args(java(&folder)?).args(OVER_MEMORY).arg("io.aeron.samples.Pong");
    let _pong = Server::start(pong)?;
    let count = ask.round_trips(500.0);
    let mut ping = bounded_on(initiator, PROGRAM);
    ping.args(java(&folder)?).args(OVER_MEMORY);
    ping.arg(format!("-Daeron.sample.messageLength={}", ask.bytes));
    ping.arg(format!("-Daeron.sample.messages={count}"));
    ping.arg(format!("-Daeron.sample.warmup.messages={}", (count / WARMUP_ROUNDS).min(WARMUP_MAX)));
    read(&output_answering(ping.arg("io.aeron.samples.Ping"), NOT_AGAIN)?)
}

/// A stream one way between two threads, which may run on either core.
pub fn stream(ask: Ask) -> Result<PeerFigure, PeerError> {
    // The first line has the start in it, and the last the end.
    const MORE_SECONDS: u64 = 3;
    let folder = Folder::new();
    let seconds = ask.lasting.as_secs_f64().ceil() as u64 + MORE_SECONDS;
    let cores = format!("{},{}", ask.cores.responder, ask.cores.initiator);
    let mut command = interrupted_after(seconds, &cores, PROGRAM);
    command.args(java(&folder)?);
    command.arg(format!("-Daeron.sample.messageLength={}", ask.bytes));
    read_stream(&output_of(command.arg("io.aeron.samples.EmbeddedExclusiveIpcThroughput"))?)
}

fn java(folder: &Folder) -> Result<Vec<String>, PeerError> {
    let gone =
        || PeerError::Start { program: PROGRAM.to_owned(), why: "the jar of Aeron is gone".to_owned() };
    let jar = jar().ok_or_else(gone)?;
    let mut arguments: Vec<String> = JAVA.map(str::to_owned).into();
    arguments.extend(["-cp".to_owned(), jar.to_string_lossy().into_owned()]);
    arguments.push(format!("-Daeron.dir={}", folder.0.display()));
    Ok(arguments)
}

/// The files of a media driver. They are removed with this value: one that is ended by force leaves them in
/// memory.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(PathBuf::from(format!("/dev/shm/farcall-aeron-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It has gone already when the driver ended well.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads the median of the histogram: value, part of all, count, and one over what is left of all.
pub(super) fn read(text: &str) -> Result<PeerFigure, PeerError> {
    const STEP_MICROS: f64 = 0.001;
    let median = |line: &str| {
        let fields: Option<Vec<f64>> = line.split_whitespace().map(|field| field.parse().ok()).collect();
        fields
            .filter(|fields| fields.len() >= 3 && fields[0] > 0.0 && fields[1] >= 0.5)
            .map(|fields| fields[0])
    };
    let micros = text.lines().find_map(median).ok_or_else(|| unreadable(text))?;
    Ok(PeerFigure { value: 1e3 * micros, step: 1e3 * STEP_MICROS })
}

/// Reads the messages a second of all intervals but the first and the last.
pub(super) fn read_stream(text: &str) -> Result<PeerFigure, PeerError> {
    let interval = |line: &str| {
        let (millis, rest) = line.strip_prefix("Duration ")?.split_once("ms - ")?;
        let messages = rest.split_once(" messages")?.0.replace(',', "");
        Some((millis.parse::<f64>().ok()?, messages.parse::<f64>().ok()?))
    };
    let intervals: Vec<_> = text.lines().filter_map(interval).collect();
    let (millis, messages) = intervals
        .get(1..intervals.len().saturating_sub(1))
        .unwrap_or_default()
        .iter()
        .fold((0.0, 0.0), |sum, interval| (sum.0 + interval.0, sum.1 + interval.1));
    if messages <= 0.0 || millis <= 0.0 {
        return Err(unreadable(text));
    }
    let value = 1e3 * messages / millis;
    // The time is printed in whole milliseconds.
    Ok(PeerFigure { value, step: value / millis })
}

fn unreadable(text: &str) -> PeerError {
    PeerError::Unreadable { program: PROGRAM, printed: last_words(text) }
}
