//! What a set of published or recorded figures says: which of them cannot all be true, what they are
//! consistent with, what they leave open, and which experiment would tell.
//!
//! Everything here is a pure function of the figures. The order is that of an honest reading: contradictions
//! first, then regimes and bounds, then effects of changes, then hypotheses. Only a change that somebody made
//! and measured confirms or refutes; everything else is "consistent with".

pub mod bounds;
pub mod contrast;
pub mod effects;
pub mod finding;
pub mod fit;
pub mod hypotheses;
pub mod input;
pub mod lints;
pub mod normal;
pub mod regimes;

use finding::Finding;
use input::Document;

/// Everything that the figures of a document say, in the order in which it should be read.
pub fn analyse(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in &document.tables {
        findings.extend(lints::table(table, document));
    }
    findings.extend(lints::figures(document));
    let effects: Vec<_> =
        document.comparisons.iter().filter_map(|comparison| effects::measure(comparison, document)).collect();
    for table in &document.tables {
        findings.extend(regimes::find(table));
        findings.extend(bounds::find(table));
    }
    findings.extend(effects.iter().map(effects::ChangeEffect::finding));
    let measured = |change: &str| effects.iter().any(|effect| effect.change == change);
    let unmeasured = document.comparisons.iter().filter(|comparison| !measured(&comparison.change));
    findings.extend(unmeasured.filter_map(|comparison| effects::without_common_cells(comparison, document)));
    findings.extend(never_varied(document));
    let contrasts = document.comparisons.iter().flat_map(|comparison| contrast::find(comparison, document));
    findings.extend(contrasts);
    for table in &document.tables {
        findings.extend(hypotheses::rank(table, &effects));
    }
    findings.sort_by_key(|finding| finding.section);
    findings
}

/// Causes that no change acted on: what was never varied cannot be told from the rest.
fn never_varied(document: &Document) -> Option<Finding> {
    use input::Cause;
    const CAUSES: [(Cause, &str); 5] = [
        (Cause::Host, "the host's own path"),
        (Cause::Fabric, "the fabric"),
        (Cause::Copy, "copies"),
        (Cause::Schedule, "the order of sending"),
        (Cause::Window, "what may be in flight"),
    ];
    let tested = |cause: Cause| document.comparisons.iter().any(|comparison| comparison.tests == Some(cause));
    let untested: Vec<_> =
        CAUSES.iter().filter(|(cause, _)| !tested(*cause)).map(|(_, words)| *words).collect();
    (untested.len() < CAUSES.len() && !untested.is_empty()).then(|| {
        let sentence = format!(
            "{} of {} causes were never varied: {}; the cheapest experiment changes one of them and nothing else, in the \
             cells where the others no longer help",
            untested.len(),
            CAUSES.len(),
            untested.join(", ")
        );
        finding::Finding::new(finding::Section::NotIdentifiable, "never_varied", "comparisons", sentence)
            .with([("untested", untested.len() as f64)])
    })
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod public_tables;
#[cfg(test)]
mod tests;
