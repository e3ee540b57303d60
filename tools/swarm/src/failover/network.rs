//! Messages and answers of a history: lost, late, overtaken, and arriving when nobody waits for them.

use std::sync::atomic::Ordering;

use farcall_replica::{Handled, NoAnswer, Outgoing, RegistryAnswer, RegistryError, RegistryJob};

use super::world::{LEASE, Node, World};

/// A message to a backup, or its answer.
pub enum InFlight {
    To {
        primary: u64,
        message: Outgoing,
        due: u64,
    },
    From {
        primary: u64,
        token: u64,
        answer: Result<Vec<u8>, NoAnswer>,
    },
    /// One whose time was over before it arrived: nobody waits for its answer any more.
    Stray {
        message: Outgoing,
        due: u64,
    },
}

impl World {
    /// A message arrives, any of them: others are overtaken.
    pub(super) fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let place = self.random.index(self.network.len());
        let now = self.now.load(Ordering::Relaxed);
        if matches!(self.network[place], InFlight::To { due, .. } | InFlight::Stray { due, .. } if due > now)
        {
            return;
        }
        let is_lost = !self.is_healing && self.random.chance(0.01);
        match self.network.swap_remove(place) {
            InFlight::To { primary, message, .. } if is_lost || self.is_cut(primary, &message.backup) => {
                let (token, answer) = (message.token, Err(NoAnswer::Silent));
                self.network.push(InFlight::From { primary, token, answer });
                if self.random.chance(0.5) {
                    let due =
                        self.now.load(Ordering::Relaxed) + self.random.below(2 * LEASE.as_nanos() as u64);
                    self.network.push(InFlight::Stray { message, due });
                }
            }
            InFlight::To { primary, message, .. } => self.arrive(primary, &message),
            InFlight::Stray { message, .. } => {
                let node = self.node(&message.backup);
                if let Some(backup) = &mut node.backup {
                    backup.handle(&message.message);
                }
            }
            InFlight::From { primary, token, answer } => {
                let answer = if is_lost { Err(NoAnswer::Silent) } else { answer };
                let of = self.primaries.iter().find(|other| other.incarnation == primary);
                if let Some(of) = of {
                    of.mirror.answered(token, answer.as_deref().map_err(|why| *why));
                }
            }
        }
    }

    pub(super) fn is_cut(&self, primary: u64, backup: &str) -> bool {
        self.cut.contains(&(primary, backup.to_owned()))
    }

    pub(super) fn node(&mut self, at: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.at == at).expect("it was announced")
    }

    pub(super) fn arrive(&mut self, primary: u64, message: &Outgoing) {
        let token = message.token;
        let node = self.node(&message.backup);
        let answer = match &mut node.backup {
            None => Err(NoAnswer::Silent),
            Some(backup) => match backup.handle(&message.message) {
                Handled::Now(answer) => answer.map_err(NoAnswer::Refused),
                Handled::Later(number) => {
                    node.promised.insert(number, (primary, token));
                    return;
                }
            },
        };
        self.network.push(InFlight::From { primary, token, answer });
    }

    /// The registry does what one of the primaries has asked for. Now and then its answer is lost, and what
    /// was asked for is done, or is done later, or is not.
    pub(super) fn answer_registry(&mut self) {
        if !self.late_jobs.is_empty() && self.random.chance(0.05) {
            let job = self.late_jobs.swap_remove(self.random.index(self.late_jobs.len()));
            job.carry_out(&mut self.registry);
        }
        let Some(place) = self.any_primary() else { return };
        let Some(job) = self.primaries[place].asked.take() else { return };
        let is_lost = !self.is_healing && self.random.chance(0.05);
        let answer = if is_lost { self.lose(job) } else { job.carry_out(&mut self.registry) };
        self.primaries[place].mirror.registry_answered(answer);
    }

    /// What is asked for is done, or will be, or not; nobody is told which.
    pub(super) fn lose(&mut self, job: RegistryJob) -> RegistryAnswer {
        let (place, reason) = ("memory".to_owned(), "its answer was lost".to_owned());
        let error = RegistryError { place, reason };
        let answer = match &job {
            RegistryJob::Backups => RegistryAnswer::Backups(Err(error)),
            RegistryJob::Set { .. } => RegistryAnswer::Set(Err(error)),
        };
        match self.random.below(3) {
            0 => _ = job.carry_out(&mut self.registry),
            1 => self.late_jobs.push(job),
            _ => {}
        }
        answer
    }
}
