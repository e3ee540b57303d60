//! `farcall msgrate --vary`.

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::msgrate::{MessageRate, run_on};
use farcall_lab::units::Size;

use super::rows;
use super::table::way;
use crate::arguments::Msgrate;
use crate::commands::vary::{self, Metric, VariedTest, rate};
use crate::failure::Failure;
use crate::output::Report;

/// What is known of each mode, size and number in flight.
const METRICS: [Metric; 1] = [rate("rate")];

/// Refuses what cannot be varied.
pub fn check(msgrate: &Msgrate) -> Result<(), Failure> {
    if msgrate.varying.vary.is_empty() {
        return Ok(());
    }
    if !msgrate.raw.is_empty() {
        return Err(Failure::Usage(
            "--vary is for messages of farcall, and the loops of --raw are without it; leave one of them out"
                .to_owned(),
        ));
    }
    if msgrate.runs > 1 {
        return Err(Failure::Usage("--vary measures in --blocks of its own; leave --runs out".to_owned()));
    }
    Ok(())
}

/// Refuses parameters that cannot be varied.
pub fn check_parameters(msgrate: &Msgrate, bench: &Bench) -> Result<(), Failure> {
    if msgrate.varying.vary.is_empty() {
        return Ok(());
    }
    let seed = msgrate.tuning.seed;
    let checked =
        |transport| vary::check(&msgrate.varying, seed, &VariedMessages { msgrate, transport, bench });
    msgrate.transports().into_iter().try_for_each(checked)
}

/// Measures every row over every transport.
pub fn run(msgrate: &Msgrate, bench: &Bench, mut report: Report) -> Result<(), Failure> {
    for transport in msgrate.transports() {
        let varied = VariedMessages { msgrate, transport, bench };
        let (seed, quiet) = (msgrate.tuning.seed, msgrate.output.quiet);
        vary::run(&msgrate.varying, seed, &varied, &mut report, quiet)?;
    }
    report.end()
}

/// Messages over one transport.
struct VariedMessages<'a> {
    msgrate: &'a Msgrate,
    transport: TransportKind,
    bench: &'a Bench,
}

impl VariedMessages<'_> {
    fn measurements(&self, assignments: &[String]) -> Vec<MessageRate> {
        let of_transport = |rate: &MessageRate| rate.transport == self.transport.name();
        rows(self.msgrate, assignments).filter(of_transport).collect()
    }
}

impl VariedTest for VariedMessages<'_> {
    type Prepared = Vec<MessageRate>;

    fn names(&self) -> (&'static str, String, String) {
        ("msgrate", "messages".to_owned(), self.transport.name().to_owned())
    }

    fn rows(&self) -> Vec<String> {
        let name =
            |rate: &MessageRate| format!("{}.{}x{}", way(rate), Size(rate.message_bytes), rate.in_flight);
        self.measurements(&[]).iter().map(name).collect()
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.msgrate.tuning.load()?.1)
    }

    fn prepare(&self, assignments: &[String]) -> Result<Self::Prepared, Failure> {
        let mut msgrate = self.msgrate.clone();
        msgrate.tuning.replace(assignments);
        let (assignments, _) = msgrate.tuning.load()?;
        let messages = (msgrate.messages / msgrate.varying.blocks()).max(1);
        let of_block = |rate| MessageRate { messages, ..rate };
        Ok(self.measurements(&assignments).into_iter().map(of_block).collect())
    }

    fn bench(&self) -> Option<&Bench> {
        Some(self.bench)
    }

    fn measure(&self, row: usize, prepared: &Self::Prepared, seed: u64) -> Result<Vec<Option<f64>>, Failure> {
        let rate = MessageRate { seed, ..prepared[row].clone() };
        let result = run_on(self.bench, &rate).map_err(Failure::run)?;
        Ok(vec![Some(result.messages as f64 / result.elapsed.as_secs_f64())])
    }
}
