//! `farcall sim causes`: every cause put into a simulated fabric on purpose, and how often it is named first.

use farcall_lab::explain::recorded::RecordedRun;
use farcall_lab::explain::recorded::causes::evidence::Evidence;
use farcall_lab::explain::recorded::causes::experiment::Verdict;
use farcall_lab::explain::recorded::causes::rank;
use farcall_lab::files::ScratchFolder;
use serde_json::json;

use super::allowed::Trust;
use super::here;
use super::rerun::Words;
use super::trial;
use crate::arguments::runs::Causes;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// The version of the objects that `--json` writes.
const SCHEMA: &str = "farcall.causes.v1";

/// A cause, and the command that puts it in, without fabric and seed.
pub(super) struct Injection {
    pub(super) rule: &'static str,
    words: &'static str,
    /// The schedule of faults that puts it in: the name of a file, and what is in it.
    schedule: Option<(&'static str, &'static str)>,
}

pub(super) const fn put_in(rule: &'static str, words: &'static str) -> Injection {
    Injection { rule, words, schedule: None }
}

const fn scheduled(rule: &'static str, words: &'static str, file: (&'static str, &'static str)) -> Injection {
    Injection { rule, words, schedule: Some(file) }
}

/// Schedules of faults, each with the name of its file.
const SLOW: (&str, &str) =
    ("slow.toml", "event = [{ at_us = 0, action = { slow = { hosts = [2], factor = 8 } } }]");
const STOPS_SERVER: (&str, &str) = (
    "stops-server.toml",
    "event = [{ at_us = 20, action = { pause = [0] } }, { at_us = 2000, action = { resume = [0] } }]",
);
const STOPS_CLIENT: (&str, &str) = (
    "stops-client.toml",
    "event = [{ at_us = 20, action = { pause = [1] } }, { at_us = 2000, action = { resume = [1] } }]",
);
const CUT: (&str, &str) = (
    "cut.toml",
    "event = [{ at_us = 50, action = { partition = { from = [0], to = [1] } } }, { at_us = 250, action = \"heal\" }]",
);
const LATE: (&str, &str) = ("late.toml", "packets = { delay = 0.2, delay_us = 20 }");
const OVERTAKEN: (&str, &str) = ("overtaken.toml", "packets = { reorder = 0.5, reorder_us = 20 }");
const CUT_SHORT: (&str, &str) = ("cut-short.toml", "packets = { truncate = 0.01 }");
const LOSSY: (&str, &str) = (
    "lossy.toml",
    "event = [{ at_us = 0, action = { towards = { hosts = [0], packets = { drop = 0.02 } } } }]",
);

