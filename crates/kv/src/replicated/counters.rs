//! What a primary counts of its replicas, for others to look at.

use core::time::Duration;
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
        round_trip_time: "ns" => "How long backups took to answer them, all together",
        takeover_wait: "ns" => "How long this process waited until it could be the primary",
        takeover_fetch: "ns" => "How long it took to read a replica then; 0 if the log was here",
        takeover_replay: "ns" => "How long it took to open the log and to do again what it says",
        takeover_copy: "ns" => "How long it took from then until all replicas had everything, to 0.1 s; 0 until then",
        round_trips_under_16us: "messages" => "Messages that a backup answered within 16 us, its flush included",
        round_trips_under_64us: "messages" => "Messages that a backup answered within 64 us",
        round_trips_under_256us: "messages" => "Messages that a backup answered within 256 us",
        round_trips_under_1ms: "messages" => "Messages that a backup answered within 1.024 ms",
        round_trips_under_4ms: "messages" => "Messages that a backup answered within 4.096 ms",
        round_trips_under_16ms: "messages" => "Messages that a backup answered within 16.384 ms",
        round_trips_under_64ms: "messages" => "Messages that a backup answered within 65.536 ms",
    }
}

/// Where the time went until a process was the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeoverTimes {
    /// Waiting until no other process was.
    pub wait: Duration,
    /// Reading a replica, as often as that took; none where the log was here.
    pub fetch: Duration,
    /// Opening the log, and doing again what it says.
    pub replay: Duration,
}

/// The times that messages to backups took: by microseconds, and all together.
#[derive(Debug, Default)]
pub struct RoundTrips(Mutex<(Histogram, Duration)>);

impl RoundTrips {
    /// A message was answered after so long.
    pub fn add(&self, time: Duration) {
        let mut trips = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trips.0.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        trips.1 += time;
    }

    fn read(&self) -> (Histogram, Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaCounters {
    /// The counters of a shard's replicas.
    pub fn of(shard: u32, takeover: &TakeoverTimes) -> Self {
        let counters = Self::new(CounterFile::process(), &format!("kv-replicas#{shard}"));
        counters.takeover_wait.set(nanos(takeover.wait));
        counters.takeover_fetch.set(nanos(takeover.fetch));
        counters.takeover_replay.set(nanos(takeover.replay));
        counters
    }

    /// All replicas have everything for the first time, so long after the process became the primary.
    pub fn copied(&self, time: Duration) {
        self.takeover_copy.set(nanos(time));
    }

    /// Brings them up to date; says whether all replicas have everything.
    pub fn update(&self, status: &MirrorStatus, trips: &RoundTrips) -> bool {
        let MirrorStatus { record, replicas, lease_left, writes, written_bytes, failures, .. } = status;
        let is_whole = |replica: &&ReplicaStatus| replica.stage == ReplicaStage::Whole && replica.is_recorded;
        self.replicas_wanted.set(record.wanted.into());
        let whole = replicas.iter().filter(is_whole).count() as u64;
        self.replicas_whole.set(whole);
        self.behind_bytes.set(replicas.iter().map(|replica| replica.behind_bytes).max().unwrap_or(0));
        self.replication_epoch.set(record.epoch);
        self.lease_left.set(u64::try_from(lease_left.as_micros()).unwrap_or(u64::MAX));
        self.replicas_failed.set(*failures);
        self.mirrored.set(*writes);
        self.mirrored_bytes.set(*written_bytes);
        let (trips, time) = trips.read();
        self.round_trip_time.set(nanos(time));
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
        whole >= u64::from(record.wanted)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
