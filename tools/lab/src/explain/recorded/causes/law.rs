//! What would be won without a cause, by the laws of closed systems.
//!
//! A resource that works a share of the time cannot do more than one over that share times as much
//! (utilisation law), and an operation that spends a share of its time in a place is at most one over the
//! rest times as fast without it (Little's law, by which the numbers of packets there are those shares).
//! What is won without a cause is the lesser of both. (Denning and Buzen, 1978.)

use farcall::parameters::{Settings, Sources};

use super::evidence::Evidence;
use super::table::{REFUSED_MIN, RULES, Reads, Rule, Side};
use crate::run::uses::HostUse;

/// What is left of an operation without a cause takes at least one part in so many.
pub(super) const GAIN_MAX: f64 = 1000.0;

/// No more than this share of the time is a wait for one thing: something is always left.
const MOST_OF_ALL: f64 = 1.0 - 1.0 / GAIN_MAX;

/// A resource that works this share of the time is what the others wait for.
const FULL_FROM: f64 = 0.8;

/// Hosts are uneven when the others work at most this part of what the busiest does.
const UNEVEN_MAX: f64 = 0.5;

/// The place where partitions lose packets.
const PARTITION: &str = "partition";

/// The protocol whose records wait for those in front of them.
const LANES: &str = "ring";

/// Work that is done once for all messages that leave or arrive together.
const ONCE_FOR_ALL: [&str; 5] = ["poll", "make_packets", "descriptors", "doorbells", "take_packets"];

/// Records that little room in a ring makes.
const ROOM_RECORDS: [&str; 2] = ["wrap_records_sent", "credit_records_sent"];

/// What a network card does once for each packet.
const CARD_ENGINES: [&str; 2] = ["nic_sending", "nic_receiving"];

/// What a cause takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The share of an operation's time.
    pub share: f64,
    /// The part of that in which it does not wait; `None` where waiting is all that it does.
    alone: Option<f64>,
    /// The share of the time for which each resource is at work on it.
    busy: Vec<(&'static str, f64)>,
    /// How many times the rate without all of it, where the laws of closed systems do not say it.
    known: Option<f64>,
    /// It is that too little is in flight.
    is_window: bool,
    /// It is a wait, by chance this often, or by no chance where that is zero.
    wait: Option<f64>,
    /// The share of the time for which each resource is at work on what may become less often without it,
    /// because more leaves together.
    saved: Vec<(&'static str, f64)>,
    /// The figure that it is read from, in words.
    pub figure: String,
}

/// The resources of a measurement, and where its operations are.
pub struct Law<'a> {
    evidence: &'a Evidence,
    /// The busiest of each kind, by name.
    stations: Vec<(String, f64)>,
    /// Operations for each packet that is somewhere.
    scale: f64,
    /// Operations at a time, wherever they are.
    all: f64,
    /// The share of operations that are nowhere on the fabric and wait for nothing that is sent again.
    unplaced: f64,
    /// The share of an operation's time that is a wait for what is sent again.
    silent: f64,
    /// The share of an operation's time in which it waits for nothing.
    alone: f64,
    /// The share in which it waits for room.
    room: f64,
    /// The share of operations in the hands of processors: taken in, and waiting for their turn.
    in_hand: f64,
    /// The share of operations behind records that a fault holds up: lanes keep their order.
    behind: f64,
    /// The share of operations that a partition keeps from moving.
    parted: f64,
    /// The share of the time in which servers stood still, clients, and any of both.
    stood: (f64, f64, f64),
}

