//! `farcall top`: what running processes do, from the counters that they map, without their help.

mod history;
mod live;
mod view;

use std::io::{self, IsTerminal, Write};
use std::thread;

use farcall_base::printable_lines;

use super::processes::sample::Sample;
use super::processes::{all, read};
use crate::arguments::runs::Top;
use crate::failure::Failure;
use history::{History, sort};
use view::view;

/// A live screen on a terminal; elsewhere, or when asked to, prints once.
pub fn run(top: &Top) -> Result<(), Failure> {
    if io::stdout().is_terminal() && !top.once { live::run(top) } else { print(top) }
}

fn print(top: &Top) -> Result<(), Failure> {
    let before = readings(top)?;
    thread::sleep(top.interval);
    let mut after = readings(top)?;
    let mut history = History::default();
    history.add(&before, &after);
    sort(&before, &mut after, top.sort);
    let text = view(&before, &after, &history);
    let mut out = io::stdout().lock();
    write!(out, "{}", printable_lines(&text)).and_then(|()| out.flush()).map_err(Failure::output)
}

/// The processes that were asked for and are still there, or all; a failure when there is none.
fn readings(top: &Top) -> Result<Vec<Sample>, Failure> {
    if top.processes.is_empty() {
        let found = all()?.processes;
        let samples: Vec<_> = found.into_iter().map(|process| process.sample).collect();
        return if samples.is_empty() { Err(nothing_counts()) } else { Ok(samples) };
    }
    let samples: Vec<_> = top.processes.iter().map(|pid| read(*pid as u32)).collect();
    if samples.iter().any(Result::is_ok) {
        return Ok(samples.into_iter().flatten().collect());
    }
    Err(samples.into_iter().find_map(Result::err).unwrap_or_else(nothing_counts))
}

fn nothing_counts() -> Failure {
    Failure::Run("no process that can be seen from here has farcall counters".to_owned())
}
