//! Draws the screen.

use farcall_base::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row as Line_, Table, Tabs};

use super::head;
use super::keys::HELP;
use super::rows::{Cell, Kind, Row, Tab};
use super::screen::Screen;
use crate::commands::top::readings::Readings;

/// What is said when there is nothing to list.
const NOTHING: &str = "nothing that can be seen from here counts any of this";
const NOTHING_MATCHES: &str = "no row has what the filter says; Esc forgets it";
const TOO_NARROW: &str = "too narrow";

/// Behind what has no room.
const CUT: char = '…';

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
        let why = match screen.filter.is_empty() {
            _ if seen.before.is_empty() => "reading for the second time",
            true => NOTHING,
            false => NOTHING_MATCHES,
        };
        return frame.render_widget(Paragraph::new(why), area);
    }
    screen.follow(&rows);
    let Some(columns) = screen.tab.columns_within(area.width, screen.column()) else {
        return frame.render_widget(Paragraph::new(TOO_NARROW), area);
    };
    let arrow = if screen.falls(&rows) { "▼" } else { "▲" };
    let head = columns.iter().map(|&(place, _)| {
        let name = screen.tab.columns()[place].name;
        match place == screen.column() {
            true => Line::from(format!("{name}{arrow}")).bold(),
            false => Line::from(name),
        }
    });
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width));
    let table = Table::new(rows.iter().map(|row| line_of(row, &columns)), widths)
        .header(Line_::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Modifier::REVERSED);
    frame.render_stateful_widget(table, area, &mut screen.marked);
}

/// Numbers are aligned to the right. Names of programs may have anything in them.
fn line_of(row: &Row, columns: &[(usize, u16)]) -> Line_<'static> {
    let cell = |&(place, width): &(usize, u16)| {
        let cell: &Cell = &row.cells[place];
        let line = Line::from(within(&printable(&cell.shown), width.into()));
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
    Line_::new(columns.iter().map(cell))
}

/// A text in so many columns; what is cut off has a mark in its place. Commands may be long: no more of one
/// is measured than is shown.
fn within(text: &str, columns: usize) -> String {
    let (mut shown, mut width, mut fits_with_mark) = (String::new(), 0, 0);
    for letter in text.chars() {
        if width < columns {
            fits_with_mark = shown.len();
        }
        shown.push(letter);
        width += Span::from(&shown[shown.len() - letter.len_utf8()..]).width();
        if width > columns {
            shown.truncate(fits_with_mark);
            shown.push(CUT);
            break;
        }
    }
    shown
}