impl<'a> Law<'a> {
    /// The law of a measurement.
    pub fn of(evidence: &'a Evidence) -> Self {
        let uses = &evidence.uses;
        let mut stations =
            vec![("servers".to_owned(), uses.servers.busy), ("clients".to_owned(), uses.clients.busy)];
        stations.extend(uses.resources.iter().map(|(name, on)| (name.clone(), on.busy)));
        let hosts = [&uses.servers, &uses.clients].map(|hosts| hosts.unread + hosts.working);
        let held = held(evidence);
        let there =
            hosts.iter().sum::<f64>() + uses.resources.values().map(|on| on.there).sum::<f64>() + held;
        let packets = uses.packets as f64 / evidence.operations;
        // A call is one packet there and one back; of longer messages several packets are in many places.
        let scale = if evidence.in_flight.is_some() && packets > 0.0 { 2.0 / packets } else { 1.0 };
        let silences = evidence.counted("silence_time") / uses.window_nanos;
        let all = evidence.in_flight.unwrap_or(there * scale + silences).max(f64::MIN_POSITIVE);
        let unplaced = evidence.in_flight.map_or(0.0, |_| 1.0 - (there * scale + silences) / all).max(0.0);
        let working = [&uses.servers, &uses.clients].map(|hosts| hosts.working).iter().sum::<f64>();
        let working = working + uses.resources.values().map(|on| on.working).sum::<f64>() + held;
        let alone = (working * scale / all).min(1.0);
        let mut law = Self {
            evidence,
            stations,
            scale,
            all,
            unplaced,
            silent: silent(evidence),
            alone,
            room: 0.0,
            in_hand: 0.0,
            behind: 0.0,
            parted: 0.0,
            stood: stood(evidence),
        };
        // What is nowhere and was refused nowhere was taken in by a processor together with others.
        let is_refused =
            |rule: &Rule| matches!(rule.reads, Reads::Room(_)) && law.taken(&rule.reads).is_some();
        if RULES.iter().any(is_refused) {
            law.room = law.unplaced;
        } else if held > 0.0 && evidence.protocol == LANES {
            law.behind = law.unplaced;
        } else if is_parted(evidence) {
            law.parted = law.unplaced.min(MOST_OF_ALL);
        } else {
            // They are in hand only while a processor works.
            law.in_hand = law.unplaced.min(uses.servers.busy + uses.clients.busy);
        }
        law
    }

    /// What a cause takes, as far as its counters say; `None` where they say that it is not there.
    pub fn taken(&self, reads: &Reads) -> Option<Taken> {
        match reads {
            Reads::Resources(names) => self.resources(names),
            Reads::Work(kinds) => self.work(kinds),
            Reads::Lost(places) => self.lost(places),
            Reads::Room(counters) => self.room(counters),
            Reads::Stood(side) => self.stood(*side),
            Reads::Uneven(side) => self.uneven(*side),
            Reads::HeldUp => self.held_up(),
            Reads::Window => self.window(),
            Reads::Load => self.load(),
        }
    }

    /// How many times the rate without that part of what a cause takes.
    pub fn gain(&self, taken: &Taken, part: f64) -> f64 {
        if let Some(known) = taken.known {
            return 1.0 + (known - 1.0) * part;
        }
        let ceiling = self.utilisation_bound(taken, part);
        if taken.is_window {
            // With more in flight everything else goes on, and what lets nothing move stays.
            let stalled = self.stalled();
            let faster = stalled + (1.0 - stalled) * (1.0 - part);
            let busiest = self.most_busy().max(1.0 / GAIN_MAX);
            return (1.0 / faster.max((stalled + busiest).min(1.0))).max(1.0);
        }
        // Queues are there because something is full: without it they are not.
        let is_full = |(name, busy): &(String, f64)| {
            *busy >= FULL_FROM && taken.busy.iter().any(|(own, less)| own == name && *less > 0.0)
        };
        let empties = self.evidence.in_flight.is_some() && self.stations.iter().any(is_full);
        let faster = match taken.alone.filter(|_| empties) {
            Some(own) => (1.0 - self.room - self.silent) / (self.alone - part * own).max(1.0 / GAIN_MAX),
            None => 1.0 / (1.0 - part * taken.share).max(1.0 / GAIN_MAX),
        };
        faster.min(ceiling).max(1.0)
    }

    /// How many times the rate without that part of it at the very most: what is in work leaves no more, the
    /// other resources do not, and what becomes N times as fast lets the busiest do N times what it could.
    /// Who waits anywhere may do so because of the cause: processors that work in turns make queues of what
    /// each hands on at once, and are idle meanwhile. What is by chance is another time more by twice the
    /// root of how often it was.
    pub fn most(&self, taken: &Taken, part: f64) -> f64 {
        let gain = self.gain(taken, part);
        let own = match (taken.alone, taken.wait) {
            (Some(own), _) => own * part,
            (None, Some(_)) => 0.0,
            (None, None) => return gain,
        };
        let ceiling = self.ceiling_of(|name, busy| {
            let less = part * sum_of(&taken.busy, name);
            busy - less.max(sum_of(&taken.saved, name))
        });
        // Where what is in flight is not kept up, an operation lasts as long as its last message, and what is
        // in work at a time says nothing about that one.
        let rest = self.evidence.in_flight.map_or(0.0, |_| self.alone - own + self.waits_besides(taken));
        let rest = rest.max(1.0 / GAIN_MAX);
        let could = self.evidence.in_flight.map_or(1.0, |_| self.most_busy());
        let faster = match taken.wait {
            Some(_) => GAIN_MAX,
            None => 1.0 / ((1.0 - part) * could).max(1.0 / GAIN_MAX),
        };
        let chance = taken.wait.filter(|often| *often > 0.0).map_or(0.0, |often| 2.0 / often.sqrt());
        (1.0 / rest).min(ceiling).min(faster).max(gain) * (1.0 + chance)
    }

