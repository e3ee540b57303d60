//! What goes wrong in a scenario: faults of packets all along, and troubles of hosts and paths from one time
//! to another.

use core::time::Duration;

use farcall::Instant;
use farcall::simulated::{Action, PacketFaults, Picos, Schedule};

use crate::draw::Draw;

/// Something that is wrong for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// What.
    pub kind: TroubleKind,
    /// From when on.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum TroubleKind {
    /// What the first send does not reach the second, nor the other way round unless it is one-way.
    Partition { from: Vec<u32>, to: Vec<u32>, one_way: bool },
    /// So many of a hundred packets are lost.
    Loss { percent: u32 },
    /// Processors stand still.
    Pause(Vec<u32>),
    /// Processors take so many times as long.
    Slow { hosts: Vec<u32>, factor: usize },
    /// Hosts are down; afterwards they start again.
    Crash(Vec<u32>),
}

/// The kinds, for drawing.
#[derive(Clone, Copy)]
enum Kind {
    Partition,
    Link,
    Loss,
    Pause,
    Slow,
    Crash,
}

/// All that goes wrong in a scenario, until [`Faults::over_at`].
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// What strikes packets.
    pub packets: PacketFaults,
    /// What strikes hosts and paths. Partitions do not overlap, and no host is struck twice at a time.
    pub troubles: Vec<Trouble>,
    /// From then on nothing is wrong.
    pub over_at: Duration,
}

impl Faults {
    /// Faults of so many hosts up to `over_at`, in part longer than the peer timeout and in part shorter.
    pub fn draw(seed: u64, hosts: u32, over_at: Duration, peer_timeout: Duration) -> Self {
        let mut draw = Draw::new(seed, "faults");
        let packets = packet_faults(&mut draw, peer_timeout);
        let mut troubles: Vec<Trouble> = Vec::new();
        let wanted = draw.pick(&[0, 0, 1, 1, 2, 3, 5]);
        for _ in 0..wanted {
            let kinds =
                [Kind::Partition, Kind::Link, Kind::Loss, Kind::Pause, Kind::Slow, Kind::Crash, Kind::Crash];
            let kind = draw.pick(&kinds);
            let span = draw.time(peer_timeout / 20, peer_timeout * 3);
            let from = draw.time(Duration::ZERO, over_at.saturating_sub(span));
            let until = (from + span).min(over_at);
            let trouble = Trouble { kind: kind.draw(&mut draw, hosts), from, until };
            if !troubles.iter().any(|other| other.collides_with(&trouble)) {
                troubles.push(trouble);
            }
        }
        Self { packets, troubles, over_at }
    }

    /// Whether packets may arrive altered.
    pub fn damage(&self) -> bool {
        self.packets.corrupt > 0.0 || self.packets.truncate > 0.0
    }

    /// The share of packets that do not arrive whole.
    pub fn loss(&self) -> f64 {
        let PacketFaults { drop, corrupt, truncate, .. } = self.packets;
        1.0 - (1.0 - drop) * (1.0 - corrupt) * (1.0 - truncate)
    }

    /// The schedule of a fabric.
    pub fn schedule(&self) -> Schedule {
        let mut schedule = Schedule { packets: self.packets, ..Schedule::default() };
        for trouble in &self.troubles {
            let (begin, end) = trouble.kind.actions(&self.packets);
            schedule = schedule.at(instant(trouble.from), begin).at(instant(trouble.until), end);
        }
        schedule.at(instant(self.over_at), Action::Packets(PacketFaults::default()))
    }
}

impl Trouble {
    /// Whether the two cannot be told apart by the fabric, or together are no trouble of either kind.
    fn collides_with(&self, other: &Self) -> bool {
        let partitions = |trouble: &Self| matches!(trouble.kind, TroubleKind::Partition { .. });
        let loses = |trouble: &Self| matches!(trouble.kind, TroubleKind::Loss { .. });
        let together = self.from <= other.until && other.from <= self.until;
        let same_host = self.kind.struck().iter().any(|host| other.kind.struck().contains(host));
        together && (same_host || partitions(self) && partitions(other) || loses(self) && loses(other))
    }
}

impl TroubleKind {
    /// The hosts whose processors it strikes.
    pub fn struck(&self) -> &[u32] {
        match self {
            Self::Partition { .. } | Self::Loss { .. } => &[],
            Self::Pause(hosts) | Self::Crash(hosts) | Self::Slow { hosts, .. } => hosts,
        }
    }

    fn actions(&self, packets: &PacketFaults) -> (Action, Action) {
        match self.clone() {
            Self::Partition { from, to, one_way } => (Action::Partition { from, to, one_way }, Action::Heal),
            Self::Loss { percent } => {
                let drop = f64::from(percent) / 100.0;
                (Action::Packets(PacketFaults { drop, ..*packets }), Action::Packets(*packets))
            }
            Self::Pause(hosts) => (Action::Pause(hosts.clone()), Action::Resume(hosts)),
            Self::Crash(hosts) => (Action::Crash(hosts.clone()), Action::Restart(hosts)),
            Self::Slow { hosts, factor } => {
                (Action::Slow { hosts: hosts.clone(), factor }, Action::Slow { hosts, factor: 1 })
            }
        }
    }
}

impl Kind {
    fn draw(self, draw: &mut Draw, hosts: u32) -> TroubleKind {
        let few = hosts as usize / 3 + 1;
        match self {
            Self::Partition => {
                let from = draw.some_hosts(hosts, hosts as usize - 1);
                let to = (0..hosts).filter(|host| !from.contains(host)).collect();
                TroubleKind::Partition { from, to, one_way: draw.percent(50) }
            }
            Self::Link => {
                let ends = draw.some_hosts(hosts, 2);
                let from = ends[0];
                let to = *ends.get(1).unwrap_or(&((from + 1) % hosts));
                TroubleKind::Partition { from: vec![from], to: vec![to], one_way: false }
            }
            Self::Loss => TroubleKind::Loss { percent: draw.pick(&[30, 60, 90]) },
            Self::Pause => TroubleKind::Pause(draw.some_hosts(hosts, few)),
            Self::Slow => {
                TroubleKind::Slow { hosts: draw.some_hosts(hosts, few), factor: draw.pick(&[3, 20]) }
            }
            Self::Crash => TroubleKind::Crash(draw.some_hosts(hosts, few)),
        }
    }
}

/// None, a little, or a lot of some kinds.
fn packet_faults(draw: &mut Draw, peer_timeout: Duration) -> PacketFaults {
    let worst = draw.pick(&[0, 0, 1, 5, 20]);
    let mut share =
        || if worst > 0 && draw.percent(50) { draw.between(1, worst) as f64 / 100.0 } else { 0.0 };
    let (drop, duplicate, reorder) = (share(), share(), share());
    let (delay, corrupt, truncate) = (share(), share(), share());
    PacketFaults {
        drop,
        duplicate,
        reorder,
        delay,
        corrupt,
        truncate,
        // So that a delay alone is not taken for death.
        delay_max: Picos::from(peer_timeout / 8),
        ..PacketFaults::default()
    }
}

fn instant(at: Duration) -> Instant {
    Instant::ZERO + at
}
