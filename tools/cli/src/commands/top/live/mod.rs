//! The live screen: reads the processes again and again, draws, and does what keys say.

mod core_use;
mod draw;
mod head;
mod keys;
mod rows;
mod screen;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::history::History;
use super::readings;
use crate::arguments::runs::Top;
use crate::commands::processes::program_of;
use crate::commands::processes::sample::Sample;
use crate::failure::Failure;
use core_use::{CoreTimes, CoreUse};
use keys::After;
use screen::Screen;

/// The longest wait for a key, after which a signal is noticed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What was read, twice, and what is remembered of the readings before.
#[derive(Default)]
pub struct Readings {
    before: Vec<Sample>,
    after: Vec<Sample>,
    history: History,
    /// The programs of processes, looked up once.
    programs: HashMap<u32, String>,
    core_times: CoreTimes,
    /// What the cores did between the last two readings.
    cores: Vec<CoreUse>,
}

impl Readings {
    fn add(&mut self, now: Vec<Sample>) {
        self.before = core::mem::replace(&mut self.after, now);
        self.history.add(&self.before, &self.after);
        self.programs.retain(|pid, _| self.after.iter().any(|sample| sample.pid == *pid));
        for sample in &self.after {
            self.programs.entry(sample.pid).or_insert_with(|| program_of(sample.pid).unwrap_or_default());
        }
    }

    fn add_cores(&mut self, now: CoreTimes) {
        self.cores = now.uses_since(&self.core_times);
        self.core_times = now;
    }

    /// The processes that were read twice, as they were and as they are.
    fn pairs(&self) -> impl Iterator<Item = (&Sample, &Sample)> {
        self.after.iter().filter_map(|now| Some((self.before.iter().find(|then| then.pid == now.pid)?, now)))
    }
}

/// Draws until a key or a signal ends it, or the processes that were named have ended.
pub fn run(top: &Top) -> Result<(), Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).map_err(Failure::run)?;
    }
    let mut seen = Readings::default();
    seen.add(readings(top)?);
    seen.add_cores(CoreTimes::now());
    let mut terminal = ratatui::try_init().map_err(no_screen)?;
    thread::spawn(end_with_the_terminal);
    let outcome = draw_until_over(top, &mut terminal, &mut seen, &is_over);
    // What is left of the screen is the user's shell.
    ratatui::restore();
    outcome
}

/// Waits until the terminal hangs up, and ends the process. [`event::poll`] of crossterm 0.29 does not return
/// when the terminal has gone: it reads nothing from it, again and again. Nobody sees how this ends, so it is
/// no failure.
fn end_with_the_terminal() {
    let terminal = std::io::stdout();
    loop {
        let mut waits = [PollFd::new(&terminal, PollFlags::empty())];
        match poll(&mut waits, None) {
            Err(Errno::INTR) => {}
            // It cannot be waited for: the process ends at a signal or a key.
            Err(_) => return,
            Ok(_) => std::process::exit(0),
        }
    }
}

fn no_screen(error: std::io::Error) -> Failure {
    Failure::Run(format!("this terminal cannot be drawn on: {error}; --once prints without it"))
}

fn draw_until_over(
    top: &Top,
    terminal: &mut DefaultTerminal,
    seen: &mut Readings,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let mut screen = Screen::sorted_by(top.sort);
    let mut left = top.count.unwrap_or(u64::MAX);
    let mut next = Instant::now() + top.interval;
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut screen, seen)).map_err(Failure::output)?;
        let wait = next.saturating_duration_since(Instant::now()).min(LOOK_AGAIN_AFTER);
        if event::poll(wait).map_err(Failure::output)?
            && let Event::Key(key) = event::read().map_err(Failure::output)?
            && key.kind != KeyEventKind::Release
            && screen.press(key) == After::End
        {
            return Ok(());
        }
        if is_over.load(Ordering::Relaxed) || left == 0 {
            return Ok(());
        }
        if Instant::now() >= next {
            next += top.interval;
            left -= 1;
            if !screen.is_paused {
                seen.add_cores(CoreTimes::now());
                match readings(top) {
                    Ok(now) => seen.add(now),
                    // They have ended while we watched, which is no failure of ours.
                    Err(_) if !top.processes.is_empty() => return Ok(()),
                    Err(_) => seen.add(Vec::new()),
                }
            }
        }
    }
}