    /// The share of the time in which nothing can move, whatever is in flight.
    fn stalled(&self) -> f64 {
        let parted = self.partition(self.evidence.lost_to_partitions());
        (parted + self.stood.2).min(MOST_OF_ALL)
    }

    /// The share of an operation's time that is a wait for what is known, and is not this cause.
    fn waits_besides(&self, taken: &Taken) -> f64 {
        let known = self.silent.max(self.parted) + self.room + self.behind + self.stood.2;
        let own = if taken.wait.is_some() { taken.share } else { 0.0 };
        (known - own).clamp(0.0, 1.0)
    }

    /// The share of an operation's time that a partition takes: what waits until it is asked for, and what it
    /// keeps from moving besides.
    fn partition(&self, part_of_lost: f64) -> f64 {
        let silences = self.evidence.counted("silence_time") / self.evidence.uses.window_nanos / self.all;
        let waits = if self.parted > 0.0 { silences * part_of_lost } else { 0.0 };
        (self.parted + waits).max(self.silent * part_of_lost).min(MOST_OF_ALL)
    }

    /// How many times the rate the busiest resource allows without that part of what a cause takes.
    fn utilisation_bound(&self, taken: &Taken, part: f64) -> f64 {
        self.ceiling_of(|name, busy| busy - part * sum_of(&taken.busy, name))
    }

    /// How many times the rate the busiest resource allows, of which each is busy for what is `left` of it.
    fn ceiling_of(&self, left: impl Fn(&str, f64) -> f64) -> f64 {
        let busy = |(name, busy): &(String, f64)| left(name, *busy).max(0.0);
        1.0 / self.stations.iter().map(busy).fold(1.0 / GAIN_MAX, f64::max)
    }

    /// How many times the rate with more in flight and nothing else changed, at most.
    pub fn ceiling(&self) -> f64 {
        self.gain(&Taken { share: 1.0, is_window: true, ..Taken::default() }, 1.0)
    }

    /// The busiest resources, in words.
    pub fn busiest(&self) -> String {
        let mut stations: Vec<_> = self.stations.iter().filter(|(_, busy)| *busy > 0.0).collect();
        stations.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words: Vec<_> = stations
            .iter()
            .take(3)
            .map(|(name, busy)| format!("{} {:.0} %", named(name), busy * 100.0))
            .collect();
        words.join(", ")
    }

    fn most_busy(&self) -> f64 {
        self.stations.iter().map(|(_, busy)| *busy).fold(0.0, f64::max)
    }

    /// From which share on a resource is what the others wait for. Where what is in flight is not kept up,
    /// all rest between operations, and the busiest of all is.
    fn full_from(&self) -> f64 {
        if self.evidence.in_flight.is_some() { FULL_FROM } else { FULL_FROM * self.most_busy() }
    }

    fn share(&self, there: f64) -> f64 {
        (there * self.scale / self.all).min(1.0)
    }

