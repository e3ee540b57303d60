//! `farcall top`: what running processes do, from the counters that they map, without their help.
//!
//! [`readings`] has what was read twice, with [`history`] (the last rates) and [`core_use`] (how busy the
//! cores were); [`view`](mod@view) says it as plain text, [`live`] draws it on a terminal.

mod core_use;
mod history;
mod live;
mod readings;
mod view;

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use farcall_base::printable_lines;

use crate::arguments::runs::Top;
use crate::failure::Failure;
use history::sort;
use readings::Readings;
use view::view;

/// The shortest time between two readings: each takes some milliseconds with many processes.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A live screen on a terminal; elsewhere, or when asked to, prints.
pub fn run(top: &Top) -> Result<(), Failure> {
    if top.interval < INTERVAL_MIN {
        let least = INTERVAL_MIN.as_secs_f64();
        return Err(Failure::Usage(format!("--interval: give {least} s or more")));
    }
    if io::stdout().is_terminal() && !top.once { live::run(top) } else { print(top) }
}

/// Prints once, or as many times as intervals were asked for.
fn print(top: &Top) -> Result<(), Failure> {
    let mut seen = Readings::first(top)?;
    for _ in 0..top.count.unwrap_or(1) {
        thread::sleep(top.interval);
        seen.look(top)?;
        let Readings { before, after, about, .. } = &mut seen;
        sort(before, after, top.sort, |pid| about.get(&pid).is_some_and(|about| about.is_stopped));
        let text = view(&seen);
        let mut out = io::stdout().lock();
        write!(out, "{}", printable_lines(&text)).and_then(|()| out.flush()).map_err(Failure::output)?;
    }
    Ok(())
}