fn keys_line(screen: &Screen) -> Vec<Span<'static>> {
    let filter = match (screen.is_editing, screen.filter.is_empty()) {
        (true, _) => format!("/{}▏", screen.filter),
        (false, true) => String::new(),
        (false, false) => format!("/{}", screen.filter),
    };
    let paused = if screen.is_paused { "standing still  " } else { "" };
    vec![
        Span::from("q end  h help  Tab tabs  <> sort  r reverse  / filter  Space stop  ").dim(),
        Span::from(paused).bold(),
        Span::from(filter).bold(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use farcall::{CounterSnapshot, Snapshot};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::arguments::runs::TopSort;
    use crate::commands::processes::sample::Sample;
    use crate::commands::processes::sample::testing::group;
    use crate::commands::processes::{Found, Process};
    use crate::commands::top::core_use::CoreUse;
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

    fn process(sample: Sample, command: &str) -> Process {
        let (number_there, command) = (sample.pid, command.to_owned());
        Process { sample, number_there, user: None, is_stopped: false, command }
    }

    fn seen() -> Readings {
        let (begin, mut seen) = (Instant::now(), Readings::default());
        for second in 0..3 {
            let one = process(sample(4_000_001, begin, second, 500), "orders");
            let other = process(sample(4_000_002, begin, second, 9000), "evil\u{1b}[2J");
            seen.add(Found { processes: vec![one, other], not_allowed: 3, unreadable: Vec::new() });
        }
        seen.cores = vec![CoreUse { core: 5, busy: 0.5 }];
        seen
    }

    fn drawn(screen: &mut Screen) -> Vec<String> {
        drawn_in(screen, 8)
    }

    fn drawn_in(screen: &mut Screen, lines: u16) -> Vec<String> {
        drawn_of(screen, &seen(), (130, lines))
    }

    fn drawn_of(screen: &mut Screen, seen: &Readings, (columns, lines): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("memory");
        terminal.draw(|frame| draw(frame, screen, seen)).expect("memory");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..lines).map(|y| line(y).trim_end().to_owned()).collect()
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
        assert!(lines[7].starts_with("q end"), "{lines:#?}");
    }

    #[test]
    fn the_head_says_what_all_do_together_where_it_has_room() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        let lines = drawn_in(&mut screen, 10);
        assert_eq!(lines[0], "core 5  ━━━━━━━━━───────── 50", "{lines:#?}");
        assert_eq!(
            lines[1],
            "processes 2   endpoints 2   sessions 4   in flight 6   calls/s 9.5K   served/s 0   store/s 9.5K   \
             stalls/s 8"
        );
        assert_eq!(lines[2], "3 processes of other users were not looked into; root sees all");
        assert!(lines[3].starts_with(" 1 processes"), "{lines:#?}");
        assert!(drawn_in(&mut screen, 9)[0].starts_with(" 1 processes"), "the table goes first");
        let narrow = drawn_of(&mut screen, &seen(), (80, 24));
        assert!(narrow[2].ends_with("stalls/s 8"), "on a line of its own: {narrow:#?}");
    }

    #[test]
    fn every_tab_has_its_own_columns_and_parts() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        for (key, part, column) in
            [("2", "ring+shm#0", "answers/s"), ("3", "ring ring+shm#0", "busiest/s"), ("4", "kv#0", "part")]
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
        assert_eq!(drawn(&mut screen)[1], NOTHING_MATCHES);
        assert_eq!(press(&mut screen, "\u{1b}"), After::GoOn, "first the filter is forgotten");
        assert!(!drawn(&mut screen)[3].is_empty());
        press(&mut screen, "h");
        assert!(drawn(&mut screen)[1].contains("the next tab"));
        assert_eq!(press(&mut screen, "q"), After::GoOn, "any key leaves the help");
        assert_eq!(press(&mut screen, "q"), After::End);
    }

    #[test]
    fn what_has_no_room_is_left_out_or_marked_and_never_another_number() {
        let mut screen = Screen::sorted_by(TopSort::Calls);
        for columns in 36..130 {
            let lines = drawn_of(&mut screen, &seen(), (columns, 6));
            assert!(lines[2].contains("4000002") && lines[2].contains("9.0K"), "{columns}: {lines:#?}");
            assert!(lines[2].ends_with(['s', CUT]), "{columns}: {lines:#?}");
        }
        assert_eq!(drawn_of(&mut screen, &seen(), (10, 6))[1], TOO_NARROW);
        assert_eq!(within("orders", 6), "orders");
        assert_eq!(within("orders", 5), "orde…");
        assert_eq!(within("漢字漢字", 5), "漢字…", "each takes two columns");
        assert_eq!(within("漢字漢字", 6), "漢字…");
        assert_eq!(within("漢字", 1), "…");
    }

    #[test]
    fn the_mark_stays_with_its_row() {
        let marked = |screen: &mut Screen, seen: &Readings| {
            drawn_of(screen, seen, (130, 12));
            screen.marked.selected()
        };
        let (mut screen, mut seen) = (Screen::sorted_by(TopSort::Process), seen());
        assert_eq!(marked(&mut screen, &seen), None);
        screen.press(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
        assert_eq!(marked(&mut screen, &seen), Some(1), "the last row");
        press(&mut screen, "r");
        assert_eq!(marked(&mut screen, &seen), Some(0), "the same process in another place");
        press(&mut screen, "r");
        seen.after.remove(0);
        assert_eq!(marked(&mut screen, &seen), Some(0), "the other one has ended");
        seen.after.clear();
        seen.before.clear();
        assert_eq!(marked(&mut screen, &seen), Some(0), "nothing is drawn");
    }

    #[test]
    fn a_process_that_is_stopped_is_the_first_by_its_stalls() {
        let mut seen = seen();
        seen.about.get_mut(&4_000_001).expect("it is known").is_stopped = true;
        let lines = drawn_of(&mut Screen::sorted_by(TopSort::Stalls), &seen, (190, 12));
        let line = lines.iter().find(|line| line.contains("400000")).expect("a row");
        assert!(line.contains("4000001 ") && line.contains("stopped, waited_for"), "{lines:#?}");
    }

    #[test]
    fn counters_of_unlike_things_are_not_added_up() {
        let mut seen = seen();
        for (samples, times) in [(&mut seen.before, 1), (&mut seen.after, 2)] {
            let group = &mut samples[0].snapshot.groups[1];
            for (name, unit, value) in [("silence_time", "ns", 3_000_000), ("sent_bytes", "bytes", 5 << 20)] {
                let counter = CounterSnapshot {
                    name: name.to_owned(),
                    unit: unit.to_owned(),
                    doc: String::new(),
                    value: value * times,
                };
                group.counters.push(counter);
            }
        }
        let mut screen = Screen::sorted_by(TopSort::Process);
        press(&mut screen, "3");
        let lines = drawn_of(&mut screen, &seen, (190, 6));
        assert!(lines[2].contains("       250 "), "of the most frequent: {lines:#?}");
        let what = "silence_time 3.0 ms/s, sent_bytes 5.0 MiB/s, records_sent 250/s, waited_for_room 4/s";
        assert!(lines[2].ends_with(what), "{lines:#?}");
    }

    #[test]
    fn other_keys_with_control_do_nothing() {
        let mut screen = Screen::sorted_by(TopSort::Process);
        let mut press = |key, with| screen.press(KeyEvent::new(KeyCode::Char(key), with));
        assert_eq!(press('q', KeyModifiers::CONTROL), After::GoOn);
        assert_eq!(press('q', KeyModifiers::ALT), After::GoOn);
        assert_eq!(press('z', KeyModifiers::CONTROL), After::Stop);
        assert_eq!(press('c', KeyModifiers::CONTROL), After::End);
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
