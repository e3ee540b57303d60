//! `farcall benchkv`: daemons, clients on shared-memory slots, and where their time goes.

use farcall_kv::daemon::Phase;
use farcall_lab::bench::Bench;
use farcall_lab::benchkv::{BenchKv, BenchKvResult, ClassResult, RankResult, knee_of, run as run_bench};
use farcall_lab::histogram::{LatencyCounts, LatencyHistogram};
use farcall_lab::little::LittleCheck;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::table::{Row, latency_rows};
use serde_json::{Map, Value, json};

use crate::arguments::benchkv::BenchKvArguments;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Counters that the table shows, for each turn; all are in the records.
const COUNTERS: [&str; 12] = [
    "slot_requests",
    "local",
    "remote",
    "incoming",
    "responses",
    "unanswered",
    "records_received",
    "records_sent",
    "credit_records_sent",
    "wrap_records_sent",
    "ring_full",
    "responses_received",
];

/// Runs the benchmark, once or for each number of clients.
pub fn run(arguments: &BenchKvArguments) -> Result<(), Failure> {
    let bench = plan(arguments)?;
    let clients: Vec<u64> = arguments.sweep.as_ref().map_or(vec![arguments.clients], |sweep| sweep.0.clone());
    let report = Report::open(arguments.output.json.as_ref())?;
    let mut report = report.keep(&arguments.recording, &arguments.tuning, &bench.settings)?;
    let on = Bench::new().map_err(Failure::run)?;
    let progress = Progress::new(clients.len(), arguments.output.quiet);
    let mut points = Vec::new();
    for clients in clients {
        let bench = BenchKv { clients: clients as usize, ..bench.clone() };
        progress.begin(format_args!("{clients} clients"));
        let results = run_bench(&bench, &on).map_err(Failure::run)?;
        progress.step();
        let regime = on.distance_nanos().map_err(Failure::run)?;
        let mut show = || show_all(&bench, regime, &results, arguments.sweep.is_some(), &mut report);
        progress.suspend(&mut show)?;
        points.extend(best_of(&results).map(|result| (result.little.in_flight, result.per_second)));
    }
    match knee_of(&points) {
        Some((knee, ceiling)) if points.len() > 1 => show_knee(&bench, knee, ceiling, &mut report)?,
        _ => {}
    }
    report.end()
}

fn plan(arguments: &BenchKvArguments) -> Result<BenchKv, Failure> {
    let mut tuning = arguments.tuning.settings.clone();
    tuning.extend(arguments.ring_size.map(|size| format!("ring.ring_bytes={size}")));
    let (settings, _) = crate::arguments::Tuning { settings: tuning, ..arguments.tuning.clone() }.load()?;
    Ok(BenchKv {
        transport: arguments.transport.name().to_owned(),
        settings,
        ranks: arguments.ranks as usize,
        clients: arguments.clients as usize,
        queue_depth: arguments.queue_depth as usize,
        keys: arguments.keys,
        read_ratio: arguments.read_ratio,
        distribution: arguments.distribution,
        lasting: arguments.seconds,
        runs: arguments.runs as usize,
        seed: arguments.tuning.seed,
    })
}

/// The run with the most requests a second.
fn best_of(results: &[BenchKvResult]) -> Option<&BenchKvResult> {
    results.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second))
}

fn show_all(
    bench: &BenchKv,
    distance_nanos: f64,
    results: &[BenchKvResult],
    brief: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    if !brief {
        report.line(header(bench, distance_nanos))?;
    }
    for (run, result) in results.iter().enumerate() {
        let shown = Shown { bench, run, result };
        if brief {
            shown.show_point(report)?;
        } else {
            shown.show(report)?;
        }
    }
    Ok(())
}

fn header(bench: &BenchKv, distance_nanos: f64) -> String {
    format!(
        "# {}: {} ranks, {} clients each, queue depth {}, {} keys a rank, read ratio {}, {}; cores {distance_nanos:.0} ns apart",
        bench.transport,
        bench.ranks,
        bench.clients,
        bench.queue_depth,
        bench.keys,
        bench.read_ratio,
        bench.distribution
    )
}

fn show_knee(bench: &BenchKv, knee: f64, ceiling: f64, report: &mut Report) -> Result<(), Failure> {
    let words = "requests in flight that would reach the ceiling at the least latency";
    report.line(Row { name: "knee".to_owned(), value: knee, unit: "", description: words.to_owned() })?;
    report.line(Row::rate("ceiling".to_owned(), ceiling, "the most requests of the sweep".to_owned()))?;
    let point = |name: &str, value, unit| Record {
        schema: SCHEMA,
        command: "benchkv",
        test: "sweep".to_owned(),
        transport: bench.transport.clone(),
        name: name.to_owned(),
        value,
        unit,
        statistic: Statistic::Max,
        samples: 1,
        in_flight: 0,
        more: Map::new(),
    };
    report.record(&point("knee", knee, Unit::Counted("requests".to_owned())))?;
    report.record(&point("ceiling", ceiling, Unit::PerSecond))
}

