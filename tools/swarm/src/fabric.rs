//! The fabric of a scenario: overrides of the `ideal` profile, so that each can be read and repeated by hand.

use crate::draw::Draw;

/// What other parts of a scenario must know of its fabric.
#[derive(Clone, Debug)]
pub struct FabricPlan {
    /// Fields that differ from the `ideal` profile, as `section.field=value`.
    pub overrides: Vec<String>,
    /// The longest packet.
    pub mtu_bytes: usize,
    /// Memory of each host for loans over lanes.
    pub block_bytes: usize,
    /// How long after a crash lanes go down, in microseconds.
    pub detection_us: usize,
    /// What is so little that it overflows.
    pub is_short_of: Shortage,
    /// The longest payload that a lane's ring can take for certain.
    pub ring_bytes: usize,
}

/// Which queues are as short as they are ever drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortage {
    pub receive_buffer: bool,
    pub send_queue: bool,
    pub port_buffer: bool,
}

impl FabricPlan {
    /// A fabric with a place for each of `hosts` hosts.
    pub fn draw(seed: u64, hosts: u32) -> Self {
        let mut draw = Draw::new(seed, "fabric");
        let mtu_bytes = draw.pick(&[256, 257, 300, 512, 1000, 1500, 1500, 4096, 9000]);
        let ring_bytes = draw.pick(&[4096, 8192, 65_536, 262_144]);
        let block_bytes = draw.pick(&[512 << 10, 2 << 20]);
        let detection_us = draw.pick(&[50, 500, 2000]);
        let mut overrides = vec![
            format!("nic.mtu_bytes={mtu_bytes}"),
            format!("lanes.ring_bytes={ring_bytes}"),
            format!("lanes.block_bytes={block_bytes}"),
            format!("lanes.detection_us={detection_us}"),
            topology(&mut draw, hosts as usize),
        ];
        overrides.extend(costs(&mut draw));
        let (queues, is_short_of) = queues(&mut draw, mtu_bytes);
        overrides.extend(queues);
        if draw.percent(15) {
            overrides.push(
                "receive_path={ gbps = 20, slowdown_per_source = 0.05, source_window_us = 10 }".to_owned(),
            );
        }
        Self { overrides, mtu_bytes, block_bytes, detection_us, is_short_of, ring_bytes }
    }
}

/// One switch, or racks with as much above them as below or less.
fn topology(draw: &mut Draw, hosts: usize) -> String {
    let servers_per_machine = draw.pick(&[1, 1, 2, 4]);
    let machines = hosts.div_ceil(servers_per_machine);
    if draw.percent(50) {
        return format!(
            "topology={{ single-switch = {{ machines = {machines}, servers_per_machine = {servers_per_machine} }} }}"
        );
    }
    let racks = draw.between(2, 4);
    let machines_per_rack = machines.div_ceil(racks);
    let (uplinks, gbps) = (draw.between(1, 3), draw.pick(&[5, 25, 100]));
    let choice = draw.pick(&["flow", "packet"]);
    format!(
        "topology={{ two-level = {{ racks = {racks}, machines_per_rack = {machines_per_rack}, \
         servers_per_machine = {servers_per_machine}, uplinks_per_rack = {uplinks}, uplink_gbps = {gbps}, \
         uplink_choice = \"{choice}\" }} }}"
    )
}

/// What processors, cards and links cost.
fn costs(draw: &mut Draw) -> Vec<String> {
    vec![
        format!("host.poll_ns={}", draw.pick(&[10, 100, 500])),
        format!("host.send_packet_ns={}", draw.pick(&[5, 50, 300])),
        format!("host.receive_packet_ns={}", draw.pick(&[5, 50, 300])),
        format!("host.receive_byte_ns={}", draw.pick(&[0.0, 0.1])),
        format!("host.handler_ns={}", draw.pick(&[0, 100, 1000])),
        format!("host.burst_packets={}", draw.pick(&[1, 4, 32])),
        format!("nic.pcie_round_trip_ns={}", draw.pick(&[0, 900])),
        format!("nic.doorbell_ns={}", draw.pick(&[0, 100])),
        format!("link.gbps={}", draw.pick(&[10, 40, 100, 400])),
        format!("link.propagation_ns={}", draw.pick(&[0, 50, 2000])),
        format!("switch.cut_through={}", draw.percent(50)),
    ]
}

/// Where packets wait, and from when on they are dropped.
fn queues(draw: &mut Draw, mtu_bytes: usize) -> (Vec<String>, Shortage) {
    let send_queue = draw.pick(&[1, 2, 8, 64]);
    let wire_bytes = mtu_bytes + 64;
    let signal_period = draw.between(1, send_queue);
    let receive_queue = draw.pick(&[64, 1024, 65_536]);
    let receive_buffer = draw.pick(&[8 * wire_bytes, 1 << 20]);
    let port_buffer = draw.pick(&[4 * wire_bytes, 32 * wire_bytes, 1 << 20]);
    let overrides = vec![
        format!("nic.send_queue_packets={send_queue}"),
        format!("nic.signal_period={signal_period}"),
        format!("nic.receive_queue_packets={receive_queue}"),
        format!("nic.receive_buffer_bytes={receive_buffer}"),
        format!("switch.port_buffer_bytes={port_buffer}"),
    ];
    let is_short_of = Shortage {
        receive_buffer: receive_buffer == 8 * wire_bytes,
        send_queue: send_queue <= 2,
        port_buffer: port_buffer == 4 * wire_bytes,
    };
    (overrides, is_short_of)
}
