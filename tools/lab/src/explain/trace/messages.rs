//! Records of both ends become tagged messages, and their parts a summary.
//!
//! What joins the ends is a message's number among those of its session and direction. A session has other
//! numbers at its two ends, so two endpoints are joined only when one session of theirs carries the messages.

use std::collections::{BTreeMap, HashMap};

use farcall::Clock;
use farcall::trace::event;
use serde::{Deserialize, Serialize};

use super::HostTrace;
use super::summary::{Part, part};

/// How many points the life of a message has.
pub const MESSAGE_POINTS: usize = 5;

/// The points of a message's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePoint {
    /// The sender's transport was given it.
    Submitted,
    /// The driver or the library got it.
    Transmitted,
    /// A poll of the receiver found the last of it.
    Received,
    /// A receive or the handler gets it.
    Matched,
    /// The callback or handler has returned, or the future has it.
    Completed,
}

/// The names of the parts, each from one point of a message to the next.
pub const MESSAGE_PARTS: [&str; 4] = ["submit", "on_its_way", "match", "complete"];

/// What happens in each part.
pub const MESSAGE_PART_WORDS: [&str; 4] = [
    "from the send to the sender's driver or library",
    "to the poll that finds the message",
    "behind those found with it, to its receive or the handler",
    "to the end of its callback, or into its future",
];

/// A message of which every point is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// The sender's rank.
    pub sender: u32,
    /// The receiver's rank.
    pub receiver: u32,
    /// Its place among those of its session and direction.
    pub number: u32,
    /// When each point was reached, in nanoseconds.
    pub nanos: [u64; MESSAGE_POINTS],
}

impl TracedMessage {
    /// When a point was reached.
    pub fn at(&self, point: MessagePoint) -> u64 {
        self.nanos[point as usize]
    }

    /// From the first point to the last.
    pub fn total_nanos(&self) -> u64 {
        self.at(MessagePoint::Completed) - self.at(MessagePoint::Submitted)
    }
}

/// What became of some traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedMessages {
    /// The messages, in the order of their numbers.
    pub messages: Vec<TracedMessage>,
    /// Messages that completed but lack a point, mostly because one end's ring was full.
    pub incomplete: u64,
    /// Messages whose points are not in order: the ends' clocks disagree.
    pub disordered: u64,
}

/// What the traced messages of one measurement took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageSummary {
    /// Messages with all their points.
    pub messages: u64,
    /// Messages that completed but lack a point.
    pub incomplete: u64,
    /// Messages left out because their points are not in order.
    pub disordered: u64,
    /// By the names of [`MESSAGE_PARTS`].
    pub parts: BTreeMap<String, Part>,
    /// From the send to the receiver's end.
    pub total: Part,
}

impl MessageSummary {
    /// `None` when there are no messages.
    pub fn of(joined: &JoinedMessages) -> Option<Self> {
        let JoinedMessages { ref messages, incomplete, disordered } = *joined;
        let mut order: Vec<_> = messages.iter().collect();
        order.sort_by_key(|message| message.total_nanos());
        let part = |value: &dyn Fn(&TracedMessage) -> u64| part(&order, value);
        let length = |place: usize| part(&|message| message.nanos[place + 1] - message.nanos[place]);
        (!order.is_empty()).then(|| Self {
            messages: order.len() as u64,
            incomplete,
            disordered,
            parts: MESSAGE_PARTS
                .iter()
                .zip(0..)
                .map(|(name, place)| ((*name).to_owned(), length(place)))
                .collect(),
            total: part(&TracedMessage::total_nanos),
        })
    }

    /// A part by its name; nothing when there is none.
    pub fn part(&self, name: &str) -> Part {
        self.parts.get(name).copied().unwrap_or_default()
    }
}

/// The messages of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedMessages {
    /// The messages.
    pub joined: JoinedMessages,
    /// What their parts took; `None` when no message has all its points.
    pub summary: Option<MessageSummary>,
}

impl TracedMessages {
    /// The messages from the first endpoint of each pair to the second, all on this machine.
    pub fn on_machine<'a>(pairs: impl IntoIterator<Item = (&'a HostTrace, &'a HostTrace)>) -> Self {
        let (mut joined, clock) = (JoinedMessages::default(), Clock::new());
        for (sender, receiver) in pairs {
            let more = join_messages(sender, receiver, &clock);
            joined.messages.extend(more.messages);
            joined.incomplete += more.incomplete;
            joined.disordered += more.disordered;
        }
        Self { summary: MessageSummary::of(&joined), joined }
    }
}

