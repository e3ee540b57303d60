//! `farcall info`: what this program has, and what can be tuned.

use std::collections::BTreeMap;

use std::time::Duration;

use farcall::parameters::{Parameter, Settings, Value, stray_variables};
use farcall::policy::Principal;
use farcall::{
    CmReach, DeviceReport, Node, NotTaken, PortReport, Presence, TransportKind, rdma_cm_reach, rdma_devices,
};
use serde_json::json;

use crate::arguments::{Info, load_set};
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.info.v1";

/// How long a server may take to be found.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// Lists the transports and the RDMA devices, or the parameters.
pub fn run(info: &Info) -> Result<(), Failure> {
    let settings = load_set(&info.settings)?;
    let mut report = Report::open(info.json.as_ref())?;
    stray_variables().iter().try_for_each(|name| show_stray(name, &mut report))?;
    if let Some(target) = &info.peer {
        return show_way(target, info.transport, &settings, &mut report);
    }
    if !info.parameters {
        let mut transports = TransportKind::every().filter(|transport| !transport.is_simulated());
        transports.try_for_each(|transport| show_transport(transport, &settings, &mut report))?;
        // Why there are none was said of the transports that need one.
        return rdma_devices()
            .unwrap_or_default()
            .iter()
            .try_for_each(|device| show_device(device, &mut report));
    }
    settings.iter().try_for_each(|(parameter, value)| show_parameter(parameter, &value, &mut report))
}

fn show_stray(name: &str, report: &mut Report) -> Result<(), Failure> {
    report.line(format_args!("{name} in the environment names no parameter and has no effect"))?;
    report.object(&json!({ "schema": SCHEMA, "kind": "stray_variable", "name": name }))
}

/// Opens a session and says which way it took.
fn show_way(
    target: &str,
    transport: TransportKind,
    settings: &Settings,
    report: &mut Report,
) -> Result<(), Failure> {
    let node = Node::open().map_err(Failure::run)?;
    let endpoint = node.endpoint_with(transport, settings).map_err(Failure::run)?;
    let connection = endpoint.connect(target).map_err(|error| Failure::Usage(error.to_string()))?;
    let peer = connection.wait(FOUND_WITHIN).map_err(Failure::run)?;
    let no_session = |error| Failure::Run(format!("no session to {target}: {error}"));
    endpoint.wait_for(peer).map_err(no_session)?;
    let Some(taken) = endpoint.way(peer) else {
        return Err(Failure::Run(format!("the session to {target} has ended; try again")));
    };
    report.line(format_args!("{target}: over {}", taken.way))?;
    let principal = endpoint.principal(peer);
    if principal != Principal::Unproven {
        report.line(format_args!("    it is {principal}"))?;
    }
    for NotTaken { way, why } in &taken.not_taken {
        report.line(format_args!("    not {way}: {why}"))?;
    }
    let not_taken =
        taken.not_taken.iter().map(|NotTaken { way, why }| json!({ "transport": way, "why": why }));
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "way",
        "peer": target,
        "transport": taken.way,
        "principal": (principal != Principal::Unproven).then(|| principal.to_string()),
        "not_taken": not_taken.collect::<Vec<_>>(),
    }))
}

fn show_transport(transport: TransportKind, settings: &Settings, report: &mut Report) -> Result<(), Failure> {
    let (name, description) = (transport.name(), transport.description());
    let presence = transport.presence();
    match &presence {
        None => report.line(format_args!("{name:<12} {description}"))?,
        Some(Presence::Here { found }) => report.line(format_args!("{name:<12} {description} ({found})"))?,
        Some(Presence::Absent { why }) => report.line(format_args!("{name:<12} absent: {why}"))?,
    }
    let is_absent = matches!(presence, Some(Presence::Absent { .. }));
    let copied_and_lent = transport.copied_and_lent(settings).filter(|_| !is_absent);
    if let Some(text) = &copied_and_lent {
        report.line(format_args!("    {text}"))?;
    }
    let (found, absent) = match presence {
        None => (None, None),
        Some(Presence::Here { found }) => (Some(found), None),
        Some(Presence::Absent { why }) => (None, Some(why)),
    };
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "transport",
        "name": name,
        "description": description,
        "found": found,
        "absent": absent,
        "copied_and_lent": copied_and_lent,
    }))
}

fn show_device(device: &DeviceReport, report: &mut Report) -> Result<(), Failure> {
    let DeviceReport { name, firmware, features, limits, ports } = device;
    report.line(format_args!("{name:<12} RDMA device, firmware {}", or_unknown(firmware)))?;
    for port in ports {
        let PortReport { number, link, mtu_bytes, .. } = port;
        let state = if port.active { "active" } else { "down" };
        report.line(format_args!("    port {number}: {link}, {state}, packets up to {mtu_bytes} bytes"))?;
        for (index, address, kind) in &port.addresses {
            report.line(format_args!("        address {index}: {address} ({kind})"))?;
        }
        let reach = rdma_cm_reach(name, *number);
        match &reach {
            CmReach::By(address) => report.line(format_args!("        rdma_cm: by {address}"))?,
            CmReach::No { why } => report.line(format_args!("        rdma_cm: no, {why}"))?,
        }
    }
    let (present, absent): (Vec<_>, Vec<_>) = features.iter().partition(|(_, present)| *present);
    for (word, features) in [("has", present), ("lacks", absent)].iter().filter(|(_, some)| !some.is_empty())
    {
        let names: Vec<_> = features.iter().map(|(name, _)| *name).collect();
        report.line(format_args!("    {word} {}", names.join(", ")))?;
    }
    for (limit, unit, value) in limits {
        report.line(format_args!("    {limit}={value} {unit}"))?;
    }
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "rdma_device",
        "name": name,
        "firmware": firmware,
        "ports": ports.iter().map(|port| port_object(name, port)).collect::<Vec<_>>(),
        "features": features.iter().copied().collect::<BTreeMap<_, _>>(),
        "limits": limits.iter().map(|(limit, _, value)| (*limit, *value)).collect::<BTreeMap<_, _>>(),
    }))
}

fn port_object(device: &str, port: &PortReport) -> serde_json::Value {
    let addresses = port.addresses.iter().map(
        |(index, address, kind)| json!({ "index": index, "address": address.to_string(), "kind": kind }),
    );
    json!({
        "number": port.number,
        "link": port.link,
        "active": port.active,
        "mtu_bytes": port.mtu_bytes,
        "addresses": addresses.collect::<Vec<_>>(),
        "rdma_cm": match rdma_cm_reach(device, port.number) {
            CmReach::By(address) => json!({ "address": address.to_string() }),
            CmReach::No { why } => json!({ "absent": why }),
        },
    })
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
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
