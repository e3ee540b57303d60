//! Draws the screen.

use farcall_base::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row as Line_, Table, Tabs};

use super::keys::HELP;
use super::rows::{Cell, Kind, Row, Tab};
use super::screen::Screen;
use super::{Readings, head};

/// What is said when there is nothing to list.
const NOTHING: &str = "nothing that can be seen from here counts any of this";

/// Lines that the table has at least: a head for which there is no more room is left out.
const TABLE_LINES_MIN: u16 = 5;

/// The whole screen: the head, tabs, the table or the help, and a line of keys.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, seen: &Readings) {
    let mut summary = head::lines(seen, frame.area().width);
    if frame.area().height < summary.len() as u16 + 2 + TABLE_LINES_MIN {
        summary.clear();
    }
    let (head, line) = (Constraint::Length(summary.len() as u16), Constraint::Length(1));
    let [head, tab_line, body, foot] =
        Layout::vertical([head, line, Constraint::Min(0), line]).areas(frame.area());
    frame.render_widget(Paragraph::new(summary), head);
    let names = Tab::ALL.iter().enumerate().map(|(place, tab)| format!("{} {}", place + 1, tab.name()));
    let tabs = Tabs::new(names).select(screen.tab as usize).highlight_style(Modifier::REVERSED);
    frame.render_widget(tabs, tab_line);
    if screen.is_helping {
        help(frame, body);
    } else {
        table(frame, body, screen, seen);
    }
    frame.render_widget(Line::from(keys_line(screen)), foot);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::from(format!("{key:<22}")).bold(), Span::from(*what)])
    };
    let lines: Vec<_> = HELP.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn table(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen, seen: &Readings) {
    let rows = screen.rows(seen);
    if rows.is_empty() {
        let why = if seen.before.is_empty() { "reading for the second time" } else { NOTHING };
        return frame.render_widget(Paragraph::new(why), area);
    }
    let columns = screen.tab.columns();
    let arrow = if screen.falls(&rows) { "▼" } else { "▲" };
    let head = columns.iter().enumerate().map(|(place, (name, _))| match place == screen.column() {
        true => Line::from(format!("{name}{arrow}")).bold(),
        false => Line::from(*name),
    });
    let widths = columns.iter().map(|(_, width)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let table = Table::new(rows.iter().map(line_of), widths)
        .header(Line_::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Modifier::REVERSED);
    frame.render_stateful_widget(table, area, &mut screen.marked);
}

/// Numbers are aligned to the right. Names of programs may have anything in them.
fn line_of(row: &Row) -> Line_<'static> {
    let cell = |cell: &Cell| {
        let line = Line::from(printable(&cell.shown).to_string());
        let line = match cell.kind {
            Kind::Number => line.right_aligned(),
            Kind::Text | Kind::Rates | Kind::Stalls => line,
        };
        match cell.kind {
            Kind::Number if cell.amount == Some(0.0) => line.dim(),
            Kind::Rates => line.fg(Color::Cyan),
            Kind::Stalls => line.fg(Color::Yellow),
            Kind::Number | Kind::Text => line,
        }
    };
    Line_::new(row.cells.iter().map(cell))
}