    fn resources(&self, names: &'static [&'static str]) -> Option<Taken> {
        let uses = names.iter().filter_map(|name| Some((*name, self.evidence.uses.resources.get(*name)?)));
        let uses: Vec<_> = uses.filter(|(_, on)| on.there > 0.0).collect();
        let busiest = uses.iter().max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
        let share = self.share(uses.iter().map(|(_, on)| on.there).sum());
        let figure = if busiest.1.busy >= self.full_from() {
            // How little of the time goes there says nothing: the others wait for it elsewhere.
            let share = if share > busiest.1.busy {
                format!(", and {:.0} % of an operation's time goes there", share * 100.0)
            } else {
                String::new()
            };
            format!(
                "the busiest, number {}, works {:.0} % of the time{share}",
                busiest.1.at,
                busiest.1.busy * 100.0
            )
        } else if busiest.1.busy > 0.0 {
            format!(
                "the busiest, number {}, works {:.0} % of the time, and {:.0} % of an operation's time goes there",
                busiest.1.at,
                busiest.1.busy * 100.0,
                share * 100.0
            )
        } else {
            format!("{:.0} % of an operation's time goes there", share * 100.0)
        };
        // Requests are part of what reads take.
        let whole = |name: &'static str| if name == "nic_read_requests" { "nic_reads" } else { name };
        let busy = uses.iter().flat_map(|(name, on)| [(*name, on.busy), (whole(name), on.busy)]);
        let mut busy: Vec<_> = busy.collect();
        busy.dedup();
        let working = uses.iter().map(|(_, on)| on.working).sum();
        Some(Taken { share, alone: Some(self.share(working)), busy, figure, ..Taken::default() })
    }

    fn work(&self, kinds: &'static [&'static str]) -> Option<Taken> {
        let uses = &self.evidence.uses;
        let of = |hosts: &HostUse| kinds.iter().filter_map(|kind| hosts.work.get(*kind)).sum::<f64>();
        let there =
            |hosts: &HostUse| (hosts.unread + hosts.working) * of(hosts) / hosts.busy.max(f64::MIN_POSITIVE);
        let alone = |hosts: &HostUse| hosts.working * of(hosts) / hosts.busy.max(f64::MIN_POSITIVE);
        let (servers, clients) = (of(&uses.servers), of(&uses.clients));
        let most = servers.max(clients);
        // They wait for the processors in proportion to what these do, and for all kinds of work of each.
        let working = uses.servers.working + uses.clients.working;
        let of_all =
            |hosts: &HostUse| hosts.working / working * of(hosts) / hosts.busy.max(f64::MIN_POSITIVE);
        let in_hand =
            if working > 0.0 { self.in_hand * (of_all(&uses.servers) + of_all(&uses.clients)) } else { 0.0 };
        (most > 0.0).then(|| Taken {
            share: (self.share(there(&uses.servers) + there(&uses.clients)) + in_hand).min(1.0),
            alone: Some(self.share(alone(&uses.servers) + alone(&uses.clients))),
            busy: vec![("servers", servers), ("clients", clients)],
            saved: if kinds.iter().any(|kind| ONCE_FOR_ALL.contains(kind)) {
                self.once()
            } else {
                Vec::new()
            },
            known: None,
            is_window: false,
            wait: None,
            figure: format!(
                "it takes {:.0} % of the time of {}, whose processor works {:.0} %",
                most * 100.0,
                if servers >= clients { "the busiest server" } else { "the busiest client" },
                uses.servers.busy.max(uses.clients.busy) * 100.0
            ),
        })
    }

    fn lost(&self, places: &'static [&'static str]) -> Option<Taken> {
        let lost: f64 = places.iter().map(|place| self.evidence.lost(place)).sum();
        let all: f64 = RULES
            .iter()
            .filter_map(|rule| if let Reads::Lost(places) = rule.reads { Some(places) } else { None })
            .flatten()
            .map(|place| self.evidence.lost(place))
            .sum();
        let waits = self.evidence.counted("silences");
        let part = if all > 0.0 { lost / all } else { 0.0 };
        if places.contains(&PARTITION) && self.parted > 0.0 {
            let share = self.partition(self.evidence.lost_to_partitions());
            let lost = if lost > 0.0 { format!("{lost:.0} packets were lost, and ") } else { String::new() };
            let figure = format!("{lost}{:.0} % of an operation's time nothing moved for it", share * 100.0);
            return Some(Taken { share, wait: Some(0.0), figure, ..Taken::default() });
        }
        (lost > 0.0 && waits > 0.0).then(|| Taken {
            share: self.silent * part,
            wait: Some(lost),
            figure: format!(
                "{lost:.0} packets were lost, and {waits:.0} messages waited {:.0} us each until they were asked for",
                self.evidence.counted("silence_time") / waits / 1e3
            ),
            ..Taken::default()
        })
    }

    fn room(&self, counters: &'static [&'static str]) -> Option<Taken> {
        let count = |name: &str| match name {
            // What waits for room is counted with what waits for blocks or windows.
            "waited_for_room" => {
                let others = self.evidence.counted("blocks_full") + self.evidence.counted("window_full");
                if others > 0.0 { 0.0 } else { self.evidence.counted(name) }
            }
            other => self.evidence.counted(other),
        };
        if counters == ["send_queue_full"] {
            return self.send_queue();
        }
        let refused: f64 = counters.iter().map(|name| count(name)).sum();
        let uses = &self.evidence.uses;
        let often = refused / self.evidence.operations;
        (often >= REFUSED_MIN && self.unplaced > 0.0).then(|| Taken {
            // While the send queue is full nothing else can hold them back.
            share: self.unplaced * (1.0 - uses.send_queue_full.min(1.0)),
            // With more room more leave together.
            busy: self.once(),
            saved: self.records_of_room(),
            wait: Some(0.0),
            figure: format!(
                "`{}` counted {refused:.0} in {:.0} operations, and {:.0} % of what is in flight waits at its sender",
                counters.join("`, `"),
                self.evidence.operations,
                self.unplaced * 100.0
            ),
            ..Taken::default()
        })
    }

    /// The share of the time of processors that is work done once for all that leaves or arrives together.
    fn once(&self) -> Vec<(&'static str, f64)> {
        let of = |hosts: &HostUse| ONCE_FOR_ALL.iter().filter_map(|kind| hosts.work.get(*kind)).sum::<f64>();
        vec![("servers", of(&self.evidence.uses.servers)), ("clients", of(&self.evidence.uses.clients))]
    }

    /// That, and the share of the time for which cards handle records that are there only because a ring is
    /// short: those that lead back to its beginning and those that give room back.
    fn records_of_room(&self) -> Vec<(&'static str, f64)> {
        let uses = &self.evidence.uses;
        let records = ROOM_RECORDS.iter().map(|name| self.evidence.counted(name)).sum::<f64>();
        let part = (records / (uses.packets as f64).max(1.0)).min(1.0);
        let of_card = |name: &&'static str| Some((*name, part * uses.resources.get(*name)?.busy));
        self.once().into_iter().chain(CARD_ENGINES.iter().filter_map(of_card)).collect()
    }

    fn send_queue(&self) -> Option<Taken> {
        let full = self.evidence.uses.send_queue_full.min(1.0);
        let figure = format!(
            "it was full {:.0} % of the time, and {:.0} % of what is in flight waits at its sender",
            full * 100.0,
            self.unplaced * 100.0
        );
        (full >= REFUSED_MIN && self.unplaced > 0.0).then(|| Taken {
            share: self.unplaced * full,
            wait: Some(0.0),
            figure,
            ..Taken::default()
        })
    }

    /// A run without pauses is one without those of all hosts, so that what both sides stood still counts.
    fn stood(&self, side: Side) -> Option<Taken> {
        let (servers, clients, any) = self.stood;
        let own = if side == Side::Servers { servers } else { clients };
        let beside = if any > own {
            format!(", and with the other side, at other times, {:.0} %", any * 100.0)
        } else {
            String::new()
        };
        let figure = format!("it stood still {:.0} % of the time{beside}", own * 100.0);
        (own > 0.0).then(|| Taken { share: any, figure, wait: Some(0.0), ..Taken::default() })
    }

    /// What a host has more to do than the others: without that it would be as they are.
    fn uneven(&self, side: Side) -> Option<Taken> {
        let uses = &self.evidence.uses;
        let (station, hosts, number) = match side {
            Side::Servers => ("servers", &uses.servers, self.evidence.hosts.0),
            Side::Clients => ("clients", &uses.clients, self.evidence.hosts.1),
        };
        let others = (hosts.working - hosts.busy).max(0.0) / (number - 1.0).max(1.0);
        let is_uneven = number > 1.0 && hosts.busy >= self.full_from() && others <= hosts.busy * UNEVEN_MAX;
        let figure = format!(
            "number {} works {:.0} % of the time, the {:.0} others {:.0} % on average",
            hosts.at,
            hosts.busy * 100.0,
            number - 1.0,
            others * 100.0
        );
        is_uneven.then(|| Taken {
            // What waits for processors waits for the one that always works.
            share: self.share(hosts.unread + hosts.busy - others),
            alone: Some(self.share(hosts.busy - others)),
            busy: vec![(station, hosts.busy - others)],
            figure,
            ..Taken::default()
        })
    }

    fn held_up(&self) -> Option<Taken> {
        let on_fabric = self.evidence.uses.resources.get("held_up").map_or(0.0, |on| on.there);
        let share = (self.share(held(self.evidence) + on_fabric) + self.behind).min(1.0);
        let delayed = self.evidence.counted("delayed") + self.evidence.counted("reordered");
        // What a schedule holds up on the fabric is known by its time alone.
        let count = if delayed > 0.0 { format!("{delayed:.0} ") } else { String::new() };
        let figure = format!(
            "{count}packets were held up, with what waits behind them {:.0} % of an operation's time",
            share * 100.0
        );
        let (alone, wait) = (Some(share), Some(delayed));
        (share > 0.0).then(|| Taken { share, alone, wait, figure, ..Taken::default() })
    }

    /// An open loop waits for nobody: what is offered beyond what is carried lies in queues.
    fn load(&self) -> Option<Taken> {
        let load = self.evidence.load.filter(|load| load.is_too_much())?;
        let carried = load.carried().min(1.0);
        let figure = format!("{}; the busiest are {}", load.words(), self.busiest());
        let known = Some(1.0 / carried.max(1.0 / GAIN_MAX));
        Some(Taken { share: 1.0 - carried, figure, known, ..Taken::default() })
    }

    fn window(&self) -> Option<Taken> {
        let in_flight = self.evidence.in_flight?;
        let figure = format!("with {in_flight} in flight the busiest are {}", self.busiest());
        Some(Taken { share: 1.0, is_window: true, figure, ..Taken::default() })
    }
}

