//! Which device, port and address to use: those by which the cluster knows this machine, as far as nobody
//! chose others.

use core::net::IpAddr;

use crate::config::DeviceChoice;
use crate::device::{Opened, Port};
use crate::error::VerbsError;
use crate::gid::Gid;
use crate::sys;

/// The device, by its place, and the port to use; `None` when no port is active.
pub fn choose(devices: &[Opened], choice: &DeviceChoice) -> Result<Option<(usize, Port)>, VerbsError> {
    let local = choice.local;
    let mut first = None;
    let mut refusal = None;
    for (index, device) in devices.iter().enumerate() {
        for number in device.ports().filter(|number| choice.port.is_none_or(|port| port == *number)) {
            let Some(attributes) = device.port(number).filter(|port| port.state == sys::IBV_PORT_ACTIVE)
            else {
                continue;
            };
            match gid_of(device, number, choice.gid_index, local) {
                Ok(entry) => {
                    let port = Port {
                        number,
                        ethernet: attributes.link_layer == sys::IBV_LINK_LAYER_ETHERNET,
                        routable: entry.gid_type != sys::IBV_GID_TYPE_IB
                            || attributes.link_layer != sys::IBV_LINK_LAYER_ETHERNET,
                        lid: attributes.lid,
                        gid: Gid(entry.gid),
                        gid_index: entry.gid_index as u8,
                        mtu: attributes.active_mtu,
                    };
                    if local.is_some_and(|local| port.gid.ip() == local) {
                        return Ok(Some((index, port)));
                    }
                    first.get_or_insert((index, port));
                }
                Err(error) => refusal = Some(error),
            }
        }
    }
    match (first, refusal) {
        (None, Some(error)) => Err(error),
        (first, _) => Ok(first),
    }
}

/// The address of a port that peers should use: the one asked for or the cluster's own, else the best kind
/// there is.
fn gid_of(
    device: &Opened,
    port: u8,
    wanted: Option<u8>,
    local: Option<IpAddr>,
) -> Result<sys::ibv_gid_entry, VerbsError> {
    let rank = |entry: &sys::ibv_gid_entry| {
        let gid = Gid(entry.gid);
        let routable = entry.gid_type == sys::IBV_GID_TYPE_ROCE_V2;
        (
            local == Some(gid.ip()),
            routable,
            gid.ip().is_ipv4(),
            !gid.is_link_local(),
            u32::MAX - entry.gid_index,
        )
    };
    let usable = |entry: &sys::ibv_gid_entry| {
        entry.gid_index <= u32::from(u8::MAX)
            && wanted.is_none_or(|index| u32::from(index) == entry.gid_index)
    };
    let best = device.gids(port).into_iter().filter(usable).max_by_key(rank);
    // An iWARP port needs none.
    let none = (device.is_iwarp() && wanted.is_none()).then(sys::ibv_gid_entry::default);
    best.or(none).ok_or_else(|| VerbsError::NoGid { device: device.name.clone(), port, index: wanted })
}
