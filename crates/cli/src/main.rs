//! The program `farcall`: arguments in; tables, records and one-sentence errors out.

mod arguments;
mod commands;
mod failure;
mod output;
mod progress;
mod usage;

use std::process::ExitCode;

use clap::Parser;
use farcall_lab::exchange::{WORKER_COMMAND, work};

use arguments::{Arguments, Command};
use failure::Failure;

fn main() -> ExitCode {
    if let Some(job) = worker_job() {
        println!("{}", work(&job));
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(sentence) = failure.sentence() {
                eprintln!("farcall: {sentence}");
            }
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
        Err(error) => return Err(Failure::Usage(usage::sentence(&error))),
    };
    match arguments.command {
        Command::Perf(perf) => commands::perf::run(&perf),
        Command::Compare(compare) => commands::compare::run(&compare),
        Command::Info(info) => commands::info::run(&info),
        Command::Stat(stat) => commands::stat::run(&stat),
        Command::Tune(tune) => commands::tune::run(&tune),
    }
}

/// The job of a process that a measurement started. Not part of the grammar: people have no use for it.
fn worker_job() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == WORKER_COMMAND).then(|| arguments.next()).flatten()
}