/// The shares of the time in which servers stood still, clients, and any of both. Counted is the one that
/// did so the longest; the schedule says how much longer all of them did together.
fn stood(evidence: &Evidence) -> (f64, f64, f64) {
    let uses = &evidence.uses;
    let (servers, clients) = (uses.servers.stood, uses.clients.stood);
    let one_host = servers.max(clients);
    let stalls = evidence.stalls();
    if one_host == 0.0 || stalls.one_host == 0.0 {
        return (servers, clients, one_host);
    }
    let of = |nanos: f64| (one_host * nanos / stalls.one_host).min(MOST_OF_ALL);
    let of_side = |counted: f64, nanos: f64| if counted > 0.0 { of(nanos).max(counted) } else { 0.0 };
    let (servers, clients) = (of_side(servers, stalls.servers), of_side(clients, stalls.clients));
    (servers, clients, of(stalls.any).max(servers).max(clients))
}

/// Whether a partition or a host that was down kept operations from moving: by what was lost, or by the
/// schedule, because what keeps its order loses nothing.
fn is_parted(evidence: &Evidence) -> bool {
    evidence.lost_to_partitions() > 0.0 || evidence.stalls().parted > 0.0
}

/// What a list has of a resource.
fn sum_of(list: &[(&'static str, f64)], name: &str) -> f64 {
    list.iter().filter(|(own, _)| *own == name).map(|(_, share)| share).sum()
}

/// The settings that a run's own assignments make. Those of this process are another's.
pub(super) fn assigned(assignments: impl IntoIterator<Item = String>) -> Option<Settings> {
    let assignments = assignments.into_iter().collect();
    Settings::from_sources(&Sources { assignments, ..Sources::default() }).ok()
}

/// How many packets a fault holds up at a time, each for `fault.delay_time`.
fn held(evidence: &Evidence) -> f64 {
    let nanos = |time: &String| {
        let settings = assigned([format!("fault.delay_time={time}")])?;
        Some(settings.fault.delay_time?.as_nanos() as f64)
    };
    let nanos = evidence.parameters.get("fault.delay_time").and_then(nanos).unwrap_or(0.0);
    evidence.counted("delayed") * nanos / evidence.uses.window_nanos
}

/// What people call a resource.
fn named(name: &str) -> String {
    match name {
        "servers" => "a server's processor".to_owned(),
        "clients" => "a client's processor".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The share of an operation's time that is a wait for what is sent again. Of an operation with several such
/// waits at a time only one is counted.
fn silent(evidence: &Evidence) -> f64 {
    let (waits, nanos) = (evidence.counted("silences"), evidence.counted("silence_time"));
    if waits == 0.0 {
        return 0.0;
    }
    let each = if waits < evidence.operations { nanos / evidence.operations } else { nanos / waits };
    (each / evidence.operation_nanos).min(1.0 - 1.0 / GAIN_MAX)
}
