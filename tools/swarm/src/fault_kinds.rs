//! The kinds of faults that scenarios have, by name, so that runs can be counted by what went wrong in them.

use core::time::Duration;

use crate::mail::ReceiveStart;
use crate::scenario::Scenario;
use crate::trouble::TroubleKind;

/// Deadlines up to this are hardly ever met.
const SHORT_WITHIN: Duration = Duration::from_micros(200);

/// So many of them are a storm.
const STORM: usize = 5;

/// A kind of fault: its name, what it is, and whether a scenario has it.
pub struct FaultKind {
    /// Its name.
    pub name: &'static str,
    /// What goes wrong.
    pub about: &'static str,
    is_in: fn(&Scenario) -> bool,
}

/// All kinds.
pub const FAULT_KINDS: [FaultKind; 22] = [
    kind("loss", "packets are lost", |it| it.faults.packets.drop > 0.0),
    kind("duplication", "packets arrive twice", |it| it.faults.packets.duplicate > 0.0),
    kind("reordering", "packets overtake each other", |it| it.faults.packets.reorder > 0.0),
    kind("delay-spikes", "packets are held up for long", |it| it.faults.packets.delay > 0.0),
    kind("corruption", "bits of packets flip", |it| it.faults.packets.corrupt > 0.0),
    kind("truncation", "packets are cut short", |it| it.faults.packets.truncate > 0.0),
    kind("loss-burst", "most packets are lost for a while", |it| {
        has(it, |kind| matches!(kind, TroubleKind::Loss { .. }))
    }),
    kind("partition", "two groups of hosts do not reach each other, until it heals", |it| {
        has(it, |kind| cut_hosts(kind).is_some_and(|hosts| hosts > 2))
    }),
    kind("one-way-partition", "one group does not reach the other, until it heals", |it| {
        has(it, |kind| matches!(kind, TroubleKind::Partition { one_way: true, .. }))
    }),
    kind("link-cut", "two hosts do not reach each other, until it heals", |it| {
        has(it, |kind| cut_hosts(kind) == Some(2))
    }),
    kind("pause", "processors stand still and go on", |it| {
        has(it, |kind| matches!(kind, TroubleKind::Pause(_)))
    }),
    kind("slow-host", "processors take 3 or 20 times as long", |it| {
        has(it, |kind| matches!(kind, TroubleKind::Slow { .. }))
    }),
    kind("crash", "hosts crash and start again as new incarnations", |it| {
        has(it, |kind| matches!(kind, TroubleKind::Crash(_)))
    }),
    kind("session-close", "sessions are closed in the middle of what they carry", |it| {
        !it.farewells.is_empty()
    }),
    kind("receive-buffers", "network cards have room for eight packets", |it| {
        it.fabric.is_short_of.receive_buffer
    }),
    kind("send-queue", "network cards take one or two packets at a time", |it| {
        it.fabric.is_short_of.send_queue
    }),
    kind("switch-buffers", "ports of switches have room for four packets", |it| {
        it.fabric.is_short_of.port_buffer
    }),
    kind("small-rings", "rings have 4 or 8 KiB", |it| it.fabric.ring_bytes <= 8192),
    kind("block-memory", "block memory has no room for two of the longest payloads", |it| {
        it.fabric.block_bytes < 2 * it.tuning.message_bytes_max
    }),
    kind("few-calls", "sessions take one or two calls at a time", |it| it.tuning.calls_max <= 2),
    kind("deadline-storm", "many operations have deadlines that they cannot meet", |it| {
        it.operations.iter().filter(|call| call.within <= SHORT_WITHIN).count() >= STORM
    }),
    kind("slow-readers", "messages come long before anybody asks for them", |it| {
        let collected = |receive: &&crate::mail::Receive| receive.start == ReceiveStart::Collect;
        it.mail.sends.len() > it.mail.receives.len() - it.mail.receives.iter().filter(collected).count()
    }),
];

const fn kind(name: &'static str, about: &'static str, is_in: fn(&Scenario) -> bool) -> FaultKind {
    FaultKind { name, about, is_in }
}

fn has(scenario: &Scenario, is_it: fn(&TroubleKind) -> bool) -> bool {
    scenario.faults.troubles.iter().any(|trouble| is_it(&trouble.kind))
}

impl Scenario {
    /// The kinds of faults that it has, by their places in [`FAULT_KINDS`].
    pub fn fault_kinds(&self) -> Vec<usize> {
        (0..FAULT_KINDS.len()).filter(|place| (FAULT_KINDS[*place].is_in)(self)).collect()
    }
}

/// How many hosts a partition in both directions separates.
fn cut_hosts(kind: &TroubleKind) -> Option<usize> {
    match kind {
        TroubleKind::Partition { from, to, one_way: false } => Some(from.len() + to.len()),
        _ => None,
    }
}