/// All that are put in. `R`, `B` and `H` stand for an echo of 1 KB over ring, basic and homa.
const INJECTIONS: &[Injection] = &[
    put_in(
        "receive_queue",
        "shuffle --nodes 16 --sizes 16000 --count 20 --transport basic+sim --set fabric.nic.receive_queue_packets=8",
    ),
    put_in("receive_queue", "B --in-flight 16 --clients 4 --set fabric.nic.receive_queue_packets=8"),
    put_in(
        "nic_buffer",
        "shuffle --nodes 16 --sizes 16000 --count 20 --transport basic+sim --set fabric.nic.receive_buffer_bytes=8192",
    ),
    put_in(
        "port_buffer",
        "shuffle --nodes 16 --sizes 16000 --count 20 --transport basic+sim --set fabric.switch.port_buffer_bytes=8192",
    ),
    put_in("loss", "B --in-flight 8 --set fault.drop_permille=10"),
    put_in("loss", "H --in-flight 8 --set fault.drop_permille=10"),
    put_in("corruption", "B --in-flight 8 --set basic.checksum=true --set fault.corrupt_permille=10"),
    put_in("ring_room", "R --in-flight 16 --set fabric.lanes.ring_bytes=8192"),
    put_in(
        "ring_room",
        "R --in-flight 64 --set fabric.lanes.ring_bytes=4096 --set fabric.nic.transmit_packet_ns=50",
    ),
    put_in(
        "block_memory",
        "perf echo --transport ring+sim --sizes 64K --in-flight 16 --set fabric.lanes.block_bytes=131072 --set fabric.nic.transmit_packet_ns=50",
    ),
    put_in(
        "send_queue",
        "perf echo --transport basic+sim --sizes 64K --in-flight 4 --set fabric.nic.send_queue_packets=8",
    ),
    put_in(
        "grants",
        "perf echo --transport basic+sim --sizes 100K --set basic.rtt_bytes=1K --set fabric.link.propagation_ns=5000",
    ),
    put_in("handler", "R --in-flight 16 --handler 2us"),
    put_in("handler", "B --in-flight 16 --handler 2us"),
    put_in("serving", "R --in-flight 16 --set fabric.host.handler_ns=2000"),
    put_in("poll", "R --in-flight 16 --set fabric.host.poll_ns=4000"),
    put_in("make_packets", "B --in-flight 16 --set fabric.host.send_packet_ns=2000"),
    put_in(
        "copy_out",
        "perf echo --transport basic+sim --sizes 3K --in-flight 16 --set fabric.host.send_byte_ns=1",
    ),
    put_in("descriptors", "B --in-flight 16 --set fabric.nic.descriptor_ns=2000"),
    put_in("doorbells", "R --in-flight 16 --set fabric.nic.doorbell_ns=2000"),
    put_in("take_packets", "B --in-flight 16 --set fabric.host.receive_packet_ns=2000"),
    put_in(
        "copy_in",
        "perf echo --transport basic+sim --sizes 3K --in-flight 16 --set fabric.host.receive_byte_ns=1",
    ),
    put_in("nic_sending", "B --in-flight 16 --set fabric.nic.transmit_packet_ns=4000"),
    put_in("nic_receiving", "B --in-flight 16 --set fabric.nic.receive_packet_ns=4000"),
    put_in("pcie", "perf echo --transport basic+sim --sizes 64K --in-flight 8 --set fabric.nic.pcie_gbps=10"),
    put_in(
        "pcie_requests",
        "perf echo --transport basic+sim --sizes 3K --in-flight 16 --set fabric.nic.dma_read_ns=500",
    ),
    put_in("link", "perf echo --transport ring+sim --sizes 64K --in-flight 8 --set fabric.link.gbps=40"),
    put_in("link", "perf echo --transport basic+sim --sizes 64K --in-flight 8 --set fabric.link.gbps=40"),
    put_in(
        "uplink",
        "shuffle --nodes 16 --sizes 16000 --count 20 --transport basic+sim --set \
         fabric.topology={two-level={racks=2,machines_per_rack=8,servers_per_machine=1,uplinks_per_rack=1,uplink_gbps=20,uplink_choice=\"flow\"}}",
    ),
    put_in(
        "receive_path",
        "shuffle --nodes 16 --sizes 16000 --count 20 --transport ring+sim --set \
         fabric.receive_path={gbps=10,slowdown_per_source=0.1,source_window_us=10}",
    ),
    put_in("flight", "R --in-flight 8 --set fabric.link.propagation_ns=5000"),
    put_in("flight", "H --in-flight 8 --set fabric.link.propagation_ns=5000"),
    put_in("switching", "B --in-flight 8 --set fabric.switch.latency_ns=5000"),
    put_in("pcie_trips", "B --in-flight 8 --set fabric.nic.pcie_round_trip_ns=5000"),
    put_in("held_up", "R --in-flight 8 --set fault.delay_permille=1000 --set fault.delay_time=5us"),
    put_in("held_up", "R --in-flight 8 --set fault.delay_permille=100 --set fault.delay_time=50us"),
    put_in("held_up", "B --in-flight 8 --set fault.delay_permille=200 --set fault.delay_time=20us"),
    put_in("loss", "B --in-flight 8 --handler 2us --set fault.drop_permille=10"),
    put_in("handler", "B --in-flight 8 --handler 20us --set fault.drop_permille=1"),
    put_in(
        "loss",
        "shuffle --nodes 8 --sizes 16000 --count 20 --transport homa+sim --set fault.drop_permille=10",
    ),
    put_in("corruption", "H --in-flight 8 --set homa.checksum=true --set fault.corrupt_permille=10"),
    put_in("receive_queue", "H --in-flight 16 --clients 4 --set fabric.nic.receive_queue_packets=8"),
    put_in(
        "link",
        "perf echo --transport ring+sim --sizes 64K --in-flight 8 --set fabric.link.gbps=40 --set fabric.lanes.ring_bytes=8192",
    ),
    put_in(
        "grants",
        "perf echo --transport homa+sim --sizes 100K --set homa.rtt_bytes=1K --set fabric.link.propagation_ns=5000",
    ),
    put_in(
        "grants",
        "perf echo --transport basic+sim --sizes 200K --in-flight 2 --set basic.rtt_bytes=4K --set basic.window_bytes=4K --set fabric.link.propagation_ns=5000",
    ),
    put_in(
        "serving",
        "perf echo --transport ring+sim --sizes 100 --in-flight 1 --clients 16 --set fabric.host.handler_ns=1000",
    ),
    put_in(
        "take_packets",
        "perf echo --transport basic+sim --sizes 100 --in-flight 8 --clients 4 --set fabric.host.receive_packet_ns=1000",
    ),
    put_in(
        "copy_in",
        "perf echo --transport ring+sim --sizes 8000 --in-flight 16 --set fabric.host.receive_byte_ns=1",
    ),
    put_in("poll", "B --in-flight 16 --set fabric.host.poll_ns=6000"),
    put_in("pcie", "perf echo --transport ring+sim --sizes 64K --in-flight 8 --set fabric.nic.pcie_gbps=20"),
    put_in(
        "make_packets",
        "shuffle --nodes 8 --sizes 64000 --count 20 --transport basic+sim --set fabric.host.send_packet_ns=4000",
    ),
    put_in(
        "flight",
        "shuffle --nodes 8 --sizes 1000 --count 20 --transport ring+sim --set fabric.link.propagation_ns=20000",
    ),
    put_in(
        "saturation",
        "perf echoWorkload --transport homa+sim --nodes 4 --workload W3 --load 0.2 --count 500",
    ),
    put_in(
        "saturation",
        "perf echoWorkload --transport basic+sim --nodes 4 --workload W3 --load 0.1 --count 500",
    ),
    put_in("window", "R --in-flight 2"),
    put_in("window", "R --in-flight 1"),
    put_in("window", "B --in-flight 1"),
    scheduled("slow_server", "B --in-flight 4 --clients 4 --servers 4", SLOW),
    scheduled("slow_server", "R --in-flight 4 --clients 4 --servers 4", SLOW),
    scheduled("slow_host", "shuffle --nodes 8 --sizes 16000 --count 20 --transport basic+sim", SLOW),
    scheduled("standstill", "R --in-flight 8", STOPS_SERVER),
    scheduled("standstill", "B --in-flight 8", STOPS_SERVER),
    scheduled("client_standstill", "R --in-flight 8", STOPS_CLIENT),
    scheduled("partition", "B --in-flight 8", CUT),
    scheduled("held_up", "B --in-flight 8", LATE),
    scheduled("held_up", "B --in-flight 8", OVERTAKEN),
    scheduled("corruption", "B --in-flight 8 --set basic.checksum=true", CUT_SHORT),
    scheduled("loss", "H --in-flight 8", LOSSY),
    scheduled("loss", "B --in-flight 4 --clients 2 --servers 2", LOSSY),
];

