//! What limits a stream of tagged messages, by how idle both sides were and by what their counters refused.
//!
//! One way there is no closed loop: the stream goes as fast as the slower side, X = min(1 / Ds, 1 / Dr), as
//! long as nothing between the two is full. A side that is idle for a share of the time could do one over the
//! rest times as much (utilisation law); so what holds an idle side back can gain no more than the idler of
//! both allows, and what a side does no more than the other side allows.

use super::Stream;
use crate::explain::recorded::causes::experiment::SPAN_MAX;

/// A counter that counts less often than this share of the messages refuses too little to matter.
const REFUSED_MIN: f64 = 0.01;

/// From this share of the messages on most of them came before their receive.
const UNEXPECTED_MIN: f64 = 0.5;

/// A side that has work for this share of the time is what the other one waits for.
const FULL_FROM: f64 = 0.8;

/// A cause that gains less is not named.
const GAIN_MIN: f64 = 1.05;

/// No gain is more than that: what is left always takes something. One that is as much is a bound of this
/// page and no figure.
const GAIN_MAX: f64 = 100.0;

/// A callback that is this part of what the receiver does is what it does: it goes first.
const CALLBACK_MIN: f64 = 0.5;

/// What a change gains at least, as a power of what it may gain, and what chance may add.
const LEAST_POWER: f64 = 0.45;
const MARGIN: f64 = 0.1;

/// A cause of a stream.
pub(super) struct Cause {
    pub(super) rule: &'static str,
    pub(super) words: String,
    /// How many times the rate without it, at most.
    pub(super) gain: f64,
    pub(super) next: String,
    /// Whether it is read from a counter of it.
    is_counted: bool,
    /// Whether its own time accounts for what another one is said to take.
    is_stated: bool,
}

impl Cause {
    /// The interval of the rate's ratio if the cause is right and the next experiment takes all of it away.
    pub(super) fn predicted(&self) -> (f64, f64) {
        (self.gain.powf(LEAST_POWER), self.gain * (1.0 + MARGIN))
    }

    /// That interval in words; where its ends are far apart there is no number.
    pub(super) fn predicted_words(&self) -> String {
        match self.predicted() {
            (low, high) if high / low <= SPAN_MAX => format!("{low:.2} to {high:.2} times the rate"),
            (low, _) if self.has_gain() || self.is_stated => {
                format!("by how much cannot be said, at least {low:.2} times the rate")
            }
            _ => "faster, by how much cannot be predicted,".to_owned(),
        }
    }

    /// Whether the gain is a figure, and not the bound of all.
    pub(super) fn has_gain(&self) -> bool {
        self.gain < GAIN_MAX
    }

    /// What would be won, in words.
    pub(super) fn won(&self) -> String {
        match self.has_gain() {
            true => format!("without it about {:.2} times the rate", self.gain),
            false => "how much faster it would be without it cannot be said".to_owned(),
        }
    }
}

/// The causes, the likeliest first; none where idleness was not watched.
pub(super) fn rank(stream: &Stream) -> Vec<Cause> {
    let (Some(sender), Some(receiver)) = (stream.sender.idle, stream.receiver.idle) else {
        return Vec::new();
    };
    let sides = Sides { sender: stream.sender.works(sender), receiver: stream.receiver.works(receiver) };
    let all = [
        lost(stream),
        core(stream),
        window(stream, sides),
        room(stream, sides),
        callback(stream, sides),
        unexpected(stream, sides),
        receiver_work(sides),
        sender_work(sides),
        in_flight(stream, sides),
    ];
    let mut causes: Vec<_> = all.into_iter().flatten().filter(|cause| cause.gain >= GAIN_MIN).collect();
    // Of equal gains what is counted goes before what is inferred, and the order above before that.
    causes.sort_by(|a, b| {
        let steps = |cause: &Cause| (cause.gain.ln() * 20.0).round();
        let by_gain = || steps(b).total_cmp(&steps(a)).then(b.is_counted.cmp(&a.is_counted));
        b.is_stated.cmp(&a.is_stated).then_with(by_gain)
    });
    causes
}

/// The shares of the time for which the sides have work.
#[derive(Clone, Copy, Debug)]
struct Sides {
    sender: f64,
    receiver: f64,
}

impl Sides {
    /// How many times the rate if nothing held an idle side back.
    fn ceiling(self) -> f64 {
        gain_of(self.sender.max(self.receiver))
    }
}

