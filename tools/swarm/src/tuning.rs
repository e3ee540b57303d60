//! The settings of a scenario's endpoints, as assignments, so that each can be read and repeated by hand.

use core::time::Duration;

use farcall::TransportKind;

use crate::draw::Draw;
use crate::payload::MESSAGE_BYTES_MAX;

/// What other parts of a scenario must know of its settings.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The assignments.
    pub assignments: Vec<String>,
    /// What a host has in place of them, by rank; empty where all have the same.
    pub of_hosts: Vec<Vec<String>>,
    /// The silence after which a peer counts as dead.
    pub peer_timeout: Duration,
    /// Calls of a session, each way.
    pub calls_max: usize,
    /// The longest message.
    pub message_bytes_max: usize,
    /// Bytes of a message that are sent before the first grant, or inside the ring.
    pub unscheduled_bytes: usize,
    /// Silence after which bytes are asked for again.
    pub resend_interval: Duration,
}

/// The shortest packets that leave room for a tag beside what a session needs.
const SEALED_MTU_BYTES_MIN: usize = 272;

impl Tuning {
    /// Seals the packets of some scenarios, if they are long enough. By numbers of their own, so that seeds
    /// mean what they meant before there were keys.
    pub fn seal(mut self, seed: u64, transport: TransportKind, mtu_bytes: usize) -> Self {
        let may_seal = transport != TransportKind::RING_SIM && mtu_bytes >= SEALED_MTU_BYTES_MIN;
        if may_seal && Draw::new(seed, "keys").percent(10) {
            self.assignments.push("security.key_file=/swarm.key".into());
            // Half of them also have each host prove who it is.
            if Draw::new(seed, "identities").percent(50) {
                self.assignments.push("security.identity_file=/swarm.identity".into());
                self.assignments.push("security.peers_file=/swarm.peers".into());
            }
        }
        self
    }

    /// Settings for endpoints of this kind; `damage` is whether packets are altered on their way.
    pub fn draw(seed: u64, transport: TransportKind, damage: bool) -> Self {
        let mut draw = Draw::new(seed, "tuning");
        let ms = Duration::from_millis;
        let mut tuning = Self {
            assignments: Vec::new(),
            of_hosts: Vec::new(),
            peer_timeout: draw.time(ms(2), ms(12)),
            calls_max: 0,
            message_bytes_max: draw.pick(&[5000, 65_536, MESSAGE_BYTES_MAX - 1]),
            unscheduled_bytes: draw.pick(&[1024, 4096, 16_384, 65_536]),
            resend_interval: draw.pick(&[100, 250, 1000]).min(1000) * Duration::from_micros(1),
        };
        let mut set = |name: String, value: String| tuning.assignments.push(format!("{name}={value}"));
        set("endpoint.peer_timeout".into(), format!("{}us", tuning.peer_timeout.as_micros()));
        set("endpoint.unexpected_bytes".into(), draw.pick(&["64K", "64K", "1M"]).into());
        let protocol = match transport {
            TransportKind::RING_SIM => "ring",
            TransportKind::HOMA_SIM => "homa",
            _ => "basic",
        };
        tuning.calls_max = draw.pick(&[1, 2, 7, 64, 4096]);
        set(format!("{protocol}.calls_max"), tuning.calls_max.to_string());
        set(format!("{protocol}.message_bytes_max"), tuning.message_bytes_max.to_string());
        if protocol == "ring" {
            tuning.unscheduled_bytes = draw.pick(&[0, 64, 1000, 8184, 20_000]);
            set("ring.inline_bytes".into(), tuning.unscheduled_bytes.to_string());
            set("ring.batch_bytes".into(), draw.pick(&[64, 512, 65_536]).to_string());
            set("ring.rest_interval".into(), draw.pick(&["1s", "20us", "200us"]).into());
            return tuning;
        }
        set(format!("{protocol}.rtt_bytes"), tuning.unscheduled_bytes.to_string());
        set(format!("{protocol}.resend_interval"), format!("{}us", tuning.resend_interval.as_micros()));
        let checksum = damage || draw.percent(50);
        set(format!("{protocol}.checksum"), checksum.to_string());
        if protocol == "homa" {
            let priorities = draw.between(1, 8);
            set("homa.priorities".into(), priorities.to_string());
            if priorities > 1 && draw.percent(40) {
                set("homa.unscheduled_priorities".into(), draw.between(1, priorities - 1).to_string());
            }
            set("homa.overcommit".into(), draw.pick(&[1, 2, 8, 64]).to_string());
            set("homa.fifo_permille".into(), draw.pick(&[0, 50, 1000]).to_string());
            if draw.percent(30) {
                set("homa.link_gbps".into(), draw.pick(&[10, 100]).to_string());
            }
        }
        tuning
    }

    /// Gives each host settings of its own in some scenarios: sessions agree on the smaller of both limits,
    /// and how messages are cut, packed and asked for again is each side's business. What the rules count by
    /// is the largest of all.
    pub fn differ(mut self, seed: u64, transport: TransportKind, hosts: u32) -> Self {
        let mut draw = Draw::new(seed, "hosts");
        if draw.percent(60) {
            return self;
        }
        self.of_hosts = (0..hosts).map(|_| self.draw_own(&mut draw, transport)).collect();
        self
    }

    fn draw_own(&mut self, draw: &mut Draw, transport: TransportKind) -> Vec<String> {
        let protocol = transport.name().split('+').next().unwrap_or_default();
        let calls_max = draw.pick(&[1, 3, 64, 4096]);
        self.calls_max = self.calls_max.max(calls_max);
        let unexpected = draw.pick(&["64K", "1M"]);
        let mut own = vec![
            format!("{protocol}.calls_max={calls_max}"),
            format!("endpoint.unexpected_bytes={unexpected}"),
        ];
        if protocol == "ring" {
            own.push(format!("ring.inline_bytes={}", draw.pick(&[0, 64, 1000, 8184])));
            own.push(format!("ring.batch_bytes={}", draw.pick(&[64, 512, 65_536])));
            return own;
        }
        let resend_interval = draw.pick(&[100, 250, 1000]) * Duration::from_micros(1);
        self.resend_interval = self.resend_interval.max(resend_interval);
        own.push(format!("{protocol}.rtt_bytes={}", draw.pick(&[1024, 16_384, 65_536])));
        own.push(format!("{protocol}.resend_interval={}us", resend_interval.as_micros()));
        if protocol == "homa" {
            own.push(format!("homa.overcommit={}", draw.pick(&[1, 2, 8])));
            own.push(format!("homa.fifo_permille={}", draw.pick(&[0, 50, 1000])));
        }
        own
    }
}