/// A run, to be shown.
struct Shown<'a> {
    bench: &'a BenchKv,
    run: usize,
    result: &'a BenchKvResult,
}

impl Shown<'_> {
    /// A line of a sweep: clients, throughput, latency and what is in flight.
    fn show_point(&self, report: &mut Report) -> Result<(), Failure> {
        let Self { bench, result, .. } = self;
        let p50 = |class: &ClassResult| {
            let nanos = class.latencies.summary().and_then(|summary| summary.p50_nanos);
            nanos.map_or("-".to_owned(), |nanos| format!("{:.3} us", nanos as f64 / 1e3))
        };
        let (local, remote) = (p50(&result.local), p50(&result.remote));
        let words = format!(
            "clients {}, in flight {}, local p50 {local}, remote p50 {remote}",
            bench.clients, result.little.in_flight
        );
        report.line(Row::rate(format!("benchkv.{}", bench.clients), result.per_second, words))?;
        self.record_figures(report)
    }

    fn show(&self, report: &mut Report) -> Result<(), Failure> {
        let result = self.result;
        let seconds = result.window.as_secs_f64();
        let words = format!("{} requests in a window of {seconds:.3} s", result.requests);
        report.line(format_args!("\n# run {}", self.run + 1))?;
        report.line(Row::rate("rps".to_owned(), result.per_second, words))?;
        for (rank, found) in result.ranks.iter().enumerate() {
            report.line(Row::rate(
                format!("rps.{rank}"),
                found.per_second,
                format!("of rank {rank}'s clients"),
            ))?;
        }
        for (name, class) in self.classes() {
            self.show_class(name, class, report)?;
        }
        let (in_flight, implied) = (result.little.in_flight, result.little.implied);
        let words = format!("requests in flight by throughput and latency; {in_flight} were kept under way");
        report.line(Row { name: "implied".to_owned(), value: implied, unit: "", description: words })?;
        if !result.little.holds() {
            report
                .line("# throughput and latency do not agree: they were not measured over the same window")?;
        }
        if !result.warm {
            report.line("# latencies of a client never became steady")?;
        }
        for (rank, found) in result.ranks.iter().enumerate() {
            show_rank(rank, found, report)?;
        }
        self.record_figures(report)
    }

    fn classes(&self) -> [(&'static str, &ClassResult); 2] {
        [("local", &self.result.local), ("remote", &self.result.remote)]
    }

    fn show_class(&self, name: &str, class: &ClassResult, report: &mut Report) -> Result<(), Failure> {
        let Some(summary) = class.latencies.summary() else { return Ok(()) };
        let (per_second, little) = (class.per_second / 1e6, class.little);
        for row in latency_rows(&summary) {
            let words = if row.suffix.is_empty() {
                format!("{}; {per_second:.3} M/s, {:.2} in flight", row.words, little.in_flight)
            } else {
                row.words.to_owned()
            };
            report.line(Row::latency(format!("{name}{}", row.suffix), row.nanos, words))?;
        }
        if !little.holds() {
            let LittleCheck { in_flight, implied } = little;
            report.line(format_args!(
                "# {name} requests: {in_flight:.2} were in flight, throughput and latency imply {implied:.2}"
            ))?;
        }
        let share = 100.0 * little.in_flight / self.result.little.in_flight;
        report.line(format_args!("{name:<20} {share:>8.2} %     of the slots' time"))
    }

    fn record_figures(&self, report: &mut Report) -> Result<(), Failure> {
        let result = self.result;
        report.record(&self.record(
            "rps",
            result.per_second,
            Unit::PerSecond,
            Statistic::OverWallClock,
            result.requests,
        ))?;
        for (name, class) in self.classes() {
            let Some(summary) = class.latencies.summary() else { continue };
            for row in latency_rows(&summary) {
                let name = format!("{name}{}", row.suffix);
                report.record(&self.record(
                    &name,
                    row.nanos,
                    Unit::Nanoseconds,
                    row.statistic,
                    class.requests,
                ))?;
            }
        }
        Ok(())
    }

    fn record(&self, name: &str, value: f64, unit: Unit, statistic: Statistic, samples: u64) -> Record {
        let Self { bench, run, result } = self;
        let ranks = result.ranks.iter().map(rank_object).collect::<Vec<_>>();
        let more: Vec<(&str, Value)> = vec![
            ("run", (*run).into()),
            ("ranks", bench.ranks.into()),
            ("clients", bench.clients.into()),
            ("queue_depth", bench.queue_depth.into()),
            ("keys", bench.keys.into()),
            ("read_ratio", bench.read_ratio.into()),
            ("distribution", bench.distribution.to_string().into()),
            ("window_seconds", result.window.as_secs_f64().into()),
            ("local_requests", result.local.requests.into()),
            ("remote_requests", result.remote.requests.into()),
            ("implied_in_flight", result.little.implied.into()),
            ("local_in_flight", result.local.little.in_flight.into()),
            ("remote_in_flight", result.remote.little.in_flight.into()),
            ("slot_nanos", json!(result.slot_nanos)),
            ("slot_window_nanos", result.slot_window_nanos.into()),
            ("warm", result.warm.into()),
            ("daemons", ranks.into()),
        ];
        Record {
            schema: SCHEMA,
            command: "benchkv",
            test: "benchkv".to_owned(),
            transport: bench.transport.clone(),
            name: name.to_owned(),
            value,
            unit,
            statistic,
            samples,
            in_flight: result.little.in_flight as u64,
            more: Map::from_iter(more.into_iter().map(|(name, value)| (name.to_owned(), value))),
        }
    }
}

