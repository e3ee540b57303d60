//! `farcall top`: what running processes do, from the counters that they map, without their help.

mod sample;
mod view;

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Instant;

use crate::arguments::runs::Top;
use crate::failure::Failure;
use farcall_base::printable_lines;
use sample::Sample;
use view::view;

/// Moves to the upper left corner and clears what is below: the screen, without a flicker.
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";

/// Draws again and again on a terminal; elsewhere, or when asked to, prints once.
pub fn run(top: &Top) -> Result<(), Failure> {
    let mut before = read(top)?;
    let live = io::stdout().is_terminal() && !top.once;
    let draws = if live { top.count.unwrap_or(u64::MAX) } else { 1 };
    for _ in 0..draws {
        thread::sleep(top.interval);
        let after = match read(top) {
            Ok(after) => after,
            // They have ended while we watched, which is no failure of ours.
            Err(_) if live => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let text = view(&before, &after);
        let text = printable_lines(&text);
        let clear = if live { HOME_AND_CLEAR } else { "" };
        let mut out = io::stdout().lock();
        write!(out, "{clear}{text}").and_then(|()| out.flush()).map_err(Failure::output)?;
        before = after;
    }
    Ok(())
}

/// The processes that are still there; a failure when none is.
fn read(top: &Top) -> Result<Vec<Sample>, Failure> {
    let read = |pid: &u64| Sample::read(*pid as u32, Instant::now());
    let samples: Vec<_> = top.processes.iter().map(read).collect();
    if samples.iter().any(Result::is_ok) {
        return Ok(samples.into_iter().flatten().collect());
    }
    let first = samples.into_iter().find_map(Result::err);
    Err(first.map_or_else(|| Failure::Usage("name a process".to_owned()), Failure::run))
}
