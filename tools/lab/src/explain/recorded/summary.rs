//! All findings in three sentences, and what holds for several measurements said once.

use std::collections::BTreeMap;

use crate::explain::analysis::finding::{Finding, Section};

/// The most measurements that are named where a cause holds for several.
const NAMED_MAX: usize = 3;

/// The same findings, each once, behind what limits, how sure that is and what to do next.
pub fn with_summary(findings: Vec<Finding>) -> Vec<Finding> {
    let mut all = in_short(&findings);
    all.extend(once(findings));
    all
}

/// The three sentences; none where no cause is named.
fn in_short(findings: &[Finding]) -> Vec<Finding> {
    let firsts: Vec<_> = findings.iter().filter(|finding| is_first(finding)).collect();
    let mut by_rule: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    firsts.iter().for_each(|finding| by_rule.entry(finding.rule).or_default().push(finding));
    let gain = |finding: &&Finding| finding.figure("gain").unwrap_or(1.0);
    let of_most = by_rule.values().max_by_key(|of_rule| of_rule.len());
    let Some(most) = of_most.and_then(|of_rule| of_rule.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))))
    else {
        return Vec::new();
    };
    let count = by_rule[most.rule].len();
    let beside = if firsts.len() > 1 {
        format!(" (first in {count} of {} measurements; the figures are of {})", firsts.len(), most.about)
    } else {
        String::new()
    };
    let short = |rule, about: &str, sentence| Finding::new(Section::Summary, rule, about, sentence);
    let next = findings
        .iter()
        .find(|finding| finding.section == Section::NextExperiment && finding.about == most.about);
    [
        Some(short("what_limits", "what limits", format!("{}{beside}", without_rank(&most.sentence)))),
        Some(short("how_sure", "how sure", how_sure(findings, most))),
        next.map(|next| short("what_next", "what next", next.sentence.clone())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_first(finding: &Finding) -> bool {
    finding.section == Section::Hypothesis && finding.figure("rank") == Some(1.0)
}

fn without_rank(sentence: &str) -> &str {
    sentence.strip_prefix("1. ").unwrap_or(sentence)
}

/// An intervention is as sure as it says itself; what is read from one run competes with the next cause.
fn how_sure(findings: &[Finding], first: &Finding) -> String {
    if first.sentence.starts_with("confirmed") {
        return "it was changed and measured in blocks, and nothing else that is recorded was".to_owned();
    }
    let second = findings.iter().find(|finding| {
        finding.section == Section::Hypothesis
            && finding.about == first.about
            && finding.figure("rank") == Some(2.0)
    });
    let consistent = "it is consistent with what was counted, and was not tested";
    match second.and_then(|second| Some((second, second.figure("gain")?))) {
        Some((second, gain)) => {
            let cause = without_rank(&second.sentence).trim_start_matches("2. ");
            let cause = cause.split(':').next().unwrap_or(cause);
            if second.figure("gain_is_known") == Some(0.0) {
                return format!("{consistent}; the next cause is {cause}");
            }
            format!(
                "{consistent}; the next cause is {cause}, without which it would be about {gain:.2} times the rate"
            )
        }
        None => format!("{consistent}; no other cause that I know takes 5 %"),
    }
}

/// Findings of one rule and rank, whatever they are about, as the one that gains the most.
fn once(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings {
        let is_repeated = matches!(finding.section, Section::Hypothesis | Section::NextExperiment);
        let same = |other: &&mut (Finding, Vec<String>)| {
            is_repeated
                && other.0.section == finding.section
                && other.0.rule == finding.rule
                && is_of_one_run(&other.0)
                && other.0.figure("rank") == finding.figure("rank")
                && (finding.section == Section::Hypothesis || other.0.sentence == finding.sentence)
        };
        match kept.iter_mut().find(same) {
            Some((first, others)) => {
                let gain = |finding: &Finding| finding.figure("gain").unwrap_or(0.0);
                let mut finding = finding;
                if gain(&finding) > gain(first) {
                    core::mem::swap(first, &mut finding);
                }
                if finding.about != first.about && !others.contains(&finding.about) {
                    others.push(finding.about);
                }
            }
            None => kept.push((finding, Vec::new())),
        }
    }
    kept.into_iter().map(|(finding, others)| with_others(finding, others)).collect()
}

/// Whether it is read from a run as it was; effects of changes are each their own.
fn is_of_one_run(finding: &Finding) -> bool {
    finding.figure("gain").is_some() || finding.rule == "change_the_first"
}

fn with_others(mut finding: Finding, others: Vec<String>) -> Finding {
    if others.is_empty() {
        return finding;
    }
    let named = others.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    let more = others.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    finding.sentence.push_str(&format!(" (also {named}{more})"));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(about: &str, rank: f64, rule: &'static str, gain: f64) -> Finding {
        let sentence = format!("{rank}. {rule}: its figure");
        Finding::new(Section::Hypothesis, rule, about, sentence).with([("rank", rank), ("gain", gain)])
    }

    #[test]
    fn what_holds_for_several_is_said_once_and_three_sentences_are_first() {
        let next = Finding::new(Section::NextExperiment, "change_the_first", "b", "run it again".to_owned());
        let all = with_summary(vec![
            cause("a", 1.0, "loss", 2.0),
            cause("b", 1.0, "loss", 3.0),
            cause("b", 2.0, "window", 1.2),
            cause("c", 1.0, "link", 9.0),
            next,
        ]);
        let short: Vec<_> = all.iter().filter(|finding| finding.section == Section::Summary).collect();
        assert_eq!(short.len(), 3, "{all:#?}");
        assert!(short[0].sentence.contains("loss") && short[0].sentence.contains("2 of 3"), "{short:#?}");
        assert!(short[1].sentence.contains("window"), "{short:#?}");
        let losses: Vec<_> = all.iter().filter(|finding| finding.rule == "loss").collect();
        assert_eq!(losses.len(), 1);
        assert!(losses[0].about == "b" && losses[0].sentence.contains("(also a)"), "{losses:#?}");
    }

    #[test]
    fn without_a_cause_there_is_no_summary() {
        assert!(with_summary(Vec::new()).is_empty());
    }
}
