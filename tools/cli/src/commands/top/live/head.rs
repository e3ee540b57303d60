//! The head of the screen: how busy the machine is, and what all processes that are listed do together.

use farcall_base::printable;
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};

use crate::commands::processes::change::{
    CALLS, Change, IN_FLIGHT, REQUESTS, SESSIONS, is_level, scaled, total,
};
use crate::commands::top::core_use::CoreUse;
use crate::commands::top::readings::Readings;

/// Columns of a core's meter, with its number and the space behind it.
const METER_COLUMNS: usize = 30;
const BAR_COLUMNS: usize = METER_COLUMNS - 12;
/// Lines that meters may take. Of a machine with more cores than have room there, the average is shown, and
/// how many of them are full.
const METER_LINES_MAX: usize = 4;
/// A core that is busy for this part of the time, or more, has nothing left to give.
const FULL: f64 = 0.95;

/// The lines of the head on a screen of this many columns.
pub fn lines(seen: &Readings, columns: u16) -> Vec<Line<'static>> {
    let mut lines = meters(&seen.cores, columns.into());
    // Nothing is known of processes that were read once.
    if !seen.before.is_empty() {
        lines.extend(totals(seen, columns.into()));
    }
    lines.extend(seen.left_out.iter().map(|sentence| Line::from(printable(sentence).to_string()).dim()));
    lines
}

fn meters(cores: &[CoreUse], columns: usize) -> Vec<Line<'static>> {
    let in_line = (columns / METER_COLUMNS).max(1);
    if cores.len() <= in_line * METER_LINES_MAX {
        let meter = |core: &CoreUse| meter(format!("core {}", core.core), core.busy);
        return cores
            .chunks(in_line)
            .map(|line| Line::from(line.iter().flat_map(meter).collect::<Vec<_>>()))
            .collect();
    }
    let average = cores.iter().map(|core| core.busy).sum::<f64>() / cores.len() as f64;
    let full = cores.iter().filter(|core| core.busy >= FULL).count();
    let mut spans = meter("cores".to_owned(), average);
    spans.push(Span::from(format!("{full} of {} are full", cores.len())));
    vec![Line::from(spans)]
}

/// A name, a bar and the same as a number: colours only repeat what they say.
fn meter(name: String, busy: f64) -> Vec<Span<'static>> {
    let filled = (busy * BAR_COLUMNS as f64).round() as usize;
    let color = match busy {
        busy if busy >= FULL => Color::Red,
        busy if busy >= 0.5 => Color::Yellow,
        _ => Color::Green,
    };
    vec![
        Span::from(format!("{name:<8}")).dim(),
        Span::from("━".repeat(filled)).fg(color),
        Span::from("─".repeat(BAR_COLUMNS - filled)).dim(),
        Span::from(format!("{:>3.0} ", busy * 100.0)),
    ]
}

/// In as many lines as they need.
fn totals(seen: &Readings, columns: usize) -> Vec<Line<'static>> {
    let changes: Vec<_> = seen.pairs().flat_map(|(then, now)| Change::of(then, now)).collect();
    let endpoints = || changes.iter().filter(|change| change.is_endpoint());
    let level = |name| endpoints().filter_map(|change| change.value(name)).sum::<u64>();
    let rate = |name| scaled(total(endpoints().filter_map(|change| change.rate(name))));
    let store = total(changes.iter().map(Change::store_rate));
    let stalls = changes.iter().flat_map(Change::stalls).filter(|stall| !is_level(stall.name));
    let stalls = total(stalls.map(|stall| stall.amount));
    let mut lines = vec![Line::default()];
    let mut add = |what: &'static str, amount: Span<'static>| {
        let spans = [Span::from(format!("{what} ")).dim(), amount.bold(), Span::from("   ")];
        let line = lines.last_mut().expect("there is one");
        let width = spans[..2].iter().map(Span::width).sum::<usize>();
        if line.width() > 0 && line.width() + width > columns {
            lines.push(Line::default());
        }
        lines.last_mut().expect("there is one").spans.extend(spans);
    };
    for (what, amount) in [
        ("processes", seen.after.len().to_string()),
        ("endpoints", endpoints().count().to_string()),
        ("sessions", level(SESSIONS).to_string()),
        ("in flight", level(IN_FLIGHT).to_string()),
        ("calls/s", rate(CALLS)),
        ("served/s", rate(REQUESTS)),
        ("store/s", scaled(store)),
    ] {
        add(what, Span::from(amount));
    }
    let shown = Span::from(scaled(stalls));
    add("stalls/s", if stalls > 0.0 { shown.fg(Color::Yellow) } else { shown });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    fn cores(busy: &[f64]) -> Vec<CoreUse> {
        busy.iter().enumerate().map(|(core, &busy)| CoreUse { core: core as u32, busy }).collect()
    }

    #[test]
    fn every_core_has_a_meter_while_there_is_room() {
        let lines = text(&meters(&cores(&[0.0, 0.5, 1.0]), 60));
        assert_eq!(
            lines,
            ["core 0  ──────────────────  0 core 1  ━━━━━━━━━───────── 50", "core 2  ━━━━━━━━━━━━━━━━━━100"]
        );
        assert!(meters(&[], 60).is_empty(), "where nothing can be read");
        assert_eq!(meters(&cores(&[0.3; 4]), 5).len(), 4, "one in a line at least");
    }

    #[test]
    fn many_cores_have_one_meter() {
        let mut busy = vec![0.0; 128];
        busy[3..35].fill(1.0);
        let lines = text(&meters(&cores(&busy), 120));
        assert_eq!(lines, ["cores   ━━━━━───────────── 25 32 of 128 are full"]);
    }
}
