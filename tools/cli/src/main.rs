//! The program `farcall`: arguments in; tables, records and one-sentence errors out.

mod ahead;
mod arguments;
mod commands;
mod failure;
mod http;
mod notify;
mod output;
mod progress;
mod usage;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use farcall_lab::run::{benchkv, collective, exchange, msgrate, recovery, workload};

use arguments::{Arguments, Command, Sim};
use commands::world::{enter, is_silent_rank};
use failure::Failure;

fn main() -> ExitCode {
    progress::end_by_signals_as_first_process();
    let done = match report_of_worker() {
        Some(report) => writeln!(io::stdout(), "{report}").map_err(Failure::output),
        None => run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            failure.exit_code()
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // Help or the version, as asked for.
            error.print().map_err(Failure::output)?;
            return Ok(());
        }
        // Of the ranks of a launcher one says it, and fails. The others end well: a launcher ends all ranks
        // as soon as one fails, perhaps before that one has said anything.
        Err(_) if is_silent_rank() => return Ok(()),
        Err(error) => return Err(Failure::Usage(usage::sentence(&error))),
    };
    match arguments.command {
        Command::Perf(mut perf) => {
            if enter(&mut perf.over)? {
                commands::perf::run(&perf)
            } else {
                Ok(())
            }
        }
        Command::Shuffle(mut shuffle) => {
            if enter(&mut shuffle.over)? {
                commands::shuffle::run(&shuffle)
            } else {
                Ok(())
            }
        }
        Command::Msgrate(mut msgrate) => {
            if enter(&mut msgrate.over)? {
                commands::msgrate::run(&msgrate)
            } else {
                Ok(())
            }
        }
        Command::Compare(compare) => commands::compare::run(&compare),
        Command::Sim(Sim::Swarm(swarm)) => commands::sim::run(&swarm),
        Command::Sim(Sim::Causes(causes)) => commands::explain::score::run(&causes),
        Command::Audit(audit) => commands::audit::run(&audit),
        Command::Calibrate(calibrate) => commands::calibrate::run(&calibrate),
        Command::Explain(explain) => commands::explain::run(&explain),
        Command::Report(report) => commands::report::run(&report),
        Command::Diff(diff) => commands::diff::run(&diff),
        Command::Info(info) => commands::info::run(&info),
        Command::Doctor(doctor) => commands::doctor::run(&doctor),
        Command::ServeReport(serve) => commands::servereport::run(&serve),
        Command::Ps(ps) => commands::ps::run(&ps),
        Command::Top(top) => commands::top::run(&top),
        Command::Stat(stat) => commands::stat::run(&stat),
        Command::Export(export) => commands::export::run(&export),
        Command::Benchkv(mut benchkv) => {
            if enter(&mut benchkv.over)? {
                commands::benchkv::run(&benchkv)
            } else {
                Ok(())
            }
        }
        Command::Kv(mut kv) => commands::kv::run(&mut kv),
        Command::Key(key) => commands::key::run(&key),
        Command::Policy(policy) => commands::policy::run(&policy),
        Command::Registry(registry) => commands::registry::run(&registry),
        Command::Completions(completions) => commands::completions::run(&completions),
        Command::Manual(manual) => commands::manual::run(&manual),
        Command::Tune(tune) => commands::tune::run(&tune),
    }
}

/// What a process reports that a measurement started; `None` if this is none. Not part of the grammar: people
/// have no use for it.
fn report_of_worker() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    let work: fn(&str) -> String = match arguments.next()?.as_str() {
        exchange::WORKER_COMMAND => exchange::work,
        msgrate::WORKER_COMMAND => msgrate::work,
        workload::WORKLOAD_COMMAND => workload::work,
        collective::processes::RANK_COMMAND => collective::processes::be_rank,
        benchkv::BENCHKV_WORKER_COMMAND => benchkv::work,
        recovery::RECOVERY_COMMAND => recovery::work,
        _ => return None,
    };
    Some(work(&arguments.next()?))
}
