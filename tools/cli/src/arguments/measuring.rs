//! The grammar of `--trace` and `--vary`, the same for every command that makes calls or sends messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use farcall::TransportKind;
use farcall::simulated::Profile;
use farcall_lab::explain::vary::{BLOCKS_MAX, Design, FACTORS_MAX, Guard};
use farcall_lab::run::schedule::{FaultSchedule, FaultScheduleError};

use super::whole_number;
use crate::ahead::Planned;
use crate::failure::Failure;

/// Blocks unless the command line says otherwise: seven degrees of freedom make intervals that are narrow
/// enough to use.
const BLOCKS: u64 = 8;

/// Whether calls or messages are traced, and what becomes of them.
#[derive(Clone, Debug, Args)]
pub struct Tracing {
    /// Traces calls or messages: prints what each part of them took, and writes the newest ones to a file
    /// that Perfetto reads; with a name that ends with .jsonl, the slowest calls as spans of OpenTelemetry
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub trace: Option<Option<PathBuf>>,
}

impl Tracing {
    /// Whether there is a trace.
    pub fn is_on(&self) -> bool {
        self.trace.is_some()
    }

    /// Where they are to be written.
    pub fn file(&self) -> Option<&Path> {
        self.trace.as_ref()?.as_deref()
    }

    /// Refuses to trace `what` of several configurations, or to write that of several measurements to one
    /// file; `how` says how to get one.
    pub fn check(
        &self,
        varying: &Varying,
        what: &str,
        measurements: usize,
        how: &str,
    ) -> Result<(), Failure> {
        if self.is_on() && !varying.vary.is_empty() {
            return Err(Failure::Usage(
                "--trace is for one configuration, and --vary measures several; leave one of them out"
                    .to_owned(),
            ));
        }
        if self.file().is_some() && measurements > 1 {
            return Err(Failure::Usage(format!("--trace=FILE takes the {what} of one measurement; {how}")));
        }
        if what != "calls" && self.file().is_some_and(wants_spans) {
            return Err(Failure::Usage(format!(
                "spans of OpenTelemetry (--trace=FILE.jsonl) are of calls, and these are {what}; choose a file with another ending for Perfetto"
            )));
        }
        Ok(())
    }
}

/// Whether the file's name says that it is to have spans of OpenTelemetry.
pub fn wants_spans(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "jsonl")
}

/// Whether the command is only planned.
#[derive(Clone, Copy, Debug, Args)]
pub struct Rehearsal {
    /// Measures nothing: lists what would be measured, how long that takes and what would fail
    #[arg(long)]
    pub dry_run: bool,
}

/// What goes wrong on a simulated fabric.
#[derive(Clone, Debug, Args)]
pub struct Faults {
    /// What goes wrong when on a simulated fabric: a file of events, such as loss towards one node, a
    /// partition, a node that stands still; docs/simulation.md describes it
    #[arg(long, value_name = "FILE", value_parser = fault_schedule)]
    pub schedule: Option<Arc<FaultSchedule>>,
}

impl Faults {
    /// Refuses a schedule for real transports, and one that names hosts that there are not.
    pub fn check(
        &self,
        transports: &[TransportKind],
        hosts: impl Iterator<Item = usize>,
    ) -> Result<(), Failure> {
        let Some(faults) = &self.schedule else { return Ok(()) };
        let wrong = |why: String| Failure::Usage(format!("--schedule: {why}"));
        if let Some(real) = transports.iter().find(|transport| !transport.is_simulated()) {
            return Err(wrong(format!(
                "nothing can go wrong on purpose over {real}; choose simulated transports"
            )));
        }
        let checked = hosts.map(|hosts| faults.check(hosts).map_err(|error| wrong(error.to_string())).err());
        Failure::all(checked.flatten().collect())
    }
}

fn fault_schedule(path: &str) -> Result<Arc<FaultSchedule>, FaultScheduleError> {
    path.parse().map(Arc::new)
}

/// How large a simulated fabric may become.
#[derive(Clone, Copy, Debug, Args)]
pub struct Scaling {
    /// Gives a simulated fabric more racks of its kind, or more ports of its one switch, where it has places
    /// for fewer hosts than are asked for
    #[arg(long)]
    pub scale_topology: bool,
}

impl Scaling {
    /// The fabric with places for so many hosts, which `what` asks for.
    pub fn fitted(&self, profile: &Profile, hosts: usize, what: &str) -> Result<Profile, Failure> {
        let places = profile.topology.places();
        if hosts <= places {
            return Ok(profile.clone());
        }
        if self.scale_topology {
            let scaled = profile.scaled_to(hosts);
            let description = format!("{}, scaled to {}", profile.description, scaled.topology);
            return Ok(Profile { description, ..scaled });
        }
        let name = &profile.name;
        Err(Failure::Usage(format!(
            "{what}: {name} has places for {places} hosts, not for {hosts}; --scale-topology gives it more of its kind"
        )))
    }
}

/// What changes from run to run.
#[derive(Clone, Debug, Args)]
pub struct Varying {
    /// Which of several parameters matters: NAME=A/B, NAME=B against what it is now, the NAME of a switch, or
    /// that of a number or size against the least that it can be, separated by commas; also fields of a
    /// simulated fabric, as in fabric.link.gbps=100/200
    #[arg(long, value_delimiter = ',', value_name = "FACTORS")]
    pub vary: Vec<String>,
    /// With --vary: a figure that must not get worse by more than a part, such as echo1M:p50=1%; can be
    /// repeated
    #[arg(long, requires = "vary", value_name = "ROW:FIGURE=PERCENT%")]
    pub guard: Vec<Guard>,
    /// With --vary: the figure that the table shows [default: the first that the test has, such as p50]
    #[arg(long, requires = "vary", value_name = "FIGURE")]
    pub figure: Option<String>,
    /// With --vary: blocks, in each of which every combination runs once, in random order; they share
    /// --count or --seconds [default: 8]
    #[arg(long, requires = "vary", value_parser = whole_number::<{ BLOCKS_MAX }>)]
    pub blocks: Option<u64>,
}

impl Varying {
    /// How many blocks are to be kept.
    pub fn blocks(&self) -> u64 {
        self.blocks.unwrap_or(BLOCKS)
    }

    /// A cell of a plan as it is with what is varied: every combination takes the time of one cell, which its
    /// blocks share.
    pub fn planned(&self, cell: Planned) -> Planned {
        if self.vary.is_empty() {
            return cell;
        }
        // More factors are refused.
        let combinations = Design::new(self.vary.len().min(FACTORS_MAX)).runs().len() as u64;
        let repeats = format!("{} runs", combinations * self.blocks());
        Planned { repeats, lasts: cell.lasts.times(combinations as u32), ..cell }
    }
}