type Ticks = [Option<u64>; MESSAGE_POINTS];

/// By session, what an end knows of messages, by their numbers.
type Known = HashMap<u16, BTreeMap<u32, Ticks>>;

/// Puts together what two endpoints recorded of the messages from one to the other. `clock` reads their
/// ticks.
pub fn join_messages(sender: &HostTrace, receiver: &HostTrace, clock: &Clock) -> JoinedMessages {
    let (sent, received) = (sent(sender, receiver.rank), received(receiver, sender.rank));
    let known: Vec<_> = sent.into_values().collect();
    let nothing = BTreeMap::new();
    let there = match (&*known, received.len()) {
        ([there], 1) => there,
        _ => &nothing,
    };
    let mut joined = JoinedMessages::default();
    for (&number, here) in received.values().flatten() {
        if here[MessagePoint::Completed as usize].is_none() {
            continue;
        }
        let Some(points) = there.get(&number).and_then(|there| complete(there, here)) else {
            joined.incomplete += 1;
            continue;
        };
        if !points.is_sorted() {
            joined.disordered += 1;
            continue;
        }
        let nanos = points.map(|ticks| clock.time_of(ticks).as_nanos());
        joined.messages.push(TracedMessage { sender: sender.rank, receiver: receiver.rank, number, nanos });
    }
    joined
}

/// Every point from the end that knows it.
fn complete(there: &Ticks, here: &Ticks) -> Option<[u64; MESSAGE_POINTS]> {
    let mut points = [0; MESSAGE_POINTS];
    for (place, point) in points.iter_mut().enumerate() {
        *point = there[place].or(here[place])?;
    }
    Some(points)
}

/// The records of sessions with the endpoint of a rank: ticks, operation, event and session.
fn records_with(trace: &HostTrace, rank: u32) -> impl Iterator<Item = &(u64, u32, u16, u16)> {
    let leads_there = move |session| trace.peers.contains(&(session, rank));
    trace.records.iter().filter(move |record| leads_there(record.3))
}

fn note(known: &mut Known, session: u16, number: u32, point: MessagePoint, ticks: u64) {
    let points = known.entry(session).or_default().entry(number).or_default();
    points[point as usize].get_or_insert(ticks);
}

/// What the sender knows. Packets are marked by the calls that carry messages, after these were named.
fn sent(trace: &HostTrace, to: u32) -> Known {
    let (mut known, mut names) = (Known::new(), HashMap::new());
    for &(ticks, operation, event, session) in records_with(trace, to) {
        match event {
            event::MESSAGE_SUBMITTED => note(&mut known, session, operation, MessagePoint::Submitted, ticks),
            event::MESSAGE_TRANSMITTED => {
                note(&mut known, session, operation, MessagePoint::Transmitted, ticks)
            }
            event::MESSAGE_NAMED => _ = names.insert((session, operation), ticks as u32),
            event::REQUEST_TRANSMITTED => {
                if let Some(&number) = names.get(&(session, operation)) {
                    note(&mut known, session, number, MessagePoint::Transmitted, ticks);
                }
            }
            _ => {}
        }
    }
    known
}

/// What the receiver knows. A message in packets is named when its last one is here.
fn received(trace: &HostTrace, from: u32) -> Known {
    let (mut known, mut packets) = (Known::new(), HashMap::new());
    for &(ticks, operation, event, session) in records_with(trace, from) {
        let point = match event {
            event::REQUEST_RECEIVED => {
                packets.insert((session, operation), ticks);
                continue;
            }
            event::ARRIVED_AS => {
                if let Some(&found) = packets.get(&(session, operation)) {
                    note(&mut known, session, ticks as u32, MessagePoint::Received, found);
                }
                continue;
            }
            event::MESSAGE_RECEIVED => MessagePoint::Received,
            event::MESSAGE_MATCHED => MessagePoint::Matched,
            event::MESSAGE_COMPLETED => MessagePoint::Completed,
            _ => continue,
        };
        note(&mut known, session, operation, point, ticks);
    }
    known
}

#[cfg(test)]
mod tests;
