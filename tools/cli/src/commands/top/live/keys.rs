//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rows::Tab;
use super::screen::Screen;

/// Rows that a page key moves by.
const PAGE: u16 = 10;
/// The longest filter.
const FILTER_CHARS_MAX: usize = 60;

/// The keys and what they do, for the screen of help.
pub const HELP: [(&str, &str); 10] = [
    ("Tab, Shift-Tab, 1–4", "the next tab, the one before, a tab"),
    ("<, >", "sorts by the column to the left, to the right"),
    ("r", "reverses the order: ▼ is the greatest first, ▲ the least"),
    ("/", "shows the rows that have what is typed; Enter ends typing, Esc forgets it"),
    ("Up, Down, PgUp, PgDn", "marks a row"),
    ("Home, End", "marks the first row, the last"),
    ("Space", "stands still, goes on"),
    ("h, ?, F1", "this page; any key leaves it"),
    ("Ctrl-Z", "gives the terminal back to the shell until fg"),
    ("q, Esc, Ctrl-C", "ends"),
];

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    GoOn,
    /// Until the shell lets the process go on.
    Stop,
    End,
}

impl Screen {
    /// Does what a key says.
    pub fn press(&mut self, key: KeyEvent) -> After {
        match key.code {
            KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => return After::End,
            KeyCode::Char('z') if key.modifiers == KeyModifiers::CONTROL => return After::Stop,
            _ if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return After::GoOn,
            _ => {}
        }
        if self.is_helping {
            self.is_helping = false;
        } else if self.is_editing {
            self.edit(key.code);
        } else {
            return self.order(key.code);
        }
        After::GoOn
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_editing = false,
            KeyCode::Esc => {
                self.is_editing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
        self.mark(|rows| rows.select(None));
    }

    fn order(&mut self, key: KeyCode) -> After {
        match key {
            KeyCode::Char('q') => return After::End,
            // What is filtered is shown again first.
            KeyCode::Esc if self.filter.is_empty() => return After::End,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.move_tab(1),
            KeyCode::BackTab | KeyCode::Left => self.move_tab(-1),
            KeyCode::Char(digit @ '1'..='4') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Char('<') => self.move_column(-1),
            KeyCode::Char('>') => self.move_column(1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_editing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.is_helping = true,
            KeyCode::Up => self.mark(|rows| rows.select_previous()),
            KeyCode::Down => self.mark(|rows| rows.select_next()),
            KeyCode::PageUp => self.mark(|rows| rows.scroll_up_by(PAGE)),
            KeyCode::PageDown => self.mark(|rows| rows.scroll_down_by(PAGE)),
            KeyCode::Home => self.mark(|rows| rows.select_first()),
            KeyCode::End => self.mark(|rows| rows.select_last()),
            _ => {}
        }
        After::GoOn
    }
}