fn gain_of(busy: f64) -> f64 {
    (1.0 / busy.max(1.0 / GAIN_MAX)).max(1.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A part of the messages that a counter of the sender counted; `None` where there are too few of them.
fn refused(stream: &Stream, count: f64) -> Option<f64> {
    let share = count / stream.messages;
    (share >= REFUSED_MIN).then_some(share.min(1.0))
}

fn lost(stream: &Stream) -> Option<Cause> {
    let (waits, nanos) = (stream.sender.counted("silences"), stream.sender.counted("silence_time"));
    // While one waits for what is sent again the others of the window go on.
    let share = (nanos / stream.seconds / 1e9 / stream.in_flight.max(1) as f64).min(0.99);
    (waits > 0.0).then(|| Cause {
        rule: "loss",
        words: format!(
            "packets that are lost: {waits:.0} messages waited until they were asked for, {} of the time of a place in flight",
            percent(share)
        ),
        gain: gain_of(1.0 - share),
        next: "where they are lost: the drops of `farcall stat` and of the interface; with injected ones run it again with \
               `--set fault.drop_permille=0`"
            .to_owned(),
        is_counted: true,
        is_stated: false,
    })
}

fn core(stream: &Stream) -> Option<Cause> {
    let waited = stream.sender.waited.into_iter().chain(stream.receiver.waited).reduce(f64::max)?;
    Some(Cause {
        rule: "core",
        words: format!("a core that is shared: by the kernel's account a side waited {} of the time for one", percent(waited)),
        gain: gain_of(1.0 - waited.min(0.99)),
        next: "each side alone on its core: see what else runs there (`ps -eLo psr,pcpu,comm`), and run it again without"
            .to_owned(),
        is_counted: true,
        is_stated: false,
    })
}

fn window(stream: &Stream, sides: Sides) -> Option<Cause> {
    let share = refused(stream, stream.sender.counted("window_full"))?;
    Some(Cause {
        rule: "message_window",
        words: format!(
            "the receiver's window, `endpoint.unexpected_bytes`: {} of the messages found it full",
            percent(share)
        ),
        gain: sides.ceiling(),
        next: "a larger window: run it again with sixteen times the `--set endpoint.unexpected_bytes`"
            .to_owned(),
        is_counted: true,
        is_stated: false,
    })
}

fn room(stream: &Stream, sides: Sides) -> Option<Cause> {
    // What waits for the window is counted with what waits for room.
    let (window, blocks) = (stream.sender.counted("window_full"), stream.sender.counted("blocks_full"));
    let count = if window + blocks > 0.0 { 0.0 } else { stream.sender.counted("waited_for_room") };
    let (rule, share, what, next) = match refused(stream, count) {
        Some(share) => ("ring_room", share, "room in the ring", "ring.ring_bytes"),
        None => {
            ("block_memory", refused(stream, blocks)?, "block memory for long payloads", "shm.block_bytes")
        }
    };
    Some(Cause {
        rule,
        words: format!("{what}: {} of the messages had to wait for it", percent(share)),
        gain: sides.ceiling(),
        next: format!("more of it: run it again with sixteen times the `--set {next}`"),
        is_counted: true,
        is_stated: false,
    })
}

/// The least time of a callback is without waiting for other callbacks of the same poll.
fn callback(stream: &Stream, sides: Sides) -> Option<Cause> {
    let nanos = stream.trace.part("complete").least;
    let per_second = stream.per_second / stream.threads / stream.receiver.runs();
    let share = (per_second * nanos / 1e9).min(sides.receiver);
    let injected =
        stream.handler.as_ref().map_or_else(String::new, |time| format!(", with `--handler {time}`"));
    // What is nearly all of a side's work gains as much as the side: it is named before it.
    let without = (sides.receiver / (sides.receiver - share).max(f64::MIN_POSITIVE)).min(GAIN_MAX);
    (share > 0.0 && sides.receiver >= FULL_FROM).then(|| Cause {
        rule: "callback",
        words: format!(
            "what the receiver does with each message, in its callback or handler: {:.2} us at the least{injected}, {} of its time",
            nanos / 1e3,
            percent(share)
        ),
        gain: without.min(gain_of(sides.sender)),
        next: match &stream.handler {
            Some(_) => "a callback that does nothing: run it again with `--handler 0ns`".to_owned(),
            None => "a callback that does nothing: look into it with a profiler".to_owned(),
        },
        is_counted: true,
        is_stated: share >= CALLBACK_MIN * sides.receiver,
    })
}

fn unexpected(stream: &Stream, sides: Sides) -> Option<Cause> {
    let share = stream.receiver.counted("unexpected") / stream.messages;
    (share >= UNEXPECTED_MIN && sides.receiver >= FULL_FROM).then(|| Cause {
        rule: "posted_late",
        words: format!(
            "receives that are posted late: {} of the messages came before theirs, and were kept and copied once more",
            percent(share.min(1.0))
        ),
        gain: gain_of(sides.sender),
        next: "receives that are posted again at once: run it again with `--mode callbacks-resubmit`".to_owned(),
        is_counted: true,
        is_stated: false,
    })
}

fn receiver_work(sides: Sides) -> Option<Cause> {
    (sides.receiver >= FULL_FROM).then(|| Cause {
        rule: "receiver",
        words: format!(
            "the receiver is the slower side: it has work {} of the time, the sender {}",
            percent(sides.receiver),
            percent(sides.sender)
        ),
        gain: gain_of(sides.sender),
        next: "a receiver that does less: run it again with `--mode handler`, which matches nothing"
            .to_owned(),
        is_counted: false,
        is_stated: false,
    })
}

fn sender_work(sides: Sides) -> Option<Cause> {
    (sides.sender >= FULL_FROM).then(|| Cause {
        rule: "sender",
        words: format!(
            "the sender is the slower side: it has work {} of the time, the receiver {}",
            percent(sides.sender),
            percent(sides.receiver)
        ),
        gain: gain_of(sides.receiver),
        next: "several senders: run it again with `--threads 2`, on cores of their own".to_owned(),
        is_counted: false,
        is_stated: false,
    })
}

fn in_flight(stream: &Stream, sides: Sides) -> Option<Cause> {
    let places = stream.in_flight;
    Some(Cause {
        rule: "in_flight",
        words: format!(
            "too little in flight: with {places} the sender has work {} of the time and the receiver {}",
            percent(sides.sender),
            percent(sides.receiver)
        ),
        gain: sides.ceiling(),
        next: format!("more in flight: run it again with `--in-flight {}`", 2 * places),
        is_counted: false,
        is_stated: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The first cause of a second of messages over which the sides were idle so long.
    fn first(idle: (f64, f64), sender: Value, receiver: Value, complete_ns: f64) -> Option<&'static str> {
        ranked(idle, sender, receiver, complete_ns).first().map(|cause| cause.rule)
    }

    fn ranked(idle: (f64, f64), sender: Value, receiver: Value, complete_ns: f64) -> Vec<Cause> {
        let part = |nanos: f64| json!({"p50": nanos, "mean": nanos, "typical": nanos, "slow": nanos, "least": nanos});
        let figure = json!({
            "schema": "", "command": "msgrate", "test": "callbacks", "transport": "ring+shm", "name": "c.8x16.rate",
            "value": 1e6, "unit": "1/s", "statistic": "over_wall_clock", "samples": 1_000_000, "in_flight": 16,
            "threads": 1, "seconds": 1.0, "mode": "callbacks",
            "message_trace": {
                "messages": 25_000, "incomplete": 0, "disordered": 0, "total": part(900.0 + complete_ns),
                "parts": {"submit": part(300.0), "on_its_way": part(400.0), "match": part(200.0), "complete": part(complete_ns)},
            },
            "sender": {"counters": sender, "idle": idle.0, "waited": 0.0},
            "receiver": {"counters": receiver, "idle": idle.1, "waited": 0.0},
        });
        let figure = serde_json::from_value(figure).expect("a figure");
        let stream = Stream::of(&figure, Some("2us".to_owned())).expect("a traced stream");
        rank(&stream)
    }

    #[test]
    fn the_slower_side_is_named() {
        assert_eq!(first((0.6, 0.02), json!({}), json!({}), 10.0), Some("receiver"));
        assert_eq!(first((0.02, 0.6), json!({}), json!({}), 10.0), Some("sender"));
        assert_eq!(first((0.6, 0.02), json!({}), json!({}), 900.0), Some("callback"));
        // Others had the core for a while: the callback is all that the receiver does.
        assert_eq!(first((0.999, 0.15), json!({}), json!({}), 850.0), Some("callback"));
        let late = json!({"ring+shm#0.unexpected": 900_000});
        assert_eq!(first((0.6, 0.02), json!({}), late, 10.0), Some("posted_late"));
    }

    #[test]
    fn what_is_full_is_named_where_both_sides_are_idle() {
        let full = json!({"ring+shm#0.window_full": 400_000, "ring+shm#0.waited_for_room": 400_000});
        assert_eq!(first((0.5, 0.5), full.clone(), json!({}), 10.0), Some("message_window"));
        let room = json!({"ring+shm#0.waited_for_room": 400_000});
        assert_eq!(first((0.5, 0.5), room, json!({}), 10.0), Some("ring_room"));
        assert_eq!(first((0.5, 0.5), json!({}), json!({}), 10.0), Some("in_flight"));
        // A receiver that always has work is slower than any window.
        assert_eq!(first((0.5, 0.0), full, json!({}), 10.0), Some("receiver"));
    }

    #[test]
    fn a_callback_whose_time_is_known_goes_before_the_side_that_it_is_of() {
        // The sender never has work of its own: what the receiver would gain is no figure.
        let causes = ranked((1.0, 0.19), json!({}), json!({}), 650.0);
        assert_eq!(
            causes.iter().map(|cause| cause.rule).take(2).collect::<Vec<_>>(),
            ["callback", "receiver"]
        );
        assert!(causes[0].words.contains("with `--handler 2us`"), "{}", causes[0].words);
        assert!(causes[0].next.contains("`--handler 0ns`"), "{}", causes[0].next);
        assert!(causes[0].predicted_words().contains(" times the rate"), "{}", causes[0].predicted_words());
        assert!(causes[1].won().contains("cannot be said"), "{}", causes[1].won());
        assert!(
            causes[1].predicted_words().contains("cannot be predicted"),
            "{}",
            causes[1].predicted_words()
        );
    }

    #[test]
    fn two_busy_sides_limit_each_other() {
        assert_eq!(first((0.01, 0.02), json!({}), json!({}), 10.0), None);
    }
}
