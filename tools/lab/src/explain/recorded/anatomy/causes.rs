//! The causes that may limit a traced measurement, each with what would be won without it.

use super::{Anatomy, System};
use crate::explain::trace::Standstill;

/// What may limit, and what is known about it.
pub(super) struct Cause {
    pub(super) rule: &'static str,
    pub(super) words: String,
    /// How many times the rate without it.
    pub(super) gain: f64,
    /// The part of a call's time, or of the calls in flight, that would be won; decides between equal gains.
    pub(super) share: f64,
    pub(super) next: String,
    /// Whether it is read from a counter of it, and not from a pattern that it may have left.
    pub(super) is_counted: bool,
}

/// From this share of a call's time on, waits for what is sent again explain silences.
const SILENT_MIN: f64 = 0.05;

/// A side that waited for a core for less than this part of its silences did not stand still for want of one.
const WAITED_MIN: f64 = 0.1;

/// All causes, whatever they gain.
pub(super) fn causes(cell: &Anatomy) -> Vec<Cause> {
    let system = cell.system();
    let occupancy = cell.trace.occupancy;
    let waited = cell
        .server_waited
        .map(|waited| format!(", and by the kernel's account waited {} for a core", percent(waited)));
    let still = standstill("standstill", "server", occupancy.standstill, &waited.unwrap_or_default());
    let client_still = standstill("client_standstill", "client", occupancy.client_standstill, "");
    // Where counters say that it is something else, a silence is no sign of a side that does not run.
    let contradicted = cell.silent >= SILENT_MIN;
    let has_run = cell.server_waited.is_some_and(|waited| waited < still.share * WAITED_MIN);
    let patterns = [(!contradicted && !has_run).then_some(still), (!contradicted).then_some(client_still)];
    let all = [
        loss(cell),
        waited_for_core(cell),
        handler(cell, system),
        server_work(cell, system),
        client_work(cell, system),
        way(cell, system),
        held_back(cell, system),
    ];
    all.into_iter().chain(patterns.into_iter().flatten()).collect()
}

/// Waits for what is sent again.
fn loss(cell: &Anatomy) -> Cause {
    Cause {
        rule: "loss",
        words: format!(
            "packets that are lost: {:.0} messages waited until they were asked for, {} of a call's time",
            cell.silences,
            percent(cell.silent)
        ),
        gain: 1.0 / (1.0 - cell.silent),
        share: cell.silent,
        next: "where they are lost: the drops of `farcall stat` and of the interface; with injected ones run it again with \
               `--set fault.drop_permille=0`"
            .to_owned(),
        is_counted: true,
    }
}

/// A server that was ready to run and had no core, by the kernel's account.
fn waited_for_core(cell: &Anatomy) -> Cause {
    let waited = cell.server_waited.unwrap_or(0.0).clamp(0.0, 0.99);
    Cause {
        rule: "core",
        words: format!("a core that is shared: by the kernel's account servers waited {} of the time for one", percent(waited)),
        gain: 1.0 / (1.0 - waited),
        share: waited,
        next: "the server alone on its core: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it again without"
            .to_owned(),
        is_counted: true,
    }
}

fn handler(cell: &Anatomy, system: System) -> Cause {
    let of_call = match micros(system.server_seconds) {
        whole if cell.handler_seconds() > system.server_seconds => {
            format!("it takes all of the {whole} for which a call needs the server")
        }
        whole => {
            format!(
                "it takes {} of the {whole} for which a call needs the server",
                micros(cell.handler_seconds())
            )
        }
    };
    // The one is a median and the other a mean, without the times in which a side did not run.
    let handler = cell.handler_seconds().min(system.server_seconds);
    Cause {
        is_counted: false,
        rule: "handler",
        words: format!("the handler: {of_call}"),
        gain: system.gain(system.without_server(handler)),
        share: handler / cell.total_seconds(),
        next: "a handler that does nothing: when the rate grows as predicted, look into it with a profiler; \
               with an injected one, run it again with `--handler 0ns`"
            .to_owned(),
    }
}

