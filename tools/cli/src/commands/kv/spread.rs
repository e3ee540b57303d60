//! Shards that nobody serves any more: those that live take over what they had, each a part, if they were
//! started so.

use std::fmt::Write;
use std::thread;

use farcall::said::{Kind, Level};
use farcall_kv::placement::{SlotMap, Spread};
use farcall_kv::replicated::{SpreadError, SpreadOutcome, WayToBackups, watch};
use serde_json::{Value, json};

use crate::arguments::kv::KvServe;
use crate::failure::Failure;
use crate::output::Report;

/// What is said of shards that others have taken over.
static SPREADS: Kind = Kind::new(Level::Warning, "shards that nobody serves any more");

/// Refuses what has no others.
pub fn check(serve: &KvServe) -> Result<(), Failure> {
    if serve.spread.is_none() || serve.shards > 1 {
        return Ok(());
    }
    Err(Failure::Usage(
        "--spread is for a store of several shards: a process that waits takes over the only one".to_owned(),
    ))
}

/// Watches the other shards, in a thread of its own, if this process was started so.
pub fn start(serve: &KvServe, way: &WayToBackups) -> Result<(), Failure> {
    let Some(after) = serve.spread else { return Ok(()) };
    let (way, of) = (way.clone(), (serve.shard as u32, serve.shards as u32));
    let watching = move || watch(&way, of, after, |shard, outcome| SPREADS.say(sentence(shard, outcome)));
    thread::Builder::new().name("farcall-spread".to_owned()).spawn(watching).map_err(Failure::run)?;
    Ok(())
}

fn sentence(shard: u32, outcome: Result<SpreadOutcome, SpreadError>) -> String {
    match outcome {
        Ok(SpreadOutcome { parts, took }) => {
            let mut said = format!("nobody serves shard {shard} any more: ");
            for (number, part) in parts.iter().enumerate() {
                let separator = if number == 0 { "" } else { ", " };
                write!(said, "{separator}shard {} has its slots {}", part.to, part.range)
                    .expect("text takes any length");
            }
            write!(said, "; after {:.3} s", took.as_secs_f64()).expect("text takes any length");
            said
        }
        Err(error) => format!("nobody serves shard {shard} any more, nor can others take it over: {error}"),
    }
}

/// Shows which shards are taken over.
pub fn show(map: &SlotMap, report: &mut Report) -> Result<(), Failure> {
    for Spread { from, plan, .. } in map.spreads() {
        let Some(plan) = plan else {
            report.line(format_args!("nobody serves shard {from}: others are about to take it over"))?;
            continue;
        };
        for part in &plan.parts {
            let (range, to) = (part.range, part.to);
            match plan.ready.contains(&to) {
                true => report
                    .line(format_args!("slots {range} of shard {from} are at shard {to}, which waits"))?,
                false => report
                    .line(format_args!("slots {range} of shard {from} are on their way to shard {to}"))?,
            }
        }
    }
    Ok(())
}

/// What is in progress, for records.
pub fn recorded(map: &SlotMap) -> Value {
    let spread = |it: &Spread| {
        let parts = it.parts().iter().map(|part| json!([part.range.first, part.range.last, part.to]));
        json!({ "spread": it.number, "from": it.from, "parts": parts.collect::<Vec<_>>() })
    };
    map.spreads().iter().map(spread).collect()
}
