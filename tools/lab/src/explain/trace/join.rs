//! Records of both ends become calls.

use std::collections::HashMap;

use farcall::Clock;
use farcall::trace::event;

use super::HostTrace;

/// How many points the life of a call has.
pub const POINTS: usize = 9;

/// The points of a call's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The caller made it.
    Submitted,
    /// The caller's driver got the request.
    RequestTransmitted,
    /// A poll of the server found the last of the request.
    RequestReceived,
    /// The server's transport handed it on.
    Dispatched,
    /// The handler began.
    HandlerBegun,
    /// The answer was given.
    Replied,
    /// The server's driver got the response.
    ResponseTransmitted,
    /// A poll of the caller found the last of the response.
    ResponseReceived,
    /// The outcome went to the caller.
    Completed,
}

/// A call of which every point is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// The caller's rank.
    pub client: u32,
    /// The server's rank.
    pub server: u32,
    /// The caller's number for it.
    pub call: u32,
    /// When each point was reached, in nanoseconds.
    pub nanos: [u64; POINTS],
    /// When the handler returned, if that is known.
    pub handler_ended_nanos: Option<u64>,
}

impl TracedCall {
    /// When a point was reached.
    pub fn at(&self, point: Point) -> u64 {
        self.nanos[point as usize]
    }

    /// From the first point to the last.
    pub fn total_nanos(&self) -> u64 {
        self.at(Point::Completed) - self.at(Point::Submitted)
    }
}

/// What became of some traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The calls, in the order in which each client completed them.
    pub calls: Vec<TracedCall>,
    /// Calls that completed but lack a point, mostly because one end's ring was full.
    pub incomplete: u64,
    /// Calls whose points are not in order: the ends' clocks disagree.
    pub disordered: u64,
}

impl Joined {
    /// Adds the calls of another measurement.
    pub fn extend(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.incomplete += other.incomplete;
        self.disordered += other.disordered;
    }
}

/// The points that one end knows of a call, as ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    at: [Option<u64>; POINTS],
    handler_ended: Option<u64>,
}

impl Ticks {
    fn first(&mut self, point: Point, ticks: u64) {
        self.at[point as usize].get_or_insert(ticks);
    }

    fn last(&mut self, point: Point, ticks: u64) {
        self.at[point as usize] = Some(ticks);
    }

    fn knows(&self, point: Point) -> bool {
        self.at[point as usize].is_some()
    }
}

/// Puts the records of all ends together. `clock` reads their ticks.
pub fn join(traces: &[HostTrace], clock: &Clock) -> Joined {
    let mut served: HashMap<(u32, u32, u32), Ticks> = HashMap::new();
    for trace in traces {
        serve(trace, &mut served);
    }
    let mut joined = Joined::default();
    for trace in traces {
        for own in completed(trace) {
            let there = served.get(&(trace.rank, own.server, own.wire));
            let points = there.and_then(|there| complete(&own.ticks, there));
            let Some(points) = points else {
                joined.incomplete += 1;
                continue;
            };
            if !points.is_sorted() {
                joined.disordered += 1;
                continue;
            }
            let nanos = |ticks: u64| clock.time_of(ticks).as_nanos();
            joined.calls.push(TracedCall {
                client: trace.rank,
                server: own.server,
                call: own.call,
                nanos: points.map(nanos),
                handler_ended_nanos: there.and_then(|there| there.handler_ended).map(nanos),
            });
        }
    }
    joined
}

/// Every point from the end that knows it.
fn complete(own: &Ticks, there: &Ticks) -> Option<[u64; POINTS]> {
    let mut points = [0; POINTS];
    for (place, point) in points.iter_mut().enumerate() {
        *point = own.at[place].or(there.at[place])?;
    }
    Some(points)
}

fn peer_of(trace: &HostTrace) -> HashMap<u16, u32> {
    trace.peers.iter().copied().collect()
}

/// The requests that an end served, by caller, server and number on the wire.
fn serve(trace: &HostTrace, served: &mut HashMap<(u32, u32, u32), Ticks>) {
    let peers = peer_of(trace);
    for &(ticks, operation, event, session) in &trace.records {
        let Some(&client) = peers.get(&session) else { continue };
        let is_of_server = (event::REQUEST_RECEIVED..=event::RESPONSE_TRANSMITTED).contains(&event);
        if !is_of_server {
            continue;
        }
        let call = served.entry((client, trace.rank, operation)).or_default();
        match event {
            // Parts of a long request arrive one by one; what comes after its dispatch was sent twice.
            event::REQUEST_RECEIVED if !call.knows(Point::Dispatched) => {
                call.last(Point::RequestReceived, ticks);
            }
            event::DISPATCHED => call.first(Point::Dispatched, ticks),
            event::HANDLER_BEGUN => call.first(Point::HandlerBegun, ticks),
            event::REPLIED => call.first(Point::Replied, ticks),
            event::HANDLER_ENDED => call.handler_ended = Some(ticks),
            event::RESPONSE_TRANSMITTED => call.first(Point::ResponseTransmitted, ticks),
            _ => {}
        }
    }
}

