//! `farcall perf echoWorkload`: messages of many lengths at a given load, and how much longer they take than
//! alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall::TransportKind;
use farcall_lab::record::{Figure, Origin, Statistic, Unit};
use farcall_lab::run::Heard;
use farcall_lab::run::blocks::Distance;
use farcall_lab::run::simulation::{SimulatedFabric, SimulatedRun};
use farcall_lab::run::workload::{Replay, Reply, Roles, SizeBand, WorkloadOutcome, WorkloadTest};
use farcall_lab::units::Size;
use serde_json::{Value, json};

use super::defaults;
use super::echo::CALLS;
use super::options::Family;
use super::simulated::{self, CLIENTS_AND_SERVERS, memory_of, run_note, simulation_failure};
use super::workload::{Findings, Measurement, Plan, Site, Workload, counted};
use crate::ahead::Lasts;
use crate::arguments::Perf;
use crate::commands::tracing;
use crate::failure::Failure;

/// Messages of each client on a simulated fabric.
const MESSAGES_SIMULATED: u64 = 1_000;

/// Ranks on a simulated fabric.
const NODES_SIMULATED: u64 = 16;

/// Counters that explain slowdowns.
const TELLING_COUNTERS: [&str; 4] = ["retransmissions", "resends_sent", "busy_sent", "checksum_errors"];

/// The test.
#[derive(Debug)]
pub struct EchoWorkload;

