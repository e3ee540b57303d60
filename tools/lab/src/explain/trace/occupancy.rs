//! How much of the traced time each side was at work, and when the servers stood still.
//!
//! A server has work from the moment a request can be there: its transmission plus the shortest way that any
//! request had. It is done with it when the answer is with the driver, or would be had there been room at
//! once. What lies between two events of a server that has work, and is far longer than calls take, is a
//! standstill: its thread did not run.

use serde::{Deserialize, Serialize};

use super::join::{Point, TracedCall};

/// A silence of a server with work is a standstill from this length on.
const STANDSTILL_NANOS_MIN: u64 = 20_000;

/// And from this many times the median of all calls.
const STANDSTILL_CALLS_MIN: u64 = 5;

/// Shares of the traced time, from the first call's begin to the last one's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The traced time.
    pub window_nanos: f64,
    /// The share in which the busiest server had work, standstills left out of both.
    pub server: f64,
    /// The same for the busiest client.
    pub client: f64,
    /// The share in which the busiest server held a request that it had found: less, because what waits
    /// unread is left out.
    pub server_inside: f64,
    /// The same for the busiest client and its responses.
    pub client_inside: f64,
    /// The standstills of servers.
    pub standstill: Standstill,
    /// The standstills of clients.
    pub client_standstill: Standstill,
}

/// When one side stood still although it had work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standstill {
    /// How often.
    pub times: u64,
    /// The share of the traced time, of the process that had most.
    pub share: f64,
    /// The longest one.
    pub longest_nanos: f64,
}

impl Standstill {
    /// Adds what was found in a part of the traced time.
    fn add(&mut self, one: Self, part: f64) {
        self.times += one.times;
        self.share += one.share * part;
        self.longest_nanos = self.longest_nanos.max(one.longest_nanos);
    }

    /// Adds those of one more process; returns how long it stood still.
    fn of_process(&mut self, still: &[Interval], window: f64) -> u64 {
        let stood: u64 = still.iter().map(length).sum();
        self.times += still.len() as u64;
        self.share = self.share.max(stood as f64 / window);
        let longest = still.iter().map(length).max().unwrap_or(0);
        self.longest_nanos = self.longest_nanos.max(longest as f64);
        stood
    }
}

/// The points of a call at its server.
const AT_SERVER: [Point; 4] =
    [Point::RequestReceived, Point::HandlerBegun, Point::Replied, Point::ResponseTransmitted];

/// The points of a call at its client.
const AT_CLIENT: [Point; 4] =
    [Point::Submitted, Point::RequestTransmitted, Point::ResponseReceived, Point::Completed];

/// From when to when.
type Interval = (u64, u64);

/// The parts at work during some calls.
pub fn occupancy(calls: &[TracedCall]) -> Occupancy {
    let runs = runs(calls);
    let window: u64 = runs.iter().map(|run| length(&span(run))).sum();
    if window == 0 {
        return Occupancy::default();
    }
    let mut sum = Occupancy { window_nanos: window as f64, ..Occupancy::default() };
    for run in runs {
        let share = length(&span(run)) as f64 / window as f64;
        let one = of_run(run);
        sum.server += one.server * share;
        sum.client += one.client * share;
        sum.server_inside += one.server_inside * share;
        sum.client_inside += one.client_inside * share;
        sum.standstill.add(one.standstill, share);
        sum.client_standstill.add(one.client_standstill, share);
    }
    sum
}

/// Measurements one after the other: what lies between them, such as a look at the machine's limit, is
/// nobody's time.
fn runs(calls: &[TracedCall]) -> Vec<&[TracedCall]> {
    const APART_NANOS: u64 = 20_000_000;
    calls.chunk_by(|one, next| next.at(Point::Submitted) < one.at(Point::Completed) + APART_NANOS).collect()
}

fn span(calls: &[TracedCall]) -> Interval {
    let begin = calls.iter().map(|call| call.at(Point::Submitted)).min().unwrap_or(0);
    (begin, calls.iter().map(|call| call.at(Point::Completed)).max().unwrap_or(0))
}