impl Injection {
    /// The words of its command, with what stands for several spelt out.
    pub(super) fn words(&self) -> Vec<String> {
        let echo = |protocol| format!("perf echo --transport {protocol}+sim --sizes 1K");
        let mut words: Vec<String> = Vec::new();
        for word in self.words.split_whitespace() {
            match word {
                "R" => words.extend(echo("ring").split(' ').map(str::to_owned)),
                "B" => words.extend(echo("basic").split(' ').map(str::to_owned)),
                "H" => words.extend(echo("homa").split(' ').map(str::to_owned)),
                other => words.push(other.to_owned()),
            }
        }
        if let Some((file, _)) = self.schedule {
            words.extend(["--schedule", file].map(str::to_owned));
        }
        words
    }

    /// Makes its schedule, if it has one, and names the place in the command.
    fn prepared(&self, mut words: Words, files: &ScratchFolder) -> Result<Words, Failure> {
        if let Some((name, schedule)) = self.schedule {
            let path = files.file(name);
            std::fs::write(&path, schedule).map_err(Failure::run)?;
            words.set("--schedule", &path.display().to_string());
        }
        Ok(words)
    }

    /// The same on the fabric that all are put into.
    fn on_fabric(&self) -> Words {
        let fabric = ["--fabric", "connectx7-ndr"].map(str::to_owned);
        Words::of(&[self.words(), fabric.into()].concat())
    }
}

/// Those that are asked for.
pub(super) fn chosen<'a>(all: &'a [Injection], causes: &Causes) -> Result<Vec<&'a Injection>, Failure> {
    if let Some(name) = causes.cause.iter().find(|name| all.iter().all(|one| one.rule != **name)) {
        let mut names: Vec<_> = all.iter().map(|injection| injection.rule).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("--cause: there is no cause `{name}`; there are {names}")));
    }
    let wanted =
        |one: &&Injection| causes.cause.is_empty() || causes.cause.iter().any(|name| name == one.rule);
    Ok(all.iter().filter(wanted).collect())
}

/// How often each was named, and what became of experiments.
#[derive(Default)]
struct Score {
    first: u64,
    named: u64,
    /// What was named first instead, of the last seed where something was.
    instead: Option<&'static str>,
    confirmed: u64,
    refuted: u64,
    neither: u64,
}