fn keys_line(screen: &Screen) -> Vec<Span<'static>> {
    let filter = match (screen.is_editing, screen.filter.is_empty()) {
        (true, _) => format!("/{}▏", screen.filter),
        (false, true) => String::new(),
        (false, false) => format!("/{}", screen.filter),
    };
    let paused = if screen.is_paused { "standing still  " } else { "" };
    vec![
        Span::from("Tab tabs  <> sort  r reverse  / filter  Space stop  h help  q end  ").dim(),
        Span::from(paused).bold(),
        Span::from(filter).bold(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use farcall::Snapshot;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::arguments::runs::TopSort;
    use crate::commands::processes::sample::Sample;
    use crate::commands::processes::sample::testing::group;
    use crate::commands::top::live::core_use::CoreUse;
    use crate::commands::top::live::keys::After;

    fn sample(pid: u32, at: Instant, second: u64, calls: u64) -> Sample {
        let calls = calls * second;
        let groups = vec![
            group("ring+shm#0", &[("calls", calls), ("polls", second), ("in_flight", 3), ("sessions", 2)]),
            group("ring ring+shm#0", &[("records_sent", calls / 2), ("waited_for_room", second * 4)]),
            group("kv#0", &[("objects", 77), ("gets", calls)]),
        ];
        let snapshot = Snapshot { owner: pid.into(), unlisted_groups: 0, groups };
        Sample { pid, at: at + Duration::from_secs(second), snapshot, schedule: None }
    }

    fn seen() -> Readings {
        let (begin, mut seen) = (Instant::now(), Readings::default());
        for second in 0..3 {
            seen.add(vec![sample(4_000_001, begin, second, 500), sample(4_000_002, begin, second, 9000)]);
        }
        seen.cores = vec![CoreUse { core: 5, busy: 0.5 }];
        seen.programs.insert(4_000_001, "orders".to_owned());
        seen.programs.insert(4_000_002, "evil\u{1b}[2J".to_owned());
        seen
    }

    fn drawn(screen: &mut Screen) -> Vec<String> {
        drawn_in(screen, 8)
    }

    fn drawn_in(screen: &mut Screen, lines: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(130, lines)).expect("memory");
        terminal.draw(|frame| draw(frame, screen, &seen())).expect("memory");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..130).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..lines).map(line).collect()
    }

    fn press(screen: &mut Screen, keys: &str) -> After {
        let key = |letter| match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        let press = |letter| screen.press(KeyEvent::new(key(letter), KeyModifiers::NONE));
        keys.chars().map(press).last().expect("a key")
    }

    #[test]
    fn processes_have_their_sums_and_a_line_of_rates() {
        let mut screen = Screen::sorted_by(TopSort::Calls);
        let lines = drawn(&mut screen);
        assert_eq!(lines[0], " 1 processes │ 2 endpoints │ 3 ways │ 4 store");
        assert!(lines[1].starts_with("process  program") && lines[1].contains("calls/s▼"), "{lines:#?}");
        assert!(lines[2].contains("4000002 evil\\u{1b}[2J"), "the most calls first: {lines:#?}");
        assert!(
            lines[2].contains("9.0K") && lines[2].contains("██") && lines[2].contains("waited_for_room 4/s")
        );
        assert!(lines[3].contains("4000001 orders"), "{lines:#?}");
        assert!(lines[7].starts_with("Tab tabs"), "{lines:#?}");
    }

    #[test]
    fn the_head_says_what_all_do_together_where_it_has_room() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        let lines = drawn_in(&mut screen, 9);
        assert_eq!(lines[0], "core 5  ━━━━━━━━━───────── 50", "{lines:#?}");
        assert_eq!(
            lines[1],
            "processes 2   endpoints 2   sessions 4   in flight 6   calls/s 9.5K   served/s 0   store/s 9.5K   \
             stalls/s 8"
        );
        assert!(lines[2].starts_with(" 1 processes"), "{lines:#?}");
        assert!(drawn_in(&mut screen, 8)[0].starts_with(" 1 processes"), "the table goes first");
    }

    #[test]
    fn every_tab_has_its_own_columns_and_parts() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        for (key, part, column) in
            [("2", "ring+shm#0", "answers/s"), ("3", "ring ring+shm#0", "events/s"), ("4", "kv#0", "part")]
        {
            press(&mut screen, key);
            let lines = drawn(&mut screen);
            assert!(
                lines[1].contains(column) && lines[2].contains("4000001") && lines[2].contains(part),
                "{lines:#?}"
            );
            assert!(lines[4].is_empty(), "two rows: {lines:#?}");
        }
        assert!(drawn(&mut screen)[2].contains("objects 77, gets 500/s"));
        press(&mut screen, "\t");
        assert_eq!(screen.tab, Tab::Processes, "around the end");
    }

    #[test]
    fn keys_sort_reverse_filter_and_help() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        let lines = drawn(&mut screen);
        assert!(lines[1].contains("process▲") && lines[2].contains("4000001"), "the least number first");
        press(&mut screen, "r");
        let lines = drawn(&mut screen);
        assert!(lines[1].contains("process▼") && lines[2].contains("4000002"), "{lines:#?}");
        press(&mut screen, "r>");
        let lines = drawn(&mut screen);
        assert!(lines[1].contains("program▲") && lines[2].contains("evil"), "from a to z: {lines:#?}");
        press(&mut screen, "<<");
        assert!(drawn(&mut screen)[1].contains("stalls▼"), "around the end");
        press(&mut screen, "/ORD");
        let lines = drawn(&mut screen);
        assert!(
            lines[2].contains("orders") && lines[3].is_empty() && lines[7].ends_with("/ORD▏"),
            "{lines:#?}"
        );
        press(&mut screen, "\n");
        assert!(drawn(&mut screen)[7].ends_with("/ORD"));
        press(&mut screen, "/xyz\n");
        assert_eq!(drawn(&mut screen)[1], NOTHING);
        assert_eq!(press(&mut screen, "\u{1b}"), After::GoOn, "first the filter is forgotten");
        assert!(!drawn(&mut screen)[3].is_empty());
        press(&mut screen, "h");
        assert!(drawn(&mut screen)[1].contains("the next tab"));
        assert_eq!(press(&mut screen, "q"), After::GoOn, "any key leaves the help");
        assert_eq!(press(&mut screen, "q"), After::End);
    }

    #[test]
    fn a_screen_without_room_and_one_without_processes_are_drawn() {
        for (columns, rows) in [(1, 1), (0, 0), (20, 2)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("memory");
            let mut screen = Screen::sorted_by(TopSort::Stalls);
            terminal.draw(|frame| draw(frame, &mut screen, &seen())).expect("memory");
            terminal.draw(|frame| draw(frame, &mut screen, &Readings::default())).expect("memory");
        }
    }
}