impl Workload for EchoWorkload {
    fn name(&self) -> &'static str {
        "echoWorkload"
    }

    fn about(&self) -> &'static str {
        "Messages of many lengths, sent when they are due: slowdown under load"
    }

    fn family(&self) -> Family {
        Family::OpenLoop
    }

    /// The lengths are those of the workload.
    fn sizes(&self) -> &'static [Size] {
        &[]
    }

    /// Refuses workloads that nobody takes part in, and asks for the links' rate where only the user knows
    /// it.
    fn check(&self, perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
        if perf.nodes == Some(1) {
            return Err(Failure::Usage("--nodes: a workload needs at least 2".to_owned()));
        }
        if let Some(file) = &perf.arrivals {
            for transport in transports {
                let roles = roles(perf, transport.is_simulated());
                let checked = file.check(roles, perf.speed);
                checked.map_err(|error| Failure::Usage(format!("--arrivals: {error}")))?;
            }
        }
        let real = transports.iter().find(|transport| !transport.is_simulated());
        match (real, perf.link_gbps) {
            (Some(transport), None) => Err(Failure::Usage(format!(
                "--load is a part of the links' rate, which is not known for {transport}; add --link-gbps"
            ))),
            (None, Some(_)) => Err(Failure::Usage(
                "--link-gbps is not for simulated fabrics, whose links have a rate; see --set fabric.link.gbps"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn plan(
        &self,
        perf: &Perf,
        transport: TransportKind,
        fabric: Option<&SimulatedFabric>,
    ) -> Result<Plan, Failure> {
        let measurement = |test: WorkloadTest| {
            let about = format!("{} at {:.0} %", test.mix, test.load * 100.0);
            let lasts = lasts(&test, fabric);
            let (ranks, receivers) = (test.roles.ranks(), test.roles.receivers());
            let asked_by =
                if matches!(test.roles, Roles::Everyone(_)) { "--nodes" } else { CLIENTS_AND_SERVERS };
            let memory = fabric.map(|_| memory_of(asked_by, transport, ranks, receivers));
            let run = move |site: Site<'_>, heard: &Heard<'_>| measure(&test, transport, site, heard);
            Measurement { about, blocks: 1, lasts, memory, run: Box::new(run) }
        };
        let measurements = workloads(perf, fabric)?.into_iter().map(measurement).collect();
        let scaled = fabric.filter(|_| perf.scaling.scale_topology);
        let heading =
            scaled.map(|fabric| format!("# {}: {}", fabric.profile.name, fabric.profile.description));
        Ok(Plan { heading: heading.into_iter().collect(), measurements })
    }
}

/// What the processes take to start, to find the best times and to end.
const START: Duration = Duration::from_secs(2);

/// About how long a load lasts, on a machine or simulated.
fn lasts(test: &WorkloadTest, fabric: Option<&SimulatedFabric>) -> Lasts {
    let Some(fabric) = fabric else { return Lasts::About(test.lasts() + START) };
    let calls = test.messages_per_second() * test.roles.senders() as f64 * test.lasts().as_secs_f64();
    let there = test.mix.mean_bytes();
    let back = if test.reply == Reply::Echo { there } else { 1.0 };
    simulated::lasts(fabric, calls, there, back)
}

/// What the command line asks for, one for each load.
fn workloads(perf: &Perf, fabric: Option<&SimulatedFabric>) -> Result<Vec<WorkloadTest>, Failure> {
    let gbps = perf.link_gbps.unwrap_or_default() as f64;
    let (messages, link_bits_per_second) = match fabric {
        None => (CALLS, gbps * 1e9),
        Some(fabric) => (MESSAGES_SIMULATED, fabric.link_bits_per_second()),
    };
    let (assignments, _) = perf.tuning.load_with(&defaults(&EchoWorkload, fabric))?;
    let (roles, reply) = (roles(perf, fabric.is_some()), perf.reply);
    let replay = perf.arrivals.as_ref().map(|file| Replay { file: Arc::clone(file), speed: perf.speed });
    let loads = match &replay {
        Some(replay) => vec![replay.load(link_bits_per_second, roles, reply)],
        None => perf.load.clone(),
    };
    let mix = replay.as_ref().map_or_else(|| perf.workload.clone(), |replay| replay.file.mix());
    let workload = |&load: &f64| WorkloadTest {
        assignments: assignments.clone(),
        mix: mix.clone(),
        replay: replay.clone(),
        load,
        link_bits_per_second,
        roles,
        reply,
        messages: perf.count.unwrap_or(messages),
        lasting: perf.seconds,
        seed: perf.tuning.seed,
        trace: perf.tracing.is_on(),
    };
    Ok(loads.iter().map(workload).collect())
}

/// How many hosts there are on a simulated fabric.
pub fn hosts(perf: &Perf) -> usize {
    roles(perf, true).ranks()
}

/// Which ranks send and which receive.
fn roles(perf: &Perf, is_simulated: bool) -> Roles {
    let default = match (is_simulated, perf.clients, perf.servers) {
        (true, None, None) => Some(NODES_SIMULATED),
        _ => None,
    };
    match perf.nodes.or(default) {
        Some(nodes) => Roles::Everyone(nodes as usize),
        None => Roles::Apart {
            clients: perf.clients.unwrap_or(1) as usize,
            servers: perf.servers.unwrap_or(1) as usize,
        },
    }
}

fn measure(
    test: &WorkloadTest,
    transport: TransportKind,
    site: Site<'_>,
    heard: &Heard<'_>,
) -> Result<Findings, Failure> {
    let (outcome, simulation, distance) = match site {
        Site::Machine(bench) => {
            let run = || test.run(bench, transport);
            let (outcome, distance) =
                Distance::around(Instant::now(), || bench.distance_nanos(), run).map_err(Failure::run)?;
            (outcome, None, Some(distance))
        }
        Site::Fabric(fabric) => {
            let simulated = test.simulate(fabric, transport, heard);
            let (outcome, run) = simulated.map_err(|error| simulation_failure(fabric, error))?;
            (outcome, Some(run), None)
        }
    };
    let mut findings = show(test, transport, &outcome, simulation.as_ref());
    findings.distances = distance.into_iter().collect();
    findings.traced = test.trace.then_some(outcome.traced);
    Ok(findings)
}

fn show(
    test: &WorkloadTest,
    transport: TransportKind,
    outcome: &WorkloadOutcome,
    simulation: Option<&SimulatedRun>,
) -> Findings {
    let mut findings = Findings::default();
    findings.text(header(test, transport));
    if let Some(run) = simulation {
        findings.text(format_args!("# times are simulated, on {}", run.profile));
    }
    findings.text(format_args!(
        "{:<6} {:>19} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "decile", "bytes", "samples", "min us", "p50 us", "p99 us", "p50 slow", "p99 slow"
    ));
    for band in &outcome.bands {
        findings.text(line(band));
        for figure in figures(test, band) {
            let mut more = fields(test, outcome, band, simulation);
            if band.decile.is_none() && figure.unit == Unit::Nanoseconds {
                more.extend(tracing::field(figure.statistic, &outcome.traced));
            }
            let origin = Origin {
                command: "perf",
                test: "echoWorkload",
                transport: transport.name(),
                samples: band.latency.samples,
                in_flight: outcome.outstanding_peak,
            };
            findings.figure(figure.record(origin, more));
        }
    }
    findings.text(summary(test, outcome));
    if let Some(run) = simulation {
        findings.text(format_args!("# {}", run_note(run)));
    }
    findings
}

fn header(test: &WorkloadTest, transport: TransportKind) -> String {
    let ranks = match test.roles {
        Roles::Everyone(nodes) => format!("{} to each other", counted(nodes, "node")),
        Roles::Apart { clients, servers } => {
            format!("{} to {}", counted(clients, "client"), counted(servers, "server"))
        }
    };
    format!(
        "\n# {transport}: {} (mean {:.0} B{}) at {:.0} % of {:.0} Gb/s, {ranks}, {}",
        test.mix,
        test.mix.mean_bytes(),
        test.replay.as_ref().map_or_else(String::new, replayed),
        test.load * 100.0,
        test.link_bits_per_second / 1e9,
        reply_words(test.reply),
    )
}

fn replayed(replay: &Replay) -> String {
    format!(", replayed {} times as fast", replay.speed)
}

fn reply_words(reply: Reply) -> &'static str {
    match reply {
        Reply::Ack => "acknowledged",
        Reply::Echo => "echoed",
    }
}

/// A line of the table; what has too few samples is left open.
fn line(band: &SizeBand) -> String {
    let micros = |nanos: Option<u64>| open_or(nanos.map(|nanos| format!("{:.2}", nanos as f64 / 1e3)));
    let slowdown = |slowdown: Option<f64>| open_or(slowdown.map(|slowdown| format!("{slowdown:.2}")));
    let bytes = format!("{}-{}", band.bytes_min, band.bytes_max);
    let latency = &band.latency;
    format!(
        "{:<6} {bytes:>19} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        band_name(band),
        latency.samples,
        micros(Some(latency.min_nanos)),
        micros(latency.p50_nanos),
        micros(latency.p99_nanos),
        slowdown(band.slowdown.p50),
        slowdown(band.slowdown.p99),
    )
}

fn open_or(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn band_name(band: &SizeBand) -> String {
    band.decile.map_or_else(|| "all".to_owned(), |decile| decile.to_string())
}

/// What stands under the table.
fn summary(test: &WorkloadTest, outcome: &WorkloadOutcome) -> String {
    let counters = TELLING_COUNTERS.map(|name| format!("{name} {}", outcome.counted(name))).join(", ");
    let on_links = outcome.wire_load.map_or_else(String::new, |load| {
        let warning = if load > 1.0 { ", more than they carry" } else { "" };
        format!(" ({:.1} % of the links with what the protocol adds{warning})", load * 100.0)
    });
    format!(
        "# offered {:.1} %{on_links}, drawn {:.1} %, achieved {:.1} %; at most {} in flight for a client, {} had to wait to start; {counters}",
        test.load * 100.0,
        outcome.drawn_load * 100.0,
        outcome.achieved_load * 100.0,
        counted(outcome.outstanding_peak as usize, "message"),
        counted(outcome.waited as usize, "message"),
    )
}

/// The figures of a band with the names of their records.
fn figures(test: &WorkloadTest, band: &SizeBand) -> Vec<Figure> {
    let (latency, slowdown) = (&band.latency, &band.slowdown);
    let nanos = |nanos: u64| nanos as f64;
    let figures = [
        ("", latency.p50_nanos.map(nanos), Unit::Nanoseconds, Statistic::P50),
        (".min", Some(nanos(latency.min_nanos)), Unit::Nanoseconds, Statistic::Min),
        (".99", latency.p99_nanos.map(nanos), Unit::Nanoseconds, Statistic::P99),
        (".slowdown", slowdown.p50, Unit::Ratio, Statistic::P50),
        (".slowdown.mean", Some(slowdown.mean), Unit::Ratio, Statistic::Mean),
        (".slowdown.99", slowdown.p99, Unit::Ratio, Statistic::P99),
        (".slowdown.max", Some(slowdown.max), Unit::Ratio, Statistic::Max),
    ];
    let load = test.load * 100.0;
    let row = format!("echoWorkload.{}.{load:.0}.{}", test.mix, band_name(band));
    let figure = |(suffix, value, unit, statistic)| {
        let value: Option<f64> = value;
        value.map(|value| Figure { name: format!("{row}{suffix}"), value, unit, statistic })
    };
    figures.into_iter().filter_map(figure).collect()
}

fn fields(
    test: &WorkloadTest,
    outcome: &WorkloadOutcome,
    band: &SizeBand,
    simulation: Option<&SimulatedRun>,
) -> Vec<(&'static str, Value)> {
    let (clients, servers) = match test.roles {
        Roles::Everyone(nodes) => (nodes, nodes),
        Roles::Apart { clients, servers } => (clients, servers),
    };
    let mut fields = vec![
        ("workload", test.mix.name().into()),
        ("speed", json!(test.replay.as_ref().map(|replay| replay.speed))),
        ("load", test.load.into()),
        ("drawn_load", outcome.drawn_load.into()),
        ("achieved_load", outcome.achieved_load.into()),
        ("wire_load", json!(outcome.wire_load)),
        ("link_bits_per_second", test.link_bits_per_second.into()),
        ("decile", band.decile.into()),
        ("bytes_min", band.bytes_min.into()),
        ("bytes_max", band.bytes_max.into()),
        ("reply", reply_words(test.reply).into()),
        ("clients", clients.into()),
        ("servers", servers.into()),
        ("messages", outcome.messages.into()),
        ("carried_load", outcome.carried_load.into()),
        ("waited", outcome.waited.into()),
        ("mean_ns", band.latency.mean_nanos.into()),
        ("counters", json!(outcome.counters)),
    ];
    match simulation {
        // What the whole measurement did stands beside all its messages together.
        Some(run) => fields
            .extend(run.fields().into_iter().filter(|(name, _)| band.decile.is_none() || *name != "uses")),
        None => fields.push(("seed", test.seed.into())),
    }
    fields
}
