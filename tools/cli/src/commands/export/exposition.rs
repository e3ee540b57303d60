//! The text: OpenMetrics 1.0, or the older format of Prometheus, which differ in the names of counters.

use core::fmt::{Display, Write};
use std::collections::btree_map::{BTreeMap, Entry};

use farcall::GroupSnapshot;

use super::families::{self, Group};
use super::watch::{Seen, Sight};
use crate::commands::processes::change::is_level;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Plain,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Format {
    /// The newer one, if the scraper takes it.
    pub fn taken_by(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Plain }
    }

    /// What it is called in HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only grows, and ends with `_total`.
    Counter,
    Gauge,
    /// Always 1: what it says is in its labels.
    Info,
}

/// All series of one name.
struct Family {
    kind: Kind,
    help: String,
    /// Labels, in braces, and values.
    samples: Vec<(String, String)>,
}

#[derive(Default)]
struct Families {
    by_name: BTreeMap<String, Family>,
    series: u64,
}

/// What a look found, as text. Of groups of counters as many are listed as there is room for.
pub fn exposition(sight: &Sight, format: Format, series_max: u64) -> String {
    let mut families = Families::default();
    about_this_program(&mut families);
    sight.processes.iter().for_each(|seen| process(seen, &mut families));
    let mut left_out = 0;
    for seen in &sight.processes {
        for (group, label) in labelled(&seen.snapshot.groups) {
            if families.series + group.counters.len() as u64 <= series_max {
                counters(seen.pid, group, &label, &mut families);
            } else {
                left_out += 1;
            }
        }
    }
    about_the_look(sight, left_out, &mut families);
    families.text(format)
}

fn about_this_program(families: &mut Families) {
    let labels = labels(&[("version", &env!("CARGO_PKG_VERSION"))]);
    families.add("farcall_build", Kind::Info, "The program that exports", labels, 1);
}

fn about_the_look(sight: &Sight, left_out: u64, families: &mut Families) {
    let mut gauge = |name, help, value: &dyn Display| {
        families.add(name, Kind::Gauge, help, String::new(), value);
    };
    gauge("farcall_export_look_seconds", "How long reading all processes took", &sight.took.as_secs_f64());
    gauge("farcall_export_not_allowed", "Processes that this user may not look into", &sight.not_allowed);
    gauge("farcall_export_unreadable", "Processes whose counter files cannot be read", &sight.unreadable);
    gauge("farcall_export_groups_left_out", "Groups of counters over the limit of --series", &left_out);
}

fn process(seen: &Seen, families: &mut Families) {
    let pid = &seen.pid;
    let user = seen.user.map_or_else(String::new, |user| user.to_string());
    let about = labels(&[("process", pid), ("program", &seen.program), ("user", &user)]);
    families.add("farcall_process", Kind::Info, "A process that uses farcall", about, 1);
    let mut add = |name, kind, help, value: &dyn Display| {
        families.add(name, kind, help, labels(&[("process", pid)]), value);
    };
    let is_up = u8::from(seen.is_up);
    add("farcall_process_up", Kind::Gauge, "1 of a process that runs, 0 of one that has ended", &is_up);
    let unlisted = seen.snapshot.unlisted_groups;
    add("farcall_process_unlisted_groups", Kind::Gauge, "Groups without room in its counter file", &unlisted);
    if let Some(schedule) = seen.schedule {
        let (ran, waited) = (schedule.ran_nanos as f64 / 1e9, schedule.waited_nanos as f64 / 1e9);
        add("farcall_process_run_seconds", Kind::Counter, "Time of its threads on a core", &ran);
        add(
            "farcall_process_wait_seconds",
            Kind::Counter,
            "Time of its threads ready, without a core",
            &waited,
        );
    }
}

/// Groups and labels that tell them apart: two cards, or two uses of one, may be called the same.
fn labelled(groups: &[GroupSnapshot]) -> Vec<(&GroupSnapshot, String)> {
    let mut seen = BTreeMap::<(String, &str), u32>::new();
    let label = |group: &GroupSnapshot, times: u32| match times {
        1 => families::label(group).to_owned(),
        times => format!("{} ({times})", families::label(group)),
    };
    let labelled = groups.iter().map(|group| {
        let times = seen.entry((Group::of(group).part, &group.label)).or_default();
        *times += 1;
        (group, label(group, *times))
    });
    labelled.collect()
}

fn counters(pid: u32, of: &GroupSnapshot, label: &str, families: &mut Families) {
    let Group { part, transport, is_of_reasons } = Group::of(of);
    if is_of_reasons {
        return reasons(pid, of, (&part, transport.unwrap_or_default(), label), families);
    }
    let group = match transport {
        Some(transport) => labels(&[("process", &pid), ("transport", &transport), ("group", &label)]),
        None => labels(&[("process", &pid), ("group", &label)]),
    };
    for counter in &of.counters {
        let kind = if is_level(&counter.name) { Kind::Gauge } else { Kind::Counter };
        let name = format!("farcall_{part}_{}", counter.name);
        families.add(&name, kind, &counter.doc, group.clone(), counter.value);
    }
}

