//! `farcall top`: what running processes do, from the counters that they map, without their help.

mod history;
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

/// Moves to the upper left corner and clears what is below: the screen, without a flicker.
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";

/// Draws again and again on a terminal; elsewhere, or when asked to, prints once.
pub fn run(top: &Top) -> Result<(), Failure> {
    let mut before = readings(top)?;
    let live = io::stdout().is_terminal() && !top.once;
    let draws = if live { top.count.unwrap_or(u64::MAX) } else { 1 };
    let mut history = History::default();
    for _ in 0..draws {
        thread::sleep(top.interval);
        let mut after = match readings(top) {
            Ok(after) => after,
            // They have ended while we watched, which is no failure of ours.
            Err(_) if live => return Ok(()),
            Err(failure) => return Err(failure),
        };
        history.add(&before, &after);
        sort(&before, &mut after, top.sort);
        let text = view(&before, &after, &history);
        let text = printable_lines(&text);
        let clear = if live { HOME_AND_CLEAR } else { "" };
        let mut out = io::stdout().lock();
        write!(out, "{clear}{text}").and_then(|()| out.flush()).map_err(Failure::output)?;
        before = after;
    }
    Ok(())
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
