//! The live screen: reads the processes again and again, draws, and does what keys say.

mod columns;
mod draw;
mod head;
mod keys;
mod rows;
mod screen;

use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag::register;
use signal_hook::low_level::emulate_default_handler;

use super::readings::Readings;
use crate::arguments::runs::Top;
use crate::commands::processes::Found;
use crate::failure::Failure;
use keys::After;
use screen::Screen;

/// The longest wait for a key, after which a signal is noticed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What signals ask for.
#[derive(Default)]
struct Asked {
    to_end: Arc<AtomicBool>,
    to_stop: Arc<AtomicBool>,
    /// The process was stopped, and goes on.
    to_draw_again: Arc<AtomicBool>,
}

impl Asked {
    fn by_signals() -> Result<Self, Error> {
        let asked = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            register(signal, Arc::clone(&asked.to_end))?;
        }
        register(SIGTSTP, Arc::clone(&asked.to_stop))?;
        register(SIGCONT, Arc::clone(&asked.to_draw_again))?;
        Ok(asked)
    }
}

/// Draws until a key or a signal ends it, or the processes that were named have ended.
pub fn run(top: &Top) -> Result<(), Failure> {
    let asked = Asked::by_signals().map_err(Failure::run)?;
    let mut seen = Readings::first(top)?;
    if let Some(why) = terminal_without_screen() {
        return Err(no_screen(why));
    }
    let mut terminal = ratatui::try_init().map_err(no_screen)?;
    thread::spawn(end_with_the_terminal);
    let outcome = draw_until_over(top, &mut terminal, &mut seen, &asked);
    // What is left of the screen is the user's shell.
    ratatui::restore();
    outcome
}

/// Why the terminal, by its name, cannot be drawn on.
fn terminal_without_screen() -> Option<&'static str> {
    match std::env::var_os("TERM") {
        None => Some("TERM does not say what it is"),
        Some(name) if name.is_empty() => Some("TERM does not say what it is"),
        Some(name) if name == "dumb" => Some("TERM says that it is dumb"),
        Some(_) => None,
    }
}

/// Gives the screen back to the shell until that lets the process go on.
fn stop(terminal: &mut DefaultTerminal) -> Result<(), Error> {
    ratatui::try_restore()?;
    terminal.show_cursor()?;
    emulate_default_handler(SIGTSTP)
}

/// Takes the screen, to which others have written.
fn draw_again(terminal: &mut DefaultTerminal) -> Result<(), Error> {
    *terminal = ratatui::try_init()?;
    execute!(std::io::stdout(), Clear(ClearType::All))
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

fn no_screen(why: impl core::fmt::Display) -> Failure {
    Failure::Run(format!("this terminal cannot be drawn on: {why}; --once prints without it"))
}

fn draw_until_over(
    top: &Top,
    terminal: &mut DefaultTerminal,
    seen: &mut Readings,
    asked: &Asked,
) -> Result<(), Failure> {
    let mut screen = Screen::sorted_by(top.sort);
    let mut left = top.count.unwrap_or(u64::MAX);
    let mut next = Instant::now() + top.interval;
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut screen, seen)).map_err(Failure::output)?;
        let wait = next.saturating_duration_since(Instant::now()).min(LOOK_AGAIN_AFTER);
        let mut after = After::GoOn;
        if event::poll(wait).map_err(Failure::output)?
            && let Event::Key(key) = event::read().map_err(Failure::output)?
            && key.kind != KeyEventKind::Release
        {
            after = screen.press(key);
        }
        if after == After::End || asked.to_end.load(Ordering::Relaxed) || left == 0 {
            return Ok(());
        }
        if asked.to_stop.swap(false, Ordering::Relaxed) || after == After::Stop {
            stop(terminal).map_err(Failure::output)?;
        }
        if asked.to_draw_again.swap(false, Ordering::Relaxed) {
            draw_again(terminal).map_err(Failure::output)?;
        }
        if Instant::now() >= next {
            next = Instant::now() + top.interval;
            left -= 1;
            if !screen.is_paused && !look(top, seen) {
                return Ok(());
            }
        }
    }
}

/// Reads again. False when the processes that were named have ended while we watched, which is no failure of
/// ours.
fn look(top: &Top, seen: &mut Readings) -> bool {
    seen.look_at_cores();
    let is_there = seen.look(top).is_ok();
    if !is_there && top.processes.is_empty() {
        seen.add(Found::default());
    }
    is_there || top.processes.is_empty()
}