fn of_run(calls: &[TracedCall]) -> Occupancy {
    let least =
        |from: Point, to: Point| calls.iter().map(|call| call.at(to) - call.at(from)).min().unwrap_or(0);
    let request = least(Point::RequestTransmitted, Point::RequestReceived);
    let response = least(Point::ResponseTransmitted, Point::ResponseReceived);
    let submit = least(Point::Submitted, Point::RequestTransmitted);
    let reply = least(Point::Replied, Point::ResponseTransmitted);
    let window = length(&span(calls)) as f64;
    let mut totals: Vec<_> = calls.iter().map(TracedCall::total_nanos).collect();
    totals.sort_unstable();
    let silence = STANDSTILL_NANOS_MIN.max(totals[totals.len() / 2] * STANDSTILL_CALLS_MIN);
    let mut found = Occupancy::default();
    for server in ranks(calls, |call| call.server) {
        let own: Vec<_> = calls.iter().filter(|call| call.server == server).collect();
        let work = |call: &&TracedCall| {
            (call.at(Point::RequestTransmitted) + request, call.at(Point::Replied) + reply)
        };
        let work = union(own.iter().map(work).collect());
        let stood = found.standstill.of_process(&standstills(&own, AT_SERVER, &work, silence), window);
        let worked: u64 = work.iter().map(length).sum();
        let running = (window - stood as f64).max(1.0);
        found.server = found.server.max((worked.saturating_sub(stood)) as f64 / running);
        let inside = |call: &&TracedCall| (call.at(Point::RequestReceived), call.at(Point::Replied) + reply);
        let inside = length_of(own.iter().map(inside).collect());
        found.server_inside = found.server_inside.max(inside.saturating_sub(stood) as f64 / running);
    }
    for client in ranks(calls, |call| call.client) {
        let own: Vec<_> = calls.iter().filter(|call| call.client == client).collect();
        let work = |from: &dyn Fn(&TracedCall) -> u64| {
            let intervals = own.iter().flat_map(|call| {
                let transmitted = call.at(Point::RequestTransmitted);
                [(transmitted - submit, transmitted), (from(call), call.at(Point::Completed))]
            });
            union(intervals.collect())
        };
        let there = work(&|call| call.at(Point::ResponseTransmitted) + response);
        let still = standstills(&own, AT_CLIENT, &there, silence);
        let stood = found.client_standstill.of_process(&still, window);
        let running = (window - stood as f64).max(1.0);
        let share = |work: &[Interval]| {
            let worked: u64 = work.iter().map(length).sum();
            worked.saturating_sub(stood) as f64 / running
        };
        found.client = found.client.max(share(&there));
        let inside = work(&|call| call.at(Point::ResponseReceived));
        found.client_inside = found.client_inside.max(share(&inside));
    }
    found
}

fn ranks(calls: &[TracedCall], rank: impl Fn(&TracedCall) -> u32) -> Vec<u32> {
    let mut ranks: Vec<_> = calls.iter().map(rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Silences of a process that has work, at least `silence` long.
fn standstills(calls: &[&TracedCall], points: [Point; 4], work: &[Interval], silence: u64) -> Vec<Interval> {
    let mut events: Vec<_> = calls.iter().flat_map(|call| points.map(|point| call.at(point))).collect();
    events.sort_unstable();
    let mut silences: Vec<_> = events.windows(2).map(|pair| (pair[0], pair[1])).collect();
    silences.retain(|gap| length(gap) >= silence);
    let with_work = silences.into_iter().flat_map(|gap| {
        let overlap = work.iter().map(move |(from, to)| (gap.0.max(*from), gap.1.min(*to)));
        overlap.filter(|part| part.1 > part.0)
    });
    with_work.filter(|part| length(part) >= silence).collect()
}

fn length((from, to): &Interval) -> u64 {
    to.saturating_sub(*from)
}

fn length_of(intervals: Vec<Interval>) -> u64 {
    union(intervals).iter().map(length).sum()
}

/// The same times without overlaps.
fn union(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut union: Vec<Interval> = Vec::new();
    for (from, to) in intervals {
        match union.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => union.push((from, to)),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call whose points are that long after the one before.
    fn call(begin: u64, parts: [u64; 8]) -> TracedCall {
        let mut nanos = [begin; 9];
        for (place, part) in parts.iter().enumerate() {
            nanos[place + 1] = nanos[place] + part;
        }
        TracedCall { client: 1, server: 0, call: 0, nanos, handler_ended_nanos: None }
    }

    const PARTS: [u64; 8] = [10, 500, 10, 10, 60, 20, 500, 10];

    #[test]
    fn one_call_at_a_time_leaves_both_sides_idle_most_of_the_time() {
        let calls: Vec<_> = (0..100).map(|index| call(index * 1120, PARTS)).collect();
        let found = occupancy(&calls);
        assert!((found.server - 100.0 / 1120.0).abs() < 0.01, "{found:?}");
        assert!((found.client - 20.0 / 1120.0).abs() < 0.01, "{found:?}");
        assert_eq!(found.standstill.times, 0);
    }

    #[test]
    fn what_lies_between_two_measurements_is_nobodys_time() {
        let begin = |index: u64| index * 1120 + if index < 100 { 0 } else { 40_000_000 };
        let calls: Vec<_> = (0..200).map(|index| call(begin(index), PARTS)).collect();
        let found = occupancy(&calls);
        assert!((found.server - 100.0 / 1120.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn waiting_at_a_busy_server_is_its_work_and_not_the_way() {
        let mut waiting = PARTS;
        waiting[1] += 1000;
        let calls: Vec<_> =
            (0..100).map(|index| call(index * 100, if index == 0 { PARTS } else { waiting })).collect();
        assert!(occupancy(&calls).server > 0.8, "{:?}", occupancy(&calls));
    }

    #[test]
    fn a_server_that_does_not_run_stands_still_whether_in_a_handler_or_before() {
        let calls: Vec<_> = (0..1000)
            .map(|index| {
                let mut parts = PARTS;
                parts[1] += if index == 500 { 1_000_000 } else { 0 };
                parts[4] += if index == 600 { 2_000_000 } else { 0 };
                let late = if index > 500 { 1_000_000 } else { 0 } + if index > 600 { 2_000_000 } else { 0 };
                call(index * 1120 + late, parts)
            })
            .collect();
        let found = occupancy(&calls).standstill;
        assert_eq!((found.times, found.longest_nanos as u64 / 1000), (2, 2000));
        assert!((found.share - 3.0 / 4.12).abs() < 0.01, "{found:?}");
    }
}
