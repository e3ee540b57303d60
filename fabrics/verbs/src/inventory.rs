//! What RDMA devices this machine has, for people.

use core::net::IpAddr;

use crate::cm::{EventChannel, address_on};
use crate::device::Opened;
use crate::error::VerbsError;
use crate::gid::Gid;
use crate::sys;

/// A device and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// The version of its firmware.
    pub firmware: String,
    /// What it can do beside reliable connections, each with a name, and whether it can. The packet drivers
    /// here need the first. Lanes need reads, and shared receives if it has writes with immediate values;
    /// else they announce writes by messages.
    pub features: Vec<(&'static str, bool)>,
    /// Its limits, each with a name and a unit.
    pub limits: Vec<(&'static str, &'static str, u64)>,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// Whether rdma_cm can make connections of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmReach {
    /// It can, by this address.
    By(IpAddr),
    /// It cannot, for this reason.
    No {
        /// In words.
        why: String,
    },
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// Its number, from 1.
    pub number: u8,
    /// Whether it is connected and usable.
    pub active: bool,
    /// What kind of link it is on: `InfiniBand`, `Ethernet`, or `iWARP` for TCP over Ethernet.
    pub link: &'static str,
    /// The longest packet, in bytes.
    pub mtu_bytes: usize,
    /// Its addresses: index, address and kind (`InfiniBand`, `RoCE v1`, `RoCE v2`, `iWARP`).
    pub addresses: Vec<(u8, IpAddr, &'static str)>,
}

/// All RDMA devices that can be opened; an error says why there can be none.
pub fn devices() -> Result<Vec<DeviceReport>, VerbsError> {
    let library = sys::library().map_err(|why| VerbsError::NoLibrary { why: why.into() })?;
    let reports: Vec<_> = Opened::all(library)?.iter().map(report).collect();
    if reports.is_empty() { Err(VerbsError::NoDevice) } else { Ok(reports) }
}

fn report(device: &Opened) -> DeviceReport {
    let attributes = &device.attributes;
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let number = |value: core::ffi::c_int| u64::try_from(value).unwrap_or(0);
    let has = |flag| attributes.device_cap_flags & flag != 0;
    let features = vec![
        ("datagrams", !device.is_iwarp()),
        ("writes_with_immediate", !device.is_iwarp()),
        ("reads", attributes.max_qp_rd_atom > 0),
        ("shared_receives", attributes.max_srq > 0),
        ("atomics", attributes.atomic_cap != 0),
        ("memory_windows", has(sys::IBV_DEVICE_MEM_WINDOW)),
        ("multicast", attributes.max_mcast_grp > 0),
        ("extended_connections", has(sys::IBV_DEVICE_XRC)),
    ];
    let limits = vec![
        ("queue_pairs", "queue pairs", number(attributes.max_qp)),
        ("queue_depth", "requests", number(attributes.max_qp_wr)),
        ("gather_parts", "parts", number(attributes.max_sge)),
        ("completion_queues", "queues", number(attributes.max_cq)),
        ("completion_depth", "completions", number(attributes.max_cqe)),
        ("shared_receive_queues", "queues", number(attributes.max_srq)),
        ("shared_receives", "receives", number(attributes.max_srq_wr)),
        ("memory_regions", "regions", number(attributes.max_mr)),
        ("region_bytes", "bytes", attributes.max_mr_size),
        ("reads_in_flight", "reads", number(attributes.max_qp_rd_atom)),
        ("address_handles", "handles", number(attributes.max_ah)),
    ];
    let ports = device.ports().filter_map(|number| report_port(device, number)).collect();
    DeviceReport { name: device.name.clone(), firmware: text(&attributes.fw_ver), features, limits, ports }
}

fn report_port(device: &Opened, number: u8) -> Option<PortReport> {
    let port = device.port(number)?;
    let addresses = device.gids(number).into_iter().map(|entry| {
        let kind = match entry.gid_type {
            sys::IBV_GID_TYPE_ROCE_V2 => "RoCE v2",
            sys::IBV_GID_TYPE_ROCE_V1 => "RoCE v1",
            _ if device.is_iwarp() => "iWARP",
            _ => "InfiniBand",
        };
        (entry.gid_index as u8, Gid(entry.gid).ip(), kind)
    });
    Some(PortReport {
        number,
        active: port.state == sys::IBV_PORT_ACTIVE,
        link: match port.link_layer {
            _ if device.is_iwarp() => "iWARP",
            sys::IBV_LINK_LAYER_ETHERNET => "Ethernet",
            _ => "InfiniBand",
        },
        mtu_bytes: 128 << port.active_mtu,
        addresses: addresses.collect(),
    })
}

/// Whether rdma_cm can make connections of a port, as `verbs.connect=cm` needs. To know, librdmacm opens the
/// device and keeps it open as long as the process lives, which is why this is not part of a report.
pub fn rdma_cm_reach(device: &str, port: u8) -> CmReach {
    match cm_address(device, port) {
        Ok(address) => CmReach::By(address),
        Err(error) => CmReach::No { why: error.to_string() },
    }
}

fn cm_address(device: &str, port: u8) -> Result<IpAddr, VerbsError> {
    let library = sys::library().map_err(|why| VerbsError::NoLibrary { why: why.into() })?;
    let channel = EventChannel::new()?;
    let opened = Opened::all(library)?;
    let gids = opened.iter().filter(|opened| opened.name == device).flat_map(|opened| opened.gids(port));
    let address = address_on(&channel, library, device, port, gids.map(|entry| Gid(entry.gid).ip()));
    address.ok_or_else(|| VerbsError::NoCmAddress { device: device.into(), port })
}