/// Why sessions do not take a way: one family, whatever the reasons are. Those that are the same as far as
/// their texts are kept are one series.
fn reasons(pid: u32, of: &GroupSnapshot, (part, way, label): (&str, &str, &str), families: &mut Families) {
    let mut sessions = BTreeMap::<&str, u64>::new();
    for counter in &of.counters {
        let counted = sessions.entry(&counter.doc).or_default();
        *counted = counted.saturating_add(counter.value);
    }
    let name = format!("farcall_{part}_not_taken");
    for (why, sessions) in sessions {
        let labels = labels(&[("process", &pid), ("transport", &way), ("group", &label), ("reason", &why)]);
        families.add(&name, Kind::Counter, "Sessions that do not take a way, by reason", labels, sessions);
    }
}

impl Families {
    fn add(&mut self, name: &str, kind: Kind, help: &str, labels: String, value: impl Display) {
        // Names come from counter files, which anybody can make.
        if !is_name(name) {
            return;
        }
        let family = match self.by_name.entry(name.to_owned()) {
            Entry::Vacant(vacant) => vacant.insert(Family { kind, help: escaped(help), samples: Vec::new() }),
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        family.samples.push((labels, value.to_string()));
        self.series += 1;
    }

    fn text(&self, format: Format) -> String {
        let mut text = String::new();
        for (name, family) in &self.by_name {
            family.write(name, format, &mut text).expect("a string takes everything");
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

impl Family {
    fn write(&self, name: &str, format: Format, text: &mut String) -> core::fmt::Result {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        let (family, kind) = match (format, self.kind) {
            (Format::OpenMetrics, Kind::Counter) => (name.to_owned(), "counter"),
            (Format::OpenMetrics, Kind::Info) => (name.to_owned(), "info"),
            (Format::Plain, Kind::Counter) => (format!("{name}{suffix}"), "counter"),
            (_, Kind::Gauge | Kind::Info) => (format!("{name}{suffix}"), "gauge"),
        };
        writeln!(text, "# HELP {family} {}", self.help)?;
        writeln!(text, "# TYPE {family} {kind}")?;
        self.samples.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{suffix}{labels} {value}"))
    }
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn labels(pairs: &[(&str, &dyn Display)]) -> String {
    let pair = |(name, value): &(&str, &dyn Display)| format!("{name}=\"{}\"", escaped(&value.to_string()));
    format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(","))
}

/// For a value in quotes, and for a line of help, where a quote may stand alone too.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use farcall::{CounterSnapshot, Snapshot};

    use super::*;

    fn sight() -> Sight {
        let counter = |name: &str, value| CounterSnapshot {
            name: name.to_owned(),
            unit: "calls".to_owned(),
            doc: format!("What {name} counts"),
            value,
        };
        let reason =
            |name, value| CounterSnapshot { doc: "it is \"far\"".to_owned(), ..counter(name, value) };
        let group = |label: &str, counters| GroupSnapshot { label: label.to_owned(), counters };
        let endpoint = vec![counter("polls", 9), counter("calls", 7), counter("in_flight", 2)];
        let groups = vec![
            group("ring+shm#0", endpoint),
            group("verbs a\"b", vec![counter("port_losses", 1)]),
            group("verbs a\"b", vec![counter("port_losses", 3)]),
            group("odd", vec![counter("not a name\n", 3)]),
            group("auto#0 tcp not taken", vec![reason("reason_1", 4), reason("reason_2", 3)]),
            group("auto#0 ring+shm not taken", vec![counter("reason_1", 2)]),
        ];
        let seen = Seen {
            pid: 12,
            program: "serve\\r".to_owned(),
            user: Some(1000),
            is_up: false,
            schedule: None,
            snapshot: Snapshot { owner: 12, unlisted_groups: 0, groups },
        };
        Sight { processes: vec![seen], took: Duration::from_millis(2), ..Sight::default() }
    }

    #[test]
    fn counters_gauges_and_names_are_told_apart() {
        let text = exposition(&sight(), Format::OpenMetrics, 1000);
        for line in [
            "# TYPE farcall_endpoint_calls counter",
            r#"farcall_endpoint_calls_total{process="12",transport="ring+shm",group="ring+shm#0"} 7"#,
            "# TYPE farcall_endpoint_in_flight gauge",
            r#"farcall_endpoint_in_flight{process="12",transport="ring+shm",group="ring+shm#0"} 2"#,
            "# HELP farcall_endpoint_in_flight What in_flight counts",
            r#"farcall_verbs_port_losses_total{process="12",group="verbs a\"b"} 1"#,
            r#"farcall_verbs_port_losses_total{process="12",group="verbs a\"b (2)"} 3"#,
            r#"farcall_process_info{process="12",program="serve\\r",user="1000"} 1"#,
            r#"farcall_process_up{process="12"} 0"#,
            "farcall_export_look_seconds 0.002",
            "# HELP farcall_several_not_taken Sessions that do not take a way, by reason",
            concat!(
                r#"farcall_several_not_taken_total{process="12",transport="tcp",group="auto#0 tcp","#,
                r#"reason="it is \"far\""} 7"#
            ),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("not a name") && !text.contains("reason_1_total"), "{text}");
        assert!(text.ends_with("# EOF\n"));
        let plain = exposition(&sight(), Format::Plain, 1000);
        assert!(plain.contains("# TYPE farcall_endpoint_calls_total counter") && !plain.contains("EOF"));
    }

    #[test]
    fn no_more_series_are_listed_than_there_may_be() {
        let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        let all = exposition(&sight(), Format::Plain, 1000);
        let few = exposition(&sight(), Format::Plain, 4);
        assert!(all.contains("farcall_export_groups_left_out 0"));
        assert!(few.contains("farcall_export_groups_left_out 6"), "{few}");
        assert!(series(&few) < series(&all));
    }
}
