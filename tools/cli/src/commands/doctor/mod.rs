//! `farcall doctor`: what of this machine, and of the path to another one, is in the way of farcall.

mod cores;
mod finding;
mod isolation;
pub mod kernel;
mod limits;
mod memory;
mod network;
mod path;
mod transports;

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use farcall_lab::units::Size;
use signal_hook::consts::SIGXFSZ;

use crate::arguments::doctor::Doctor;
use crate::failure::Failure;
use crate::output::Report;
use finding::{Finding, Severity};
use kernel::Kernel;
pub use kernel::numbers;
use limits::Limits;

/// Examines everything, and fails if something must be mended.
pub fn run(doctor: &Doctor) -> Result<(), Failure> {
    let mut report = Report::open(doctor.json.as_ref())?;
    if let Some(at) = &doctor.listen {
        return path::listen::run(at, &mut report);
    }
    // With a handler a file that grows too long is an error, which is a finding; without one it is the end.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::<AtomicBool>::default());
    let kernel = Kernel::of_this_machine();
    let pins = transports::pins();
    let mut worst = Vec::new();
    let mut show = |area: &str, findings: Vec<Finding>| {
        worst.extend(findings.iter().map(|finding| finding.severity));
        show(area, &findings, &mut report)
    };
    show("limits", Limits::of_this_process(&kernel, pins).findings())?;
    show("namespaces", isolation::namespaces(&kernel))?;
    show("control groups", isolation::groups(&kernel, cores::allowed(&kernel).len()))?;
    show("memory", memory::findings(&kernel, pins))?;
    show("cores", cores::findings(&kernel))?;
    show("network", network::findings(&kernel))?;
    show("devices", transports::devices())?;
    show("transports", transports::findings())?;
    if let Some(peer) = &doctor.peer {
        show("path", path::findings(peer))?;
    }
    end(&worst, &mut report)
}

fn show(area: &str, findings: &[Finding], report: &mut Report) -> Result<(), Failure> {
    report.line(area)?;
    for finding in findings {
        let Finding { severity, subject, state, advice } = finding;
        report.line(format_args!("  {:<8} {subject}: {state}", severity.word()))?;
        if let Some(advice) = advice {
            report.line(format_args!("           -> {advice}"))?;
        }
        report.object(&finding.object(area))?;
    }
    Ok(())
}

/// The last line, and the exit status.
fn end(severities: &[Severity], report: &mut Report) -> Result<(), Failure> {
    let count = |of: Severity| severities.iter().filter(|severity| **severity == of).count();
    let (mend, warnings) = (count(Severity::Mend), count(Severity::Warning));
    let (looked_at, notes) = (severities.len(), count(Severity::Note));
    report.line(format_args!(
        "{looked_at} things looked at: {mend} to mend, {warnings} warnings, {notes} notes"
    ))?;
    match mend {
        0 => Ok(()),
        1 => Err(Failure::Run("one thing must be mended".to_owned())),
        many => Err(Failure::Run(format!("{many} things must be mended"))),
    }
}

/// Bytes in few characters.
fn size(bytes: u64) -> String {
    Size(usize::try_from(bytes).unwrap_or(usize::MAX)).to_string()
}
