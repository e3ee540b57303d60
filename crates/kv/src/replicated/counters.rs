//! What a primary counts of its replicas, for others to look at.

use std::sync::{Mutex, PoisonError};

use farcall_driver::{Counter, CounterFile};
use farcall_replica::{MirrorStatus, ReplicaStage, ReplicaStatus};

use crate::durable::Histogram;

farcall_driver::declare_counters! {
    /// The replicas of one shard's log, as its primary sees them.
    pub struct ReplicaCounters {
        replicas_wanted: "replicas" => "Replicas that an acknowledged write must have now",
        replicas_whole: "replicas" => "Replicas that have everything now",
        behind_bytes: "bytes" => "What the slowest replica lacks now",
        replication_epoch: "epoch" => "The epoch now: rises with every primary and every change of replicas",
        lease_left: "us" => "What is left of the primary's lease now",
        replicas_failed: "replicas" => "Replicas that have failed",
        mirrored: "writes" => "Writes of the log that were sent to replicas",
        mirrored_bytes: "bytes" => "Bytes of them",
        round_trips: "messages" => "Messages to backups that were answered",
        round_trips_under_16us: "messages" => "Messages that a backup answered within 16 us, its flush included",
        round_trips_under_64us: "messages" => "Messages that a backup answered within 64 us",
        round_trips_under_256us: "messages" => "Messages that a backup answered within 256 us",
        round_trips_under_1ms: "messages" => "Messages that a backup answered within 1.024 ms",
        round_trips_under_4ms: "messages" => "Messages that a backup answered within 4.096 ms",
        round_trips_under_16ms: "messages" => "Messages that a backup answered within 16.384 ms",
        round_trips_under_64ms: "messages" => "Messages that a backup answered within 65.536 ms",
    }
}

/// The times that messages to backups took, in microseconds.
#[derive(Debug, Default)]
pub struct RoundTrips(Mutex<Histogram>);

impl RoundTrips {
    /// A message was answered after so many microseconds.
    pub fn add(&self, us: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(us);
    }

    fn read(&self) -> Histogram {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaCounters {
    /// The counters of a shard's replicas.
    pub fn of(shard: u32) -> Self {
        Self::new(CounterFile::process(), &format!("kv-replicas#{shard}"))
    }

    /// Brings them up to date.
    pub fn update(&self, status: &MirrorStatus, trips: &RoundTrips) {
        let MirrorStatus { record, replicas, lease_left, writes, written_bytes, failures, .. } = status;
        let is_whole = |replica: &&ReplicaStatus| replica.stage == ReplicaStage::Whole && replica.is_recorded;
        self.replicas_wanted.set(record.wanted.into());
        self.replicas_whole.set(replicas.iter().filter(is_whole).count() as u64);
        self.behind_bytes.set(replicas.iter().map(|replica| replica.behind_bytes).max().unwrap_or(0));
        self.replication_epoch.set(record.epoch);
        self.lease_left.set(u64::try_from(lease_left.as_micros()).unwrap_or(u64::MAX));
        self.replicas_failed.set(*failures);
        self.mirrored.set(*writes);
        self.mirrored_bytes.set(*written_bytes);
        let trips = trips.read();
        self.round_trips.set(trips.count());
        let times: [(Counter, u32); 7] = [
            (self.round_trips_under_16us, 4),
            (self.round_trips_under_64us, 6),
            (self.round_trips_under_256us, 8),
            (self.round_trips_under_1ms, 10),
            (self.round_trips_under_4ms, 12),
            (self.round_trips_under_16ms, 14),
            (self.round_trips_under_64ms, 16),
        ];
        times.into_iter().for_each(|(counter, bits)| counter.set(trips.under(bits)));
    }
}
