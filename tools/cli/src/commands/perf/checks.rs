//! What `farcall perf` refuses before anything runs.

use farcall::TransportKind;
use farcall::parameters::{PARAMETERS, Settings, Value};
use farcall_kv::VALUE_BYTES_MAX;
use farcall_lab::units::Size;

use super::sizes;
use crate::arguments::{Perf, PerfTest};
use crate::failure::Failure;

/// Refuses what a test cannot do over these transports.
pub fn check(test: PerfTest, perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
    let sizes = sizes(perf, test);
    match test {
        PerfTest::Echo => check_sizes(sizes, transports, &perf.tuning.load()?.1),
        PerfTest::EchoWorkload => check_workload(perf, transports),
        PerfTest::Basic
        | PerfTest::ReadDist
        | PerfTest::WriteDist
        | PerfTest::ReadThroughput
        | PerfTest::WriteThroughput
        | PerfTest::MultiRead => {
            check_store(sizes, transports)?;
            check_sizes(sizes, transports, &perf.tuning.load()?.1)
        }
    }
}

/// Refuses workloads that nobody takes part in, and asks for the links' rate where only the user knows it.
fn check_workload(perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
    if perf.nodes == Some(1) {
        return Err(Failure::Usage("--nodes: a workload needs at least 2".to_owned()));
    }
    let real = transports.iter().find(|transport| !transport.is_simulated());
    match (real, perf.link_gbps) {
        (Some(transport), None) => Err(Failure::Usage(format!(
            "--load is a part of the links' rate, which is not known for {transport}; add --link-gbps"
        ))),
        (None, Some(_)) => Err(Failure::Usage(
            "--link-gbps is not for simulated fabrics, whose links have a rate; see --set fabric.link.gbps"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Refuses objects that a store does not hold, and stores where there are none.
fn check_store(sizes: &[Size], transports: &[TransportKind]) -> Result<(), Failure> {
    if let Some(size) = sizes.iter().find(|size| size.0 > VALUE_BYTES_MAX) {
        let most = Size(VALUE_BYTES_MAX);
        return Err(Failure::Usage(format!("--sizes: {size} is longer than the {most} that a store holds")));
    }
    match transports.iter().find(|transport| transport.is_simulated()) {
        Some(transport) => Err(Failure::Usage(format!(
            "--transport: {transport} is simulated; stores are measured between processes of this machine"
        ))),
        None => Ok(()),
    }
}

/// Refuses sizes that a transport does not carry.
fn check_sizes(sizes: &[Size], transports: &[TransportKind], settings: &Settings) -> Result<(), Failure> {
    for (transport, &size) in
        transports.iter().flat_map(|transport| sizes.iter().map(move |size| (transport, size)))
    {
        let group = transport.name().split('+').next().unwrap_or_default();
        let name = format!("{group}.message_bytes_max");
        let limit = PARAMETERS.iter().find(|parameter| parameter.name == name);
        if let Some(Value::Size(bytes_max)) = limit.map(|limit| limit.value(settings))
            && size.0 as u64 > bytes_max
        {
            return Err(Failure::Usage(format!(
                "--sizes: {size} is longer than the {} that {transport} carries; add --set {name}={size}",
                Size(bytes_max as usize),
            )));
        }
    }
    Ok(())
}
