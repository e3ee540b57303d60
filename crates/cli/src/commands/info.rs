//! `farcall info`: what this program has, and what can be tuned.

use farcall::parameters::{Parameter, Value};
use farcall::{Presence, TransportKind};
use serde_json::json;

use crate::arguments::{Info, load_settings};
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.info.v1";

/// Lists the transports, or the parameters.
pub fn run(info: &Info) -> Result<(), Failure> {
    let settings = load_settings(&info.settings)?;
    let mut report = Report::open(info.json.as_ref())?;
    if !info.parameters {
        let mut transports = TransportKind::every().filter(|transport| !transport.is_simulated());
        return transports.try_for_each(|transport| show_transport(transport, &mut report));
    }
    settings.iter().try_for_each(|(parameter, value)| show_parameter(parameter, &value, &mut report))
}

fn show_transport(transport: TransportKind, report: &mut Report) -> Result<(), Failure> {
    let (name, description) = (transport.name(), transport.description());
    let presence = transport.presence();
    match &presence {
        None => report.line(format_args!("{name:<12} {description}"))?,
        Some(Presence::Here { version }) => {
            report.line(format_args!("{name:<12} {description} ({version})"))?
        }
        Some(Presence::Absent { why }) => report.line(format_args!("{name:<12} absent: {why}"))?,
    }
    let (version, absent) = match presence {
        None => (None, None),
        Some(Presence::Here { version }) => (Some(version), None),
        Some(Presence::Absent { why }) => (None, Some(why)),
    };
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "transport",
        "name": name,
        "description": description,
        "version": version,
        "absent": absent,
    }))
}

fn show_parameter(parameter: &Parameter, value: &Value, report: &mut Report) -> Result<(), Failure> {
    let Parameter { name, domain, default, scope, doc, .. } = parameter;
    let environment = parameter.environment();
    report.line(format_args!("{name}={value}"))?;
    report.line(format_args!("    {doc}"))?;
    report.line(format_args!("    {domain}; default {default}; per {}; {environment}", scope.word()))?;
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "parameter",
        "name": name,
        "value": value.to_string(),
        "default": default,
        "domain": domain.to_string(),
        "scope": scope.word(),
        "environment": environment,
        "description": doc,
    }))
}
