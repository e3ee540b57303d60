//! `farcall audit`: which of somebody's figures cannot all be true, what they are consistent with, and what
//! would tell.

use std::path::Path;

use farcall_base::printable;
use farcall_lab::explain::analysis::analyse;
use farcall_lab::explain::analysis::finding::{Finding, Section};
use farcall_lab::explain::analysis::input::{Document, DocumentError, PROGRAMS, TableError};

use crate::arguments::runs::Audit;
use crate::failure::Failure;
use crate::output::Report;

/// Reads all files before anything is said of one.
pub fn run(audit: &Audit) -> Result<(), Failure> {
    let mut documents = audit.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    for document in &mut documents {
        for (law, part) in &audit.tolerance {
            document.tolerances.set(law, *part);
        }
        document.struck.extend(&audit.strike);
    }
    let mut report = Report::open(audit.json.as_ref())?;
    for (path, document) in audit.files.iter().zip(documents) {
        report.line(format_args!("# {}", printable(&path.to_string_lossy())))?;
        if !document.source.is_empty() {
            report.line(format_args!("# {}", printable(&document.source)))?;
        }
        show(&analyse(&document), &mut report)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Document, Failure> {
    if path.is_dir() {
        let folder = path.display();
        return Err(Failure::Run(format!(
            "{folder} is a folder; of runs that --record kept there is `farcall explain {folder}`"
        )));
    }
    Document::read(path).map_err(|error| match error {
        DocumentError::Table(TableError::NoFigures { .. } | TableError::NoHeading { .. }) => {
            Failure::Run(format!("{}: {error}; of programs the output of {PROGRAMS} is read", path.display()))
        }
        // It names the file itself.
        DocumentError::File { .. } => Failure::run(error),
        error => Failure::Run(format!("{}: {error}", path.display())),
    })
}

/// Findings under the headings of their sections.
pub fn show(findings: &[Finding], report: &mut Report) -> Result<(), Failure> {
    let mut section: Option<Section> = None;
    for finding in findings {
        if section.replace(finding.section) != Some(finding.section) {
            report.line(format_args!("\n{}", finding.section))?;
        }
        let (about, sentence) = (printable(&finding.about), printable(&finding.sentence));
        report.line(format_args!("  {about}: {sentence}"))?;
        report.object(&finding.to_json())?;
    }
    if findings.is_empty() {
        report.line("nothing to say: no two figures here are bound to each other by a law")?;
    }
    Ok(())
}
