//! A scenario in words, for whoever has to find out why it fails.

use core::fmt;

use crate::operations::{Operation, Start};
use crate::scenario::Scenario;
use crate::trouble::TroubleKind;

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} hosts, {}", self.seed, self.hosts, self.transport)?;
        writeln!(f, "fabric: {}", self.fabric.overrides.join(" "))?;
        writeln!(f, "settings: {}", self.tuning.assignments.join(" "))?;
        for (rank, own) in self.tuning.of_hosts.iter().enumerate() {
            writeln!(f, "settings of {rank}: {}", own.join(" "))?;
        }
        writeln!(f, "packets until {:?}: {:?}", self.faults.over_at, self.faults.packets)?;
        for trouble in &self.faults.troubles {
            writeln!(f, "from {:?} until {:?}: {}", trouble.from, trouble.until, trouble.kind)?;
        }
        for farewell in &self.farewells {
            writeln!(f, "at {:?} {} parts with {}", farewell.at, farewell.from, farewell.to)?;
        }
        let is_made = |(_, operation): &(usize, &Operation)| operation.start != Start::Never;
        for (number, operation) in self.operations.iter().enumerate().filter(is_made) {
            writeln!(f, "call {number}: {operation}")?;
        }
        for (number, send) in self.mail.sends.iter().enumerate().filter(|(_, send)| !send.left_out) {
            writeln!(f, "message {number}: {send:?}")?;
        }
        for (number, receive) in
            self.mail.receives.iter().enumerate().filter(|(_, receive)| !receive.left_out)
        {
            writeln!(f, "receive {number}: {receive:?}")?;
        }
        for (number, round) in self.errands.rounds.iter().enumerate().filter(|(_, round)| !round.left_out) {
            writeln!(f, "collective {number}: {round:?}")?;
        }
        for (number, visit) in self.errands.visits.iter().enumerate().filter(|(_, visit)| !visit.left_out) {
            writeln!(f, "of the store, over {} shards, {number}: {visit:?}", self.errands.shards)?;
        }
        Ok(())
    }
}

impl fmt::Display for TroubleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition { from, to, one_way } => {
                let way = if *one_way { "" } else { ", nor the other way round" };
                write!(f, "nothing from {from:?} reaches {to:?}{way}")
            }
            Self::Loss { percent } => write!(f, "{percent} % of the packets are lost"),
            Self::Pause(hosts) => write!(f, "{hosts:?} stand still"),
            Self::Slow { hosts, factor } => write!(f, "{hosts:?} take {factor} times as long"),
            Self::Crash(hosts) => write!(f, "{hosts:?} are down"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, callee, request_bytes, answer_bytes, serving, completion, memory, within, .. } =
            self;
        match self.start {
            Start::At(at) => write!(f, "at {at:?} ")?,
            Start::InHandler => write!(f, "in a handler ")?,
            Start::Probe => write!(f, "as a probe ")?,
            Start::Never => write!(f, "left out ")?,
        }
        write!(
            f,
            "from {caller} to {callee}, {request_bytes} B {:?} for {answer_bytes} B {:?}",
            memory[0], memory[1]
        )?;
        write!(f, ", {serving:?}, {completion:?} within {within:?}")?;
        match self.cancel_after {
            Some(after) => write!(f, ", cancelled after {after:?}"),
            None => Ok(()),
        }
    }
}
