//! A thread that asks a registry: what asks does not wait.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::Registry;
use crate::mirror::{RegistryAnswer, RegistryJob};

/// A registry that is asked in a thread of its own.
#[derive(Debug)]
pub struct RegistryWorker {
    jobs: Sender<RegistryJob>,
    answers: Receiver<RegistryAnswer>,
}

impl RegistryWorker {
    /// Starts the thread, which ends with this.
    pub fn start(mut registry: Box<dyn Registry>) -> std::io::Result<Self> {
        let (jobs, asked) = channel::<RegistryJob>();
        let (answer, answers) = channel();
        thread::Builder::new().name("farcall-registry".to_owned()).spawn(move || {
            while let Ok(job) = asked.recv() {
                if answer.send(job.carry_out(&mut *registry)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, answers })
    }

    /// Begins a job.
    pub fn begin(&self, job: RegistryJob) {
        // The thread ends with the channel only.
        let _ = self.jobs.send(job);
    }

    /// The next answer. Never waits.
    pub fn poll(&self) -> Option<RegistryAnswer> {
        self.answers.try_recv().ok()
    }
}