/// What the server does beside its handler.
fn server_work(cell: &Anatomy, system: System) -> Cause {
    let own = (system.server_seconds - cell.handler_seconds()).max(0.0);
    Cause {
        is_counted: false,
        rule: "server_work",
        words: format!(
            "the server's poll loop: beside the handler it works {} on a call, and has work {} of the time",
            micros(own),
            percent(cell.trace.occupancy.server)
        ),
        gain: system.gain(system.without_server(own)),
        share: own / cell.total_seconds(),
        next: "a second server: run it again with `--servers 2`, on a core of its own".to_owned(),
    }
}

fn client_work(cell: &Anatomy, system: System) -> Cause {
    let alone_seconds = system.alone_seconds - system.client_seconds;
    Cause {
        is_counted: false,
        rule: "client_work",
        words: format!(
            "the client: it works {} on a call, and has work {} of the time",
            micros(system.client_seconds),
            percent(cell.trace.occupancy.client)
        ),
        gain: system.gain(System { alone_seconds, client_seconds: 0.0, ..system }),
        share: system.client_seconds / cell.total_seconds(),
        next: "a second client: run it again with `--clients 2`, on a core of its own".to_owned(),
    }
}

fn way(cell: &Anatomy, system: System) -> Cause {
    let way = cell.way_seconds();
    Cause {
        is_counted: false,
        rule: "way",
        words: format!(
            "the way between the two: at least {} there and back of the {} of a call alone",
            micros(way),
            micros(system.alone_seconds)
        ),
        gain: system.gain(System { alone_seconds: system.alone_seconds - way, ..system }),
        share: way / cell.total_seconds(),
        next:
            "the distance alone: `farcall compare --limit` measures that of the cores; on a simulated fabric \
               run it again with another `--set fabric.link.propagation_ns`"
                .to_owned(),
    }
}

/// A side of the call that is ready to run and does not. `waited` is what else is known of it.
fn standstill(rule: &'static str, side: &str, standstill: Standstill, waited: &str) -> Cause {
    let Standstill { share, times, longest_nanos } = standstill;
    Cause {
        is_counted: false,
        rule,
        words: format!(
            "a {side} that does not run: it stood still {} of the traced time although it had work, {times} times, {} at the \
             longest{waited}; its core may be shared",
            percent(share),
            micros(longest_nanos / 1e9),
        ),
        gain: 1.0 / (1.0 - share).max(0.01),
        share,
        next: format!(
            "the {side} alone on its core: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it again without"
        ),
    }
}

/// Operations are held back either by the window, or by a ring that has no room for it.
fn held_back(cell: &Anatomy, system: System) -> Cause {
    let enough = System { in_flight: f64::INFINITY, ..system };
    if cell.is_short_of_room() {
        let asked = System { in_flight: cell.in_flight, ..system };
        return Cause {
            is_counted: true,
            rule: "ring_room",
            words: format!(
                "room in the rings: {:.0} % of messages had to wait for it, so that about {:.1} calls are on their way instead of {}",
                cell.waiting * 100.0,
                system.in_flight,
                cell.in_flight
            ),
            gain: system.gain(asked),
            share: 1.0 - system.in_flight / cell.in_flight,
            next: "larger rings: run it again with twice the `--set ring.ring_bytes`, on a simulated fabric `--set fabric.lanes.ring_bytes`"
                .to_owned(),
        };
    }
    Cause {
        is_counted: false,
        rule: "window",
        words: format!(
            "the window: with {} in flight the server has work {:.0} % of the time and the client {:.0} %",
            cell.in_flight,
            cell.trace.occupancy.server * 100.0,
            cell.trace.occupancy.client * 100.0
        ),
        gain: system.gain(enough),
        share: 0.0,
        next: format!("more in flight: run it again with `--in-flight {}`", cell.in_flight * 2.0),
    }
}

fn micros(seconds: f64) -> String {
    format!("{:.2} us", seconds * 1e6)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
