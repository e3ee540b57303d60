//! Who may reach a store: without keys whoever reaches it may do everything.

use std::net::{IpAddr, ToSocketAddrs};

use farcall::TransportKind;
use farcall::bootstrap::HostPort;
use farcall::parameters::Settings;

use crate::arguments::kv::AllowArgument;
use crate::failure::Failure;

/// What every refusal says at its end.
const ADVICE: &str = "may read, change and delete everything; give --allow any if all of them may";

/// Refuses a store, or a backup, that others than this machine's processes could reach, unless it is meant
/// for all.
pub fn check(
    (option, at): (&str, &HostPort),
    allow: AllowArgument,
    transport: TransportKind,
    settings: &Settings,
) -> Result<(), Failure> {
    if allow == AllowArgument::Any {
        return Ok(());
    }
    check_address(option, &at.to_string(), allow)?;
    let transport = transport.name();
    match transport.rsplit_once('+').map_or(transport, |(_, fabric)| fabric) {
        "shm" => Ok(()),
        "udp" => check_bound("udp.bind_address", settings.udp.bind_address, settings),
        "tcp" | "tls" => check_bound("tcp.bind_address", settings.tcp.bind_address, settings),
        fabric => refused(&format!(
            "{fabric} also listens at other addresses of this machine: whoever reaches them"
        )),
    }
}

/// Refuses the address at which endpoints listen by the settings, if it is not a loopback one. Where they say
/// nothing it is that of the way to `--at`.
fn check_bound(parameter: &str, bound: Option<IpAddr>, settings: &Settings) -> Result<(), Failure> {
    let named = bound.map(|ip| (format!("{parameter}={ip} is"), ip));
    let interface = || {
        let name = settings.net.interface?;
        // One without an address is said to have none when the endpoint is made.
        let ip = farcall_udp::address_of_interface(name.as_str())?;
        Some((format!("net.interface={name} has {ip}, which is"), ip))
    };
    match named.or_else(interface).filter(|(_, ip)| !is_loopback(*ip)) {
        Some((said, _)) => refused(&format!("{said} not a loopback address: whoever reaches it")),
        None => Ok(()),
    }
}

/// Refuses an address that is not a loopback one, unless it is meant for all.
pub fn check_address(option: &str, at: &str, allow: AllowArgument) -> Result<(), Failure> {
    open_address(option, at, allow).map_or(Ok(()), |open| refused(&open))
}

/// The same for probes, which say no more than whether the shard lives.
pub fn check_probes(option: &str, at: &str, allow: AllowArgument) -> Result<(), Failure> {
    open_address(option, at, allow).map_or(Ok(()), |open| {
        Err(Failure::Usage(format!(
            "{open} learns whether the shard lives; give --allow any if all of them may"
        )))
    })
}

/// What is said of an address that is not a loopback one, and is not meant for all.
fn open_address(option: &str, at: &str, allow: AllowArgument) -> Option<String> {
    if allow == AllowArgument::Any {
        return None;
    }
    // What has no address cannot be listened at either, which is said when it is tried.
    let addresses = at.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let open = addresses.iter().map(|address| address.ip()).find(|ip| !is_loopback(*ip))?;
    Some(format!("{option} {at} is {open}, which is not a loopback address: whoever reaches it"))
}

fn refused(who: &str) -> Result<(), Failure> {
    Err(Failure::Usage(format!("{who} {ADVICE}")))
}

/// Addresses of IPv6 that stand for ones of IPv4 are taken for those.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
