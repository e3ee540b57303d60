//! What a log counts, for others to look at.

use core::time::Duration;

use farcall_driver::CounterFile;

use super::Recovered;
use super::statistics::{Histogram, LogStatistics};

farcall_driver::declare_counters! {
    /// The log of one shard's durable tables: its groups, and how long they took to be safe.
    pub struct LogCounters {
        groups: "groups" => "Groups of records that became durable",
        records: "records" => "Records in them",
        written_bytes: "bytes" => "Bytes that were written for them",
        segments: "segments" => "Segments that were opened",
        cleaned: "segments" => "Segments that were cleaned",
        survivors: "records" => "Records that were appended again by it",
        groups_under_2: "groups" => "Groups of one record",
        groups_under_4: "groups" => "Groups of less than 4 records",
        groups_under_16: "groups" => "Groups of less than 16 records",
        groups_under_64: "groups" => "Groups of less than 64 records",
        groups_under_256: "groups" => "Groups of less than 256 records",
        flush_time: "ns" => "How long groups took to be durable, all together",
        opening_time: "ns" => "How long the log took to be read and replayed when it was opened",
        flushes_under_16us: "groups" => "Groups that were durable within 16 us: on the disk, and at all replicas",
        flushes_under_64us: "groups" => "Groups that were durable within 64 us",
        flushes_under_256us: "groups" => "Groups that were durable within 256 us",
        flushes_under_1ms: "groups" => "Groups that were durable within 1.024 ms",
        flushes_under_4ms: "groups" => "Groups that were durable within 4.096 ms",
        flushes_under_16ms: "groups" => "Groups that were durable within 16.384 ms",
        flushes_under_64ms: "groups" => "Groups that were durable within 65.536 ms",
    }
}

impl LogCounters {
    /// The counters of a shard's log.
    pub fn of(shard: u32, recovered: &Recovered) -> Self {
        let counters = Self::new(CounterFile::process(), &format!("kv-log#{shard}"));
        counters.opening_time.set(nanos(recovered.took));
        counters
    }

    /// Brings them up to date.
    pub fn update(&self, statistics: &LogStatistics, (cleaned, survivors): (u64, u64)) {
        let LogStatistics { groups, records, bytes, segments, group_records, flush_us, flush_time, .. } =
            statistics;
        self.flush_time.set(nanos(*flush_time));
        self.groups.set(*groups);
        self.records.set(*records);
        self.written_bytes.set(*bytes);
        self.segments.set(*segments);
        self.cleaned.set(cleaned);
        self.survivors.set(survivors);
        let sizes = [
            (self.groups_under_2, 1),
            (self.groups_under_4, 2),
            (self.groups_under_16, 4),
            (self.groups_under_64, 6),
            (self.groups_under_256, 8),
        ];
        let times = [
            (self.flushes_under_16us, 4),
            (self.flushes_under_64us, 6),
            (self.flushes_under_256us, 8),
            (self.flushes_under_1ms, 10),
            (self.flushes_under_4ms, 12),
            (self.flushes_under_16ms, 14),
            (self.flushes_under_64ms, 16),
        ];
        let set = |counter: farcall_driver::Counter, of: &Histogram, bits| counter.set(of.under(bits));
        sizes.into_iter().for_each(|(counter, bits)| set(counter, group_records, bits));
        times.into_iter().for_each(|(counter, bits)| set(counter, flush_us, bits));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
