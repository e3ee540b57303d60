//! Cores that were shared: what the kernel says of servers that were ready to run and had none. Traced runs
//! weigh it against other causes of their own; these are those without a trace.

use serde_json::Value;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::recorded::{RecordedFigure, RecordedRun};
use crate::run::closed_loop::CORE_SHARED_MIN;

/// A figure whose server waited for a core so long that its times are those of the wait.
pub fn waited_for_core(figure: &RecordedFigure) -> Option<f64> {
    let waited = figure.more.get("server_waited").and_then(Value::as_f64)?;
    (waited >= CORE_SHARED_MIN).then_some(waited.min(0.99))
}

/// Runs without traces whose servers waited for a core.
pub fn shared_cores(runs: &[RecordedRun]) -> Vec<Finding> {
    runs.iter().flat_map(of_run).collect()
}

fn of_run(run: &RecordedRun) -> Vec<Finding> {
    let untraced = || {
        let whole = |figure: &&RecordedFigure| figure.statistic == "p50" && figure.unit == "ns";
        run.figures.iter().filter(whole).filter(|figure| figure.more.get("trace").is_none_or(Value::is_null))
    };
    let waits: Vec<f64> = untraced().filter_map(waited_for_core).collect();
    let Some(most) = waits.iter().copied().max_by(f64::total_cmp) else { return Vec::new() };
    let gain = 1.0 / (1.0 - most);
    let sentence = format!(
        "1. a core that is shared: by the kernel's account servers waited up to {:.0} % of the time for one, in {} of \
         {} measurements; without it up to {gain:.2} times the rate",
        most * 100.0,
        waits.len(),
        untraced().count()
    );
    let next = "the processes alone on their cores: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it \
                again without, with `--trace` where it stays";
    let figures = [("rank", 1.0), ("gain", gain), ("share_percent", most * 100.0)];
    vec![
        Finding::new(Section::Hypothesis, "core", &run.name, sentence).with(figures),
        Finding::new(Section::NextExperiment, "change_the_first", &run.name, next.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::recorded::Run;

    fn rules(waited: Option<f64>, is_traced: bool) -> Vec<&'static str> {
        let mut figure = json!({
            "schema": "", "command": "perf", "test": "echo", "transport": "ring+shm", "name": "echo100",
            "value": 9e3, "unit": "ns", "statistic": "p50", "samples": 1000, "in_flight": 1, "server_waited": waited,
        });
        if is_traced {
            figure["trace"] = json!({});
        }
        let figures = vec![serde_json::from_value(figure).expect("a figure")];
        let run = Run::begin(Vec::new(), 1, Vec::new());
        shared_cores(&[RecordedRun { name: "a".to_owned(), run, figures }])
            .iter()
            .map(|found| found.rule)
            .collect()
    }

    #[test]
    fn a_wait_for_a_core_is_named_without_a_trace() {
        assert_eq!(rules(Some(0.87), false), ["core", "change_the_first"]);
        assert_eq!(rules(Some(0.05), false), [""; 0]);
        assert_eq!(rules(None, false), [""; 0]);
        assert_eq!(rules(Some(0.87), true), [""; 0], "traced runs weigh it against other causes");
    }
}