/// Puts every cause in, with every seed.
pub fn run(causes: &Causes) -> Result<(), Failure> {
    if causes.here {
        return here::run(causes);
    }
    let injections = chosen(INJECTIONS, causes)?;
    let mut report = Report::open(causes.output.json.as_ref())?;
    let progress = Progress::new(injections.len() * causes.seeds as usize, causes.output.quiet);
    let files = ScratchFolder::new().map_err(Failure::run)?;
    let (heading, rule) = if causes.try_out { (" tried |", "---|") } else { ("", "") };
    report.line(format_args!("| cause | put in by `farcall …` | named first |{heading}"))?;
    report.line(format_args!("|---|---|---|{rule}"))?;
    let (mut sum, mut all) = (Score::default(), 0);
    for injection in injections {
        let words = injection.on_fabric();
        let prepared = injection.prepared(words.clone(), &files)?;
        let mut score = Score::default();
        for seed in causes.seed..causes.seed + causes.seeds {
            let run = prepared.run(seed)?;
            score.add(injection.rule, &run);
            if causes.try_out {
                score.add_tried(
                    trial::of_run(&run, causes.pairs, Trust::Own)?.and_then(|tried| tried.verdict),
                );
            }
            progress.step();
        }
        let tried = |count: u64| causes.try_out.then_some(count);
        let row = format!(
            "| {} | `{}` | {} |{}",
            injection.rule,
            Words::of(&injection.words()),
            score.named_first(causes.seeds),
            if causes.try_out { format!(" {} |", score.tried()) } else { String::new() }
        );
        progress.suspend(|| report.line(&row))?;
        report.object(&json!({
            "schema": SCHEMA, "cause": injection.rule, "command": words.to_string(), "seeds": causes.seeds,
            "schedule": injection.schedule.map(|(_, schedule)| schedule),
            "first": score.first, "named": score.named, "instead": score.instead,
            "confirmed": tried(score.confirmed), "refuted": tried(score.refuted), "neither": tried(score.neither),
        }))?;
        sum.add_all(&score);
        all += causes.seeds;
    }
    let tried = if causes.try_out { format!("; tried: {} of {all}", sum.tried()) } else { String::new() };
    report.line(format_args!("\nnamed first: {} of {all}{tried}", sum.first))
}

impl Score {
    fn add(&mut self, rule: &str, run: &RecordedRun) {
        let Some(evidence) = run.figures.iter().find_map(|figure| Evidence::of(figure, run)) else { return };
        let ranked = rank(&evidence);
        let first = ranked.first().map(|cause| cause.rule.name);
        self.named += u64::from(ranked.iter().any(|cause| cause.rule.name == rule));
        if first == Some(rule) {
            self.first += 1;
        } else {
            self.instead = first.or(Some("none"));
        }
    }

    /// What is not decided, or could not be tried, separates nothing.
    fn add_tried(&mut self, verdict: Option<Verdict>) {
        let count = match verdict {
            Some(Verdict::Confirmed) => &mut self.confirmed,
            Some(Verdict::Refuted) => &mut self.refuted,
            _ => &mut self.neither,
        };
        *count += 1;
    }

    /// Adds those of a row.
    fn add_all(&mut self, row: &Self) {
        self.first += row.first;
        self.confirmed += row.confirmed;
        self.refuted += row.refuted;
        self.neither += row.neither;
    }

    fn named_first(&self, seeds: u64) -> String {
        let instead = self.instead.map_or_else(String::new, |rule| format!(", else {rule}"));
        format!("{} of {seeds}{instead}", self.first)
    }

    fn tried(&self) -> String {
        let parts = [(self.confirmed, "confirmed"), (self.refuted, "refuted"), (self.neither, "neither")];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_table_that_the_command_prints() {
        let page = include_str!("../../../../../docs/explain.md");
        let of_page: Vec<(&str, &str)> = page
            .lines()
            .skip_while(|line| !line.starts_with("| cause | put in by"))
            .skip(2)
            .map_while(|line| {
                let (cause, rest) = line.strip_prefix("| ")?.split_once(" | `")?;
                Some((cause, rest.split_once("` |")?.0))
            })
            .collect();
        let words: Vec<String> =
            INJECTIONS.iter().map(|injection| Words::of(&injection.words()).to_string()).collect();
        let printed: Vec<(&str, &str)> =
            INJECTIONS.iter().map(|one| one.rule).zip(words.iter().map(String::as_str)).collect();
        let missing: Vec<_> = printed.iter().filter(|row| !of_page.contains(row)).collect();
        assert!(missing.is_empty(), "`farcall sim causes` prints more rows: {missing:#?}");
        assert_eq!(of_page, printed, "in the order of the command");
        for (file, schedule) in INJECTIONS.iter().filter_map(|injection| injection.schedule) {
            assert!(page.contains(&format!("| `{file}` | `{schedule}` |")), "{file} is not on the page");
        }
    }
}
