//! The text that `top` shows: for each process a line of its own and a line for each group, then what held it
//! up.

use core::fmt::Write;

use crate::commands::processes::change::{
    ANSWERED, BUSY_POLLS, CALLS, Change, IN_FLIGHT, POLLS, REQUESTS, SESSIONS, SLEEPS, scaled, seconds, total,
};
use crate::commands::processes::sample::Sample;
use crate::commands::processes::{STOPPED, shortened};
use crate::commands::top::readings::Readings;

/// What happened between the last two readings.
pub fn view(seen: &Readings) -> String {
    let mut text = String::new();
    for now in &seen.after {
        match seen.before.iter().find(|sample| sample.pid == now.pid) {
            Some(then) => process(then, now, seen, &mut text),
            None => line(&mut text, format_args!("process {}: read for the first time", now.pid)),
        }
    }
    seen.left_out.iter().for_each(|sentence| line(&mut text, format_args!("{sentence}")));
    text
}

fn line(text: &mut String, arguments: core::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes everything");
}

fn process(then: &Sample, now: &Sample, seen: &Readings, text: &mut String) {
    let groups = Change::of(then, now);
    line(text, format_args!("process {}{}", now.pid, head(then, now, &groups, seen)));
    line(
        text,
        format_args!(
            "  {:<28} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8}",
            "endpoint",
            "sessions",
            "calls/s",
            "answers/s",
            "served/s",
            "in flight",
            "turns/s",
            "busy %",
            "sleeps/s"
        ),
    );
    for change in groups.iter().filter(|change| change.is_endpoint()) {
        endpoint(change, &seen.history.line(now.pid, &change.now.label), text);
    }
    let of_group = |change: &Change<'_>| {
        let label = change.now.label.clone();
        change.stalls().map(move |stall| format!("{label} {}", stall.shown())).collect::<Vec<_>>()
    };
    let stopped = seen.is_stopped(now.pid).then(|| STOPPED.to_owned());
    let stalls: Vec<_> = stopped.into_iter().chain(groups.iter().flat_map(of_group)).collect();
    let what = if stalls.is_empty() { "none".to_owned() } else { stalls.join(", ") };
    line(text, format_args!("  stalls: {what}"));
    if now.snapshot.unlisted_groups > 0 {
        line(
            text,
            format_args!("  {} more groups found no room in the counter file", now.snapshot.unlisted_groups),
        );
    }
}

/// Its command, its share of a core, and what its store was asked for.
fn head(then: &Sample, now: &Sample, groups: &[Change<'_>], seen: &Readings) -> String {
    let (command, seconds) = (shortened(seen.command_of(now.pid)), seconds(then, now));
    let share = |nanos: u64| nanos as f64 / 1e9 / seconds * 100.0;
    let mut parts = Vec::new();
    if let Some((then, now)) = then.schedule.zip(now.schedule) {
        let ran = share(now.ran_nanos.saturating_sub(then.ran_nanos));
        let waited = share(now.waited_nanos.saturating_sub(then.waited_nanos));
        parts.push(format!("{ran:.0} % of a core, {waited:.0} % waiting for one"));
    }
    if groups.iter().any(Change::is_store) {
        parts.push(format!("store {}/s", scaled(total(groups.iter().map(Change::store_rate)))));
    }
    let named = if command.is_empty() { String::new() } else { format!(" ({command})") };
    if parts.is_empty() { named } else { format!("{named}: {}", parts.join(", ")) }
}

fn endpoint(change: &Change<'_>, line_of_rates: &str, text: &mut String) {
    let rate = |name| scaled(change.rate(name).unwrap_or(0.0));
    let turns = change.rate(POLLS).unwrap_or(0.0);
    let busy = change.rate(BUSY_POLLS).unwrap_or(0.0);
    let busy = if turns > 0.0 { (busy / turns * 100.0).min(100.0) } else { 0.0 };
    line(
        text,
        format_args!(
            "  {:<28} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {busy:>7.1} {:>8}{}{line_of_rates}",
            change.now.label,
            change.value(SESSIONS).unwrap_or(0),
            rate(CALLS),
            rate(ANSWERED),
            rate(REQUESTS),
            change.value(IN_FLIGHT).unwrap_or(0),
            scaled(turns),
            rate(SLEEPS),
            if line_of_rates.is_empty() { "" } else { "  " },
        ),
    );
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use farcall::{GroupSnapshot, Snapshot};

    use super::*;
    use crate::commands::processes::change::LEVELS;
    use crate::commands::processes::sample::Schedule;
    use crate::commands::processes::sample::testing;
    use crate::commands::top::readings::About;

    fn sample(at: Instant, times: u64) -> Sample {
        let counted = |&(name, value): &(&'static str, u64)| {
            (name, if LEVELS.contains(&name) { value } else { value * times })
        };
        let group = |label, counters: &[(&'static str, u64)]| -> GroupSnapshot {
            testing::group(label, &counters.iter().map(counted).collect::<Vec<_>>())
        };
        let endpoint = [
            (CALLS, 4_000_000),
            (ANSWERED, 4_000_000),
            (IN_FLIGHT, 16),
            (SESSIONS, 3),
            (POLLS, 8_000_000),
            (BUSY_POLLS, 2_000_000),
        ];
        let ring = [("waited_for_room", 3_000), ("records_sent", 9), ("backlog", 5), ("violations", 0)];
        let groups = vec![group("ring+shm#0", &ring), group("ring+shm#0", &endpoint)];
        let schedule = Schedule { ran_nanos: 1_500_000_000 * times, waited_nanos: 500_000_000 * times };
        let snapshot = Snapshot { owner: 7, unlisted_groups: 0, groups };
        Sample { pid: 7, at, snapshot, schedule: Some(schedule) }
    }

    fn seen(before: Vec<Sample>, after: Vec<Sample>) -> Readings {
        let mut seen = Readings::default();
        (seen.before, seen.after) = (before, after);
        seen
    }

    const TABLE: &str = "
  endpoint                     sessions   calls/s answers/s  served/s in flight   turns/s  busy % sleeps/s
  ring+shm#0                          3     2.00M     2.00M         0        16     4.00M    25.0        0
  stalls: ";

    #[test]
    fn rates_levels_and_stalls_are_shown_and_quiet_counters_are_not() {
        let begin = Instant::now();
        let mut seen = seen(vec![sample(begin, 1)], vec![sample(begin + Duration::from_secs(2), 2)]);
        let stalls = "ring+shm#0 waited_for_room 1.5K/s, ring+shm#0 backlog 5\n";
        let shares = "75 % of a core, 25 % waiting for one";
        assert_eq!(view(&seen), format!("process 7: {shares}{TABLE}{stalls}"));
        let about = About { command: "kv serve".to_owned(), is_stopped: true };
        seen.about.insert(7, about);
        for (samples, puts) in [(&mut seen.before, 100), (&mut seen.after, 300)] {
            samples[0].snapshot.groups.push(testing::group("kv#0", &[("puts", puts)]));
        }
        seen.left_out.push("2 were not looked into".to_owned());
        let (head, last) =
            (format!("process 7 (kv serve): {shares}, store 100/s"), "2 were not looked into\n");
        assert_eq!(view(&seen), format!("{head}{TABLE}stopped, {stalls}{last}"));
    }

    #[test]
    fn a_process_that_is_new_has_no_rates_yet() {
        let seen = seen(Vec::new(), vec![sample(Instant::now(), 1)]);
        assert_eq!(view(&seen), "process 7: read for the first time\n");
    }
}