/// A call that completed at its caller.
struct Own {
    server: u32,
    call: u32,
    wire: u32,
    ticks: Ticks,
}

/// The calls that an end made and whose first and last point it knows.
fn completed(trace: &HostTrace) -> Vec<Own> {
    let peers = peer_of(trace);
    let mut open: HashMap<(u16, u32), (u32, Ticks)> = HashMap::new();
    let mut names: HashMap<(u16, u32), u32> = HashMap::new();
    let mut completed = Vec::new();
    for &(ticks, operation, event, session) in &trace.records {
        match event {
            event::SUBMITTED => {
                let mut points = Ticks::default();
                points.first(Point::Submitted, ticks);
                open.insert((session, operation), (operation, points));
            }
            event::NAMED => {
                let call = ticks as u32;
                names.insert((session, operation), call);
                if let Some((wire, _)) = open.get_mut(&(session, call)) {
                    *wire = operation;
                }
            }
            event::REQUEST_TRANSMITTED | event::RESPONSE_RECEIVED => {
                let call = names.get(&(session, operation)).copied().unwrap_or(operation);
                let Some((_, points)) = open.get_mut(&(session, call)) else { continue };
                match event {
                    event::REQUEST_TRANSMITTED => points.first(Point::RequestTransmitted, ticks),
                    _ => points.last(Point::ResponseReceived, ticks),
                }
            }
            event::COMPLETED => {
                let Some((wire, mut points)) = open.remove(&(session, operation)) else { continue };
                let Some(&server) = peers.get(&session) else { continue };
                points.last(Point::Completed, ticks);
                names.remove(&(session, wire));
                completed.push(Own { server, call: operation, wire, ticks: points });
            }
            _ => {}
        }
    }
    completed
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn clock() -> Clock {
        Clock::simulated(Arc::default())
    }

    fn host(rank: u32, peer: u32, records: &[(u64, u32, u16)]) -> HostTrace {
        let records = records.iter().map(|&(ticks, call, event)| (ticks, call, event, 3)).collect();
        HostTrace { rank, overwritten: 0, peers: vec![(3, peer)], records }
    }

    const SERVED: [(u64, u32, u16); 6] = [
        (30, 9, event::REQUEST_RECEIVED),
        (40, 9, event::DISPATCHED),
        (50, 9, event::HANDLER_BEGUN),
        (60, 9, event::REPLIED),
        (65, 9, event::HANDLER_ENDED),
        (70, 9, event::RESPONSE_TRANSMITTED),
    ];

    #[test]
    fn a_call_has_its_points_from_both_ends_whatever_it_is_called_on_the_wire() {
        let caller = [
            (10, 7, event::SUBMITTED),
            (7, 9, event::NAMED),
            (20, 9, event::REQUEST_TRANSMITTED),
            (80, 9, event::RESPONSE_RECEIVED),
            (90, 7, event::COMPLETED),
        ];
        let joined = join(&[host(0, 1, &SERVED), host(1, 0, &caller)], &clock());
        let [call] = joined.calls[..] else { panic!("{joined:?}") };
        assert_eq!(call.nanos, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!((call.client, call.server, call.handler_ended_nanos), (1, 0, Some(65)));
    }

    #[test]
    fn what_lacks_a_point_or_runs_backwards_is_counted() {
        let caller = |transmitted| {
            [
                (10, 9, event::SUBMITTED),
                (transmitted, 9, event::REQUEST_TRANSMITTED),
                (80, 9, event::RESPONSE_RECEIVED),
                (90, 9, event::COMPLETED),
            ]
        };
        let incomplete = join(&[host(0, 1, &SERVED[1..]), host(1, 0, &caller(20))], &clock());
        assert_eq!((incomplete.calls.len(), incomplete.incomplete, incomplete.disordered), (0, 1, 0));
        let disordered = join(&[host(0, 1, &SERVED), host(1, 0, &caller(35))], &clock());
        assert_eq!((disordered.calls.len(), disordered.incomplete, disordered.disordered), (0, 0, 1));
    }

    #[test]
    fn a_message_is_received_with_its_last_part_and_transmitted_with_its_first() {
        let mut server = SERVED.to_vec();
        server.insert(1, (35, 9, event::REQUEST_RECEIVED));
        server.push((75, 9, event::RESPONSE_TRANSMITTED));
        server.push((99, 9, event::REQUEST_RECEIVED));
        let caller = [
            (10, 9, event::SUBMITTED),
            (20, 9, event::REQUEST_TRANSMITTED),
            (25, 9, event::REQUEST_TRANSMITTED),
            (80, 9, event::RESPONSE_RECEIVED),
            (85, 9, event::RESPONSE_RECEIVED),
            (90, 9, event::COMPLETED),
        ];
        let joined = join(&[host(0, 1, &server), host(1, 0, &caller)], &clock());
        assert_eq!(joined.calls[0].nanos, [10, 20, 35, 40, 50, 60, 70, 85, 90]);
    }
}
