//! `farcall policy`: what a file of rules says.

use std::path::Path;

use farcall::policy::{Misread, PolicyFile, read_act, read_principal};
use serde_json::json;

use crate::arguments::Policy;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.policy.v1";

/// Checks a policy, and says whether it allows something.
pub fn run(policy: &Policy) -> Result<(), Failure> {
    let Policy::Check { file, identity, act, json } = policy;
    let question = identity.as_deref().zip(act.as_deref());
    let mut report = Report::open(json.as_ref())?;
    match question {
        Some((identity, act)) => answer(file, identity, act, &mut report),
        None => count(file, &mut report),
    }
}

fn open(file: &Path) -> Result<PolicyFile, Failure> {
    PolicyFile::open(file).map_err(Failure::run)
}

fn count(file: &Path, report: &mut Report) -> Result<(), Failure> {
    let rules = open(file)?.policy().len();
    let words = match rules {
        0 => "no rules: it allows nothing to anybody".to_owned(),
        1 => "1 rule".to_owned(),
        rules => format!("{rules} rules"),
    };
    report.line(format_args!("{} has {words}", file.display()))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "policy", "rules": rules }))
}

fn answer(file: &Path, identity: &str, act: &str, report: &mut Report) -> Result<(), Failure> {
    let misread = |option: &str, why: &Misread| Failure::Usage(format!("{option}: {why}"));
    let principal = read_principal(identity).map_err(|why| misread("--identity", &why))?;
    let (object, right) = read_act(act).map_err(|why| misread("--do", &why))?;
    let line = open(file)?.policy().allows(&principal, &object, right);
    report
        .object(&json!({ "schema": SCHEMA, "kind": "decision", "allowed": line.is_some(), "line": line }))?;
    match line {
        Some(line) => report.line(format_args!("allowed by line {line}")),
        None => Err(Failure::Run(format!("refused: no line of {} allows it", file.display()))),
    }
}