/// What a daemon did in each turn, and what the turns' phases took.
fn show_rank(rank: usize, found: &RankResult, report: &mut Report) -> Result<(), Failure> {
    let turns = found.counted("turns");
    let window = found.phases.window_nanos as f64 / 1e9;
    let empty = found.empty_turn_nanos;
    report.line(format_args!(
        "# rank {rank}: {turns} turns in {window:.3} s; a turn without clients takes {empty:.1} ns"
    ))?;
    for name in COUNTERS {
        let count = found.counted(name);
        if count > 0 {
            let each = count as f64 / turns.max(1) as f64;
            report.line(format_args!("{name:<20} {count:>12} {each:>10.4} a turn"))?;
        }
    }
    let messages = found.counted("requests_received") + found.counted("responses_received");
    if let Some(records) = Some(found.counted("records_received")).filter(|&records| records > 0) {
        report.line(format_args!(
            "{:<20} {:>12.2} in a record",
            "messages",
            messages as f64 / records as f64
        ))?;
    }
    for (phase, times) in Phase::ALL.into_iter().zip(&found.phases.phases) {
        for (hit, counts) in ["idle", "hit"].into_iter().zip(times) {
            show_times(&format!("{}.{hit}", phase.name()), &histogram_of(counts), report)?;
        }
        let share = 100.0 * found.phases.sums_nanos[phase as usize] as f64 / found.phases.window_nanos as f64;
        report.line(format_args!("{:<20} {share:>8.2} %     of the window", phase.name()))?;
    }
    let yielded = 100.0 * found.phases.yielded_nanos as f64 / found.phases.window_nanos as f64;
    if yielded > 0.0 {
        report.line(format_args!(
            "{:<20} {yielded:>8.2} %     of the window, to others on its core",
            "yielded"
        ))?;
    }
    let turns = histogram_of(&found.phases.turns);
    show_times("turn", &turns, report)?;
    for (nanos, count) in turns.octaves() {
        let share = 100.0 * count as f64 / turns.summary().map_or(1, |summary| summary.samples) as f64;
        report.line(format_args!("turn < {nanos:<13} {share:>8.2} %     {count} times"))?;
    }
    Ok(())
}

fn show_times(name: &str, histogram: &LatencyHistogram, report: &mut Report) -> Result<(), Failure> {
    let Some(summary) = histogram.summary() else { return Ok(()) };
    let nanos = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| nanos.to_string());
    let (p50, p90, p99) = (nanos(summary.p50_nanos), nanos(summary.p90_nanos), nanos(summary.p99_nanos));
    report.line(format_args!(
        "{name:<20} {p50:>8} ns    median; 90 % {p90}, 99 % {p99} ns; {} times",
        summary.samples
    ))
}

fn rank_object(found: &RankResult) -> Value {
    let phases = Phase::ALL.into_iter().zip(&found.phases.sums_nanos);
    let sums: Map<String, Value> = phases.map(|(phase, sum)| (phase.name().to_owned(), json!(sum))).collect();
    let times = Phase::ALL.into_iter().zip(&found.phases.phases);
    let times = times.map(|(phase, [idle, hit])| {
        (phase.name().to_owned(), json!({ "idle": times_object(idle), "hit": times_object(hit) }))
    });
    json!({
        "per_second": found.per_second,
        "counters": found.counters,
        "phases": Map::from_iter(times),
        "turn": times_object(&found.phases.turns),
        "turn_histogram": histogram_of(&found.phases.turns).octaves(),
        "phase_nanos": sums,
        "yielded_nanos": found.phases.yielded_nanos,
        "window_nanos": found.phases.window_nanos,
        "empty_turn_nanos": found.empty_turn_nanos,
    })
}

/// How often something happened, and how long it took.
fn times_object(counts: &LatencyCounts) -> Value {
    let Some(summary) = histogram_of(counts).summary() else { return json!({ "samples": 0 }) };
    json!({
        "samples": summary.samples,
        "p50": summary.p50_nanos,
        "p90": summary.p90_nanos,
        "p99": summary.p99_nanos,
    })
}

fn histogram_of(counts: &LatencyCounts) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    histogram.add_counts(counts);
    histogram
}
